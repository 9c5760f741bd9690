"""What the columns of a table are in Spark, and how each batch of a scan becomes that.

Knows a Spark type for every type a table can hold, except those it refuses by name; a wider one
where Spark has no equal. Does not read anything, and does not doubt what a table says of nulls.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
from lancewood.spark.types.schemas import SPARK_NAMES, leaf_in_spark, to_spark_metadata

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_TIME_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_MAY_NOT_FIT = frozenset({pa.date64(), pa.large_string(), pa.large_binary()})


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
        found = [_read_top(each) for each in schema]
        if keeps_fixed_lists:
            found = [_kept(*each) for each in zip(schema, found, strict=True)]
        self.spark, fields = _fields(schema, found)
        self.schema = pa.schema(fields)
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


def _fields(
    fields: Iterable[pa.Field], found: Sequence[_Read]
) -> tuple[StructType, list[pa.Field]]:
    """Columns, or fields of a struct, as Spark calls them, and as it takes their values."""
    from pyspark.sql.types import StructField, StructType

    pairs = list(zip(fields, found, strict=True))
    spark = [
        StructField(field.name, read.spark, field.nullable, to_spark_metadata(field.metadata))
        for field, read in pairs
    ]
    return StructType(spark), [
        pa.field(field.name, read.arrow, field.nullable) for field, read in pairs
    ]


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
    if is_list(kind) or pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
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

    if pa.types.is_time(kind):
        require(f"column {column.path!r}", TIMES, release_here(), column=column.path)
        return _cast(types.TimeType(_TIME_DIGITS[kind.unit]), column, pa.time64("ns"))
    target = leaf_in_spark(kind)
    if target is None:
        return None
    if pa.types.is_decimal(target):
        return _cast(types.DecimalType(target.precision, target.scale), column, target)
    has_unit = pa.types.is_timestamp(kind) or pa.types.is_duration(kind)
    checks = kind.unit != "us" if has_unit else kind in _MAY_NOT_FIT
    return _cast(getattr(types, SPARK_NAMES[target])(), column, target, checks=checks)


def _cast(spark: Any, column: ColumnPath, target: pa.DataType, *, checks: bool = False) -> _Read:
    return _Read(spark, LosslessCast(column, target, checks=checks, name=spark.simpleString()))


def _read_list(kind: pa.DataType, column: ColumnPath) -> _Read:
    from pyspark.sql.types import ArrayType

    item = kind.value_field
    element = _read(item, column.below("element"), item.nullable)
    target = pa.list_(pa.field(item.name, element.arrow, item.nullable))
    return _Read(ArrayType(element.spark, item.nullable), Lists(column, target, element.convert))


def _read_struct(kind: pa.DataType, column: ColumnPath, nullable: bool) -> _Read:
    # Below a null struct there are nulls, and Spark's toArrow() takes a field at its word.
    fields = [each.with_nullable(each.nullable or nullable) for each in kind]
    found = [_read(each, column.below(each.name), each.nullable) for each in fields]
    spark, below = _fields(fields, found)
    children = tuple(each.convert for each in found)
    sources = tuple(range(len(found)))
    return _Read(spark, Structs(column, pa.struct(below), sources, children))


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
