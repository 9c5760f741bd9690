"""The Arrow types as which Spark hands over the columns of a frame.

Knows Spark's side alone. The zone of a timestamp is the session's, and texts may come with wide
offsets, if a session is set so: what is told here is the form of a session in UTC without that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

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
    return [pa.field(each.name, _type(each.dataType), each.nullable) for each in struct.fields]


def _type(spark: Any) -> pa.DataType:
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(spark, ArrayType):
        return pa.list_(pa.field("element", _type(spark.elementType), spark.containsNull))
    if isinstance(spark, MapType):
        value = pa.field("value", _type(spark.valueType), spark.valueContainsNull)
        return pa.map_(_type(spark.keyType), value)
    if isinstance(spark, StructType):
        return pa.struct(_fields(spark))
    return leaf_type(spark)
