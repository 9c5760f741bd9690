"""Literals and types of a query, and the functions and arithmetic of dates, written for DuckDB.

Literals, values of ``args`` and types get the types that Spark gives them. A function is looked up
by sqlglot's name for it.
"""

from __future__ import annotations

import re
from datetime import date, datetime
from decimal import Decimal
from math import isfinite
from typing import Any

import pyarrow as pa

from lancewood.query.clauses import called
from lancewood.query.kinds import (
    BIGINT,
    BINARY,
    BOOLEAN,
    CLOCK,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    MOMENT,
    MOST_DIGITS,
    NULL,
    SMALLINT,
    TEXT,
    TINYINT,
    duckdb_type,
    is_integer,
    is_temporal,
    type_name,
)
from lancewood.query.typed import Call, Compile, Typed, cast, fitted, null, only_spark, quoted

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
_TYPES = {
    "BOOLEAN": BOOLEAN,
    "TINYINT": TINYINT,
    "SMALLINT": SMALLINT,
    "INT": INT,
    "BIGINT": BIGINT,
    "FLOAT": FLOAT,
    "DOUBLE": DOUBLE,
    "TEXT": TEXT,
    "BINARY": BINARY,
    "DATE": DATE,
    "TIMESTAMPTZ": MOMENT,
    "TIMESTAMPLTZ": MOMENT,
    "TIMESTAMPNTZ": CLOCK,
}
_whole = re.compile(r"[0-9]+").fullmatch
_decimal = re.compile(r"([0-9]*)\.([0-9]*)").fullmatch
_double = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)[eE][+-]?[0-9]+").fullmatch
_bytes = re.compile(r"([0-9a-fA-F]{2})*").fullmatch


def text_constant(text: str) -> Typed:
    """A text literal."""
    return Typed(quoted(text), TEXT, text)


def number_constant(text: str) -> Typed:
    """A number with Spark's type: an integer, a decimal or a double."""
    bare = text.removeprefix("-")
    if _whole(bare):
        value = int(bare) if len(bare) <= MOST_DIGITS else None
        signed = None if value is None else -value if text[0] == "-" else value
        if signed is not None and -(1 << 31) <= signed < 1 << 31:
            return Typed(f"CAST({signed} AS INTEGER)", INT, str(signed))
        if signed is not None and -(1 << 63) <= signed < 1 << 63:
            return Typed(f"CAST({signed} AS BIGINT)", BIGINT, str(signed))
    elif (found := _decimal(bare)) is not None and any(found.groups()):
        whole, scale = found[1].lstrip("0"), len(found[2])
        digits = max(len(whole) + scale, 1)
        if digits <= MOST_DIGITS:
            sql = f"CAST('{text}' AS DECIMAL({digits}, {scale}))"
            return Typed(sql, pa.decimal128(digits, scale), text)
    elif _double(bare) and isfinite(float(bare)):
        return Typed(f"CAST('{text}' AS DOUBLE)", DOUBLE, text)
    raise only_spark(f"the number {text}")


def value_constant(name: str, value: Any) -> Typed:
    """A value of ``args``."""
    if value is None:
        return null()
    if isinstance(value, bool):
        return Typed(str(value).upper(), BOOLEAN)
    if isinstance(value, str):
        return text_constant(value)
    if isinstance(value, int | Decimal):
        return number_constant(f"{value:f}" if isinstance(value, Decimal) else str(value))
    if isinstance(value, float):
        return Typed(f"CAST('{value!r}' AS DOUBLE)", DOUBLE)
    if isinstance(value, datetime):
        kind = CLOCK if value.tzinfo is None else MOMENT
        return Typed(f"CAST('{value.isoformat(' ')}' AS {duckdb_type(kind)})", kind)
    if isinstance(value, date):
        return Typed(f"CAST('{value.isoformat()}' AS DATE)", DATE)
    if isinstance(value, bytes):
        return Typed(f"from_hex('{value.hex()}')", BINARY)
    raise only_spark(f"an argument of type {type(value).__name__} for {name!r}")


def bytes_constant(text: str) -> Typed:
    """``X'00ff'``."""
    if not _bytes(text):
        raise only_spark("such a text of bytes")
    return Typed(f"from_hex('{text}')", BINARY)


def written_kind(wanted: Any) -> pa.DataType | None:
    """The type that CAST names; None for an unknown one."""
    name = str(wanted.this.name)
    if name == "DECIMAL":
        sizes = [int(str(each.this)) for each in wanted.expressions] or [10]
        precision, scale = (*sizes, 0)[:2]
        return pa.decimal128(precision, scale) if 0 < precision <= MOST_DIGITS else None
    return _TYPES.get(name) if not wanted.expressions else None


