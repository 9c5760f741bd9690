"""Operators and functions of values that mean the same in Spark and in DuckDB, as DuckDB's SQL.

A function is looked up by sqlglot's name for it. Anything that is not here is left to Spark: DuckDB
may have a function of the same name that means something else.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from lancewood.query.clauses import called, plain_number
from lancewood.query.kinds import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DOUBLE,
    INT,
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
    type_name,
)
from lancewood.query.literals import CALLS, days
from lancewood.query.typed import (
    Call,
    Compile,
    Typed,
    as_text,
    checked,
    failing,
    fitted,
    null,
    numeric,
    only_spark,
    together,
)

_NEWER = "\u1c89\u1c8a\ua7cb-\ua7dc\U00010d50-\U00010d85\U00016ea0-\U00016ed3"
UPPER_APART = (
    "\u00df\u0149\u019b\u01f0\u0264\u0390\u03b0\u0587\u1e96-\u1e9a\u1f50-\u1f56\u1f80-\u1fff"
    f"\ufb00-\ufb17{_NEWER}"
)
LOWER_APART = f"\u0130\u03a3{_NEWER}"
"""Letters whose other case is several letters, depends on the end of a word, or is too new: Spark's
result differs from DuckDB's. Found by comparing both."""
_WHOLE = 1 << 52
"""From here on a double has no digits after the decimal point."""


def arithmetic(operator: str, left: Typed, right: Typed) -> Typed:
    """``+ - * / % div``."""
    if is_temporal(left.kind) or is_temporal(right.kind):
        return days(operator, left, right)
    for each in (left, right):
        if each.kind != NULL and not is_number(each.kind):
            raise only_spark(
                f"{operator} of {type_name(left.kind)} and {type_name(right.kind)}", "cast them"
            )
    if left.kind == NULL:
        left = null(DOUBLE if right.kind == NULL else right.kind)
    right = null(left.kind) if right.kind == NULL else right
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
    """Like Spark, fail where a value is divided by zero."""
    zero = f"({right.sql}) = 0 AND ({left.sql}) IS NOT NULL"
    stop = failing(f"the query {does} by zero; leave such rows out, or use nullif(…, 0)")
    return f"CASE WHEN {zero} THEN {stop} ELSE ({left.sql} {operator} {right.sql}) END"


def _whole_division(left: Typed, right: Typed) -> Typed:
    if not (is_integer(left.kind) and is_integer(right.kind)):
        raise only_spark(f"div of {type_name(left.kind)} and {type_name(right.kind)}")
    left, right = fitted(left, BIGINT), fitted(right, BIGINT)
    return Typed(_by_divisor("//", left, right, "divides"), BIGINT)


def _exact(operator: str, left: Typed, right: Typed) -> Typed:
    one, two = as_decimal(left.kind, left.constant), as_decimal(right.kind, right.constant)
    if operator in ("/", "%"):
        raise only_spark(
            f"{operator} of {type_name(left.kind)} and {type_name(right.kind)}",
            "CAST one of them to DOUBLE",
        )
    if operator == "*":
        kind = decimal(one.precision + two.precision + 1, one.scale + two.scale)
    else:
        scale = max(one.scale, two.scale)
        whole = max(one.precision - one.scale, two.precision - two.scale)
        kind = decimal(whole + scale + 1, scale)
    if kind is None:
        raise only_spark(
            f"{operator} of {type_name(one)} and {type_name(two)}", "it takes more than 38 digits"
        )
    if operator != "*":
        one = two = kind
    sql = f"({fitted(left, one).sql} {operator} {fitted(right, two).sql})"
    return Typed(f"CAST({sql} AS {duckdb_type(kind)})", kind)


def compared(operator: str, left: Typed, right: Typed) -> Typed:
    """``= <> < <= > >=``, and IS (NOT) DISTINCT FROM."""
    (left, right), kind = together([left, right], operator)
    if not is_comparable(kind):
        raise only_spark(f"{operator} of {type_name(kind)}")
    return Typed(f"({left.sql} {operator} {right.sql})", BOOLEAN)


