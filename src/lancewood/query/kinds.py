"""The types of values in a query, as Spark sees them; each is an Arrow type.

Defines the type of a table's column in Spark (``docs/spark-types.md`` documents that), the common
type of two values there (ANSI mode), and DuckDB's name of a type.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.types as pt

from lancewood.format.arrow import RESERVED_NAMES
from lancewood.model.field_keys import EXTENSION_NAME

MOST_DIGITS = 38
NULL, BOOLEAN, TEXT, BINARY, DATE = pa.null(), pa.bool_(), pa.string(), pa.binary(), pa.date32()
TINYINT, SMALLINT, INT, BIGINT = pa.int8(), pa.int16(), pa.int32(), pa.int64()
FLOAT, DOUBLE = pa.float32(), pa.float64()
MOMENT = pa.timestamp("us", "UTC")
"""Spark's ``TIMESTAMP``."""
CLOCK = pa.timestamp("us")
"""Spark's ``TIMESTAMP_NTZ``."""

_NAMES: dict[pa.DataType, str] = {
    BOOLEAN: "BOOLEAN",
    TINYINT: "TINYINT",
    SMALLINT: "SMALLINT",
    INT: "INTEGER",
    BIGINT: "BIGINT",
    FLOAT: "FLOAT",
    DOUBLE: "DOUBLE",
    TEXT: "VARCHAR",
    BINARY: "BLOB",
    DATE: "DATE",
    CLOCK: "TIMESTAMP",
    MOMENT: "TIMESTAMPTZ",
}
_WIDER = {pa.uint8(): SMALLINT, pa.uint16(): INT, pa.uint32(): BIGINT, pa.float16(): FLOAT}
_DIGITS = {TINYINT: 3, SMALLINT: 5, INT: 10, BIGINT: 20}


def seen_column(field: pa.Field) -> pa.DataType | None:
    """The type that a column of a table has in a query; None if DuckDB cannot take it as Spark
    does."""
    if field.name in RESERVED_NAMES and field.type == pa.uint64():
        return BIGINT
    return _seen(field)


def _seen(field: pa.Field) -> pa.DataType | None:
    kind = field.type
    name = (field.metadata or {}).get(EXTENSION_NAME.encode())
    if isinstance(kind, pa.BaseExtensionType):
        name, kind = kind.extension_name, kind.storage_type
    if name is not None and not (pt.is_string(kind) or pt.is_large_string(kind)):
        return None  # only its owner knows what its bytes mean
    if kind in _NAMES or kind in (NULL, *_WIDER):
        return _WIDER.get(kind, kind)
    if kind == pa.uint64():
        return pa.decimal128(20, 0)
    if pt.is_large_string(kind) or pt.is_string_view(kind):
        return TEXT
    if pt.is_large_binary(kind) or pt.is_binary_view(kind) or pt.is_fixed_size_binary(kind):
        return BINARY
    if pt.is_date64(kind):
        return DATE
    if pt.is_timestamp(kind):
        return CLOCK if kind.tz is None else MOMENT
    if pt.is_decimal(kind):
        scale = max(kind.scale, 0)
        digits = max(kind.precision - min(kind.scale, 0), scale)
        return pa.decimal128(digits, scale) if digits <= MOST_DIGITS else None
    if pt.is_dictionary(kind):
        return _seen(pa.field(field.name, kind.value_type))
    return _seen_nested(kind)


def _seen_nested(kind: pa.DataType) -> pa.DataType | None:
    if pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind):
        item = _seen(kind.value_field)
        return None if item is None else pa.list_(pa.field("element", item))
    if pt.is_struct(kind) and kind.num_fields:
        fields = [(each.name, _seen(each)) for each in kind]
        if any(one is None for _, one in fields):
            return None
        return pa.struct([pa.field(name, one) for name, one in fields])
    if pt.is_map(kind):
        key, item = _seen(kind.key_field), _seen(kind.item_field)
        return None if key is None or item is None else pa.map_(key, item)
    return None


