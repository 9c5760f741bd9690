"""Operators that mean the same in both engines, and how each is said in DuckDB.

Knows types, and no names.
"""

from __future__ import annotations

from lancewood.query.kinds import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    NULL,
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
from lancewood.query.moments import days
from lancewood.query.typed import (
    Typed,
    apart,
    failing,
    fitted,
    null,
    together,
)


def arithmetic(operator: str, left: Typed, right: Typed) -> Typed:
    """``+ - * / % div``."""
    if is_temporal(left.kind) or is_temporal(right.kind):
        return days(operator, left, right)
    for each in (left, right):
        if each.kind != NULL and not is_number(each.kind):
            raise apart(f"{operator} of {said(left.kind)} and {said(right.kind)}", "cast them")
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


def compared(operator: str, left: Typed, right: Typed) -> Typed:
    """``= <> < <= > >=``, and IS (NOT) DISTINCT FROM."""
    (left, right), kind = together([left, right], operator)
    if not is_comparable(kind):
        raise apart(f"{operator} of {said(kind)}")
    return Typed(f"({left.sql} {operator} {right.sql})", BOOLEAN)
