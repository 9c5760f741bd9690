"""New columns for the rows that a fragment already has: one data file of exactly as many rows.

Nothing refers to the file until a commit does.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancewood.data.writer import write_fragments
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import InvalidInputError
from lancewood.format.arrow import to_arrow_schema
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
        homes=[snapshot.data_home],
        file_version=snapshot.manifest.file_version,
        max_rows=max(rows, 1),
        max_bytes=_NO_LIMIT,
    )
    (file,) = written[0].files
    return file


def laid_over(name: str, old: pa.Array, new: pa.Array, places: npt.NDArray[np.int64]) -> pa.Array:
    """The old values of column ``name``, with new ones at these places.

    Raises InvalidInputError where Arrow cannot hold both in one array.
    """
    order = np.arange(len(old), dtype=np.int64)
    order[places] = np.arange(len(old), len(old) + len(new))
    try:
        return pa.concat_arrays([old, new]).take(pa.array(order))
    except pa.ArrowException as cause:
        raise InvalidInputError(
            f"column {name!r} cannot hold old and new values together: {cause}", column=name
        ) from cause


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
