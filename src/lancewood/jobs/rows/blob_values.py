"""The bytes of blob columns in the place of their descriptors, for rows that are written again.

Knows the first layout of blobs, whose bytes lie in the data file; the second is not written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from lancewood.data.blob_file import BlobFile
from lancewood.engine.rows import find_data_file
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import FormatError, UnsupportedError
from lancewood.format.schema import to_arrow_field
from lancewood.model.fragment import DataFile, Fragment
from lancewood.model.schema import Field

_MOST_BYTES = 32 << 20
"""Number of bytes of blobs in one batch at most, unless a single row has more."""


def with_blob_values(
    snapshot: Snapshot, fragment: Fragment, batch: pa.RecordBatch
) -> Iterator[pa.RecordBatch]:
    """The rows of a batch that was read from a fragment, cut so that their blobs fit in memory.

    Raises UnsupportedError for blobs of the second layout.
    """
    blobs = {each.name: each for each in snapshot.schema.fields if each.is_blob}
    names = [each for each in batch.schema.names if each in blobs]
    if not names:
        yield batch
        return
    sizes = np.zeros(batch.num_rows, np.int64)
    for name in names:
        if blobs[name].is_blob_v2:
            raise UnsupportedError(
                f"column {name!r} is a blob of the second layout, which Lancewood does not write",
                column=name,
            )
        sizes += batch.column(name).field("size").fill_null(0).to_numpy().astype(np.int64)
    for start, stop in _portions(sizes):
        yield _spelled_out(
            snapshot, fragment, batch.slice(start, stop - start), {n: blobs[n] for n in names}
        )


def _portions(sizes: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Iterator[tuple[int, int]]:
    """Stretches of rows whose sizes together stay within bounds."""
    ends = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        before = int(ends[start - 1]) if start else 0
        stop = int(np.searchsorted(ends, before + _MOST_BYTES, side="right"))
        stop = max(stop, start + 1)
        yield start, stop
        start = stop


def _spelled_out(
    snapshot: Snapshot, fragment: Fragment, batch: pa.RecordBatch, blobs: Mapping[str, Field]
) -> pa.RecordBatch:
    columns, fields = list(batch.columns), list(batch.schema)
    for index, each in enumerate(batch.schema.names):
        if each in blobs:
            fields[index] = to_arrow_field(blobs[each])
            columns[index] = _values(snapshot, fragment, blobs[each], columns[index])
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _values(
    snapshot: Snapshot, fragment: Fragment, field: Field, descriptors: pa.StructArray
) -> pa.Array:
    kind = to_arrow_field(field).type
    if descriptors.null_count == len(descriptors):
        return pa.nulls(len(descriptors), kind)
    file = _file_with(fragment, field)
    store, key = find_data_file(snapshot, file)
    values = [
        None
        if each is None
        else BlobFile(store, key, each["position"], each["size"], object_size=file.size).readall()
        for each in descriptors.to_pylist()
    ]
    return pa.array(values, kind)


def _file_with(fragment: Fragment, field: Field) -> DataFile:
    for file in reversed(fragment.files):
        if field.id in file.fields:
            return file
    raise FormatError(
        f"fragment {fragment.id} has no file for blob column {field.name!r}", fragment=fragment.id
    )
