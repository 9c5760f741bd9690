"""A table whose versions are committed through a manifest store: its configuration says so.

The key names the kind of store, never its address. It stops writers that do not know of the store:
they would commit beside it, and versions would be lost. A clone elsewhere has its own publisher,
and a copy of the directory can be freed. Plain values; ``engine.commit`` refuses.
"""

from __future__ import annotations

from collections.abc import Sequence

from lancewood.model.manifest import ManifestHead
from lancewood.model.operations import MapUpdate, Operation, UpdateConfig

MANIFEST_STORE_KEY = "lancewood.manifest_store"
"""The key of the kind of manifest store in a table's configuration."""


def manifest_store_of(head: ManifestHead) -> str | None:
    """The kind of manifest store that writers must use; None where the table names none."""
    found = head.message.config.get(MANIFEST_STORE_KEY)
    return None if found is None else str(found)


def leaves_manifest_store(operations: Sequence[Operation]) -> bool:
    """Whether the operations only say that the table needs no manifest store: anybody may do that,
    because it may be a copy that nobody else writes to."""
    return list(operations) == [UpdateConfig(config=MapUpdate({MANIFEST_STORE_KEY: None}))]
