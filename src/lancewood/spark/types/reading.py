"""What the columns of a table are in Spark, and how each batch of a scan becomes that.

Knows a Spark type for every type a table can hold, except those it refuses by name; a wider one
where Spark has no equal. Does not read anything, and does not doubt what a table says of nulls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancewood.errors import UnsupportedError
from lancewood.format.logical_type import BFLOAT16
from lancewood.format.schema import RESERVED_NAMES
from lancewood.model.schema import EXTENSION_NAME
from lancewood.spark.abilities import TIMES, release_here, require
from lancewood.spark.types.converters import (
    ColumnPath,
    Converter,
    Decoded,
    FromBfloat16,
    Lists,
    LosslessCast,
    Maps,
    Structs,
    Unchanged,
    is_list,
)
from lancewood.spark.types.schemas import to_spark_metadata

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

MOST_DIGITS = 38
"""Number of digits of a decimal in Spark at most."""
_TIME_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_PLAIN: dict[pa.DataType, tuple[str, pa.DataType]] = {
    pa.null(): ("NullType", pa.null()),
    pa.bool_(): ("BooleanType", pa.bool_()),
    pa.int8(): ("ByteType", pa.int8()),
    pa.int16(): ("ShortType", pa.int16()),
    pa.int32(): ("IntegerType", pa.int32()),
    pa.int64(): ("LongType", pa.int64()),
    pa.uint8(): ("ShortType", pa.int16()),
    pa.uint16(): ("IntegerType", pa.int32()),
    pa.uint32(): ("LongType", pa.int64()),
    pa.float16(): ("FloatType", pa.float32()),
    pa.float32(): ("FloatType", pa.float32()),
    pa.float64(): ("DoubleType", pa.float64()),
    pa.string(): ("StringType", pa.string()),
    pa.large_string(): ("StringType", pa.string()),
    pa.string_view(): ("StringType", pa.string()),
    pa.binary(): ("BinaryType", pa.binary()),
    pa.large_binary(): ("BinaryType", pa.binary()),
    pa.binary_view(): ("BinaryType", pa.binary()),
    pa.date32(): ("DateType", pa.date32()),
    pa.date64(): ("DateType", pa.date32()),
}
_ALWAYS_FIT = frozenset(_PLAIN) - {pa.date64(), pa.large_string(), pa.large_binary()}


def spark_schema(schema: pa.Schema) -> StructType:
    """The columns of a scan as Spark sees them; raises UnsupportedError naming a column."""
    return Reading(schema).spark


@dataclass(frozen=True)
class _Read:
    spark: Any
    convert: Converter

    @property
    def arrow(self) -> pa.DataType:
        return self.convert.target


class Reading:
    """How batches of a scan become what Spark accepts. Picklable.

    Raises UnsupportedError that names a column whose type Spark does not have.
    """

    spark: StructType
    schema: pa.Schema
    """Exactly what ``convert`` gives and Spark accepts for ``spark``."""
    is_identity: bool
    """Whether ``convert`` gives back what it gets."""

    def __init__(self, schema: pa.Schema, *, keeps_fixed_lists: bool = False) -> None:
        """With ``keeps_fixed_lists`` those of the outermost columns stay as they are, where
        nothing inside of them has to change: for those who take them so."""
        from pyspark.sql.types import StructField, StructType

        found = [_read_top(each) for each in schema]
        if keeps_fixed_lists:
            found = [_kept(*each) for each in zip(schema, found, strict=True)]
        self.spark = StructType(
            [
                StructField(each.name, one.spark, each.nullable, to_spark_metadata(each.metadata))
                for each, one in zip(schema, found, strict=True)
            ]
        )
        self.schema = pa.schema(
            [
                pa.field(each.name, one.arrow, each.nullable)
                for each, one in zip(schema, found, strict=True)
            ]
        )
        self.is_identity = bool(self.schema.equals(schema, check_metadata=True))
        self._converters = tuple(each.convert for each in found)

    def convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch of the scan as Spark accepts it.

        Raises UnsupportedError that names column and value where Spark could not hold it exactly.
        """
        if self.is_identity or not self._converters:
            return batch
        arrays = [
            convert(array) for convert, array in zip(self._converters, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def __repr__(self) -> str:
        return f"Reading({self.spark.simpleString()})"


def _read_top(field: pa.Field) -> _Read:
    if field.name in RESERVED_NAMES and field.type == pa.uint64():
        from pyspark.sql.types import LongType

        column = ColumnPath(field.name, True)
        return _Read(LongType(), LosslessCast(column, pa.int64(), checks=True, name="bigint"))
    return _read(field, ColumnPath(field.name, True), field.nullable)


def _kept(field: pa.Field, found: _Read) -> _Read:
    """Keep a fixed-size list as Arrow has it, if Spark has its elements so, too; else ``found``."""
    kind = field.type
    if isinstance(kind, pa.BaseExtensionType) or not pa.types.is_fixed_size_list(kind):
        return found
    if kind.value_type != found.arrow.value_type:
        return found
    return _Read(found.spark, Unchanged(kind))


def _read(field: pa.Field, column: ColumnPath, nullable: bool) -> _Read:
    """``nullable``: the field itself may be null, or a struct above it."""
    kind = field.type
    name = (field.metadata or {}).get(EXTENSION_NAME.encode(), b"").decode(errors="replace")
    if isinstance(kind, pa.BaseExtensionType):
        name, kind = kind.extension_name, kind.storage_type
    if name == BFLOAT16 and kind == pa.binary(2):
        from pyspark.sql.types import FloatType

        return _Read(FloatType(), FromBfloat16())
    if pa.types.is_struct(kind):
        return _read_struct(kind, column, nullable)
    if pa.types.is_map(kind):
        return _read_map(kind, column)
    if is_list(kind) or _is_view(kind):
        return _read_list(kind, column)
    if pa.types.is_dictionary(kind):
        values = _read(pa.field(field.name, kind.value_type), column, nullable)
        return _Read(values.spark, Decoded(values.convert))
    found = _read_leaf(kind, column)
    if found is None:
        raise UnsupportedError(
            f"column {column.path!r} has type {field.type}, which Spark does not have; leave it "
            "out with columns=",
            column=column.path,
            type=str(field.type),
        )
    return found


def _read_leaf(kind: pa.DataType, column: ColumnPath) -> _Read | None:
    from pyspark.sql import types

    plain = _PLAIN.get(kind)
    if plain is not None:
        name, target = plain
        spark = getattr(types, name)()
        return _cast(spark, column, target, checks=kind not in _ALWAYS_FIT)
    if kind == pa.uint64():
        return _cast(types.DecimalType(20, 0), column, pa.decimal128(20, 0))
    if pa.types.is_fixed_size_binary(kind):
        return _cast(types.BinaryType(), column, pa.binary())
    if pa.types.is_decimal(kind):
        scale = max(kind.scale, 0)
        digits = max(kind.precision - min(kind.scale, 0), scale)
        if digits > MOST_DIGITS:
            return None
        return _cast(types.DecimalType(digits, scale), column, pa.decimal128(digits, scale))
    if pa.types.is_timestamp(kind):
        instant = kind.tz is not None
        spark = types.TimestampType() if instant else types.TimestampNTZType()
        target = pa.timestamp("us", "UTC" if instant else None)
        return _cast(spark, column, target, checks=kind.unit != "us")
    if pa.types.is_time(kind):
        require(f"column {column.path!r}", TIMES, release_here(), column=column.path)
        return _cast(types.TimeType(_TIME_DIGITS[kind.unit]), column, pa.time64("ns"))
    if pa.types.is_duration(kind):
        spark = types.DayTimeIntervalType()
        return _cast(spark, column, pa.duration("us"), checks=kind.unit != "us")
    return None


def _cast(spark: Any, column: ColumnPath, target: pa.DataType, *, checks: bool = False) -> _Read:
    return _Read(spark, LosslessCast(column, target, checks=checks, name=spark.simpleString()))


def _is_view(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind))


def _read_list(kind: pa.DataType, column: ColumnPath) -> _Read:
    from pyspark.sql.types import ArrayType

    item = kind.value_field
    element = _read(item, column.below("element"), item.nullable)
    target = pa.list_(pa.field(item.name, element.arrow, item.nullable))
    return _Read(ArrayType(element.spark, item.nullable), Lists(column, target, element.convert))


def _read_struct(kind: pa.DataType, column: ColumnPath, nullable: bool) -> _Read:
    from pyspark.sql.types import StructField, StructType

    # Below a null struct there are nulls, and Spark's toArrow() takes a field at its word.
    fields = [each.with_nullable(each.nullable or nullable) for each in kind]
    found = [_read(each, column.below(each.name), each.nullable) for each in fields]
    spark = StructType(
        [
            StructField(each.name, one.spark, each.nullable, to_spark_metadata(each.metadata))
            for each, one in zip(fields, found, strict=True)
        ]
    )
    target = pa.struct(
        [
            pa.field(each.name, one.arrow, each.nullable)
            for each, one in zip(fields, found, strict=True)
        ]
    )
    children = tuple(each.convert for each in found)
    return _Read(spark, Structs(column, target, tuple(range(len(found))), children))


def _read_map(kind: pa.DataType, column: ColumnPath) -> _Read:
    from pyspark.sql.types import MapType

    key = _read(kind.key_field, column.below("key"), False)
    value = _read(kind.item_field, column.below("value"), kind.item_field.nullable)
    if _has_map(key.spark):
        raise UnsupportedError(
            f"column {column.path!r} has type {kind}, whose keys hold maps, which Spark does not "
            "allow; leave it out with columns=",
            column=column.path,
            type=str(kind),
        )
    target = pa.map_(
        pa.field(kind.key_field.name, key.arrow, False),
        pa.field(kind.item_field.name, value.arrow, kind.item_field.nullable),
    )
    spark = MapType(key.spark, value.spark, kind.item_field.nullable)
    return _Read(spark, Maps(column, target, key.convert, value.convert))


def _has_map(spark: Any) -> bool:
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(spark, ArrayType):
        return _has_map(spark.elementType)
    if isinstance(spark, StructType):
        return any(_has_map(each.dataType) for each in spark)
    return isinstance(spark, MapType)
