"""Functions and operators that mean the same in both engines, and how each is said in DuckDB.

A function is known by sqlglot's name for it. What is not here is Spark's alone: DuckDB may have a
function of that name, and mean something else by it. Knows types, and no names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from lancewood.errors import InvalidInputError
from lancewood.query.kinds import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    MOMENT,
    NULL,
    TEXT,
    as_decimal,
    decimal,
    duckdb_type,
    is_comparable,
    is_decimal,
    is_floating,
    is_integer,
    is_number,
    is_temporal,
    said,
)
from lancewood.query.typed import (
    Typed,
    apart,
    as_text,
    cast,
    checked,
    failing,
    fitted,
    null,
    together,
    wide_sum,
)

_NEWER = "\u1c89\u1c8a\ua7cb-\ua7dc\U00010d50-\U00010d85\U00016ea0-\U00016ed3"
UPPER_APART = (
    "\u00df\u0149\u019b\u01f0\u0264\u0390\u03b0\u0587\u1e96-\u1e9a\u1f50-\u1f56\u1f80-\u1fff"
    f"\ufb00-\ufb17{_NEWER}"
)
LOWER_APART = f"\u0130\u03a3{_NEWER}"
"""Letters that become more than one, or another one at the end of a word, or none yet: of these
Spark makes something else. Each is found by asking both."""
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
_EXACT = 10**15
"""A double from here on has hardly a digit behind the point."""

Compile = Callable[[Any], Typed]


class Aggregate(NamedTuple):
    """A function over rows: the call, and what is made of its result after OVER or FILTER."""

    call: str
    kind: pa.DataType
    result: str = "{}"


# Arithmetic and comparison


def arithmetic(operator: str, left: Typed, right: Typed) -> Typed:
    """``+ - * / % div``."""
    if is_temporal(left.kind) or is_temporal(right.kind):
        return _days(operator, left, right)
    for each in (left, right):
        if each.kind != NULL and not is_number(each.kind):
            raise apart(f"{operator} of {said(left.kind)} and {said(right.kind)}", "cast them")
    if left.kind == NULL or right.kind == NULL:
        other = right.kind if left.kind == NULL else left.kind
        return null(DOUBLE if operator == "/" or other == NULL else other)
    if operator == "div":
        return _whole_division(left, right)
    has_decimal = is_decimal(left.kind) or is_decimal(right.kind)
    if has_decimal and not (is_floating(left.kind) or is_floating(right.kind)):
        return _exact(operator, left, right)
    if operator == "/":
        left, right = fitted(left, DOUBLE), fitted(right, DOUBLE)
        return Typed(_by_divisor("/", left, right, "divides"), DOUBLE)
    (left, right), kind = together([left, right], operator)
    if operator == "%":
        return Typed(_by_divisor("%", left, right, "takes a remainder"), kind)
    return Typed(f"({left.sql} {operator} {right.sql})", kind)


def _by_divisor(operator: str, left: Typed, right: Typed, does: str) -> str:
    """Spark fails where a value is divided by zero."""
    zero = f"({right.sql}) = 0 AND ({left.sql}) IS NOT NULL"
    stop = failing(f"the query {does} by zero; leave such rows out, or use nullif(…, 0)")
    return f"CASE WHEN {zero} THEN {stop} ELSE ({left.sql} {operator} {right.sql}) END"


def _whole_division(left: Typed, right: Typed) -> Typed:
    if not (is_integer(left.kind) and is_integer(right.kind)):
        raise apart(f"div of {said(left.kind)} and {said(right.kind)}")
    left, right = fitted(left, BIGINT), fitted(right, BIGINT)
    return Typed(_by_divisor("//", left, right, "divides"), BIGINT)


def _exact(operator: str, left: Typed, right: Typed) -> Typed:
    one, two = as_decimal(left.kind, left.constant), as_decimal(right.kind, right.constant)
    if operator in ("/", "%"):
        raise apart(
            f"{operator} of {said(left.kind)} and {said(right.kind)}", "CAST one of them to DOUBLE"
        )
    if operator == "*":
        kind = decimal(one.precision + two.precision + 1, one.scale + two.scale)
    else:
        scale = max(one.scale, two.scale)
        whole = max(one.precision - one.scale, two.precision - two.scale)
        kind = decimal(whole + scale + 1, scale)
    if kind is None:
        raise apart(f"{operator} of {said(one)} and {said(two)}", "it takes more than 38 digits")
    if operator != "*":
        one = two = kind
    sql = f"({fitted(left, one).sql} {operator} {fitted(right, two).sql})"
    return Typed(f"CAST({sql} AS {duckdb_type(kind)})", kind)


def _days(operator: str, left: Typed, right: Typed) -> Typed:
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


def compared(operator: str, left: Typed, right: Typed) -> Typed:
    """``= <> < <= > >=``, and IS (NOT) DISTINCT FROM."""
    (left, right), kind = together([left, right], operator)
    if not is_comparable(kind):
        raise apart(f"{operator} of {said(kind)}")
    return Typed(f"({left.sql} {operator} {right.sql})", BOOLEAN)


# Functions of single values


def call(node: Any, compile_: Compile) -> Typed | None:
    """A function of values; None for one that is not known."""
    name = type(node).__name__
    if name in _FIELDS or name in _CLOCK_FIELDS:
        return _date_field(name, compile_(node.this))
    found = _CALLS.get(name)
    return None if found is None else found(node, compile_)


def _date_field(name: str, value: Typed) -> Typed:
    if value.kind == NULL:
        return null(INT)
    if not is_temporal(value.kind) or (name in _CLOCK_FIELDS and value.kind == DATE):
        raise apart(f"{name.lower()}() of {said(value.kind)}", "cast it")
    field = {**_FIELDS, **_CLOCK_FIELDS}[name]
    return Typed(f"CAST({field}({value.sql}) AS INTEGER)", INT)


def _day_of_week(node: Any, compile_: Compile) -> Typed:
    value = compile_(node.this)
    if not is_temporal(value.kind):
        raise apart(f"dayofweek() of {said(value.kind)}", "cast it")
    return Typed(f"CAST(dayofweek({value.sql}) + 1 AS INTEGER)", INT)


def _extract(node: Any, compile_: Compile) -> Typed:
    field, value = str(node.this.name).upper(), compile_(node.expression)
    if field not in _EXTRACTED:
        raise apart(f"EXTRACT({field} …)")
    return _date_field(field.title(), value)


def _to_date(node: Any, compile_: Compile) -> Typed:
    if node.args.get("format") is not None:
        raise apart("to_date() with a format")
    return cast(compile_(node.this), DATE)


def _date_add(node: Any, compile_: Compile) -> Typed:
    if str(node.args.get("unit") or "DAY").upper() != "DAY":
        raise apart("date_add() with a unit", "write + INTERVAL 1 MONTH")
    return _days("+", cast(compile_(node.this), DATE), compile_(node.expression))


def _date_diff(node: Any, compile_: Compile) -> Typed:
    if node.args.get("unit") is not None:
        raise apart("datediff() with a unit")
    later, earlier = compile_(node.this), compile_(node.expression)
    return Typed(f"CAST(({later.sql} - {earlier.sql}) AS INTEGER)", INT)


def _truncated(node: Any, compile_: Compile) -> Typed:
    unit, value = str(node.args["unit"].name).upper(), compile_(node.this)
    if unit not in _UNITS or not is_temporal(value.kind):
        raise apart(f"date_trunc({unit!r}, {said(value.kind)})")
    return Typed(f"date_trunc('{unit.lower()}', {fitted(value, MOMENT).sql})", MOMENT)


def _cased(node: Any, compile_: Compile) -> Typed:
    word = type(node).__name__.lower()
    value = checked(compile_(node.this), TEXT, f"{word}()")
    return Typed(cased(word, value.sql), TEXT)


def cased(word: str, sql: str) -> str:
    """upper or lower; letters of which Java makes something else end the query."""
    letters = UPPER_APART if word == "upper" else LOWER_APART
    stop = failing(f"{word}() met a letter whose {word} case only Java knows; ask with --spark")
    return f"CASE WHEN regexp_matches({sql}, '[{letters}]') THEN {stop} ELSE {word}({sql}) END"


def _length(node: Any, compile_: Compile) -> Typed:
    value = compile_(node.this)
    if value.kind == BINARY:
        return Typed(f"CAST(octet_length({value.sql}) AS INTEGER)", INT)
    return Typed(f"CAST(length({checked(value, TEXT, 'length()').sql}) AS INTEGER)", INT)


def _trim(node: Any, compile_: Compile) -> Typed:
    if node.expression:
        raise apart("trim() of other characters than spaces")
    side = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position")), "trim")
    return Typed(f"{side}({checked(compile_(node.this), TEXT, side).sql}, ' ')", TEXT)


def _concat(node: Any, compile_: Compile) -> Typed:
    parts = node.expressions or [node.this, node.expression]
    values = [as_text(compile_(each), "concatenation") for each in parts]
    return Typed("(" + " || ".join(each.sql for each in values) + ")", TEXT)


def _substring(node: Any, compile_: Compile) -> Typed:
    value = checked(compile_(node.this), TEXT, "substring()")
    start, length = _number(node.args.get("start")), _number(node.args.get("length"))
    if not start or (node.args.get("length") is not None and length is None):
        raise apart("substring() with other than plain numbers from 1 on")
    more = "" if length is None else f", {length}"
    return Typed(f"substring({value.sql}, {start}{more})", TEXT)


def _number(node: Any) -> int | None:
    """A number that is written plainly."""
    text = str(node.this) if type(node).__name__ == "Literal" else ""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def _texts(name: str, kind: pa.DataType) -> Callable[[Any, Compile], Typed]:
    def build(node: Any, compile_: Compile) -> Typed:
        values = [compile_(each) for each in (node.this, node.expression)]
        listed = ", ".join(checked(each, TEXT, f"{name}()").sql for each in values)
        return Typed(f"{name}({listed})", kind)

    return build


def _position(node: Any, compile_: Compile) -> Typed:
    if node.args.get("position") is not None or node.args.get("occurrence") is not None:
        raise apart("a search that does not begin at the beginning")
    texts = (
        checked(compile_(each), TEXT, "position()") for each in (node.this, node.args["substr"])
    )
    return Typed(f"CAST(strpos({', '.join(each.sql for each in texts)}) AS INTEGER)", INT)


def _replace(node: Any, compile_: Compile) -> Typed:
    parts = (node.this, node.expression, node.args.get("replacement"))
    if parts[2] is None or not compile_(parts[1]).constant:
        raise apart("replace() of other than a plain text")
    texts = [checked(compile_(each), TEXT, "replace()") for each in parts]
    return Typed(f"replace({', '.join(each.sql for each in texts)})", TEXT)


def _coalesce(node: Any, compile_: Compile) -> Typed:
    return _of_all("coalesce", [node.this, *node.expressions], compile_)


def _extreme(node: Any, compile_: Compile) -> Typed:
    name = type(node).__name__.lower()
    return _of_all(name, [node.this, *node.expressions], compile_, ordered=True)


def _of_all(name: str, nodes: Sequence[Any], compile_: Compile, *, ordered: bool = False) -> Typed:
    values, kind = together([compile_(each) for each in nodes], f"{name}()")
    if ordered and not is_comparable(kind):
        raise apart(f"{name}() of {said(kind)}")
    return Typed(f"{name}({', '.join(each.sql for each in values)})", kind)


def _nullif(node: Any, compile_: Compile) -> Typed:
    one, two = compile_(node.this), compile_(node.expression)
    return Typed(f"CASE WHEN {compared('=', one, two).sql} THEN NULL ELSE {one.sql} END", one.kind)


def _abs(node: Any, compile_: Compile) -> Typed:
    value = _numeric(compile_(node.this), "abs()")
    return Typed(f"abs({value.sql})", value.kind)


def _numeric(value: Typed, what: str) -> Typed:
    if value.kind != NULL and not is_number(value.kind):
        raise apart(f"{what} of {said(value.kind)}", "cast it")
    return null(DOUBLE) if value.kind == NULL else value


def _to_whole(node: Any, compile_: Compile) -> Typed:
    name = type(node).__name__.lower()
    if node.args.get("decimals") is not None:
        raise apart(f"{name}() with digits")
    value = _numeric(compile_(node.this), f"{name}()")
    kind = BIGINT
    if is_decimal(value.kind):
        kind = pa.decimal128(min(38, value.kind.precision - value.kind.scale + 1), 0)
    return Typed(f"CAST({name}({value.sql}) AS {duckdb_type(kind)})", kind)


def _round(node: Any, compile_: Compile) -> Typed:
    value, digits = _numeric(compile_(node.this), "round()"), node.args.get("decimals")
    count = 0 if digits is None else _number(digits)
    if count is None or count > 15 or node.args.get("truncate"):
        raise apart("round() to other than a plain number of digits")
    if is_integer(value.kind):
        return value
    if is_decimal(value.kind):
        scale = min(value.kind.scale, count)
        kind = pa.decimal128(min(38, value.kind.precision - value.kind.scale + 1 + scale), scale)
        return Typed(f"CAST({value.sql} AS {duckdb_type(kind)})", kind)
    if value.kind != DOUBLE:
        raise apart("round() of float", "CAST it to DOUBLE")
    # By the digits that are shown, as Java does, and not by those of the binary fraction.
    exact = f"CAST(CAST({value.sql} AS VARCHAR) AS DECIMAL(38, {count}))"
    rounded = f"CAST(CAST({exact} AS VARCHAR) AS DOUBLE)"
    return Typed(
        f"CASE WHEN abs({value.sql}) < {_EXACT} THEN {rounded} ELSE {value.sql} END", DOUBLE
    )


def _sqrt(node: Any, compile_: Compile) -> Typed:
    value = fitted(_numeric(compile_(node.this), "sqrt()"), DOUBLE)
    is_below = f"{value.sql} < 0"
    return Typed(
        f"CASE WHEN {is_below} THEN CAST('NaN' AS DOUBLE) ELSE sqrt({value.sql}) END", DOUBLE
    )


def _is_nan(node: Any, compile_: Compile) -> Typed:
    value = compile_(node.this)
    if not is_floating(value.kind):
        raise apart(f"isnan() of {said(value.kind)}")
    return Typed(f"coalesce(isnan({value.sql}), FALSE)", BOOLEAN)


def _now(node: Any, compile_: Compile) -> Typed:
    return Typed("now()", MOMENT)


def _today(node: Any, compile_: Compile) -> Typed:
    return Typed("CAST(now() AS DATE)", DATE)


_CALLS: dict[str, Callable[[Any, Compile], Typed]] = {
    "Abs": _abs,
    "Ceil": _to_whole,
    "Coalesce": _coalesce,
    "Concat": _concat,
    "Contains": _texts("contains", BOOLEAN),
    "CurrentDate": _today,
    "CurrentTimestamp": _now,
    "DPipe": _concat,
    "DateDiff": _date_diff,
    "DayOfWeek": _day_of_week,
    "EndsWith": _texts("ends_with", BOOLEAN),
    "Extract": _extract,
    "Floor": _to_whole,
    "Greatest": _extreme,
    "IsNan": _is_nan,
    "Least": _extreme,
    "Length": _length,
    "Lower": _cased,
    "Nullif": _nullif,
    "Replace": _replace,
    "Round": _round,
    "Sqrt": _sqrt,
    "StartsWith": _texts("starts_with", BOOLEAN),
    "StrPosition": _position,
    "Substring": _substring,
    "TimestampTrunc": _truncated,
    "Trim": _trim,
    "TsOrDsAdd": _date_add,
    "TsOrDsToDate": _to_date,
    "Upper": _cased,
}


# Functions over rows

AGGREGATES = frozenset({"Avg", "Count", "CountIf", "LogicalAnd", "LogicalOr", "Max", "Min", "Sum"})
WINDOWED = frozenset({"DenseRank", "FirstValue", "Lag", "LastValue", "Lead", "Rank", "RowNumber"})


def aggregate(node: Any, compile_: Compile) -> Aggregate:
    """A function over the rows of a group."""
    name, argument, word = type(node).__name__, node.this, ""
    if type(argument).__name__ == "Distinct":
        if len(argument.expressions) != 1:
            raise apart(f"{name.lower()}(DISTINCT …) of several columns")
        argument, word = argument.expressions[0], "DISTINCT "
    if node.args.get("expressions"):
        raise apart(f"{name.lower()}() of several columns")
    if name == "Count" and (argument is None or type(argument).__name__ == "Star"):
        if word:
            raise apart("count(DISTINCT *)")
        return Aggregate("count(*)", BIGINT)
    if argument is None or type(argument).__name__ == "Star":
        raise InvalidInputError(f"{name.lower()}() takes one column")
    value = compile_(argument)
    if (word or name in ("Max", "Min")) and not is_comparable(value.kind):
        raise apart(f"{name.lower()}({word}…) of {said(value.kind)}")
    return _AGGREGATES[name](value, word)


def _count(value: Typed, word: str) -> Aggregate:
    return Aggregate(f"count({word}{value.sql})", BIGINT)


def _count_if(value: Typed, word: str) -> Aggregate:
    test = checked(value, BOOLEAN, "count_if()").sql
    return Aggregate(f"count({word}CASE WHEN {test} THEN TRUE END)", BIGINT)


def _sum(value: Typed, word: str) -> Aggregate:
    kind = wide_sum(_numeric(value, "sum()").kind)
    value = fitted(value, DOUBLE) if kind == DOUBLE else value
    return Aggregate(f"sum({word}{value.sql})", kind, f"CAST({{}} AS {duckdb_type(kind)})")


def _avg(value: Typed, word: str) -> Aggregate:
    if is_decimal(_numeric(value, "avg()").kind):
        raise apart(f"avg() of {said(value.kind)}", "CAST it to DOUBLE")
    return Aggregate(f"avg({word}{fitted(value, DOUBLE).sql})", DOUBLE)


def _extremes(name: str) -> Callable[[Typed, str], Aggregate]:
    return lambda value, word: Aggregate(f"{name}({word}{value.sql})", value.kind)


def _logical(name: str) -> Callable[[Typed, str], Aggregate]:
    return lambda value, word: Aggregate(
        f"{name}({word}{checked(value, BOOLEAN, f'{name}()').sql})", BOOLEAN
    )


_AGGREGATES: dict[str, Callable[[Typed, str], Aggregate]] = {
    "Avg": _avg,
    "Count": _count,
    "CountIf": _count_if,
    "LogicalAnd": _logical("bool_and"),
    "LogicalOr": _logical("bool_or"),
    "Max": _extremes("max"),
    "Min": _extremes("min"),
    "Sum": _sum,
}


def windowed(node: Any, compile_: Compile) -> Aggregate:
    """A function that needs OVER."""
    name = type(node).__name__
    if name in ("RowNumber", "Rank", "DenseRank"):
        word = {"RowNumber": "row_number", "Rank": "rank", "DenseRank": "dense_rank"}[name]
        return Aggregate(f"{word}()", INT, "CAST({} AS INTEGER)")
    value = compile_(node.this)
    if name in ("FirstValue", "LastValue"):
        return Aggregate(f"{name[:-5].lower()}_value({value.sql})", value.kind)
    offset = 1 if node.args.get("offset") is None else _number(node.args["offset"])
    if offset is None or node.args.get("default") is not None:
        raise apart(f"{name.lower()}() with a default, or by other than a plain number")
    return Aggregate(f"{name.lower()}({value.sql}, {offset})", value.kind)
