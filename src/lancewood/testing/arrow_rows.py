"""Random schemas and rows of the types that a Lance table can hold, for property tests.

``schemas`` and ``batches`` are hypothesis strategies. They draw what the given version of data
files can hold and, unless asked otherwise, what Spark can hold too. Needs hypothesis.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from lancewood.format.logical_type import BFLOAT16
from lancewood.model.schema import EXTENSION_NAME

VERSIONS = ("2.0", "2.1", "2.2")
"""The version of data files: maps need 2.2, null structs 2.1."""
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY = 86_400
_FIRST, _LAST = (int(datetime(year, 1, 1).timestamp()) for year in (1700, 2250))
_EPOCH = date(1970, 1, 1).toordinal()
_DAYS = (date(1, 1, 2).toordinal() - _EPOCH, date(9999, 12, 30).toordinal() - _EPOCH)
_TEXT = st.text(st.characters(codec="utf-8"), max_size=5)
_BYTES = st.binary(max_size=5)
_NAMES = st.sampled_from(["a", "b", "c d", "É", "x", "_y"])
_BFLOAT16 = st.integers(-256, 256).map(lambda each: np.float32(each).tobytes()[2:])


def _floats(width: Any) -> st.SearchStrategy[float]:
    return st.floats(width=width, allow_nan=False)


def _whole(kind: pa.DataType) -> st.SearchStrategy[int]:
    bits = kind.bit_width
    if pa.types.is_signed_integer(kind):
        return st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    return st.integers(0, (1 << bits) - 1)


def _decimals(kind: pa.DataType) -> st.SearchStrategy[Decimal]:
    most = 10 ** min(kind.precision, 27) - 1
    return st.integers(-most, most).map(lambda each: Decimal(each).scaleb(-kind.scale))


def _moments(first: int, last: int, unit: str) -> st.SearchStrategy[int]:
    """Times in a unit; nanoseconds only as whole microseconds, since Spark has no others."""
    step = 1000 if unit == "ns" else 1
    scale = _UNITS[unit] // step
    return st.integers(first * scale, last * scale).map(lambda each: each * step)


_FIXED: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.null(): st.none(),
    pa.bool_(): st.booleans(),
    pa.float16(): _floats(16).map(np.float16),
    pa.float32(): _floats(32),
    pa.float64(): _floats(64),
    pa.string(): _TEXT,
    pa.large_string(): _TEXT,
    pa.binary(): _BYTES,
    pa.large_binary(): _BYTES,
    pa.date32(): st.integers(*_DAYS),
    pa.date64(): st.integers(*_DAYS).map(lambda each: each * _DAY * 1000),
    pa.json_(pa.string()): st.dictionaries(
        st.text("ab", min_size=1, max_size=2), st.integers(-9, 9), max_size=2
    ).map(json.dumps),
}
LEAVES: tuple[pa.DataType, ...] = (
    *_FIXED,
    *(getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *(pa.decimal128(10, 2), pa.decimal128(38, 0), pa.decimal128(9, 9), pa.decimal128(10, -2)),
    *(pa.decimal256(30, 5), pa.decimal256(38, 38)),
    pa.binary(3),
    *(pa.timestamp(unit, zone) for unit in _UNITS for zone in (None, "UTC")),
    *(pa.timestamp("us", "+05:30"), pa.timestamp("ms", "America/New_York")),
    *(pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
    *(pa.duration(unit) for unit in _UNITS),
    *(pa.dictionary(pa.int16(), pa.string()), pa.dictionary(pa.uint8(), pa.int32())),
    *(pa.list_(pa.float32(), 2), pa.list_(pa.float16(), 2), pa.list_(pa.int16(), 3)),
    pa.uuid(),
)
"""Types without fields below them that a table can hold and Spark has a type for."""


def _leaf(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Values of a type without fields below it, all such that Spark can hold."""
    fixed = _FIXED.get(kind)
    if fixed is not None:
        return fixed
    if isinstance(kind, pa.BaseExtensionType):
        return _leaf(kind.storage_type)
    if pa.types.is_integer(kind):
        return _whole(kind)
    if pa.types.is_decimal(kind):
        return _decimals(kind)
    if pa.types.is_fixed_size_binary(kind):
        return st.binary(min_size=kind.byte_width, max_size=kind.byte_width)
    if pa.types.is_time(kind):
        return _moments(0, _DAY - 1, kind.unit)
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return _moments(_FIRST, _LAST, kind.unit)
    if pa.types.is_dictionary(kind):
        return _leaf(kind.value_type)
    raise AssertionError(f"no values are known for {kind}")


def schemas(
    version: str = "2.2", *, leaves: Sequence[pa.DataType] | None = None, max_columns: int = 3
) -> st.SearchStrategy[pa.Schema]:
    """Schemas of a few columns, nested a few levels deep."""
    kinds = _kinds(version, LEAVES if leaves is None else tuple(leaves))
    columns = st.lists(_fields(kinds), min_size=1, max_size=max_columns, unique_by=_name)
    return columns.map(pa.schema)


@st.composite
def batches(
    draw: st.DrawFn,
    schema: pa.Schema,
    version: str = "2.2",
    *,
    min_rows: int = 0,
    max_rows: int = 8,
) -> pa.RecordBatch:
    """Rows of a schema, with nulls where allowed, often as a slice of more."""
    values = _Rows(version)
    row = st.tuples(*[values.of(each) for each in schema])
    cut = draw(st.integers(0, 3))
    rows = draw(st.lists(row, min_size=cut + min_rows if min_rows else 0, max_size=cut + max_rows))
    return _batch(schema, rows, cut)


