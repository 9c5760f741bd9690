"""The metadata of a column, Arrow ↔ Spark.

Spark's is JSON, Arrow's is text: texts stay, other values of Spark's become their JSON. What one
side keeps for itself does not cross: keys that steer Spark, and those that steer Lance.

The Arrow types as which Spark hands over the columns of a frame.

Knows Spark's side alone. The zone of a timestamp is the session's, and texts may come with wide
offsets, if a session is set so: what is told here is the form of a session in UTC without that.

The Arrow schema of a table that is made from a frame.

Knows an Arrow type for every Spark type that Lance can hold, and says what to do about the others.
All columns may be null, as with Spark's own writers: a frame's literals and counts say otherwise of
themselves, and the rows of tomorrow need not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancewood.errors import InvalidInputError, UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


_OF_SPARK = ("__", "spark.", "CURRENT_DEFAULT", "EXISTS_DEFAULT")
_OF_LANCE = ("lance-", "lance.", "ARROW:", "packed", "SPARK::")
_PART_OF_THE_TYPE = "ARROW:extension:"


def to_spark_metadata(metadata: Mapping[bytes, bytes] | None) -> dict[str, Any]:
    """What Spark is told of a table's column: comments, and whatever else is text."""
    found = {}
    for key, value in (metadata or {}).items():
        try:
            name, text = key.decode(), value.decode()
        except UnicodeDecodeError:
            continue
        if not name.startswith((*_OF_LANCE, *_OF_SPARK)):
            found[name] = text
    return found


def to_table_metadata(metadata: Mapping[str, Any] | None, path: str) -> dict[str, str] | None:
    """What a new table keeps of the metadata of a frame's column.

    Raises InvalidInputError for a key that would make it a column of another type.
    """
    found = {}
    for key, value in (metadata or {}).items():
        if key.startswith(_PART_OF_THE_TYPE):
            raise InvalidInputError(
                f"the metadata {key!r} of column {path!r} is part of an Arrow type; name the type "
                "with schema=",
                column=path,
            )
        if not key.startswith(_OF_SPARK):
            found[key] = value if isinstance(value, str) else json.dumps(value)
    return found or None


_LEAVES: dict[str, pa.DataType] = {
    "NullType": pa.null(),
    "BooleanType": pa.bool_(),
    "ByteType": pa.int8(),
    "ShortType": pa.int16(),
    "IntegerType": pa.int32(),
    "LongType": pa.int64(),
    "FloatType": pa.float32(),
    "DoubleType": pa.float64(),
    "StringType": pa.string(),
    "CharType": pa.string(),
    "VarcharType": pa.string(),
    "BinaryType": pa.binary(),
    "DateType": pa.date32(),
    "TimestampType": pa.timestamp("us", "UTC"),
    "TimestampNTZType": pa.timestamp("us"),
    "DayTimeIntervalType": pa.duration("us"),
}


def handed_over(frame: StructType) -> pa.Schema:
    """The schema of the batches of a frame whose types all fit a table."""
    return pa.schema(_fields(frame))


def leaf_type(spark: Any) -> pa.DataType | None:
    """The Arrow type as which Spark hands over a type without fields; None for others."""
    name = type(spark).__name__
    if name == "DecimalType":
        return pa.decimal128(spark.precision, spark.scale)
    if name == "TimeType":
        return pa.time64("ns")
    return _LEAVES.get(name)


def _fields(struct: Any) -> list[pa.Field]:
    return [
        pa.field(each.name, _type_handed_over(each.dataType), each.nullable)
        for each in struct.fields
    ]


def _type_handed_over(spark: Any) -> pa.DataType:
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(spark, ArrayType):
        return pa.list_(
            pa.field("element", _type_handed_over(spark.elementType), spark.containsNull)
        )
    if isinstance(spark, MapType):
        value = pa.field("value", _type_handed_over(spark.valueType), spark.valueContainsNull)
        return pa.map_(_type_handed_over(spark.keyType), value)
    if isinstance(spark, StructType):
        return pa.struct(_fields(spark))
    return leaf_type(spark)


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
    kind = _type_of_new(field.dataType, path)
    return pa.field(field.name, kind, metadata=to_table_metadata(field.metadata, path))


def _type_of_new(spark: Any, path: str) -> pa.DataType:
    from pyspark.sql.types import ArrayType, MapType, StructType, TimeType

    if isinstance(spark, ArrayType):
        return pa.list_(pa.field("item", _type_of_new(spark.elementType, f"{path}.element")))
    if isinstance(spark, MapType):
        key, value = (
            _type_of_new(spark.keyType, f"{path}.key"),
            _type_of_new(spark.valueType, f"{path}.value"),
        )
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
