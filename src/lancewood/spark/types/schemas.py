"""Schemas, Spark → Arrow and back by name: the schema of a table made from a frame, that of the
batches of the frame, and what Spark calls the type of a table's column (``docs/spark-types.md``).

There is an Arrow type for every Spark type that Lance can hold, and advice for the others. All
columns of a new table are nullable, as with Spark's own writers: literals and counts in a frame are
not, but later rows may have nulls. The schema of batches is that of a session in UTC, without wide
offsets for texts.

Column metadata is JSON in Spark and text in Arrow: texts stay, other values become JSON. Keys that
control Spark or Lance do not cross.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancewood.errors import InvalidInputError, UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

MOST_DIGITS = 38
"""Digits of a decimal in Spark at most."""
NULL, BOOLEAN, TEXT, BINARY, DATE = pa.null(), pa.bool_(), pa.string(), pa.binary(), pa.date32()
TINYINT, SMALLINT, INT, BIGINT = pa.int8(), pa.int16(), pa.int32(), pa.int64()
FLOAT, DOUBLE = pa.float32(), pa.float64()
MOMENT = pa.timestamp("us", "UTC")
"""Spark's ``TIMESTAMP``."""
CLOCK = pa.timestamp("us")
"""Spark's ``TIMESTAMP_NTZ``."""
INTERVAL = pa.duration("us")
_OF_SPARK = ("__", "spark.", "CURRENT_DEFAULT", "EXISTS_DEFAULT")
_OF_LANCE = ("lance-", "lance.", "ARROW:", "packed", "SPARK::")
_PART_OF_THE_TYPE = "ARROW:extension:"
_LEAVES: dict[str, pa.DataType] = {
    "NullType": NULL,
    "BooleanType": BOOLEAN,
    "ByteType": TINYINT,
    "ShortType": SMALLINT,
    "IntegerType": INT,
    "LongType": BIGINT,
    "FloatType": FLOAT,
    "DoubleType": DOUBLE,
    "CharType": TEXT,
    "VarcharType": TEXT,
    "StringType": TEXT,
    "BinaryType": BINARY,
    "DateType": DATE,
    "TimestampType": MOMENT,
    "TimestampNTZType": CLOCK,
    "DayTimeIntervalType": INTERVAL,
}
SPARK_NAMES: dict[pa.DataType, str] = {kind: name for name, kind in _LEAVES.items()}
"""Spark's classes for Arrow types that it has as they are."""
_WIDER: dict[pa.DataType, pa.DataType] = {
    pa.uint8(): SMALLINT,
    pa.uint16(): INT,
    pa.uint32(): BIGINT,
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): FLOAT,
    pa.large_string(): TEXT,
    pa.string_view(): TEXT,
    pa.large_binary(): BINARY,
    pa.binary_view(): BINARY,
    pa.date64(): DATE,
}
"""Arrow types that Spark lacks, and those in which it sees their values."""
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

    Raises UnsupportedError that names a column which no table can hold.
    """
    return pa.schema([_new_field(each, each.name) for each in frame.fields])


def _new_field(field: Any, path: str) -> pa.Field:
    kind = _new_type(field.dataType, path)
    return pa.field(field.name, kind, metadata=to_table_metadata(field.metadata, path))


def _new_type(spark: Any, path: str) -> pa.DataType:
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(spark, ArrayType):
        return pa.list_(pa.field("item", _new_type(spark.elementType, f"{path}.element")))
    if isinstance(spark, MapType):
        key = _new_type(spark.keyType, f"{path}.key")
        return pa.map_(key, _new_type(spark.valueType, f"{path}.value"))
    if isinstance(spark, StructType) and spark.fields:
        return pa.struct([_new_field(each, f"{path}.{each.name}") for each in spark.fields])
    if type(spark).__name__ == "TimeType":
        return time_type(spark.precision)
    return _leaf(spark, path)


def _leaf(spark: Any, path: str) -> pa.DataType:
    kind = leaf_type(spark)
    if kind is None:
        raise UnsupportedError(
            f"column {path!r} is {spark.simpleString()}, which Lance tables cannot hold; "
            f"{way_out(spark)}",
            column=path,
            type=spark.simpleString(),
        )
    return kind


def time_type(digits: int) -> pa.DataType:
    """The time of a day with so many digits after the second, in a new table."""
    if digits == 0:
        return pa.time32("s")
    if digits <= 3:
        return pa.time32("ms")
    return pa.time64("us") if digits <= 6 else pa.time64("ns")


def way_out(spark: Any) -> str:
    """What to do about a type that tables cannot hold."""
    from pyspark.sql.types import UserDefinedType

    if isinstance(spark, UserDefinedType):
        return _OF_A_UDT
    return _WAYS_OUT.get(type(spark).__name__, _FITS)


def handed_over(frame: StructType) -> pa.Schema:
    """The schema of the batches in which Spark hands over a frame, and takes one.

    Raises UnsupportedError that names a column which no table can hold.
    """
    return pa.schema([_wire_field(each, each.name) for each in frame.fields])


def _wire_field(field: Any, path: str) -> pa.Field:
    return pa.field(field.name, _wire_type(field.dataType, path), field.nullable)


def _wire_type(spark: Any, path: str) -> pa.DataType:
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(spark, ArrayType):
        element = _wire_type(spark.elementType, f"{path}.element")
        return pa.list_(pa.field("element", element, spark.containsNull))
    if isinstance(spark, MapType):
        key = _wire_type(spark.keyType, f"{path}.key")
        value = _wire_type(spark.valueType, f"{path}.value")
        return pa.map_(key, pa.field("value", value, spark.valueContainsNull))
    if isinstance(spark, StructType):
        return pa.struct([_wire_field(each, f"{path}.{each.name}") for each in spark.fields])
    return _leaf(spark, path)


def leaf_type(spark: Any) -> pa.DataType | None:
    """The Arrow type in which Spark hands over a type without fields; None for others."""
    name = type(spark).__name__
    if name == "DecimalType":
        return pa.decimal128(spark.precision, spark.scale)
    if name == "TimeType":
        return pa.time64("ns")
    return _LEAVES.get(name)


def to_spark_metadata(metadata: Mapping[bytes, bytes] | None) -> dict[str, Any]:
    """What Spark sees of the metadata of a table's column: comments, and other texts."""
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

    Raises InvalidInputError for a key that would change the column's type.
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


def leaf_in_spark(kind: pa.DataType) -> pa.DataType | None:
    """The Arrow type in which Spark sees values of a type without fields; None if it has none.

    Times of a day are not here: not every Spark has them.
    """
    if kind in SPARK_NAMES:
        return kind
    if pa.types.is_fixed_size_binary(kind):
        return BINARY
    if pa.types.is_timestamp(kind):
        return CLOCK if kind.tz is None else MOMENT
    if pa.types.is_duration(kind):
        return INTERVAL
    if pa.types.is_decimal(kind):
        scale = max(kind.scale, 0)
        digits = max(kind.precision - min(kind.scale, 0), scale)
        return pa.decimal128(digits, scale) if digits <= MOST_DIGITS else None
    return _WIDER.get(kind)
