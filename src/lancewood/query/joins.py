"""Which conditions of a SELECT, and which LIMIT, may be applied to a table before the joins.

The condition stays in the query, too. So it may be applied to a table when every result row that a
dropped row would have been in is dropped anyway, and when none appears in its place. That depends
on the joins: one side of an outer join is filled with nulls where the other finds nothing. LIMIT is
applied to the rows of a single table, in their order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from lancewood.query.clauses import other_clauses, plain_number


class JoinKind(Enum):
    """How a table is joined to what comes before it."""

    FIRST = auto()
    INNER = auto()
    LEFT = auto()
    RIGHT = auto()
    FULL = auto()
    SEMI = auto()
    ANTI = auto()


_OF_LEFT = frozenset({JoinKind.INNER, JoinKind.RIGHT, JoinKind.SEMI})
"""Joins that drop rows of what comes before them where their condition is not true."""
_OF_RIGHT = frozenset({JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI})
"""Joins that ignore rows of their own table where their condition is not true."""

_MOST_ROWS = (1 << 31) - 1
_BESIDE_LIMIT = frozenset({"with_", "expressions", "from_", "where", "limit", "offset"})
"""The clauses of a SELECT with which LIMIT counts rows of its table, or of its condition."""
_ROW_BY_ROW = frozenset(
    {
        *("Alias", "Column", "Identifier", "Star", "Literal", "Boolean", "Null", "Paren", "Dot"),
        *("Add", "Sub", "Mul", "Neg", "EQ", "NEQ", "LT", "LTE", "GT", "GTE"),
        *("And", "Or", "Not", "Is"),
    }
)
"""Expressions that have one value for each row, independent of other rows."""


@dataclass(frozen=True)
class Pushable:
    """A condition that may be applied to a table."""

    node: Any
    may_hold_for_nulls: bool
    """Whether it may be applied even if it is true of a row of nulls."""


@dataclass(frozen=True)
class Joined:
    """The tables of one SELECT, in the order of the text, and how each is joined."""

    select: Any
    nodes: tuple[Any, ...]
    kinds: tuple[JoinKind, ...]
    conditions: tuple[Any, ...]
    """The condition of ON for each; None if there is none."""

    def pushable_to(self, at: int) -> Iterator[Pushable]:
        """All conditions that may be applied to the table at a position, if they are about it
        alone.

        The columns of a SEMI or ANTI join's table are not visible after its ON: there, its names
        mean other tables.
        """
        if self.kinds[at] in (JoinKind.SEMI, JoinKind.ANTI):
            yield from (Pushable(each, True) for each in conjuncts(self.conditions[at]))
            return
        where = self.select.args.get("where")
        if where is not None:
            never_null = not self._is_nullable(at, len(self.nodes))
            yield from (Pushable(each, never_null) for each in conjuncts(where.this))
        for place in range(max(at, 1), len(self.nodes)):
            on, kind = self.conditions[place], self.kinds[place]
            if on is None or kind not in (_OF_RIGHT if place == at else _OF_LEFT):
                continue
            never_null = place == at or not self._is_nullable(at, place)
            yield from (Pushable(each, never_null) for each in conjuncts(on))

    def _is_nullable(self, at: int, before: int) -> bool:
        """Whether joins before a position may replace rows of a table with nulls."""
        if self.kinds[at] in (JoinKind.LEFT, JoinKind.FULL):
            return True
        return any(each in (JoinKind.RIGHT, JoinKind.FULL) for each in self.kinds[at + 1 : before])


def joined_tables(select: Any) -> Joined | None:
    """The tables of a SELECT; None if something comes between them and the conditions."""
    source = select.args.get("from_")
    if source is None or select.args.get("sample") is not None:
        return None
    nodes, kinds, conditions = [source.this], [JoinKind.FIRST], [None]
    for join in select.args.get("joins") or ():
        kind = kind_of_join(join)
        if kind is None or join.args.get("pivots"):
            return None
        nodes.append(join.this)
        kinds.append(kind)
        conditions.append(join.args.get("on"))
    for each in nodes:
        if each.args.get("pivots") or each.args.get("joins"):
            return None
    return Joined(select, tuple(nodes), tuple(kinds), tuple(conditions))


def conjuncts(condition: Any) -> Iterator[Any]:
    """The conditions that are joined by AND; none for None."""
    stack = [] if condition is None else [condition]
    while stack:
        node = stack.pop()
        if type(node).__name__ == "Paren":
            stack.append(node.this)
        elif type(node).__name__ == "And":
            stack += [node.expression, node.this]
        else:
            yield node


def kind_of_join(join: Any) -> JoinKind | None:
    """The kind of a join; None for one that Spark does not have, or that is unknown here."""
    side, kind, method = (
        str(join.args.get(each) or "").upper() for each in ("side", "kind", "method")
    )
    if method not in ("", "NATURAL"):
        return None
    if kind in ("SEMI", "ANTI"):
        return JoinKind[kind] if side in ("", "LEFT") else None
    if kind in ("", "OUTER") and side in ("LEFT", "RIGHT", "FULL"):
        return JoinKind[side]
    if not side and kind in ("", "INNER", "CROSS"):
        return JoinKind.INNER
    return None


def pushed_limit(joined: Joined, rest: Sequence[Any]) -> int | None:
    """How many rows of its only table a SELECT can use; None for all.

    ``rest`` are conditions that are not applied to the table.
    """
    select = joined.select
    limit = _number_of(select.args.get("limit"))
    if limit is None or len(joined.nodes) > 1 or rest:
        return None
    if other_clauses(select, _BESIDE_LIMIT):
        return None
    offset = 0
    if select.args.get("offset") is not None:
        found = _number_of(select.args.get("offset"))
        if found is None:
            return None
        offset = found
    for projection in select.expressions:
        if any(type(each).__name__ not in _ROW_BY_ROW for each in projection.walk()):
            return None
    return limit + offset if limit + offset <= _MOST_ROWS else None


def _number_of(clause: Any) -> int | None:
    """The number of a LIMIT or OFFSET; None for anything else."""
    return None if clause is None else plain_number(clause.args.get("expression"))
