"""What the values of a text file would lose in a column: digits of a decimal, the size of a float,
nanoseconds, the time of day of a date.

Spark's parsers round and cut such values. What they refuse by themselves is not judged here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from lancewood.files.formats import is_beyond

_NANOSECONDS = "[.,][0-9]{6}[0-9]*[1-9]"
_TIME_OF_DAY = "-[0-9]{1,2}[T ].*[1-9]"
_LARGE_NUMBER = r"[0-9.][eE]\+?[0-9]|[0-9]{39}"
"""In every number that no float holds, and in some others."""


class Numeral(str):
    """The text of a number in JSON, where a point stands before the places in every language."""


@dataclass(frozen=True)
class Notation:
    """How a source writes values."""

    point: str = "."
    """What stands before the places of a decimal in a text."""
    has_date_format: bool = False
    """Whether the source says how dates are written, which then may have blanks and more."""
    has_time_format: bool = False
    """Whether the source says how timestamps are written, with six digits of a second at most."""


def suspicious(kinds: Iterable[pa.DataType], notation: Notation) -> str | None:
    """Pattern that matches every record in which a column of these types would lose something,
    and some others; None if no column can. Both RE2 and ``re`` read it."""
    found = {pattern for kind in kinds for pattern in _suspicious(kind, notation)}
    return "|".join(sorted(found)) or None


def _suspicious(kind: pa.DataType, notation: Notation) -> set[str]:
    if pa.types.is_decimal(kind):
        return {f"[.{re.escape(notation.point)}][0-9]{{{kind.scale + 1}}}", "[0-9.][eE][+-]?[0-9]"}
    if pa.types.is_floating(kind):
        return {_LARGE_NUMBER}
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        return set() if notation.has_time_format else {_NANOSECONDS}
    if pa.types.is_date(kind):
        return set() if notation.has_date_format else {_TIME_OF_DAY}
    below = (kind.field(at).type for at in range(kind.num_fields))
    return {pattern for each in below for pattern in _suspicious(each, notation)}


def lost(value: Any, kind: pa.DataType, notation: Notation) -> str | None:
    """What a column of this type would lose of a value; None if nothing.

    ``value`` is the text of a value, or a list or dict of such, as JSON nests them.
    """
    if isinstance(value, str):
        return _lost_of_text(value, kind, notation)
    return next((found for each in parts(value, kind) if (found := lost(*each, notation))), None)


def parts(value: Any, kind: pa.DataType) -> Iterable[tuple[Any, pa.DataType]]:
    """The values inside of a dict or list that JSON has for a nested type, each with its type."""
    if isinstance(value, dict) and pa.types.is_struct(kind):
        return [(value.get(each.name), each.type) for each in kind]
    if isinstance(value, dict) and pa.types.is_map(kind):
        return [(each, kind.item_type) for each in value.values()]
    if isinstance(value, list) and pa.types.is_list(kind):
        return [(each, kind.value_type) for each in value]
    return []


def _lost_of_text(text: str, kind: pa.DataType, notation: Notation) -> str | None:
    if pa.types.is_decimal(kind):
        point = "." if isinstance(text, Numeral) else notation.point
        if _places(text, point) > kind.scale:
            return f"has more decimal places than the {kind.scale} of its type"
    elif pa.types.is_floating(kind):
        if _is_beyond(text, kind):
            return "has a number too large for its type"
    elif pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        if not notation.has_time_format and re.search(_NANOSECONDS, text):
            return "has nanoseconds, and its type ends with microseconds"
    elif pa.types.is_date(kind) and not notation.has_date_format:
        has_time = re.search(_TIME_OF_DAY, text)
        return "has a time of day, and its type is a date" if has_time else None
    return None


def _places(text: str, point: str) -> int:
    """Number of decimal places of a number, without zeros at the end; 0 if it is no number."""
    plain = text if point == "." else re.sub(rf"[^0-9eE+\-{point}]", "", text).replace(point, ".")
    try:
        number = Decimal(plain.replace(",", ""))
    except InvalidOperation:
        return 0
    _, digits, exponent = number.as_tuple()
    if not number.is_finite() or not number:
        return 0
    zeros = next(at for at, digit in enumerate(reversed(digits)) if digit)
    return -int(exponent) - zeros


def _is_beyond(text: str, kind: pa.DataType) -> bool:
    # Java also reads 1e39f and 1e39d.
    number = text.strip().rstrip("dDfF")
    try:
        return number[-1:].isdigit() and is_beyond(float(number), kind)
    except ValueError:
        return False
