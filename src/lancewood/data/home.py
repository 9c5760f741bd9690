"""Names of new data files. Knows nothing of where they lie.

Where new data files go: a directory in a store, and the base path that stands for it.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from lancewood.format.layout import DATA_DIR
from lancewood.model.ids import BaseId
from lancewood.store.base import Store


def new_data_file_name(mark: str = "") -> str:
    """A name that no other file has: 24 binary digits, 26 hexadecimal ones, ``.lance``.

    The digits come first so that object stores spread files over their partitions. ``mark`` stands
    before the dot, for writers who want to know their files again by the manifest alone.
    """
    random = uuid.uuid4().bytes
    return "".join(f"{each:08b}" for each in random[:3]) + random[3:].hex() + f"{mark}.lance"


@dataclass(frozen=True, slots=True)
class DataHome:
    """One place for data files."""

    store: Store
    directory: str = DATA_DIR
    """Below the store's root; empty for a base path that is no dataset root."""
    base_id: BaseId | None = None
    """None: the table's own root."""
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)

    def key(self, name: str) -> str:
        """The key of a data file with that name."""
        return f"{self.directory}/{name}" if self.directory else name
