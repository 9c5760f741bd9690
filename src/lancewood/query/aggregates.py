"""Functions over rows, with and without OVER, that mean the same in both engines.

A function is known by sqlglot's name for it. Knows types, and no names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa

from lancewood.errors import InvalidInputError
from lancewood.query.clauses import plain_number
from lancewood.query.kinds import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    duckdb_type,
    is_comparable,
    is_decimal,
    said,
)
from lancewood.query.typed import (
    Compile,
    Typed,
    apart,
    checked,
    fitted,
    numeric,
    wide_sum,
)

AGGREGATES = frozenset({"Avg", "Count", "CountIf", "LogicalAnd", "LogicalOr", "Max", "Min", "Sum"})
WINDOWED = frozenset({"DenseRank", "FirstValue", "Lag", "LastValue", "Lead", "Rank", "RowNumber"})


class Aggregate(NamedTuple):
    """A function over rows: the call, and what is made of its result after OVER or FILTER."""

    call: str
    kind: pa.DataType
    result: str = "{}"


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
    kind = wide_sum(numeric(value, "sum()").kind)
    value = fitted(value, DOUBLE) if kind == DOUBLE else value
    return Aggregate(f"sum({word}{value.sql})", kind, f"CAST({{}} AS {duckdb_type(kind)})")


def _avg(value: Typed, word: str) -> Aggregate:
    if is_decimal(numeric(value, "avg()").kind):
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
    offset = 1 if node.args.get("offset") is None else plain_number(node.args["offset"])
    if offset is None or node.args.get("default") is not None:
        raise apart(f"{name.lower()}() with a default, or by other than a plain number")
    return Aggregate(f"{name.lower()}({value.sql}, {offset})", value.kind)


def has_aggregates(node: Any) -> bool:
    """Whether an expression holds a function over a group's rows; not those of windows and of
    queries inside."""
    from sqlglot import exp

    stack = [node]
    while stack:
        each = stack.pop()
        if isinstance(each, exp.Query):
            continue
        if type(each).__name__ in AGGREGATES:
            return True
        inner = list(each.iter_expressions())
        if isinstance(each, exp.Window):
            inner = [one for part in inner if part is each.this for one in part.iter_expressions()]
        stack += inner
    return False
