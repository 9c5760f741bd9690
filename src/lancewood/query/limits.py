"""When LIMIT may be asked of a table: rows of one table, as they come, and no more than so many.

Knows the shape of a SELECT, and nothing of tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lancewood.query.joins import Joined

_MOST = (1 << 31) - 1
_IN_THE_WAY = (
    *("group", "having", "distinct", "windows", "qualify", "order", "sort", "cluster"),
    *("distribute", "laterals", "kind", "match", "connect", "hint", "operation_modifiers"),
)
_ROW_BY_ROW = frozenset(
    {
        *("Alias", "Column", "Identifier", "Star", "Literal", "Boolean", "Null", "Paren", "Dot"),
        *("Add", "Sub", "Mul", "Neg", "EQ", "NEQ", "LT", "LTE", "GT", "GTE"),
        *("And", "Or", "Not", "Is"),
    }
)
"""Expressions that give one value for each row, and need no other row for it."""


def pushed_limit(joined: Joined, rest: Sequence[Any]) -> int | None:
    """How many rows of its only table a SELECT can use; None for all.

    ``rest`` are conditions that are not asked of the table.
    """
    select = joined.select
    limit = _number(select.args.get("limit"))
    if limit is None or len(joined.nodes) > 1 or rest:
        return None
    if any(select.args.get(each) for each in _IN_THE_WAY):
        return None
    offset = 0
    if select.args.get("offset") is not None:
        found = _number(select.args.get("offset"))
        if found is None:
            return None
        offset = found
    for projection in select.expressions:
        if any(type(each).__name__ not in _ROW_BY_ROW for each in projection.walk()):
            return None
    return limit + offset if limit + offset <= _MOST else None


def _number(clause: Any) -> int | None:
    """The number of a LIMIT or OFFSET; None for anything else."""
    expression: Any = None if clause is None else clause.args.get("expression")
    if type(expression).__name__ != "Literal" or expression.args.get("is_string"):
        return None
    text = str(expression.this)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
