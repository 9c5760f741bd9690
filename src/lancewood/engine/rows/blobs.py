"""Where the bytes of blobs are: from the descriptors of rows to files open for reading.

Handles both layouts, and the four kinds of storage of the second. Only the descriptors are fetched
here; nothing is opened until the blob is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lancewood.data.blob_file import BlobFile
from lancewood.engine.rows.take import Numbers, take_positions, take_row_ids
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import FormatError, InvalidInputError, UnsupportedError
from lancewood.format.layout import blob_key
from lancewood.model.fragment import DataFile, Fragment
from lancewood.model.ids import BaseId, FragmentId
from lancewood.model.schema import ROW_ADDRESS, Field
from lancewood.store.base import Store, is_there

_INLINE, _PACKED, _DEDICATED, _EXTERNAL = range(4)


def take_blobs(
    snapshot: Snapshot, column: str, positions: Numbers | None, row_ids: Numbers | None
) -> list[BlobFile | None]:
    """The blobs of a column in the rows asked for, in that order; None for a null.

    Raises InvalidInputError for a column that holds no blobs, and what ``take`` raises.
    """
    field = _blob_column(snapshot, column)
    asked = [column, ROW_ADDRESS]
    if positions is not None:
        rows = take_positions(snapshot, positions, asked)
    else:
        assert row_ids is not None
        rows = take_row_ids(snapshot, row_ids, asked)
    found: list[BlobFile | None] = []
    finders: dict[int, BlobReader] = {}
    addresses = rows.column(ROW_ADDRESS).to_pylist()
    for descriptor, address in zip(rows.column(column).to_pylist(), addresses, strict=True):
        if descriptor is None:
            found.append(None)
            continue
        number = address >> 32
        if number not in finders:
            fragment = snapshot.manifest.fragment(FragmentId(number))
            finders[number] = blob_reader(snapshot, field, fragment)
        found.append(finders[number].open(descriptor))
    return found


def _blob_column(snapshot: Snapshot, column: str) -> Field:
    field = snapshot.schema.by_name.get(column) if isinstance(column, str) else None
    if field is not None and field.is_blob:
        return field
    blobs = ", ".join(each.name for each in snapshot.schema.fields if each.is_blob) or "none"
    raise InvalidInputError(
        f"column {column!r} is no blob column of the table; those are: {blobs}", column=column
    )


@dataclass(frozen=True)
class BlobReader:
    """Turns descriptors of one data file into open files."""

    snapshot: Snapshot
    store: Store
    key: str
    size: int | None

    def open(self, descriptor: dict[str, Any]) -> BlobFile:
        kind = descriptor.get("kind", _INLINE)
        position, size = descriptor["position"], descriptor["size"]
        if kind == _INLINE:
            return BlobFile(self.store, self.key, position, size, object_size=self.size)
        if kind in (_PACKED, _DEDICATED):
            return BlobFile(self.store, blob_key(self.key, descriptor["blob_id"]), position, size)
        if kind == _EXTERNAL:
            return self._external(descriptor)
        raise UnsupportedError(
            f"{self.store.uri}/{self.key}: a blob is of the kind {kind}, Lancewood knows 0 to 3; "
            "use a newer one"
        )

    def _external(self, descriptor: dict[str, Any]) -> BlobFile:
        """A file that the table does not own: below a base path, or anywhere by its URI.

        A size of 0 at position 0 means the whole file.
        """
        store, key = self.snapshot.location.foreign_file(
            self.snapshot.manifest, descriptor["blob_uri"], BaseId(descriptor["blob_id"])
        )
        return BlobFile(store, key, descriptor["position"], descriptor["size"] or None)


def external_blobs(descriptors: pa.StructArray) -> pa.StructArray:
    """The descriptors of blobs of the second layout that are in files which the table does not own,
    without those of nulls."""
    there = descriptors.drop_null()
    return there.filter(pc.equal(there.field("kind"), _EXTERNAL))


def blob_reader(snapshot: Snapshot, field: Field, fragment: Fragment) -> BlobReader:
    """What opens the blobs of a column of one fragment."""
    file = _file_with(field, fragment)
    store, key = find_data_file(snapshot, file)
    return BlobReader(snapshot, store, key, file.size)


def find_data_file(snapshot: Snapshot, file: DataFile) -> tuple[Store, str]:
    """Where a data file is: one of a table that was moved may have stayed behind.

    If it is nowhere, returns where it should be.
    """
    location, head = snapshot.location, snapshot.manifest
    expected, key = location.data_file(head, file)
    if file.base_id is None or is_there(expected, key):
        return expected, key
    others = (store for store, _ in location.elsewhere(head, file.base_id))
    return next((each for each in others if is_there(each, key)), expected), key


def _file_with(field: Field, fragment: Fragment) -> DataFile:
    for file in reversed(fragment.files):
        if field.id in file.fields:
            return file
    raise FormatError(f"fragment {fragment.id} has no file for blob column {field.name!r}")
