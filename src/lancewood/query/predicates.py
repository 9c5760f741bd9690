"""Conditions of a query translated to ``lancewood.expr``, where they mean exactly the same.

A condition is a comparison of a column with a constant of its own family, an IN list, IS NULL, a
LIKE with a plain prefix, a boolean column, or AND, OR and NOT of these. Both sides have three truth
values, compare strings by their bytes, and treat NaN as equal to itself and as the largest number.
Anything that casts, rounds, depends on an unknown time zone or was written with escapes is not
translated (None), and Spark alone decides it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from lancewood.expr.literals import negated
from lancewood.query.readable import unread
from lancewood.query.settings import Settings

_MOST_DIGITS = 38
_SURE_DIGITS = 15
"""A decimal with up to this many digits becomes the same double however it is read."""
_INT64 = 1 << 63
_whole = re.compile(r"\d{1,19}").fullmatch
_decimal = re.compile(r"\d{1,15}\.\d{0,15}|\.\d{1,15}").fullmatch
_exponent = re.compile(r"\d{1,15}(?:\.\d{0,15})?[eE][+-]?\d{1,3}").fullmatch
_date = re.compile(r"\d{4}-\d{2}-\d{2}").fullmatch
_moment = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2}:\d{2})(?:\.(\d{1,6}))?)?(Z|[+-]\d{2}:\d{2})?"
).fullmatch
_fixed = re.compile(r"[+-]\d{2}:\d{2}").fullmatch
_UTC_NAMES = frozenset({"UTC", "Z", "Etc/UTC", "GMT", "+00:00"})
_OPERATORS = {"EQ": "=", "NEQ": "<>", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
_FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_SPECIAL = frozenset("%_\\")


@dataclass(frozen=True)
class Condition:
    """A condition over the columns of one table."""

    sql: str
    """Its parameters are ``:p0``, ``:p1`` and so on."""
    parameters: dict[str, Any] = field(default_factory=dict)
    when_null: bool | None = None
    """Its value for a row of nulls, as an outer join makes them."""


class Conditions:
    """Translates the conditions of one table in one query."""

    def __init__(self, field_of: Callable[[Any], pa.Field | None], constants: Constants) -> None:
        """``field_of`` gives the column of the table that a node means, None for any other."""
        self._field_of = field_of
        self._constants = constants
        self._count = 0

    def translate(self, node: Any) -> Condition | None:
        """The same condition; None where it may mean something else."""
        return self._translated(node) if unread(node) is None else None

    def _translated(self, node: Any) -> Condition | None:
        kind = type(node).__name__
        if kind == "Paren":
            return self._translated(node.this)
        if kind in ("And", "Or"):
            return self._joined(node, kind)
        if kind == "Not":
            return _negated(self._translated(node.this))
        if kind in _OPERATORS:
            return self._compared(node, _OPERATORS[kind])
        if kind == "Between":
            return self._between(node)
        if kind == "In":
            return self._in(node)
        if kind == "Is":
            return self._is(node)
        if kind == "Like":
            return self._like(node)
        if kind == "Column":
            found = self._field_of(node)
            is_condition = found is not None and pt.is_boolean(found.type)
            return Condition(quoted(found.name)) if found is not None and is_condition else None
        return None

    def _joined(self, node: Any, kind: str) -> Condition | None:
        parts = [self._translated(each) for each in node.flatten()]
        found = [each for each in parts if each is not None]
        if len(found) < len(parts):
            return None
        decisive = kind == "Or"
        values = [each.when_null for each in found]
        value = decisive if decisive in values else None if None in values else not decisive
        parameters = {key: value for each in found for key, value in each.parameters.items()}
        return Condition(
            f" {kind.upper()} ".join(f"({each.sql})" for each in found), parameters, value
        )

    def _compared(self, node: Any, operator: str) -> Condition | None:
        for column, constant, how in (
            (node.this, node.expression, operator),
            (node.expression, node.this, _FLIPPED[operator]),
        ):
            found = self._field_of(column)
            if found is not None:
                return self._comparison(found, how, constant)
        return None

    def _comparison(self, column: pa.Field, operator: str, node: Any) -> Condition | None:
        value = self._constants.for_type(node, column.type)
        if value is None:
            return None
        name = self._name()
        return Condition(f"{quoted(column.name)} {operator} :{name}", {name: value})

    def _between(self, node: Any) -> Condition | None:
        found = self._field_of(node.this)
        if found is None or node.args.get("symmetric"):
            return None
        low = self._comparison(found, ">=", node.args["low"])
        high = self._comparison(found, "<=", node.args["high"])
        if low is None or high is None:
            return None
        return Condition(f"({low.sql}) AND ({high.sql})", {**low.parameters, **high.parameters})

    def _in(self, node: Any) -> Condition | None:
        found = self._field_of(node.this)
        others = (node.args.get(each) for each in ("query", "unnest", "field"))
        if found is None or any(others) or not node.expressions:
            return None
        values = self._constants.for_list(node.expressions, found.type)
        if values is None:
            return None
        name = self._name()
        return Condition(f"{quoted(found.name)} IN (:{name})", {name: values})

    def _is(self, node: Any) -> Condition | None:
        found = self._field_of(node.this)
        wanted = type(node.expression).__name__
        if found is None or not _has_plain_nulls(found.type):
            return None
        if wanted == "Null":
            return Condition(f"{quoted(found.name)} IS NULL", when_null=True)
        if wanted == "Boolean" and pt.is_boolean(found.type):
            word = "TRUE" if node.expression.this else "FALSE"
            return Condition(f"{quoted(found.name)} IS {word}", when_null=False)
        return None

    def _like(self, node: Any) -> Condition | None:
        found = self._field_of(node.this)
        if found is None or not _is_text(found.type):
            return None
        pattern = self._constants.for_type(node.expression, found.type)
        if not isinstance(pattern, str) or len(pattern) < 2 or pattern[-1] != "%":
            return None
        if not _SPECIAL.isdisjoint(pattern[:-1]):
            return None
        name = self._name()
        starts = Condition(f"starts_with({quoted(found.name)}, :{name})", {name: pattern[:-1]})
        return _negated(starts) if node.args.get("negate") else starts

    def _name(self) -> str:
        self._count += 1
        return f"p{self._count - 1}"


def _negated(condition: Condition | None) -> Condition | None:
    if condition is None:
        return None
    value = None if condition.when_null is None else not condition.when_null
    return Condition(f"NOT ({condition.sql})", condition.parameters, value)


def quoted(name: str) -> str:
    """The name of a column, quoted for ``lancewood.expr``."""
    return '"' + name.replace('"', '""') + '"'


def _is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind))


def _has_plain_nulls(kind: pa.DataType) -> bool:
    """Whether only the validity bitmap says that a value is null."""
    if isinstance(kind, pa.BaseExtensionType):
        return False
    return bool(
        pt.is_primitive(kind)
        or _is_text(kind)
        or pt.is_binary(kind)
        or pt.is_list(kind)
        or pt.is_fixed_size_list(kind)
    )


class Constants:
    """Reads constants as a Spark session does; None where that is not certain."""

    def __init__(self, settings: Settings, unsure: Collection[str]) -> None:
        """``unsure`` are texts that were written with escapes."""
        self._settings = settings
        self._unsure = unsure

    def for_type(self, node: Any, kind: pa.DataType) -> Any:
        """The value of a constant that is compared with a column of a type."""
        if pt.is_boolean(kind):
            return bool(node.this) if type(node).__name__ == "Boolean" else None
        if _is_text(kind):
            return self._text(node)
        if pt.is_integer(kind):
            value = _number(node)
            return None if isinstance(value, float) else value
        if pt.is_float32(kind) or pt.is_float64(kind):
            return _float(_number(node), kind)
        if pt.is_decimal128(kind):
            return _in_decimal(_number(node), kind)
        if pt.is_date32(kind):
            return _day(self._text(_typed(node, "DATE")) or self._text(node))
        if pt.is_timestamp(kind):
            return self._timestamp(node, kind)
        return None

    def for_list(self, nodes: Sequence[Any], kind: pa.DataType) -> list[Any] | None:
        """The values of an IN list, which Spark first brings to a common type."""
        if pt.is_floating(kind):
            return None
        if not _is_text(kind):
            # Beside a text, dates are compared as texts in some modes.
            if any(self._text(each) is not None for each in nodes):
                return None
            kinds = {type(_number(each)) for each in nodes}
            if pt.is_integer(kind) and kinds != {int}:
                return None
        values = [self.for_type(each, kind) for each in nodes]
        return None if any(each is None for each in values) else values

    def _text(self, node: Any) -> str | None:
        if type(node).__name__ != "Literal" or not node.args.get("is_string"):
            return None
        text = str(node.this)
        return None if text in self._unsure else text

    def _timestamp(self, node: Any, kind: pa.DataType) -> datetime | None:
        if kind.tz is None:
            text = self._text(_typed(node, "TIMESTAMPNTZ"))
            found = None if text is None else _clock(text)
            return None if found is None or found[1] is not None else found[0]
        names = ("TIMESTAMPLTZ", "TIMESTAMPTZ") if self._settings.timestamps_have_zones else ()
        texts = (self._text(each) for each in (*(_typed(node, name) for name in names), node))
        text = next((each for each in texts if each is not None), None)
        found = None if text is None else _clock(text)
        if found is None:
            return None
        clock, offset = found
        try:
            if offset is not None:
                return clock.replace(tzinfo=offset).astimezone(UTC)
            return _in_zone(clock, self._settings.zone)
        except OverflowError:  # beyond the first or the last day of the calendar
            return None


def _typed(node: Any, name: str) -> Any:
    """The text inside a cast to a type: DATE '…' and CAST('…' AS DATE)."""
    if type(node).__name__ != "Cast" or node.args.get("format"):
        return None
    return node.this if node.args["to"].this.name == name else None


def _number(node: Any) -> int | Decimal | float | None:
    """A number with Spark's type: an integer, a decimal or a double."""
    kind = type(node).__name__
    if kind == "Neg":
        value = _number(node.this)
        return None if value is None else negated(value)
    if kind == "TryCast" and type(node.this).__name__ == "Literal":  # 5L, 1.5D
        value, name = _number(node.this), node.args["to"].this.name
        if name == "BIGINT" and isinstance(value, int):
            return value
        return float(value) if name == "DOUBLE" and value is not None else None
    if kind != "Literal" or node.args.get("is_string"):
        return None
    text = str(node.this)
    if _whole(text):
        return int(text) if int(text) < _INT64 else None
    if _decimal(text):
        return Decimal(text)
    return float(text) if _exponent(text) else None


