"""Data that people hand over, as one stream of record batches.

Anything that speaks Arrow's C stream interface is taken as it is: pyarrow, polars, pandas,
duckdb. Nothing is read here; a bad object is refused before a file is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from lancewood.errors import InvalidInputError


def as_reader(data: Any, schema: pa.Schema | None = None) -> pa.RecordBatchReader:
    """A reader over the data; ``schema`` is needed for a bare iterable of batches only.

    Raises InvalidInputError for what is not Arrow data.
    """
    if isinstance(data, pa.Schema):
        return pa.RecordBatchReader.from_batches(data, iter(()))
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data])
    if hasattr(data, "__arrow_c_stream__"):
        try:
            return pa.RecordBatchReader.from_stream(data)
        except (pa.ArrowException, TypeError) as cause:
            raise InvalidInputError(
                f"{type(data).__name__} is no table of rows: {cause}"
            ) from cause
    if hasattr(data, "to_arrow_reader"):
        return data.to_arrow_reader()
    if schema is not None and isinstance(data, list | tuple | Iterator):
        return pa.RecordBatchReader.from_batches(schema, _batches(data))
    raise InvalidInputError(
        f"data must speak Arrow (pyarrow, polars, pandas, duckdb) or be a pyarrow.Schema for an "
        f"empty table; {type(data).__name__} does neither"
    )


def _batches(data: Iterable[Any]) -> Iterator[pa.RecordBatch]:
    for each in data:
        if not isinstance(each, pa.RecordBatch):
            raise InvalidInputError(
                f"a list of data holds record batches, {type(each).__name__} was found in it"
            )
        yield each
