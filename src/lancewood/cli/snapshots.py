"""Opening a version as the engine sees it, for the commands that show how it is stored."""

from __future__ import annotations

from collections.abc import Sequence

from lancewood.cli import options
from lancewood.engine.place import Place
from lancewood.engine.snapshot import Snapshot, load_snapshot
from lancewood.store.base import Store
from lancewood.store.locate import open_store
from lancewood.store.options import StorageOptions


def opened_store(uri: str, storage_options: Sequence[str] | None, *, unsafe: bool = False) -> Store:
    """The place where a table is, or could be."""
    return open_store(uri, storage_options=options.storage(storage_options), unsafe=unsafe)


def opened_place(uri: str, storage_options: Sequence[str] | None, *, unsafe: bool = False) -> Place:
    """The same with the way to all homes of its files."""
    store = opened_store(uri, storage_options, unsafe=unsafe)
    return Place(store, StorageOptions(options.storage(storage_options)))


def opened_snapshot(
    uri: str,
    storage_options: Sequence[str] | None,
    version: int | None = None,
    as_of: str | None = None,
    *,
    unsafe: bool = False,
) -> Snapshot:
    """One version of the table that a command is about."""
    place = opened_place(uri, storage_options, unsafe=unsafe)
    return load_snapshot(place, **options.which(version, as_of))
