"""The Arrow schema of a table that is made from a frame.

Knows an Arrow type for every Spark type that Lance can hold, and says what to do about the others.
All columns may be null, as with Spark's own writers: a frame's literals and counts say otherwise of
themselves, and the rows of tomorrow need not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancewood.errors import UnsupportedError
from lancewood.spark.types.field_metadata import to_table_metadata
from lancewood.spark.types.handed_over import leaf_type

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_WAYS_OUT = {
    "YearMonthIntervalType": "store the number of months",
    "CalendarIntervalType": "store its parts",
    "VariantType": "make it text with to_json()",
    "GeometryType": "store its bytes with st_asbinary()",
    "GeographyType": "store its bytes with st_asbinary()",
}
_OF_A_UDT = "make it plain columns first; of an ML vector, an array with vector_to_array()"
_FITS = "cast it to another type"


def arrow_schema(frame: StructType) -> pa.Schema:
    """The schema of a new table for the frame's rows.

    Raises UnsupportedError that names the column which no table can hold.
    """
    return pa.schema([_field(each, each.name) for each in frame.fields])


def way_out(spark: Any) -> str:
    """What to do about a type that is not for tables."""
    from pyspark.sql.types import UserDefinedType

    if isinstance(spark, UserDefinedType):
        return _OF_A_UDT
    return _WAYS_OUT.get(type(spark).__name__, _FITS)


def _field(field: Any, path: str) -> pa.Field:
    kind = _type(field.dataType, path)
    return pa.field(field.name, kind, metadata=to_table_metadata(field.metadata, path))


def _type(spark: Any, path: str) -> pa.DataType:
    from pyspark.sql.types import ArrayType, MapType, StructType, TimeType

    if isinstance(spark, ArrayType):
        return pa.list_(pa.field("item", _type(spark.elementType, f"{path}.element")))
    if isinstance(spark, MapType):
        key, value = _type(spark.keyType, f"{path}.key"), _type(spark.valueType, f"{path}.value")
        return pa.map_(key, value)
    if isinstance(spark, StructType) and spark.fields:
        return pa.struct([_field(each, f"{path}.{each.name}") for each in spark.fields])
    if isinstance(spark, TimeType):
        return _time(spark.precision)
    kind = leaf_type(spark)
    if kind is None:
        raise UnsupportedError(
            f"column {path!r} is {spark.simpleString()}, which Lance tables cannot hold; "
            f"{way_out(spark)}",
            column=path,
            type=spark.simpleString(),
        )
    return kind


def _time(digits: int) -> pa.DataType:
    if digits == 0:
        return pa.time32("s")
    if digits <= 3:
        return pa.time32("ms")
    return pa.time64("us") if digits <= 6 else pa.time64("ns")
