"""Where the new files of a change go, and how they are removed when it does not land.

Data files of main and of a clone go to the table's own root. Those of a branch go to the main
root, if a base path of the branch names it: so a published branch leaves nothing behind. Where none
does, as after the table was moved, they stay below the branch; those with blobs of the first layout
too, because pylance 14 looks for such bytes in the own root only. Deletion files are always below
the own root.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import NamedTuple

from lancewood.data.home import DataHome
from lancewood.engine.place import Place
from lancewood.engine.vectors import deletion_key
from lancewood.errors import StorageError
from lancewood.format.layout import DATA_DIR, key_in_base
from lancewood.model.fragment import DataFile, Fragment
from lancewood.model.ids import BaseId
from lancewood.model.manifest import ManifestHead
from lancewood.model.schema import BLOB, BLOB_V1_TYPES
from lancewood.proto import table_pb2
from lancewood.store.base import Store


def own_home(place: Place) -> DataHome:
    """The ``data/`` directory of a table's own root."""
    return DataHome(place.store, storage_options=place.storage_options)


def data_home(place: Place, head: ManifestHead) -> DataHome:
    """Where new data files go unless somebody says otherwise."""
    main = place.main(head)
    if main is None or _has_old_blobs(head):
        return own_home(place)
    for base in head.base_paths:
        if base.is_dataset_root and place.is_at(base, main):
            return base_home(place, base)
    return own_home(place)


def _has_old_blobs(head: ManifestHead) -> bool:
    return any(BLOB in each.metadata and each.logical_type in BLOB_V1_TYPES for each in head.fields)


def base_home(place: Place, base: table_pb2.BasePath) -> DataHome:
    """The directory of a base path that holds data files."""
    return DataHome(
        place.base_store(base),
        DATA_DIR if base.is_dataset_root else "",
        BaseId(base.id),
        place.options_of(base),
    )


class NewFile(NamedTuple):
    """A file that was written for a change, and that nothing may refer to yet."""

    key: str
    """Below the own root, or the bare name of a data file in another home."""
    base_id: BaseId | None = None


def new_data_files(fragments: Iterable[Fragment]) -> tuple[NewFile, ...]:
    """The data files of new fragments."""
    return tuple(new_data_file(file) for each in fragments for file in each.files)


def new_data_file(file: DataFile) -> NewFile:
    if file.base_id is None:
        return NewFile(f"{DATA_DIR}/{file.path}")
    return NewFile(file.path, file.base_id)


def new_deletion_files(fragments: Iterable[Fragment]) -> tuple[NewFile, ...]:
    """The deletion files of changed fragments."""
    return tuple(
        NewFile(deletion_key(each.id, each.deletion_file))
        for each in fragments
        if each.deletion_file is not None
    )


def discard(place: Place, head: ManifestHead, files: Iterable[NewFile]) -> None:
    """Remove files that nothing refers to. Best effort: cleanup finds the rest by age."""
    homes: dict[BaseId | None, list[str]] = {}
    for each in files:
        homes.setdefault(each.base_id, []).append(each.key)
    bases = {each.id: each for each in head.base_paths}
    for base_id, keys in homes.items():
        store: Store = place.store
        if base_id is not None:
            base = bases[base_id]
            store = place.base_store(base)
            keys = [key_in_base(base, DATA_DIR, each) for each in keys]
        with contextlib.suppress(StorageError):
            store.delete(keys)