def call(node: Any, compile_: Compile) -> Typed | None:
    """A function of values; None for an unknown one."""
    found = _CALLS.get(type(node).__name__)
    return None if found is None else found(node, compile_)


def _abs(node: Any, compile_: Compile) -> Typed:
    value = numeric(compile_(node.this), called(node))
    return Typed(f"abs({value.sql})", value.kind)


def _to_whole(node: Any, compile_: Compile) -> Typed:
    name = type(node).__name__.lower()
    if node.args.get("decimals") is not None:
        raise only_spark(f"{called(node)} with digits")
    value = numeric(compile_(node.this), called(node))
    kind = BIGINT
    if is_decimal(value.kind):
        kind = pa.decimal128(min(38, value.kind.precision - value.kind.scale + 1), 0)
    return Typed(f"CAST({name}({value.sql}) AS {duckdb_type(kind)})", kind)


def _round(node: Any, compile_: Compile) -> Typed:
    value, digits = numeric(compile_(node.this), called(node)), node.args.get("decimals")
    count = 0 if digits is None else plain_number(digits)
    if count is None or count > 15 or node.args.get("truncate"):
        raise only_spark("round() to other than a plain number of digits")
    if is_integer(value.kind):
        return value
    if is_decimal(value.kind):
        scale = min(value.kind.scale, count)
        kind = pa.decimal128(min(38, value.kind.precision - value.kind.scale + 1 + scale), scale)
        return Typed(f"CAST({value.sql} AS {duckdb_type(kind)})", kind)
    if value.kind != DOUBLE:
        raise only_spark("round() of float", "CAST it to DOUBLE")
    # By the decimal digits, as Java does, and not by those of the binary fraction.
    exact = f"CAST(CAST({value.sql} AS VARCHAR) AS DECIMAL(38, {count}))"
    rounded = f"CAST(CAST({exact} AS VARCHAR) AS DOUBLE)"
    return Typed(
        f"CASE WHEN abs({value.sql}) < {_WHOLE} THEN {rounded} ELSE {value.sql} END", DOUBLE
    )


def _sqrt(node: Any, compile_: Compile) -> Typed:
    value = fitted(numeric(compile_(node.this), called(node)), DOUBLE)
    is_below = f"{value.sql} < 0"
    return Typed(
        f"CASE WHEN {is_below} THEN CAST('NaN' AS DOUBLE) ELSE sqrt({value.sql}) END", DOUBLE
    )


def _is_nan(node: Any, compile_: Compile) -> Typed:
    value = compile_(node.this)
    if not is_floating(value.kind):
        raise only_spark(f"{called(node)} of {type_name(value.kind)}")
    return Typed(f"coalesce(isnan({value.sql}), FALSE)", BOOLEAN)


def _cased(node: Any, compile_: Compile) -> Typed:
    word = type(node).__name__.lower()
    value = checked(compile_(node.this), TEXT, called(node))
    return Typed(cased(word, value.sql), TEXT)


def cased(word: str, sql: str) -> str:
    """upper or lower; a letter that Java maps differently ends the query with an error."""
    letters = UPPER_APART if word == "upper" else LOWER_APART
    stop = failing(f"{word}() met a letter whose {word} case only Java knows; ask with --spark")
    return f"CASE WHEN regexp_matches({sql}, '[{letters}]') THEN {stop} ELSE {word}({sql}) END"


def _length(node: Any, compile_: Compile) -> Typed:
    value = compile_(node.this)
    if value.kind == BINARY:
        return Typed(f"CAST(octet_length({value.sql}) AS INTEGER)", INT)
    return Typed(f"CAST(length({checked(value, TEXT, called(node)).sql}) AS INTEGER)", INT)


def _trim(node: Any, compile_: Compile) -> Typed:
    if node.expression:
        raise only_spark(f"{called(node)} of other characters than spaces")
    side = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position")), "trim")
    return Typed(f"{side}({checked(compile_(node.this), TEXT, called(node)).sql}, ' ')", TEXT)


def _concat(node: Any, compile_: Compile) -> Typed:
    parts = node.expressions or [node.this, node.expression]
    values = [as_text(compile_(each), called(node)) for each in parts]
    return Typed("(" + " || ".join(each.sql for each in values) + ")", TEXT)


