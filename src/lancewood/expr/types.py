"""Which Arrow types belong together, and the common type of two of them."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.types as pt

_FAMILIES: tuple[tuple[str, Callable[[pa.DataType], bool]], ...] = (
    ("null", pt.is_null),
    ("boolean", pt.is_boolean),
    ("integer", pt.is_integer),
    ("float", pt.is_floating),
    ("decimal", pt.is_decimal),
    ("text", lambda t: pt.is_string(t) or pt.is_large_string(t)),
    ("binary", lambda t: pt.is_binary(t) or pt.is_large_binary(t)),
    ("date", pt.is_date),
    ("timestamp", pt.is_timestamp),
    ("time", pt.is_time),
    ("duration", pt.is_duration),
    ("struct", pt.is_struct),
    ("map", pt.is_map),
    (
        "list",
        lambda t: (
            pt.is_list(t)
            or pt.is_large_list(t)
            or pt.is_fixed_size_list(t)
            or pt.is_list_view(t)
            or pt.is_large_list_view(t)
        ),
    ),
)

NUMBERS = frozenset({"integer", "float", "decimal"})
COUNTED = frozenset({"integer", "decimal", "date", "timestamp", "time", "duration"})
"""Families whose values are whole numbers of some unit."""

NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
DAY = 86_400 * 10**9

_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}


def family(type_: pa.DataType) -> str:
    """The family of a plain type; "other" where nothing can be computed with it."""
    return next((name for name, belongs in _FAMILIES if belongs(type_)), "other")


def alike(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether values of both types lie on one axis, so that a constant can be compared exactly."""
    families = {family(one), family(other)}
    return len(families) == 1 or families <= NUMBERS or families <= {"date", "timestamp"}


def plain_type(type_: pa.DataType) -> pa.DataType:
    """The type that is computed with: dictionaries decoded, views and small kinds widened."""
    if isinstance(type_, pa.BaseExtensionType):
        return plain_type(type_.storage_type)
    if pt.is_dictionary(type_):
        return plain_type(type_.value_type)
    if pt.is_string_view(type_):
        return pa.large_string()
    if pt.is_binary_view(type_):
        return pa.large_binary()
    if pt.is_fixed_size_binary(type_):
        return pa.binary()
    if pt.is_float16(type_):
        return pa.float32()
    if pt.is_date64(type_):
        return pa.date32()
    if pt.is_decimal(type_):
        return decimal_type(type_.precision, type_.scale) or type_
    return type_


def decimal_type(precision: int, scale: int) -> pa.DataType | None:
    """The decimal type of that size; None if none is large enough."""
    if precision <= 38:
        return pa.decimal128(precision, scale)
    return pa.decimal256(precision, scale) if precision <= 76 else None


def digits(type_: pa.DataType) -> tuple[int, int]:
    """Precision and scale that hold every value of an integer or decimal type."""
    if pt.is_decimal(type_):
        return type_.precision, type_.scale
    return (20 if pt.is_uint64(type_) else _DIGITS[type_.bit_width]), 0


def limits(type_: pa.DataType) -> tuple[int, int]:
    """The smallest and the largest number of units that a counted type holds."""
    if pt.is_decimal(type_):
        return -(10**type_.precision) + 1, 10**type_.precision - 1
    if pt.is_unsigned_integer(type_):
        return 0, 2**type_.bit_width - 1
    return -(2 ** (type_.bit_width - 1)), 2 ** (type_.bit_width - 1) - 1


def unit(type_: pa.DataType) -> int:
    """How many nanoseconds one unit of a date, time, timestamp or duration is."""
    return DAY if pt.is_date(type_) else NANOSECONDS[type_.unit]


def finer(one: str, other: str) -> str:
    """The finer of two time units."""
    return min(one, other, key=lambda each: NANOSECONDS[each])


def common_type(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The plain type in which values of both can be compared exactly; None if there is none.

    Integers and decimals are compared with floats as float64, which is exact up to 2**53.
    """
    if one == other or pt.is_null(other):
        return one
    if pt.is_null(one):
        return other
    families = {family(one), family(other)}
    if families <= NUMBERS:
        return _common_number(one, other, families)
    if families == {"text"}:
        return pa.large_string()
    if families == {"binary"}:
        return pa.large_binary()
    if families == {"time"}:
        return pa.time64("us" if finer(one.unit, other.unit) != "ns" else "ns")
    if families == {"duration"}:
        return pa.duration(finer(one.unit, other.unit))
    if families <= {"date", "timestamp"}:
        return _common_moment(one, other)
    return None


def _common_number(one: pa.DataType, other: pa.DataType, families: set[str]) -> pa.DataType | None:
    if families == {"float"}:
        return pa.float64()
    if "float" in families:
        small = [each for each in (one, other) if pt.is_integer(each) and each.bit_width <= 16]
        return pa.float32() if small and pa.float32() in (one, other) else pa.float64()
    if families == {"integer"}:
        low = min(limits(one)[0], limits(other)[0])
        high = max(limits(one)[1], limits(other)[1])
        for each in (one, other, pa.int16(), pa.int32(), pa.int64()):
            if limits(each)[0] <= low and high <= limits(each)[1]:
                return each
    (p1, s1), (p2, s2) = digits(one), digits(other)
    scale = max(s1, s2)
    return decimal_type(max(p1 - s1, p2 - s2) + scale, scale)


def _common_moment(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    dates = [each for each in (one, other) if pt.is_date(each)]
    if dates:
        moment = other if pt.is_date(one) else one
        return moment if moment.tz is None else None
    if (one.tz is None) != (other.tz is None):
        return None
    return pa.timestamp(
        finer(one.unit, other.unit), one.tz and (one.tz if one.tz == other.tz else "UTC")
    )
