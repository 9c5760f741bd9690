"""The types of columns as Spark sees them (``docs/spark-types.md``), and Spark's names of them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

from lancewood.model.schema import EXTENSION_NAME

MOST_DIGITS = 38
NULL, BOOLEAN, TEXT, BINARY, DATE = pa.null(), pa.bool_(), pa.string(), pa.binary(), pa.date32()
TINYINT, SMALLINT, INT, BIGINT = pa.int8(), pa.int16(), pa.int32(), pa.int64()
FLOAT, DOUBLE = pa.float32(), pa.float64()
MOMENT = pa.timestamp("us", "UTC")
"""Spark's ``TIMESTAMP``."""
CLOCK = pa.timestamp("us")
"""Spark's ``TIMESTAMP_NTZ``."""

_NAMED = {BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, TEXT, BINARY, DATE, CLOCK, MOMENT}
_WIDER = {pa.uint8(): SMALLINT, pa.uint16(): INT, pa.uint32(): BIGINT, pa.float16(): FLOAT}


def _seen(field: pa.Field) -> pa.DataType | None:
    kind = field.type
    name = (field.metadata or {}).get(EXTENSION_NAME.encode())
    if isinstance(kind, pa.BaseExtensionType):
        name, kind = kind.extension_name, kind.storage_type
    if name is not None and not (pt.is_string(kind) or pt.is_large_string(kind)):
        return None  # only its owner knows what its bytes mean
    if kind in _NAMED or kind in (NULL, *_WIDER):
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
    is_named = seen is not None and (seen in _NAMED or pt.is_decimal(seen))
    return f"CAST({written} AS {type_name(seen).upper() if is_named else '…'})"
