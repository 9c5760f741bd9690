"""Functions over rows, with and without OVER, that mean the same in both engines.

Functions are looked up by sqlglot's names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa

from lancewood.errors import InvalidInputError
from lancewood.query.clauses import called, plain_number
from lancewood.query.kinds import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    duckdb_type,
    is_comparable,
    is_decimal,
    type_name,
)
from lancewood.query.typed import (
    Compile,
    Typed,
    checked,
    fitted,
    numeric,
    only_spark,
    wide_sum,
)

AGGREGATES = frozenset({"Avg", "Count", "CountIf", "LogicalAnd", "LogicalOr", "Max", "Min", "Sum"})
WINDOWED = frozenset({"DenseRank", "FirstValue", "Lag", "LastValue", "Lead", "Rank", "RowNumber"})


class Aggregate(NamedTuple):
    """A function over rows: the call, and what is applied to its result after OVER or FILTER."""

    call: str
    kind: pa.DataType
    result: str = "{}"


_Made = Callable[[Typed, str, str], Aggregate]
"""Makes an aggregate from a value, DISTINCT or nothing, and the function's name."""


def aggregate(node: Any, compile_: Compile) -> Aggregate:
    """A function over the rows of a group."""
    name, argument, word = type(node).__name__, node.this, ""
    label = called(node)
    if type(argument).__name__ == "Distinct":
        if len(argument.expressions) != 1:
            raise only_spark(f"{label} of several columns, with DISTINCT")
        argument, word = argument.expressions[0], "DISTINCT "
    if node.args.get("expressions"):
        raise only_spark(f"{label} of several columns")
    if name == "Count" and (argument is None or type(argument).__name__ == "Star"):
        if word:
            raise only_spark(f"{label} of all columns, with DISTINCT")
        return Aggregate("count(*)", BIGINT)
    if argument is None or type(argument).__name__ == "Star":
        raise InvalidInputError(f"{label} takes one column")
    value = compile_(argument)
    if (word or name in ("Max", "Min")) and not is_comparable(value.kind):
        raise only_spark(f"{label} of {type_name(value.kind)}")
    return _AGGREGATES[name](value, word, label)


def _count(value: Typed, word: str, label: str) -> Aggregate:
    return Aggregate(f"count({word}{value.sql})", BIGINT)


def _count_if(value: Typed, word: str, label: str) -> Aggregate:
    test = checked(value, BOOLEAN, label).sql
    return Aggregate(f"count({word}CASE WHEN {test} THEN TRUE END)", BIGINT)


def _sum(value: Typed, word: str, label: str) -> Aggregate:
    kind = wide_sum(numeric(value, label).kind)
    value = fitted(value, DOUBLE) if kind == DOUBLE else value
    return Aggregate(f"sum({word}{value.sql})", kind, f"CAST({{}} AS {duckdb_type(kind)})")


def _avg(value: Typed, word: str, label: str) -> Aggregate:
    if is_decimal(numeric(value, label).kind):
        raise only_spark(f"{label} of {type_name(value.kind)}", "CAST it to DOUBLE")
    return Aggregate(f"avg({word}{fitted(value, DOUBLE).sql})", DOUBLE)


def _extremes(name: str) -> _Made:
    return lambda value, word, label: Aggregate(f"{name}({word}{value.sql})", value.kind)


def _logical(name: str) -> _Made:
    return lambda value, word, label: Aggregate(
        f"{name}({word}{checked(value, BOOLEAN, label).sql})", BOOLEAN
    )


_AGGREGATES: dict[str, _Made] = {
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
    offset = 1 if node.args.get("offset") is None else plain_number(node.args["offset"])
    if offset is None or node.args.get("default") is not None:
        raise only_spark(f"{called(node)} with a default, or by other than a plain number")
    return Aggregate(f"{name.lower()}({value.sql}, {offset})", value.kind)


def check_window(function: Any, window: Any) -> None:
    """Raise InvalidInputError for a window that Spark refuses although DuckDB takes it."""
    name, order, spec = type(function).__name__, window.args.get("order"), window.args.get("spec")
    needs_order = name in WINDOWED - {"FirstValue", "LastValue"}
    if type(function.this).__name__ == "Distinct":
        raise InvalidInputError(f"{called(function)} with DISTINCT takes no OVER")
    if needs_order and order is None:
        raise InvalidInputError(f"{called(function)} needs an order: OVER (ORDER BY …)")
    if needs_order and spec is not None:
        raise InvalidInputError(f"{called(function)} takes no frame of ROWS or RANGE")
    if order is None and spec is not None and "RANGE" in frame(spec):
        raise InvalidInputError("a frame of RANGE needs an order: OVER (ORDER BY … RANGE …)")


def frame(spec: Any) -> str:
    """The rows of OVER, as DuckDB's SQL."""
    kind = str(spec.args.get("kind") or "").upper()
    sides = []
    for side in ("start", "end"):
        at, where = spec.args.get(side), str(spec.args.get(f"{side}_side") or "").upper()
        if at is None and side == "end":
            at = "CURRENT ROW"
        if isinstance(at, str):
            sides.append(f"{at.upper()} {where}".strip())
        elif kind == "ROWS" and (count := plain_number(at)) is not None:
            sides.append(f"{count} {where}")
        else:
            raise only_spark("a window frame other than of whole rows")
    if kind not in ("ROWS", "RANGE") or spec.args.get("exclude") is not None:
        raise only_spark("such a window frame")
    return f"{kind} BETWEEN {sides[0]} AND {sides[1]}"


def has_aggregates(node: Any) -> bool:
    """Whether an expression contains a function over a group's rows; windows and subqueries do not
    count."""
    from sqlglot import exp

    stack, over = [node], set()
    while stack:
        each = stack.pop()
        if isinstance(each, exp.Query):
            continue
        if type(each).__name__ in AGGREGATES and id(each) not in over:
            return True
        if isinstance(each, exp.Window):
            over.add(id(filtered(each.this)[0]))
        stack += each.iter_expressions()
    return False


def filtered(node: Any) -> tuple[Any, Any]:
    """A function over rows, and the condition of its FILTER; None without one."""
    is_filter = type(node).__name__ == "Filter"
    return (node.this, node.expression.this) if is_filter else (node, None)
