"""The columns that a target gives its table, from the schemas of frame and table alone.

What a frame cannot say, such as a vector's length, the file says under ``types``. Reads nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from lancewood.errors import InvalidInputError
from lancewood.format.arrow import schema_from_arrow
from lancewood.format.type_text import parse_type
from lancewood.pipeline.definition.model import Target
from lancewood.pipeline.definition.refusal import near
from lancewood.spark.types import Writing
from lancewood.spark.writing.columns import kept_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def stored_types(target: Target) -> dict[str, pa.DataType]:
    """What the target says under ``types``; raises InvalidInputError for what is no type."""
    return {name: parse_type(text) for name, text in target.types.items()}


def new_schema(
    frame: StructType, types: Mapping[str, pa.DataType], known: pa.Schema | None = None
) -> pa.Schema:
    """The columns of a table that a frame makes, or whose rows it replaces: ``known`` are those
    that it has, and a column keeps its type where the frame has the same.

    Raises InvalidInputError for types that the frame's values cannot have, UnsupportedError for
    columns that no table can hold.
    """
    derived = Writing(frame).table if known is None else kept_columns(frame, known)
    for name in types:
        if name not in derived.names:
            raise InvalidInputError(
                f"types names {name!r}, which the frame does not have; {near(name, derived.names)}"
            )
    fields = [each.with_type(types[each.name]) if each.name in types else each for each in derived]
    made: pa.Schema = Writing(frame, schema=pa.schema(fields)).table
    if not schema_from_arrow(made).fields:
        raise InvalidInputError("a table needs at least one column, the frame has none")
    return made


def check_types(types: Mapping[str, pa.DataType], known: pa.Schema) -> None:
    """Raise InvalidInputError for a type that is not the one a table has."""
    for name, kind in types.items():
        at = known.get_field_index(name)
        if at < 0:
            raise InvalidInputError(
                f"types names {name!r}, which the table does not have; {near(name, known.names)}"
            )
        if known.field(at).type != kind:
            raise InvalidInputError(
                f"column {name!r} is to be {kind}, and the table has it already as "
                f"{known.field(at).type}; types are for a new table: leave this one out"
            )


def without_columns(frame: StructType, names: tuple[str, ...]) -> StructType:
    """Raises InvalidInputError for a column that is to be left out and is not there."""
    from pyspark.sql.types import StructType

    for each in names:
        if each not in frame.names:
            raise InvalidInputError(
                f"leave_out names {each!r}, which the frame does not have; "
                f"{near(each, frame.names)}"
            )
    return StructType([each for each in frame.fields if each.name not in names])


def chosen(frame: DataFrame, names: tuple[str, ...]) -> DataFrame:
    """A frame without some columns."""
    return frame.drop(*names) if names else frame