def duckdb_type(kind: pa.DataType) -> str:
    """DuckDB's name of a type."""
    if pt.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if pt.is_list(kind):
        return f"{duckdb_type(kind.value_type)}[]"
    if pt.is_map(kind):
        return f"MAP({duckdb_type(kind.key_type)}, {duckdb_type(kind.item_type)})"
    if pt.is_struct(kind):
        names = (each.name.replace('"', '""') for each in kind)
        kinds = (duckdb_type(each.type) for each in kind)
        fields = (f'"{name}" {one}' for name, one in zip(names, kinds, strict=True))
        return f"STRUCT({', '.join(fields)})"
    return "INTEGER" if kind == NULL else _NAMES[kind]


def type_name(kind: pa.DataType) -> str:
    """Spark SQL's name of a type."""
    if pt.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    names = {TEXT: "string", FLOAT: "float", DOUBLE: "double", BINARY: "binary", DATE: "date"}
    numbers = {TINYINT: "tinyint", SMALLINT: "smallint", INT: "int", BIGINT: "bigint"}
    moments = {MOMENT: "timestamp", CLOCK: "timestamp_ntz", BOOLEAN: "boolean", NULL: "void"}
    return {**names, **numbers, **moments}.get(kind, str(kind))


def cast_to(kind: pa.DataType, written: str = "…") -> str:
    """A CAST to the type that a column of a table has in a query."""
    seen = _seen(pa.field("", kind))
    is_named = seen is not None and (seen in _NAMES or pt.is_decimal(seen))
    return f"CAST({written} AS {type_name(seen).upper() if is_named else '…'})"


def is_integer(kind: pa.DataType) -> bool:
    return kind in _DIGITS


def is_floating(kind: pa.DataType) -> bool:
    return kind in (FLOAT, DOUBLE)


def is_decimal(kind: pa.DataType) -> bool:
    return bool(pt.is_decimal(kind))


def is_number(kind: pa.DataType) -> bool:
    return is_integer(kind) or is_floating(kind) or is_decimal(kind)


def is_temporal(kind: pa.DataType) -> bool:
    return kind in (DATE, MOMENT, CLOCK)


def is_comparable(kind: pa.DataType) -> bool:
    """Whether both engines order and group values of the type alike."""
    return kind == NULL or kind in _NAMES or is_decimal(kind)


def decimal(precision: int, scale: int) -> pa.DataType | None:
    """A decimal; None for one that Spark would have to round."""
    return pa.decimal128(precision, scale) if precision <= MOST_DIGITS else None


def as_decimal(kind: pa.DataType, constant: str | None = None) -> pa.DataType:
    """The decimal type of an integer beside a decimal; for a constant only its own digits."""
    if is_decimal(kind):
        return kind
    digits = len(constant.lstrip("-").lstrip("0")) or 1 if constant else _DIGITS[kind]
    return pa.decimal128(digits, 0)


def common(kinds: Iterable[pa.DataType]) -> pa.DataType | None:
    """The common type of values; None if there is none, or only with a loss."""
    found: pa.DataType | None = NULL
    for each in kinds:
        found = None if found is None else _common(found, each)
    return found


def _common(one: pa.DataType, two: pa.DataType) -> pa.DataType | None:
    if one == two or two == NULL:
        return one
    if one == NULL:
        return two
    if is_number(one) and is_number(two):
        if is_floating(one) or is_floating(two):
            return DOUBLE
        if is_integer(one) and is_integer(two):
            return max(one, two, key=lambda each: _DIGITS[each])
        left, right = as_decimal(one), as_decimal(two)
        scale = max(left.scale, right.scale)
        whole = max(left.precision - left.scale, right.precision - right.scale)
        return decimal(whole + scale, scale)
    if is_temporal(one) and is_temporal(two):
        return MOMENT if MOMENT in (one, two) else CLOCK
    return None
