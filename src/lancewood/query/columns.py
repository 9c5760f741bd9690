"""Columns of a table as DuckDB can hold them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

from lancewood.errors import UnsupportedError
from lancewood.model.field_keys import EXTENSION_NAME

MOST_DIGITS = 38


def duckdb_type(field: pa.Field) -> pa.DataType | None:
    """The Arrow type in which DuckDB gets a column; None where it has no type for its values.

    Half floats become floats. Extension types are refused unless they store text: only their
    owner knows what the bytes mean.
    """
    kind = field.type
    name = (field.metadata or {}).get(EXTENSION_NAME.encode())
    if isinstance(kind, pa.BaseExtensionType):
        name, kind = kind.extension_name, kind.storage_type
    if name is not None and not (pt.is_string(kind) or pt.is_large_string(kind)):
        return None
    return _type(kind)


def _type(kind: pa.DataType) -> pa.DataType | None:
    if isinstance(kind, pa.BaseExtensionType) or pt.is_union(kind):
        return None
    if pt.is_float16(kind):
        return pa.float32()
    if pt.is_string_view(kind):
        return pa.string()
    if pt.is_binary_view(kind):
        return pa.binary()
    if pt.is_decimal(kind):
        return _decimal(kind)
    if pt.is_duration(kind) and kind.unit == "ns":
        return None  # an INTERVAL has microseconds
    if pt.is_dictionary(kind):
        return kind if _type(kind.value_type) == kind.value_type else _type(kind.value_type)
    if pt.is_run_end_encoded(kind):
        return _type(kind.value_type)
    return _nested(kind) if pt.is_nested(kind) else kind


def _decimal(kind: pa.DataType) -> pa.DataType | None:
    """A decimal of at most 38 digits, none of them before the ones."""
    scale = max(kind.scale, 0)
    digits = max(kind.precision - min(kind.scale, 0), scale)
    return pa.decimal128(digits, scale) if digits <= MOST_DIGITS else None


def _nested(kind: pa.DataType) -> pa.DataType | None:
    if pt.is_struct(kind):
        folded = {each.name.lower() for each in kind}
        types = [duckdb_type(each) for each in kind]
        if not types or len(folded) < len(types) or None in types:
            return None
        return pa.struct([each.with_type(one) for each, one in zip(kind, types, strict=True)])
    if pt.is_map(kind):
        key, item = duckdb_type(kind.key_field), duckdb_type(kind.item_field)
        return None if key is None or item is None else pa.map_(key, item)
    value = duckdb_type(kind.value_field)
    if value is None:
        return None
    field = kind.value_field.with_type(value)
    if pt.is_fixed_size_list(kind):
        return pa.list_(field, kind.list_size)
    return pa.large_list(field) if pt.is_large_list(kind) else pa.list_(field)


def usual_type(kind: pa.DataType) -> pa.DataType:
    """A type of DuckDB's answers with UTC under its usual name, and `item` for values of lists."""
    if pt.is_timestamp(kind) and kind.tz == "Etc/UTC":
        return pa.timestamp(kind.unit, "UTC")
    if pt.is_struct(kind):
        return pa.struct([each.with_type(usual_type(each.type)) for each in kind])
    if pt.is_fixed_size_list(kind):
        return pa.list_(pa.field("item", usual_type(kind.value_type)), kind.list_size)
    if pt.is_list(kind):
        return pa.list_(pa.field("item", usual_type(kind.value_type)))
    if pt.is_map(kind):
        return pa.map_(usual_type(kind.key_type), usual_type(kind.item_type))
    return kind


def as_duckdb_holds(name: str, array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The values of a column in the type of `duckdb_type`."""
    if array.type.equals(kind):
        return array
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    try:
        return array.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as cause:
        raise UnsupportedError(
            f"column {name!r} of {array.type} holds a value that cannot become {kind}: {cause}; "
            "leave the column out of the query",
            column=name,
        ) from cause


def why_not(field: pa.Field, names: list[str]) -> str | None:
    """Why a query cannot ask for a column; None if it can. `names` are all columns of the table."""
    alike = [each for each in names if each.lower() == field.name.lower()]
    if len(alike) > 1:
        return (
            f"the columns {' and '.join(map(repr, alike))} differ only in upper and lower case, "
            "which are the same in SQL: rename one with Table.rename_column, or read with "
            "Table.scan"
        )
    if duckdb_type(field) is None:
        return (
            f"column {field.name!r} is {field.type}, for which DuckDB has no type: leave it out of "
            "the query, as with SELECT * EXCLUDE, or read it with Table.scan"
        )
    return None
