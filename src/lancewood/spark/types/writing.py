"""How a frame's rows become rows of a table, checked before a file is written.

Knows the columns of both and matches them by name. Does not write, and knows nothing of partitions
or tasks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lancewood.errors import InvalidInputError
from lancewood.format.arrow import schema_from_arrow, to_arrow_schema
from lancewood.spark.types.fitting import Fitting
from lancewood.spark.types.handed_over import handed_over
from lancewood.spark.types.leaves import Converter
from lancewood.spark.types.new_table import arrow_schema
from lancewood.spark.types.refusal import Column

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_MOST_SHOWN = 10


class Writing:
    """How batches of a frame become batches for a table. Picklable.

    ``table`` is the schema of the table, None for a new one; ``schema`` then says what the new one
    is to be, where the frame alone does not: fixed-size lists, narrow numbers, columns that may
    not be null.

    Raises InvalidInputError that lists all that does not fit, UnsupportedError that names a column
    of a type which no table can hold.
    """

    schema: pa.Schema
    """What ``convert`` gives: the columns of ``table`` that the frame has, in the table's order.

    Columns that it does not have are left out of the files, and are read as nulls.
    """
    table: pa.Schema
    """All columns of the table, old or new."""
    is_identity: bool
    """Whether ``convert`` gives back what it gets, unless Spark hands it over in an odd form."""

    def __init__(
        self,
        frame: StructType,
        table: pa.Schema | None = None,
        *,
        schema: pa.Schema | None = None,
    ) -> None:
        if table is not None and schema is not None:
            raise InvalidInputError("schema= is for a new table; this one has its own")
        if schema is not None and not isinstance(schema, pa.Schema):
            raise InvalidInputError(f"schema takes a pyarrow.Schema, got {schema!r}")
        if table is None:
            wanted = arrow_schema(frame) if schema is None else schema
            table = to_arrow_schema(schema_from_arrow(wanted))
        self.table = table
        found = _fitted(frame, table)
        self._sources = tuple(index for index, _, _ in found)
        self._converters = tuple(convert for _, convert, _ in found)
        self._names = frame.names
        self.schema = pa.schema([each for _, _, each in found])
        self.is_identity = (
            self._sources == tuple(range(len(frame.fields)))
            and all(each.nullable for each in self.schema)
            and not any(each.checks for each in self._converters)
            and self.schema.equals(handed_over(frame), check_metadata=True)
        )

    def convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch, with the frame's columns in their order, as the table takes it.

        Raises InvalidInputError that names the column, and the value that does not fit or how many
        are null against the table's word.
        """
        if batch.schema.names != self._names:
            raise InvalidInputError(
                f"a batch has the columns {batch.schema.names}, the frame has {self._names}"
            )
        if self.is_identity and batch.schema.equals(self.schema, check_metadata=True):
            return batch
        arrays = []
        for index, convert, field in zip(self._sources, self._converters, self.schema, strict=True):
            array = convert(batch.column(index))
            if not field.nullable and array.null_count:
                raise Column(field.name, False).null(array.null_count)
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def __repr__(self) -> str:
        return f"Writing({', '.join(self.schema.names)})"


def _fitted(frame: StructType, table: pa.Schema) -> list[tuple[int, Converter, pa.Field]]:
    fitting = Fitting()
    pairs = zip(fitting.fit_fields(frame.fields, table), table, strict=True)
    found = [
        (index, convert, field)
        for (index, convert), field in pairs
        if index is not None and convert is not None
    ]
    problems = fitting.problems
    if not found and not problems:
        problems.append("it has no column of the table")
    if problems:
        shown = "; ".join(problems[:_MOST_SHOWN])
        more = f"; and {len(problems) - _MOST_SHOWN} more" if len(problems) > _MOST_SHOWN else ""
        raise InvalidInputError(
            f"the frame does not fit the table: {shown}{more}. Rename, cast or drop what does "
            "not fit",
            problems=problems,
        )
    return found
