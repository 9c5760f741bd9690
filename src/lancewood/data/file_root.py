"""Where new data files go: a directory in a store, and the names of the files there."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from lancewood.format.layout import DATA_DIR
from lancewood.model.ids import BaseId
from lancewood.store.base import Store


@dataclass(frozen=True, slots=True)
class FileRoot:
    """One location for data files."""

    store: Store
    directory: str = DATA_DIR
    """The directory below the store's root; empty for a base path that is not a dataset root."""
    base_id: BaseId | None = None
    """The id of the base path; None for the table's own root."""
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)

    def key(self, name: str) -> str:
        """The key of a data file with that name."""
        return f"{self.directory}/{name}" if self.directory else name


def new_data_file_name(mark: str = "") -> str:
    """A unique name: 24 binary digits, 26 hexadecimal digits, ``mark`` and ``.lance``.

    The binary digits come first so that object stores spread files over their partitions. A
    ``mark`` lets a writer recognise its files from the manifest alone.
    """
    random = uuid.uuid4().bytes
    return "".join(f"{each:08b}" for each in random[:3]) + random[3:].hex() + f"{mark}.lance"
