"""``diff('photos', 'v1', 'v2')`` in FROM: the rows that differ between two revisions of a table.

A call has the name of a table, one or two revisions, and perhaps ``on => 'id'``. Without the second
revision it is the table as the query has it otherwise. Only what a query uses is shown of both
states, but all columns are compared: what differs does not depend on the query.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import pyarrow as pa

from lancewood.engine.snapshot import Snapshot
from lancewood.errors import InvalidInputError
from lancewood.expr import parse_predicate
from lancewood.query.predicates import Condition
from lancewood.query.text import Query
from lancewood.table.diffs import Diff, diff_of

NAME = "diff"
CHANGE, SIDES = "_change", ("before", "after")
_CHANGES = pa.array(["deleted", "inserted", "updated"])
_TAKES = (
    "diff takes the name of a table and one or two revisions of it, such as "
    "diff('photos', 'v1', 'main'), and perhaps on => 'id', the columns of a key"
)
_MOST_DIGITS = 18

Revision: TypeAlias = str | int


@dataclass(frozen=True)
class DiffCall:
    """What a query asks to be compared."""

    table: str
    revisions: tuple[Revision, ...]
    """One or two."""
    on: tuple[str, ...] | None
    sql: str
    """The call as it was written."""


def is_diff(node: Any) -> bool:
    """Whether a table of FROM is a call of ours."""
    if type(node.this).__name__ != "Anonymous" or node.args.get("db"):
        return False
    return str(node.this.name).lower() == NAME


def read_call(node: Any, sql: str) -> DiffCall:
    """The arguments of a call; raises InvalidInputError for any that are not what it takes."""
    given, on = list[Revision](), None
    for each in node.this.expressions:
        if type(each).__name__ == "Kwarg":
            if str(each.this.name).lower() != "on" or on is not None:
                raise InvalidInputError(f"{sql}: {_TAKES}; found {each.sql('spark')}")
            on = _columns(each.expression, sql)
        elif on is not None:
            raise InvalidInputError(f"{sql}: {_TAKES}; on comes last")
        else:
            given.append(_literal(each, sql))
    if not 2 <= len(given) <= 3 or not isinstance(given[0], str):
        raise InvalidInputError(f"{sql}: {_TAKES}")
    if not given[0] or "@" in given[0]:
        raise InvalidInputError(
            f"{sql}: {given[0]!r} is not the name of a table alone; revisions are the arguments "
            "after it"
        )
    if node.args.get("version") is not None:
        raise InvalidInputError(f"{sql} has no versions: its arguments say what is compared")
    return DiffCall(given[0], tuple(given[1:]), on, sql)


def _literal(node: Any, sql: str) -> Revision:
    if type(node).__name__ == "Literal":
        text = str(node.this)
        if node.args.get("is_string"):
            return text
        if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS and int(text):
            return int(text)
    raise InvalidInputError(
        f"{sql}: {_TAKES}; {node.sql('spark')} is neither a text in quotes nor the number of a "
        "version"
    )


def _columns(node: Any, sql: str) -> tuple[str, ...]:
    text = str(node.this) if type(node).__name__ == "Literal" and node.is_string else ""
    names = tuple(each.strip() for each in text.split(","))
    if not all(names):
        raise InvalidInputError(f"{sql}: on takes names of columns, such as on => 'id'")
    return names


@dataclass(frozen=True, eq=False)
class TableDiff:
    """Two states of a table to be compared, and what is shown of the rows that differ."""

    diff: Diff
    one: Snapshot
    other: Snapshot

    @classmethod
    def of(cls, one: Snapshot, other: Snapshot, on: Sequence[str] | None) -> TableDiff:
        """Raises InvalidInputError for an ``on`` that cannot be a key, and for two tables without a
        key."""
        return cls(diff_of(one, other, on=on), one, other)

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """What comes out."""
        return self.diff.arrow_schema

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows, with some of the columns."""
        return (each.select(columns) for each in self.diff.to_batches())

    def narrowed(
        self,
        query: Query,
        exposed: str,
        columns: Sequence[str] | None,
        conditions: Sequence[Condition],
    ) -> TableDiff:
        """The same with only those fields of both states that a query may use, and those kinds of
        changes for which conditions may hold. ``columns`` are those that it may use, None all."""
        before, after = (self._fields(query, exposed, columns, side) for side in SIDES)
        return replace(self, diff=self.diff._narrowed(_kinds(conditions), before, after))

    def _fields(
        self, query: Query, exposed: str, columns: Sequence[str] | None, side: str
    ) -> tuple[str, ...]:
        if columns is not None and side not in columns:
            return ()
        known = tuple(each.name for each in self.arrow_schema.field(side).type)
        wanted = None if columns is None else used_fields(query, exposed, side)
        found = tuple(each for each in known if wanted is None or each.lower() in wanted)
        return found or known


def used_fields(query: Query, exposed: str, side: str) -> frozenset[str] | None:
    """The fields of a struct that a query may use, in lower case; None if it may use all."""
    from sqlglot import exp

    if exposed.lower() in SIDES or side in {each.lower() for each in query.words}:
        return None
    wanted: set[str] = set()
    for node in query.tree.find_all(exp.Identifier):
        parent = node.parent
        if str(node.name).lower() != side:
            continue
        if isinstance(parent, exp.Alias | exp.TableAlias | exp.CTE | exp.Table):
            continue
        if not isinstance(parent, exp.Column):
            return None
        parts = [str(each.name).lower() for each in parent.parts]
        below = parts[parts.index(side) + 1 :]
        if not below:
            return None
        wanted.add(below[0])
    return frozenset(wanted)


def _kinds(conditions: Sequence[Condition]) -> tuple[str, ...]:
    """The kinds of changes for which conditions about them hold."""
    rows = pa.RecordBatch.from_arrays([_CHANGES], names=[CHANGE])
    for each in conditions:
        predicate = parse_predicate(each.sql, rows.schema, each.parameters)
        rows = rows.filter(predicate.mask(rows))
    return tuple(rows.column(0).to_pylist())
