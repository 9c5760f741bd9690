"""Values that a query computed, in the types of the columns that they are stored in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.types as pt

from lancewood.errors import InvalidInputError
from lancewood.jobs.rows.fitting import can_become, fitted


def stored_reader(
    batches: Iterator[pa.RecordBatch], names: Sequence[str], given: pa.Schema, table: pa.Schema
) -> pa.RecordBatchReader:
    """The rows of a query, one batch after the other, as columns of a table with these names.

    Raises InvalidInputError for a value that would be another one there; about a type that is none
    for the column, the write complains.
    """
    known = {each.name: each.type for each in table}
    schema = pa.schema(
        [
            pa.field(name, _stored(each.type, known.get(name, each.type)))
            for name, each in zip(names, given, strict=True)
        ]
    )

    def made() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            arrays = map(_fitted, batch.columns, schema)
            yield pa.RecordBatch.from_arrays(list(arrays), schema=schema)

    return pa.RecordBatchReader.from_batches(schema, made())


def stored_table(rows: pa.Table, table: pa.Schema) -> pa.Table:
    """The same for all rows at once, which have the names of the table's columns."""
    batches = iter(rows.to_batches())
    return stored_reader(batches, rows.schema.names, rows.schema, table).read_all()


def _stored(given: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    return wanted if can_become(given, wanted) and not pt.is_null(given) else given


def _fitted(array: pa.Array, field: pa.Field) -> pa.Array:
    try:
        return fitted(array, field.type)
    except InvalidInputError as cause:
        raise InvalidInputError(
            f"column {field.name!r} is {field.type}, and a value of {array.type} does not fit: "
            f"{cause.message}; write one that fits, or change the type of the column with ALTER "
            "TABLE",
            column=field.name,
        ) from cause
