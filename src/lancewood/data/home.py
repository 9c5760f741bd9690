"""Where new data files go: a directory in a store, and the base path that stands for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lancewood.format.layout import DATA_DIR
from lancewood.model.ids import BaseId
from lancewood.store.base import Store


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
