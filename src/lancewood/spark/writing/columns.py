"""Which columns a write gives the table, and how rows of a frame become them.

Decides and checks; opens no file. How each Spark type becomes an Arrow type is known in
``spark.types``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from lancewood.data.encodings import check_encoding_keys
from lancewood.engine.snapshot import Snapshot
from lancewood.engine.write import first_field_id
from lancewood.errors import InvalidInputError, UnsupportedError
from lancewood.format.arrow import schema_from_arrow
from lancewood.model.schema import Schema
from lancewood.spark.types import Writing, spark_schema

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class Columns(NamedTuple):
    """The columns of one write."""

    writing: Writing
    schema: Schema
    """The table's, with the ids that new files list."""


def columns_of_table(frame: StructType, snapshot: Snapshot, schema: pa.Schema | None) -> Columns:
    """For rows that are added to a table: its own columns, whatever the frame calls their types.

    Raises InvalidInputError if the frame does not fit, or ``schema`` is another one.
    """
    known = snapshot.arrow_schema
    if schema is not None and not schema.equals(known):
        raise InvalidInputError(
            f"schema= is not the schema of {snapshot.place.uri}, and rows that are added keep that "
            "one; leave it out, or overwrite the table"
        )
    return Columns(Writing(frame, known), snapshot.schema)


def new_columns(frame: StructType, snapshot: Snapshot | None, schema: pa.Schema | None) -> Columns:
    """For a new table, or rows that replace a table's: ``schema``, or what follows from the frame.

    A column that a table has under the same name keeps its Arrow type if that is read as the Spark
    type that the frame has: so vectors stay vectors. That a frame has no nulls changes nothing:
    its literals say so of themselves.
    """
    wanted = schema
    if schema is None and snapshot is not None:
        wanted = kept_columns(frame, snapshot.arrow_schema)
    writing = Writing(frame, schema=wanted)
    first_id = 0 if snapshot is None else first_field_id(snapshot.manifest)
    new = schema_from_arrow(writing.table, first_id=first_id)
    if not new.fields:
        raise InvalidInputError("a table needs at least one column, the frame has none")
    check_encoding_keys(new)
    return Columns(writing, new)


def kept_columns(frame: StructType, table: pa.Schema) -> pa.Schema:
    """The columns of a frame whose rows replace a table's, with the types that stay."""
    return pa.schema(list(_kept_fields(frame, table)))


def _kept_fields(frame: Any, table: pa.Schema) -> Iterator[pa.Field]:
    derived = Writing(frame).table
    for column in frame.fields:
        at = table.get_field_index(column.name)
        if at >= 0 and _holds(_spark_type(table.field(at)), column.dataType):
            known = table.field(at)
            yield known.with_nullable(known.nullable or column.nullable)
        else:
            yield derived.field(column.name)


def _holds(known: Any, given: Any) -> bool:
    """Whether two Spark types are the same, but for nulls that the first allows besides."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if type(known) is not type(given):
        return False
    if isinstance(known, ArrayType):
        return (known.containsNull or not given.containsNull) and _holds(
            known.elementType, given.elementType
        )
    if isinstance(known, MapType):
        return (
            (known.valueContainsNull or not given.valueContainsNull)
            and _holds(known.keyType, given.keyType)
            and _holds(known.valueType, given.valueType)
        )
    if isinstance(known, StructType):
        return known.names == given.names and all(
            (mine.nullable or not theirs.nullable) and _holds(mine.dataType, theirs.dataType)
            for mine, theirs in zip(known.fields, given.fields, strict=True)
        )
    return bool(known == given)


def _spark_type(field: pa.Field) -> Any:
    """What Spark sees of a column; None for one that it cannot see."""
    try:
        return spark_schema(pa.schema([field])).fields[0].dataType
    except UnsupportedError:
        return None