def days(operator: str, left: Typed, right: Typed) -> Typed:
    """A date plus or minus a number of days."""
    is_count = is_integer(right.kind) and right.kind != BIGINT
    if left.kind == DATE and is_count and operator in ("+", "-"):
        return Typed(f"({left.sql} {operator} {fitted(right, INT).sql})", DATE)
    raise only_spark(f"{operator} of {type_name(left.kind)} and {type_name(right.kind)}")


def moved(operator: str, value: Typed, count: str, unit: str) -> Typed:
    """A date or timestamp plus or minus an INTERVAL."""
    unit = unit.upper().removesuffix("S")
    if value.kind == NULL:
        return null(MOMENT)
    digits = count.removeprefix("-")
    is_known = unit in _UNITS - {"QUARTER"} and digits.isascii() and digits.isdecimal()
    if not is_known or not is_temporal(value.kind):
        raise only_spark(f"{operator} INTERVAL of {type_name(value.kind)}")
    if value.kind == DATE and unit not in _OF_DATES:
        raise only_spark("an INTERVAL of a part of a day and a date", "CAST the date to TIMESTAMP")
    sql = f"({value.sql} {operator} INTERVAL ({count}) {unit})"
    return Typed(f"CAST({sql} AS DATE)" if value.kind == DATE else sql, value.kind)


def _field(node: Any, compile_: Compile) -> Typed:
    return _date_field(type(node).__name__, compile_(node.this), called(node))


def _date_field(name: str, value: Typed, word: str) -> Typed:
    if value.kind == NULL:
        return null(INT)
    if not is_temporal(value.kind) or (name in _CLOCK_FIELDS and value.kind == DATE):
        raise only_spark(f"{word} of {type_name(value.kind)}", "cast it")
    field = {**_FIELDS, **_CLOCK_FIELDS}[name]
    return Typed(f"CAST({field}({value.sql}) AS INTEGER)", INT)


def _day_of_week(node: Any, compile_: Compile) -> Typed:
    value = compile_(node.this)
    if not is_temporal(value.kind):
        raise only_spark(f"{called(node)} of {type_name(value.kind)}", "cast it")
    return Typed(f"CAST(dayofweek({value.sql}) + 1 AS INTEGER)", INT)


def _extract(node: Any, compile_: Compile) -> Typed:
    field, value = str(node.this.name).upper(), compile_(node.expression)
    if field not in _EXTRACTED:
        raise only_spark(f"EXTRACT({field} …)")
    return _date_field(field.title(), value, called(node))


def _to_date(node: Any, compile_: Compile) -> Typed:
    if node.args.get("format") is not None:
        raise only_spark(f"{called(node)} with a format")
    return cast(compile_(node.this), DATE)


def _date_add(node: Any, compile_: Compile) -> Typed:
    if str(node.args.get("unit") or "DAY").upper() != "DAY":
        raise only_spark(f"{called(node)} with a unit", "write + INTERVAL 1 MONTH")
    count = compile_(node.expression)
    if count.kind == NULL:
        return null(DATE)
    if not is_integer(count.kind) or count.kind == BIGINT:
        raise only_spark(f"{called(node)} by {type_name(count.kind)}", "CAST it to INT")
    return days("+", cast(compile_(node.this), DATE), count)


def _date_diff(node: Any, compile_: Compile) -> Typed:
    if node.args.get("unit") is not None:
        raise only_spark(f"{called(node)} with a unit")
    later, earlier = compile_(node.this), compile_(node.expression)
    return Typed(f"CAST(({later.sql} - {earlier.sql}) AS INTEGER)", INT)


def _truncated(node: Any, compile_: Compile) -> Typed:
    unit, value = str(node.args["unit"].name).upper(), compile_(node.this)
    if unit not in _UNITS or not is_temporal(value.kind):
        raise only_spark(f"{called(node)} to {unit.lower()!r} of {type_name(value.kind)}")
    return Typed(f"date_trunc('{unit.lower()}', {fitted(value, MOMENT).sql})", MOMENT)


def _now(node: Any, compile_: Compile) -> Typed:
    return Typed("now()", MOMENT)


def _today(node: Any, compile_: Compile) -> Typed:
    return Typed("CAST(now() AS DATE)", DATE)


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
"""By sqlglot's names."""
