"""New columns for the rows that a fragment already has: one data file of exactly as many rows."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from lancewood.data.writer import write_fragments
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import InvalidInputError
from lancewood.format.arrow import to_arrow_schema
from lancewood.format.layout import DATA_DIR
from lancewood.model.fragment import DataFile, Fragment
from lancewood.model.schema import Schema

_NO_LIMIT = 1 << 62


def write_column_file(
    snapshot: Snapshot, fragment: Fragment, batches: Iterable[pa.RecordBatch], schema: Schema
) -> DataFile:
    """Write the columns of ``schema``, which has the table's field ids, for a fragment.

    The batches cover all of its physical rows in order, deleted ones included; raises
    InvalidInputError, and leaves no file, if they are more or fewer.
    """
    rows = fragment.physical_rows
    reader = pa.RecordBatchReader.from_batches(
        to_arrow_schema(schema).remove_metadata(), _exactly(batches, rows, fragment)
    )
    written = write_fragments(
        reader,
        schema,
        store=snapshot.place.store,
        directory=DATA_DIR,
        storage_options=snapshot.place.storage_options,
        file_version=snapshot.manifest.file_version,
        max_rows=max(rows, 1),
        max_bytes=_NO_LIMIT,
    )
    (file,) = written[0].files
    return file


def _exactly(
    batches: Iterable[pa.RecordBatch], rows: int, fragment: Fragment
) -> Iterable[pa.RecordBatch]:
    seen = 0
    for each in batches:
        seen += each.num_rows
        if seen > rows:
            break
        yield each
    if seen != rows:
        found = f"more than {rows}" if seen > rows else str(seen)
        raise InvalidInputError(
            f"fragment {fragment.id} has {rows} rows, its new columns have {found}",
            fragment=fragment.id,
        )
