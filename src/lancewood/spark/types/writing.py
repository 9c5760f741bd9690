"""How a frame's rows become rows of a table, checked before a file is written.

Columns, and the fields of structs, are matched by name, never by order. Some differences of type
lose nothing, and every value passes. Some may, and each value is checked. The rest mean that
another column was meant, and the frame is refused.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancewood.errors import InvalidInputError, UnsupportedError
from lancewood.format.logical_type import BFLOAT16
from lancewood.format.schema import RESERVED_NAMES, schema_from_arrow, to_arrow_schema
from lancewood.model.schema import EXTENSION_NAME
from lancewood.spark.types.converters import (
    BFLOAT16_STORAGE,
    ColumnPath,
    Converter,
    Encoded,
    FixedSizeLists,
    Lists,
    LosslessCast,
    Maps,
    NarrowFloat,
    Structs,
    ToBfloat16,
    Void,
    Wrapped,
    is_list,
    with_offsets,
)
from lancewood.spark.types.reading import spark_schema
from lancewood.spark.types.schemas import arrow_schema, handed_over, leaf_type, way_out

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_MOST_NAMES = 100
_MOST_HINTS = 10
"""Only the first problems come with a suggestion, as finding one takes time."""
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
_EXACT_BITS = {16: 11, 32: 24, 64: 53}
_TEXTS = (pa.string(), pa.large_string(), pa.string_view())
_BYTES = (pa.binary(), pa.large_binary(), pa.binary_view())
_MOST_SHOWN = 10


class Writing:
    """How batches of a frame become batches for a table. Picklable.

    ``table`` is the schema of the table, None for a new one. Then ``schema`` gives the types that
    do not follow from the frame: fixed-size lists, narrow numbers, columns that are not nullable.

    Raises InvalidInputError that lists everything that does not fit, and UnsupportedError for a
    column of a type that no table can hold.
    """

    schema: pa.Schema
    """What ``convert`` returns: the columns of ``table`` that the frame has, in table order. The
    others are left out of the files and read as nulls."""
    table: pa.Schema
    """All columns of the table, old or new."""
    is_identity: bool
    """Whether ``convert`` returns the same columns, unless Spark uses an unusual form."""

    def __init__(
        self, frame: StructType, table: pa.Schema | None = None, *, schema: pa.Schema | None = None
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
        """A batch with the frame's columns, in their order, as a batch for the table.

        Raises InvalidInputError that names the column, and the value that does not fit or the
        number of nulls that the table does not allow.
        """
        if batch.schema.names != self._names:
            raise InvalidInputError(
                f"a batch has the columns {batch.schema.names}, the frame has {self._names}"
            )
        if any(pa.types.is_nested(each.type) for each in batch.schema):
            columns = [with_offsets(each) for each in batch.columns]
            batch = pa.RecordBatch.from_arrays(columns, schema=batch.schema)
        if self.is_identity and batch.schema.equals(self.schema, check_metadata=True):
            return batch
        arrays = []
        for index, convert, each in zip(self._sources, self._converters, self.schema, strict=True):
            array = convert(batch.column(index))
            if not each.nullable and array.null_count:
                raise ColumnPath(each.name, False).null(array.null_count)
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def __repr__(self) -> str:
        return f"Writing({', '.join(self.schema.names)})"


def _fitted(frame: StructType, table: pa.Schema) -> list[tuple[int, Converter, pa.Field]]:
    fitting = TypeFitting()
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


@dataclass
class TypeFitting:
    """Fits types to types, and collects what does not fit."""

    problems: list[str] = field(default_factory=list)

    def fit_fields(
        self, spark: Sequence[Any], target: Iterable[pa.Field], above: str = ""
    ) -> list[tuple[int | None, Converter | None]]:
        """The index of Spark's field and its converter, for each field of the target.

        (None, None) if Spark has no such field and the target is nullable.
        """
        wanted = list(target)
        counts = Counter(each.name for each in spark)
        names = {each.name: None for each in wanted}
        for name, count in counts.items():
            if count > 1:
                self.problems.append(f"column {above + name!r} occurs twice")
            elif name not in names:
                is_shown = len(self.problems) < _MOST_HINTS
                self.problems.append(_unknown(name, list(names) if is_shown else (), above))
        locations = {each.name: index for index, each in enumerate(spark)}
        found: list[tuple[int | None, Converter | None]] = []
        for each in wanted:
            index = locations.get(each.name)
            if index is not None:
                column = ColumnPath(above + each.name, False)
                found.append((index, self.fit(spark[index].dataType, each, column)))
                continue
            if not each.nullable:
                self.problems.append(f"column {above + each.name!r} is missing and may not be null")
            found.append((None, None))
        return found

    def fit(self, spark: Any, field: pa.Field, column: ColumnPath) -> Converter | None:
        """The converter of a column; None, with a problem noted, if it does not fit."""
        from pyspark.sql.types import ArrayType, MapType, NullType, StructType

        kind = field.type
        if isinstance(spark, NullType):
            if field.nullable:
                return Void(field.type)
            self.problems.append(
                f"column {column.path!r} is {spark.simpleString()} and may not be null"
            )
            return None
        if isinstance(kind, pa.BaseExtensionType):
            named = {EXTENSION_NAME: kind.extension_name}
            inner = self.fit(spark, pa.field("", kind.storage_type, metadata=named), column)
            return None if inner is None else Wrapped(kind, inner)
        if pa.types.is_dictionary(kind):
            inner = self.fit(spark, pa.field("", kind.value_type), column)
            return None if inner is None else Encoded(column, kind, inner)
        if isinstance(spark, ArrayType) and is_list(kind):
            element = self.fit(spark.elementType, kind.value_field, column.below("element"))
            if element is None:
                return None
            make = FixedSizeLists if pa.types.is_fixed_size_list(kind) else Lists
            return make(column, kind, element)
        if isinstance(spark, MapType) and pa.types.is_map(kind):
            key = self.fit(spark.keyType, kind.key_field, column.below("key"))
            value = self.fit(spark.valueType, kind.item_field, column.below("value"))
            return None if key is None or value is None else Maps(column, kind, key, value)
        if isinstance(spark, StructType) and pa.types.is_struct(kind):
            before = len(self.problems)
            pairs = self.fit_fields(spark.fields, kind, f"{column.path}.")
            if len(self.problems) > before:
                return None
            sources, children = zip(*pairs, strict=True) if pairs else ((), ())
            return Structs(column, kind, sources, children)
        found = self._fit_leaf(leaf_type(spark), field, column)
        if found is None:
            said = "bfloat16" if _is_bfloat16(field) else kind
            is_nested = isinstance(spark, ArrayType | MapType | StructType)
            is_odd = leaf_type(spark) is None and not is_nested  # no table could hold it
            hint = f" ({way_out(spark)})" if is_odd else ""
            self.problems.append(
                f"column {column.path!r} is {spark.simpleString()}, the table has {said}{hint}"
            )
        return found

    def _fit_leaf(
        self, wire: pa.DataType | None, field: pa.Field, column: ColumnPath
    ) -> Converter | None:
        kind = field.type
        if wire is None:
            return None
        is_float = pa.types.is_floating(wire)
        if _is_bfloat16(field):
            return ToBfloat16(column) if is_float else None
        if wire == kind:
            return LosslessCast(column, kind)
        if pa.types.is_integer(wire):
            return _fit_integer(wire, kind, column)
        if is_float and pa.types.is_floating(kind):
            if kind.bit_width > wire.bit_width:
                return LosslessCast(column, kind)
            return NarrowFloat(column, kind)
        if is_float and pa.types.is_decimal(kind):
            return LosslessCast(column, kind, checks=True)
        if pa.types.is_decimal(wire):
            return _fit_decimal(wire, kind, column)
        return _fit_other(wire, kind, column)


def _fit_integer(wire: pa.DataType, kind: pa.DataType, column: ColumnPath) -> Converter | None:
    if pa.types.is_integer(kind):
        is_wider = pa.types.is_signed_integer(kind) and kind.bit_width > wire.bit_width
        return LosslessCast(column, kind, checks=not is_wider)
    if pa.types.is_floating(kind):
        if wire.bit_width <= _EXACT_BITS[kind.bit_width]:
            return LosslessCast(column, kind)
        if kind == pa.float16():
            return NarrowFloat(column, kind)
        return LosslessCast(column, kind, checks=True)
    if pa.types.is_decimal(kind):
        digits = _DIGITS[wire.bit_width]
        checks = kind.precision - kind.scale < digits or kind.scale < 0
        return LosslessCast(column, kind, checks=checks)
    return None


def _fit_decimal(wire: pa.DataType, kind: pa.DataType, column: ColumnPath) -> Converter | None:
    if pa.types.is_integer(kind):
        return LosslessCast(column, kind, checks=True)
    if pa.types.is_decimal(kind):
        is_wider = (
            kind.scale >= wire.scale and kind.precision - kind.scale >= wire.precision - wire.scale
        )
        return LosslessCast(column, kind, checks=not is_wider)
    return None


def _fit_other(wire: pa.DataType, kind: pa.DataType, column: ColumnPath) -> Converter | None:
    if wire in _TEXTS and kind in _TEXTS:
        return LosslessCast(column, kind)
    if wire in _BYTES and kind in _BYTES:
        return LosslessCast(column, kind)
    if wire in _BYTES and pa.types.is_fixed_size_binary(kind):
        return LosslessCast(column, kind, checks=True)
    if pa.types.is_date(wire) and pa.types.is_date(kind):
        return LosslessCast(column, kind)
    if pa.types.is_time(wire) and pa.types.is_time(kind):
        return LosslessCast(column, kind, checks=True)
    if pa.types.is_duration(wire) and pa.types.is_duration(kind):
        return LosslessCast(column, kind, checks=True)
    if pa.types.is_timestamp(wire) and pa.types.is_timestamp(kind):
        if (wire.tz is None) != (kind.tz is None):
            return None
        return LosslessCast(column, kind, checks=kind.unit != wire.unit)
    return None


def _is_bfloat16(field: pa.Field) -> bool:
    name = (field.metadata or {}).get(EXTENSION_NAME.encode(), b"")
    return bool(name == BFLOAT16.encode() and field.type == BFLOAT16_STORAGE)


def _unknown(name: str, names: Sequence[str], above: str) -> str:
    text = f"column {above + name!r} is not in the table"
    if not above and name in RESERVED_NAMES:
        return f"{text}: every row has it by itself, drop it"
    same = [each for each in names if each.casefold() == name.casefold()]
    close = same or difflib.get_close_matches(name, names[:_MOST_NAMES], n=1)
    return f"{text} (did you mean {above + close[0]!r}?)" if close else text


def kept_columns(frame: StructType, table: pa.Schema) -> pa.Schema:
    """The columns of a frame whose rows replace a table's, keeping Arrow types where possible."""
    derived, fields = Writing(frame).table, []
    for column in frame.fields:
        at = table.get_field_index(column.name)
        if at >= 0 and _holds(_spark_type(table.field(at)), column.dataType):
            known = table.field(at)
            fields.append(known.with_nullable(known.nullable or column.nullable))
        else:
            fields.append(derived.field(column.name))
    return pa.schema(fields)


def named_columns(frame: StructType, table: Iterable[pa.Field]) -> list[pa.Field]:
    """The columns of a frame that a table has, as it has them, and the others as a new table would
    have them; so with the fields of structs.

    Raises UnsupportedError for a new column of a type that no table can hold.
    """
    from pyspark.sql.types import StructType

    known, fields = {each.name: each for each in table}, []
    for column in frame.fields:
        there = known.get(column.name)
        if there is None:
            there = arrow_schema(StructType([column])).field(0)
        elif isinstance(column.dataType, StructType) and pa.types.is_struct(there.type):
            there = there.with_type(pa.struct(named_columns(column.dataType, there.type)))
        fields.append(there)
    return fields


def _holds(known: Any, given: Any) -> bool:
    """Whether two Spark types are equal, except that the first may allow more nulls."""
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
    """The Spark type of a column; None if Spark has none for it."""
    try:
        return spark_schema(pa.schema([field])).fields[0].dataType
    except UnsupportedError:
        return None