def _substring(node: Any, compile_: Compile) -> Typed:
    value = checked(compile_(node.this), TEXT, called(node))
    start, length = plain_number(node.args.get("start")), plain_number(node.args.get("length"))
    if not start or (node.args.get("length") is not None and length is None):
        raise only_spark(f"{called(node)} with other than plain numbers from 1 on")
    more = "" if length is None else f", {length}"
    return Typed(f"substring({value.sql}, {start}{more})", TEXT)


def _texts(name: str, kind: pa.DataType) -> Call:
    def build(node: Any, compile_: Compile) -> Typed:
        values = [compile_(each) for each in (node.this, node.expression)]
        listed = ", ".join(checked(each, TEXT, called(node)).sql for each in values)
        return Typed(f"{name}({listed})", kind)

    return build


def _position(node: Any, compile_: Compile) -> Typed:
    if node.args.get("position") is not None or node.args.get("occurrence") is not None:
        raise only_spark("a search that does not begin at the beginning")
    texts = (
        checked(compile_(each), TEXT, called(node)) for each in (node.this, node.args["substr"])
    )
    return Typed(f"CAST(strpos({', '.join(each.sql for each in texts)}) AS INTEGER)", INT)


def _replace(node: Any, compile_: Compile) -> Typed:
    parts = (node.this, node.expression, node.args.get("replacement"))
    if parts[2] is None or not compile_(parts[1]).constant:
        raise only_spark("replace() of other than a plain text")
    texts = [checked(compile_(each), TEXT, "replace()") for each in parts]
    return Typed(f"replace({', '.join(each.sql for each in texts)})", TEXT)


def _array_contains(node: Any, compile_: Compile) -> Typed:
    """Whether a list has a value; unknown where it has not, but a null instead."""
    listed, value = compile_(node.this), compile_(node.expression)
    if not pt.is_list(listed.kind) or listed.kind.value_type != value.kind:
        raise only_spark(f"{called(node)} of {type_name(listed.kind)} and {type_name(value.kind)}")
    if not is_comparable(value.kind) or is_floating(value.kind):
        raise only_spark(f"{called(node)} of {type_name(value.kind)}")
    return Typed(
        f"CASE WHEN {value.sql} IS NULL THEN NULL WHEN list_contains({listed.sql}, {value.sql}) "
        f"THEN TRUE WHEN list_count({listed.sql}) < len({listed.sql}) THEN NULL "
        f"WHEN {listed.sql} IS NOT NULL THEN FALSE END",
        BOOLEAN,
    )


def _of_all(node: Any, compile_: Compile) -> Typed:
    """coalesce, greatest and least."""
    name = type(node).__name__.lower()
    given = [compile_(each) for each in (node.this, *node.expressions)]
    values, kind = together(given, called(node))
    if name != "coalesce" and not is_comparable(kind):
        raise only_spark(f"{called(node)} of {type_name(kind)}")
    return Typed(f"{name}({', '.join(each.sql for each in values)})", kind)


def _nullif(node: Any, compile_: Compile) -> Typed:
    one, two = compile_(node.this), compile_(node.expression)
    return Typed(f"CASE WHEN {compared('=', one, two).sql} THEN NULL ELSE {one.sql} END", one.kind)


_CALLS: dict[str, Call] = {
    **CALLS,
    "Abs": _abs,
    "ArrayContains": _array_contains,
    "Ceil": _to_whole,
    "Coalesce": _of_all,
    "Concat": _concat,
    "Contains": _texts("contains", BOOLEAN),
    "DPipe": _concat,
    "EndsWith": _texts("ends_with", BOOLEAN),
    "Floor": _to_whole,
    "Greatest": _of_all,
    "IsNan": _is_nan,
    "Least": _of_all,
    "Length": _length,
    "Lower": _cased,
    "Nullif": _nullif,
    "Replace": _replace,
    "Round": _round,
    "Sqrt": _sqrt,
    "StartsWith": _texts("starts_with", BOOLEAN),
    "StrPosition": _position,
    "Substring": _substring,
    "Trim": _trim,
    "Upper": _cased,
}
