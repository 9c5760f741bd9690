"""Constants: from Python values and text to Arrow scalars of the type they meet.

A bare constant is exact (a number is an integer or a decimal, never rounded early) and is fitted to
what it meets: ``scalar_in`` says which value of a type equals it, if there is one, and ``units``
where it lies between two of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lancewood.errors import InvalidInputError
from lancewood.expr.nodes import Literal, describe
from lancewood.expr.types import (
    COUNTED,
    DAY,
    NUMBERS,
    alike,
    decimal_type,
    family,
    limits,
    plain_type,
    unit,
)

_EPOCH = date(1970, 1, 1).toordinal()
_SIMPLE = {"integer": int, "text": str, "binary": bytes}
_LARGEST_FLOAT32 = 3.4028234663852886e38
_CLOCK = r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?"
_ZONE = r"\s*(Z|[+-]\d{2}(?::?\d{2})?)?"
_DATE_TEXT = re.compile(r"\s*(\d{4}-\d{2}-\d{2})\s*")
_TIME_TEXT = re.compile(rf"\s*{_CLOCK}\s*")
_MOMENT_TEXT = re.compile(rf"\s*(\d{{4}}-\d{{2}}-\d{{2}})(?:[ T]{_CLOCK}{_ZONE})?\s*")


def literal_from(value: Any) -> Literal:
    """A bare literal for a Python value, a typed one for a pyarrow or numpy scalar.

    InvalidInputError for a value that SQL has no constant for.
    """
    try:
        return _literal_from(value)
    except (pa.ArrowException, OverflowError, ValueError) as error:  # UnicodeError is a ValueError
        if isinstance(error, InvalidInputError):
            raise
        kind = type(value).__name__
        raise InvalidInputError(f"a {kind} cannot be a SQL constant: {error}") from error


def _literal_from(value: Any) -> Literal:
    if isinstance(value, pa.Scalar):
        return _plain(value)
    if hasattr(value, "dtype") and hasattr(value, "item"):
        value = value.item()
    match value:
        case bool() | str() | bytes() | None:
            return Literal(pa.scalar(value), bare=True)
        case int():
            return Literal(_integer(value), bare=True)
        case Decimal() | float():
            return Literal(_number(value), bare=True)
        case datetime():
            zone = None if value.tzinfo is None else "UTC"
            return Literal(pa.scalar(value, pa.timestamp("us", zone)), bare=True)
        case date():
            return Literal(pa.scalar(value, pa.date32()), bare=True)
        case time() if value.tzinfo is None:
            return Literal(pa.scalar(value, pa.time64("us")), bare=True)
        case timedelta():
            return Literal(pa.scalar(value, pa.duration("us")), bare=True)
    raise InvalidInputError(f"a value of type {type(value).__name__} cannot be a SQL constant")


def negated(value: int | Decimal | float) -> int | Decimal | float:
    """The number with the other sign, and all of its digits: ``-`` keeps 28 of a Decimal."""
    return value.copy_negate() if isinstance(value, Decimal) else -value


def members_in(values: Sequence[Any], type_: pa.DataType) -> pa.Array | None:
    """Many plain values of one Python type as an array; None where they do not simply fit."""
    kind = _SIMPLE.get(family(type_))
    if kind is None or not {type(each) for each in values} <= {kind, type(None)}:
        return None
    try:
        return pa.array(values, type_).drop_null()
    except (pa.ArrowException, OverflowError):
        return None


def scalar_in(literal: Literal, type_: pa.DataType) -> pa.Scalar | None:
    """The scalar of a plain type that equals a non-null literal; None where no value does."""
    kind = family(type_)
    if not alike(literal.type, type_):
        return None
    if kind in COUNTED:
        where = units(literal, type_)
        low, high = limits(type_)
        if not isinstance(where, Fraction) or where.denominator != 1:
            return None
        return scalar_from_units(int(where), type_) if low <= where <= high else None
    if kind == "float":
        return _float(literal, type_)
    try:
        return literal.value.cast(type_)
    except pa.ArrowException:
        return None


def units(literal: Literal, type_: pa.DataType) -> Fraction | float:
    """Where a literal lies on the axis of a counted type, in its units; a float only for inf and
    nan."""
    value = literal.value
    if family(literal.type) in NUMBERS:
        number = value.as_py()
        if isinstance(number, float) and not math.isfinite(number):
            return number
        return Fraction(number) * 10 ** (type_.scale if pt.is_decimal(type_) else 0)
    if (
        pt.is_timestamp(type_)
        and type_.tz is not None
        and getattr(literal.type, "tz", None) is None
    ):
        value = _in_zone(value, type_.tz)
    return Fraction(value.value * unit(value.type), unit(type_))


def scalar_from_units(count: int, type_: pa.DataType) -> pa.Scalar:
    """The scalar that is ``count`` units of a counted type."""
    if pt.is_decimal(type_):
        digits = tuple(int(each) for each in str(abs(count)))
        return pa.scalar(Decimal((int(count < 0), digits, -type_.scale)), type_)
    return pa.scalar(count, type_)


def parse_moment(text: str, type_: pa.DataType) -> Literal:
    """The date, time or timestamp that a text gives in ISO form, to be compared with ``type_``.

    Text without an offset is wall time, in the zone that it is compared in, if there is one.
    """
    try:
        if pt.is_time(type_):
            match = _TIME_TEXT.fullmatch(text)
            return (
                _in_nanoseconds(_clock(match.groups()), pa.time64)
                if match
                else _refuse(text, type_)
            )
        match = _DATE_TEXT.fullmatch(text)
        if match is not None:
            return Literal(pa.scalar(date.fromisoformat(match[1]), pa.date32()), bare=True)
        match = _MOMENT_TEXT.fullmatch(text)
        if match is None:
            return _refuse(text, type_)
        count = (date.fromisoformat(match[1]).toordinal() - _EPOCH) * DAY + _clock(
            match.groups()[1:5]
        )
        return _in_nanoseconds(count - _offset(match[6]), pa.timestamp, "UTC" if match[6] else None)
    except (ValueError, OverflowError, pa.ArrowException):
        return _refuse(text, type_)


def _refuse(text: str, type_: pa.DataType) -> Literal:
    raise InvalidInputError(
        f"{text[:60]!r} is not a {type_}: write '2024-01-31', '2024-01-31 13:45:00.5', "
        "with '+02:00' or 'Z' behind it for a zone, or '13:45:00' for a time"
    )


def _clock(groups: tuple[str | None, ...]) -> int:
    hour, minute, second, fraction = (each or "0" for each in groups)
    if int(hour) > 23 or int(minute) > 59 or int(second) > 59:
        raise ValueError("no such time of day")
    seconds = int(hour) * 3600 + int(minute) * 60 + int(second)
    return seconds * 10**9 + int(fraction.ljust(9, "0"))


def _offset(zone: str | None) -> int:
    if zone in (None, "Z"):
        return 0
    sign = -1 if zone[0] == "-" else 1
    minutes = int(zone[1:3]) * 60 + int(zone[3:].lstrip(":") or 0)
    return sign * minutes * 60 * 10**9


def _in_nanoseconds(count: int, make: Any, *zone: str | None) -> Literal:
    name, size = ("us", 1000) if count % 1000 == 0 else ("ns", 1)
    return Literal(pa.scalar(count // size, make(name, *zone)), bare=True)


def _in_zone(value: pa.Scalar, zone: str) -> pa.Scalar:
    """Wall time in a zone as a moment; the earlier of two, the later if there is none."""
    naive = value if pt.is_timestamp(value.type) else value.cast(pa.timestamp("us"))
    try:
        return pc.assume_timezone(naive, zone, ambiguous="earliest", nonexistent="latest")
    except pa.ArrowException as error:
        raise InvalidInputError(
            f"{value} cannot be read in the time zone {zone!r}: {error}"
        ) from error


def _integer(value: int) -> pa.Scalar:
    for type_ in (pa.int64(), pa.uint64()):
        low, high = limits(type_)
        if low <= value <= high:
            return pa.scalar(value, type_)
    if abs(value) >= 10**76:
        raise InvalidInputError("a number has more than 76 digits")
    return pa.scalar(Decimal(value), decimal_type(len(str(abs(value))), 0))


def _number(value: Decimal | float) -> pa.Scalar:
    """Exact as a decimal where it has at most 38 digits, a float64 otherwise."""
    exact = Decimal(repr(value)) if isinstance(value, float) else value
    if exact.is_finite():
        sign, digits, exponent = exact.as_tuple()
        assert isinstance(exponent, int)
        scale = max(-exponent, 0)
        precision = max(len(digits) + max(exponent, 0), scale, 1)
        if precision <= 38:
            whole = Decimal((sign, (*digits, *(0,) * max(exponent, 0)), -scale))
            return pa.scalar(whole, pa.decimal128(precision, scale))
    return pa.scalar(float(value), pa.float64())


def _float(literal: Literal, type_: pa.DataType) -> pa.Scalar | None:
    number = float(literal.value.as_py())
    if pt.is_float32(type_) and math.isfinite(number):
        if abs(number) > _LARGEST_FLOAT32:
            return None
        near = pa.scalar(number, type_)
        return near if literal.bare or near.as_py() == number else None
    return pa.scalar(number, type_)


def _plain(value: pa.Scalar) -> Literal:
    try:
        type_ = plain_type(value.type)
        while isinstance(value, pa.DictionaryScalar | pa.ExtensionScalar):
            value = pa.scalar(None, type_) if value.value is None else value.value
        return Literal(value if value.type == type_ else value.cast(type_))
    except pa.ArrowException as error:
        raise InvalidInputError(f"{describe(Literal(value))} cannot be a constant") from error
