"""Deletion vectors: which rows of a fragment are deleted, read and written.

A written file has no effect until a manifest names it.
"""

from __future__ import annotations

import secrets

from pyroaring import BitMap

from lancewood.engine.location.location import Location
from lancewood.errors import FormatError, LancewoodError, NotFoundError
from lancewood.format.deletion import (
    Kind,
    decode_deletions,
    deletion_file_name,
    encode_deletions,
)
from lancewood.format.layout import DELETIONS_DIR
from lancewood.model.fragment import DeletionFile, Fragment
from lancewood.model.ids import BaseId, FragmentId, Version
from lancewood.model.manifest import ManifestHead
from lancewood.proto import table_pb2
from lancewood.store.base import Store


def load_deletions(
    location: Location, head: ManifestHead, fragment: Fragment, *, is_counted: bool = True
) -> BitMap | None:
    """The deleted offsets of a fragment; None where nothing is deleted.

    Raises NotFoundError or FormatError, with the ``path`` of the file. ``is_counted``: a number of
    rows other than the recorded one is such an error.
    """
    deletion = fragment.deletion_file
    found = location.deletion_file(head, fragment)
    if deletion is None or found is None:
        return None
    file_root, key = found
    path = f"{file_root.uri}/{key}"
    try:
        data = file_root.get(key)
    except NotFoundError:
        missing = NotFoundError(
            f"{path}, the deletion file of fragment {fragment.id}, is missing", path=path
        )
        path, data = _search(location, head, deletion.base_id, key, missing)
    return decode_deletions(
        data,
        deletion.is_bitmap,
        path=path,
        physical_rows=fragment.physical_rows,
        expected=deletion.num_deleted_rows if is_counted else None,
    )


def _search(
    location: Location, head: ManifestHead, base_id: BaseId | None, key: str, missing: NotFoundError
) -> tuple[str, bytes]:
    """A deletion file from the other locations where it may be; raises NotFoundError that names
    them all."""
    tried = [missing.message]
    try:
        for store, _ in location.elsewhere(head, base_id):
            try:
                return f"{store.uri}/{key}", store.get(key)
            except NotFoundError:
                tried.append(f"so is {store.uri}/{key}")
    except LancewoodError as error:
        tried.append(str(error))
    raise NotFoundError("; ".join(tried), **missing.facts)


def write_deletions(
    store: Store,
    read_version: Version,
    fragment: Fragment,
    deleted: BitMap,
    kind: Kind | None = None,
) -> Fragment | None:
    """The fragment with exactly these rows deleted; None if no row is left."""
    rows = fragment.physical_rows
    if not rows or (deleted and deleted.max() >= rows):
        raise FormatError(
            f"fragment {fragment.id} records {rows} rows, row {deleted.max()} cannot be deleted",
            fragment=fragment.id,
        )
    if len(deleted) == rows:
        return None
    kind, data = encode_deletions(deleted, kind)
    message = table_pb2.DeletionFile(
        file_type=kind,
        read_version=read_version,
        id=secrets.randbits(64),
        num_deleted_rows=len(deleted),
    )
    made = DeletionFile(message)
    store.put(deletion_key(fragment.id, made), data)
    return fragment.with_deletion_file(made)


def deletion_key(fragment_id: FragmentId, file: DeletionFile) -> str:
    """Where a deletion file lies below the root that it belongs to."""
    name = deletion_file_name(fragment_id, file.read_version, file.id, file.is_bitmap)
    return f"{DELETIONS_DIR}/{name}"