def _float(value: int | Decimal | float | None, kind: pa.DataType) -> pa.Scalar | None:
    """As a double, the type in which Spark compares it; None where that is not exact enough."""
    if value is None:
        return None
    if isinstance(value, int) and abs(value) > 1 << (24 if pt.is_float32(kind) else 53):
        return None
    if isinstance(value, Decimal) and len(value.as_tuple().digits) > _SURE_DIGITS:
        return None
    found = float(value)
    # A typed constant is not rounded to the column's type.
    return pa.scalar(found, pa.float64()) if abs(found) != float("inf") else None


def _in_decimal(value: int | Decimal | float | None, kind: pa.DataType) -> int | Decimal | None:
    """None where the common type in Spark would lose digits."""
    if value is None or isinstance(value, float) or kind.scale < 0:
        return None
    digits, exponent = Decimal(value).as_tuple()[1:]
    assert isinstance(exponent, int)
    scale = max(kind.scale, -exponent)
    whole = max(kind.precision - kind.scale, len(digits) + exponent, 20 if exponent == 0 else 0)
    return value if whole + scale <= _MOST_DIGITS else None


def _day(text: str | None) -> date | None:
    if text is None or not _date(text):
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _clock(text: str) -> tuple[datetime, timezone | None] | None:
    """The local time, and its offset if one is written."""
    found = _moment(text)
    if found is None:
        return None
    day, clock, fraction, zone = found.groups()
    if zone is not None and clock is None:
        return None
    try:
        shown = datetime.fromisoformat(f"{day} {clock or '00:00:00'}")
        shown = shown.replace(microsecond=int((fraction or "0").ljust(6, "0")))
        if zone is None:
            return shown, None
        return shown, UTC if zone == "Z" else _offset(zone)
    except ValueError:
        return None


def _offset(zone: str) -> timezone:
    sign = -1 if zone[0] == "-" else 1
    span = timedelta(hours=int(zone[1:3]), minutes=int(zone[4:6]))
    if span > timedelta(hours=18):
        raise ValueError("no such offset")
    return timezone(sign * span)


def _in_zone(clock: datetime, zone: str) -> datetime | None:
    """The instant at which clocks of a zone show this time.

    None for a zone with rules: Java and Python each have their own tables, of different years.
    """
    if zone in _UTC_NAMES:
        return clock.replace(tzinfo=UTC)
    if _fixed(zone):
        return clock.replace(tzinfo=_offset(zone)).astimezone(UTC)
    return None