def bare_type(kind: pa.DataType) -> pa.DataType:
    """The type without extension types in it."""
    if isinstance(kind, pa.BaseExtensionType):
        return bare_type(kind.storage_type)
    if pa.types.is_struct(kind):
        return pa.struct([_bare_field(each) for each in kind])
    if pa.types.is_map(kind):
        return pa.map_(_bare_field(kind.key_field), _bare_field(kind.item_field))
    if pa.types.is_list(kind):
        return pa.list_(_bare_field(kind.value_field))
    if pa.types.is_large_list(kind):
        return pa.large_list(_bare_field(kind.value_field))
    return kind


def bare_values(rows: pa.RecordBatch | pa.Table) -> list[Any]:
    """Rows as Python values; a value of an extension type as it is stored."""
    columns = []
    for each in rows.columns:
        chunks = each.chunks if isinstance(each, pa.ChunkedArray) else [each]
        columns.append([value for chunk in chunks for value in _values(chunk)])
    return list(zip(*columns, strict=True))


def _values(array: pa.Array) -> list[Any]:
    """The values of an array, without Arrow's cast, which mishandles nulls in nested types."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return _values(array.storage)
    if pa.types.is_struct(kind):
        names = [each.name for each in kind]
        rows = zip(*map(_values, array.flatten()), strict=True) if names else [()] * len(array)
        found = [dict(zip(names, row, strict=True)) for row in rows]
        return [
            row if each.as_py() else None for row, each in zip(found, array.is_valid(), strict=True)
        ]
    if pa.types.is_nested(kind):
        lists = [_values(each.values) if each.is_valid else None for each in array]
        if pa.types.is_map(kind):
            return [each and [(entry["key"], entry["value"]) for entry in each] for each in lists]
        return lists
    values: list[Any] = array.to_pylist()
    return values


def _bare_field(field: pa.Field) -> pa.Field:
    return field.with_type(bare_type(field.type))


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    bare = bare_type(kind)
    found = pa.array(values, bare)
    return found if bare == kind else found.cast(kind)  # Arrow's cast mishandles null items


def _batch(schema: pa.Schema, rows: Sequence[Sequence[Any]], cut: int) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = [_array(list(values), each.type) for values, each in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema).slice(cut)


def _kinds(version: str, leaves: tuple[pa.DataType, ...]) -> st.SearchStrategy[pa.DataType]:
    def deeper(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
        structs = st.lists(_fields(inner), min_size=1, max_size=3, unique_by=_name).map(pa.struct)
        items = st.builds(
            lambda kind, nullable: pa.field("item", kind, nullable or pa.types.is_null(kind)),
            inner,
            st.booleans(),
        )
        kinds = [structs, items.map(pa.list_), items.map(pa.large_list)]
        if version == "2.2":
            keys = st.sampled_from([pa.string(), pa.int32()])
            kinds.append(st.builds(pa.map_, keys, inner))
        return st.one_of(kinds)

    return st.recursive(st.sampled_from(leaves), deeper, max_leaves=5)


def _fields(kinds: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.Field]:
    return st.builds(
        lambda name, kind, nullable: pa.field(name, kind, nullable or pa.types.is_null(kind)),
        _NAMES,
        kinds,
        st.booleans(),
    )


def _name(field: pa.Field) -> str:
    return str(field.name)


@dataclass(frozen=True)
class _Rows:
    """Values that files of a version can hold: not every null struct is among them."""

    version: str

    def of(self, field: pa.Field, lists_above: int = 0) -> st.SearchStrategy[Any]:
        kind = field.type
        is_half = (field.metadata or {}).get(EXTENSION_NAME.encode()) == BFLOAT16.encode()
        values = _BFLOAT16 if is_half else self._there(kind, lists_above)
        if not field.nullable or pa.types.is_null(kind):
            return values
        if pa.types.is_struct(kind) and (
            self.version == "2.0" or (lists_above and _lists_in(kind) > 1)
        ):
            return values
        return st.one_of(st.none(), values, values)

    def _there(self, kind: pa.DataType, lists_above: int) -> st.SearchStrategy[Any]:
        if pa.types.is_struct(kind):
            return st.fixed_dictionaries({each.name: self.of(each, lists_above) for each in kind})
        if pa.types.is_map(kind):
            key = _TEXT if kind.key_type == pa.string() else st.integers(-5, 5)
            value = self.of(kind.item_field, lists_above + 1)
            return st.dictionaries(key, value, max_size=2).map(lambda each: list(each.items()))
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            return st.lists(self.of(kind.value_field, lists_above + 1), max_size=3)
        if pa.types.is_fixed_size_list(kind):
            size = kind.list_size
            return st.lists(self.of(kind.value_field), min_size=size, max_size=size)
        return _leaf(kind)


def _lists_in(kind: pa.DataType) -> int:
    """How many levels of lists a type has."""
    if pa.types.is_struct(kind):
        return max(_lists_in(each.type) for each in kind)
    if pa.types.is_map(kind):
        return 1 + _lists_in(kind.item_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return 1 + _lists_in(kind.value_type)
    return 0
