"""Which conditions of a SELECT, and which LIMIT, may be asked of a table before all is joined.

The condition stays in the query, too. So it may be asked of a table when every row of the result
that a lost row would have been in is lost anyway, and when none appears in its place. That is
the business of joins: one side of an outer join is filled with nulls where the other finds
nothing. LIMIT is for rows of one table, as they come. Knows nothing of types or constants.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from lancewood.query.clauses import plain_number


class JoinKind(Enum):
    """How a table is joined to what stands before it."""

    FIRST = auto()
    INNER = auto()
    LEFT = auto()
    RIGHT = auto()
    FULL = auto()
    SEMI = auto()
    ANTI = auto()


_OF_LEFT = frozenset({JoinKind.INNER, JoinKind.RIGHT, JoinKind.SEMI})
"""Joins that lose rows of what stands before them where their condition is not true."""
_OF_RIGHT = frozenset({JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI})
"""Joins that do nothing with rows of their own table where their condition is not true."""

_MOST_ROWS = (1 << 31) - 1
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


@dataclass(frozen=True)
class Asked:
    """A condition that may be asked of a table."""

    node: Any
    may_hold_for_nulls: bool
    """Whether it may be asked even if it is true of a row of nulls."""
    is_where: bool


@dataclass(frozen=True)
class Joined:
    """The tables of one SELECT, in the order of the text, and how each is joined."""

    select: Any
    nodes: tuple[Any, ...]
    kinds: tuple[JoinKind, ...]
    conditions: tuple[Any, ...]
    """What ON says for each; None where it says nothing."""

    def asked_of(self, at: int) -> Iterator[Asked]:
        """All conditions that could be about the table at a place, if only that.

        What SEMI and ANTI join is not seen after its ON: there, its names are those of others.
        """
        if self.kinds[at] in (JoinKind.SEMI, JoinKind.ANTI):
            yield from (Asked(each, True, False) for each in conjuncts(self.conditions[at]))
            return
        where = self.select.args.get("where")
        if where is not None:
            never_null = not self._is_nullable(at, len(self.nodes))
            yield from (Asked(each, never_null, True) for each in conjuncts(where.this))
        for place in range(max(at, 1), len(self.nodes)):
            on, kind = self.conditions[place], self.kinds[place]
            if on is None or kind not in (_OF_RIGHT if place == at else _OF_LEFT):
                continue
            never_null = place == at or not self._is_nullable(at, place)
            yield from (Asked(each, never_null, False) for each in conjuncts(on))

    def _is_nullable(self, at: int, before: int) -> bool:
        """Whether joins before a place may put nulls where rows of a table should be."""
        if self.kinds[at] in (JoinKind.LEFT, JoinKind.FULL):
            return True
        return any(each in (JoinKind.RIGHT, JoinKind.FULL) for each in self.kinds[at + 1 : before])


def joined_tables(select: Any) -> Joined | None:
    """The tables of a SELECT; None where something stands between them and the conditions."""
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
    """The conditions that AND joins; none of None."""
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
    """None for a join that Spark does not have, or that is not known here."""
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

    ``rest`` are conditions that are not asked of the table.
    """
    select = joined.select
    limit = _number_of(select.args.get("limit"))
    if limit is None or len(joined.nodes) > 1 or rest:
        return None
    if any(select.args.get(each) for each in _IN_THE_WAY):
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
