"""Dates and moments: their fields, functions and arithmetic, as Spark has them, said in DuckDB.

A function is known by sqlglot's name for it. Knows types, and no names.
"""

from __future__ import annotations

from typing import Any

from lancewood.query.clauses import called
from lancewood.query.kinds import (
    BIGINT,
    DATE,
    INT,
    MOMENT,
    NULL,
    is_integer,
    is_temporal,
    said,
)
from lancewood.query.typed import (
    Call,
    Compile,
    Typed,
    apart,
    cast,
    fitted,
    null,
)

_FIELDS = {
    "Year": "year",
    "Month": "month",
    "Day": "day",
    "DayOfMonth": "day",
    "Quarter": "quarter",
    "DayOfYear": "dayofyear",
    "WeekOfYear": "week",
}
_CLOCK_FIELDS = {"Hour": "hour", "Minute": "minute", "Second": "second"}
_EXTRACTED = frozenset({"YEAR", "MONTH", "DAY", "QUARTER", "HOUR", "MINUTE"})
_UNITS = frozenset({"YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"})
_OF_DATES = frozenset({"YEAR", "MONTH", "WEEK", "DAY"})


def days(operator: str, left: Typed, right: Typed) -> Typed:
    """A date and a number of days."""
    is_count = is_integer(right.kind) and right.kind != BIGINT
    if left.kind == DATE and is_count and operator in ("+", "-"):
        return Typed(f"({left.sql} {operator} {fitted(right, INT).sql})", DATE)
    raise apart(f"{operator} of {said(left.kind)} and {said(right.kind)}")


def moved(operator: str, value: Typed, count: str, unit: str) -> Typed:
    """A date or moment and an INTERVAL."""
    unit = unit.upper().removesuffix("S")
    if value.kind == NULL:
        return null(MOMENT)
    digits = count.removeprefix("-")
    is_known = unit in _UNITS - {"QUARTER"} and digits.isascii() and digits.isdecimal()
    if not is_known or not is_temporal(value.kind):
        raise apart(f"{operator} INTERVAL of {said(value.kind)}")
    if value.kind == DATE and unit not in _OF_DATES:
        raise apart("an INTERVAL of a part of a day and a date", "CAST the date to TIMESTAMP")
    sql = f"({value.sql} {operator} INTERVAL ({count}) {unit})"
    return Typed(f"CAST({sql} AS DATE)" if value.kind == DATE else sql, value.kind)


def _date_field(name: str, value: Typed, word: str) -> Typed:
    if value.kind == NULL:
        return null(INT)
    if not is_temporal(value.kind) or (name in _CLOCK_FIELDS and value.kind == DATE):
        raise apart(f"{word} of {said(value.kind)}", "cast it")
    field = {**_FIELDS, **_CLOCK_FIELDS}[name]
    return Typed(f"CAST({field}({value.sql}) AS INTEGER)", INT)


def _day_of_week(node: Any, compile_: Compile) -> Typed:
    value = compile_(node.this)
    if not is_temporal(value.kind):
        raise apart(f"{called(node)} of {said(value.kind)}", "cast it")
    return Typed(f"CAST(dayofweek({value.sql}) + 1 AS INTEGER)", INT)


def _extract(node: Any, compile_: Compile) -> Typed:
    field, value = str(node.this.name).upper(), compile_(node.expression)
    if field not in _EXTRACTED:
        raise apart(f"EXTRACT({field} …)")
    return _date_field(field.title(), value, called(node))


def _to_date(node: Any, compile_: Compile) -> Typed:
    if node.args.get("format") is not None:
        raise apart(f"{called(node)} with a format")
    return cast(compile_(node.this), DATE)


def _date_add(node: Any, compile_: Compile) -> Typed:
    if str(node.args.get("unit") or "DAY").upper() != "DAY":
        raise apart(f"{called(node)} with a unit", "write + INTERVAL 1 MONTH")
    count = compile_(node.expression)
    if count.kind == NULL:
        return null(DATE)
    if not is_integer(count.kind) or count.kind == BIGINT:
        raise apart(f"{called(node)} by {said(count.kind)}", "CAST it to INT")
    return days("+", cast(compile_(node.this), DATE), count)


def _date_diff(node: Any, compile_: Compile) -> Typed:
    if node.args.get("unit") is not None:
        raise apart(f"{called(node)} with a unit")
    later, earlier = compile_(node.this), compile_(node.expression)
    return Typed(f"CAST(({later.sql} - {earlier.sql}) AS INTEGER)", INT)


def _truncated(node: Any, compile_: Compile) -> Typed:
    unit, value = str(node.args["unit"].name).upper(), compile_(node.this)
    if unit not in _UNITS or not is_temporal(value.kind):
        raise apart(f"{called(node)} to {unit.lower()!r} of {said(value.kind)}")
    return Typed(f"date_trunc('{unit.lower()}', {fitted(value, MOMENT).sql})", MOMENT)


def _now(node: Any, compile_: Compile) -> Typed:
    return Typed("now()", MOMENT)


def _today(node: Any, compile_: Compile) -> Typed:
    return Typed("CAST(now() AS DATE)", DATE)


def _field(node: Any, compile_: Compile) -> Typed:
    return _date_field(type(node).__name__, compile_(node.this), called(node))


CALLS: dict[str, Call] = {
    **dict.fromkeys([*_FIELDS, *_CLOCK_FIELDS], _field),
    "CurrentDate": _today,
    "CurrentTimestamp": _now,
    "DateDiff": _date_diff,
    "DayOfWeek": _day_of_week,
    "Extract": _extract,
    "TimestampTrunc": _truncated,
    "TsOrDsAdd": _date_add,
    "TsOrDsToDate": _to_date,
}
"""By sqlglot's names for them."""
