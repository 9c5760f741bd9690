"""`diff('photos', 'v1', 'v2')` in FROM: the rows that differ between two revisions of a table.

All columns are compared, whichever a query asks for: what differs does not depend on the query.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import pyarrow as pa

from lancewood.engine.snapshot import Snapshot
from lancewood.query.columns import why_not
from lancewood.query.sources import AddressedSnapshot
from lancewood.table.diffs import Diff, diff_of

NAME = "diff"
TAKES = (
    "diff takes the name of a table and one or two revisions of it, such as "
    "diff('photos', 'v1', 'main'), and perhaps on => 'id', the columns of a key"
)
CHANGE, SIDES = "_change", ("before", "after")
CHANGES = ("deleted", "inserted", "updated")
Revision: TypeAlias = str | int


@dataclass(frozen=True)
class DiffCall:
    """The arguments of a call of `diff`."""

    table: str
    revisions: tuple[Revision, ...]
    """One or two."""
    on: tuple[str, ...] | None
    sql: str
    """The call as it was written."""


@dataclass(frozen=True, eq=False)
class TableDiff:
    """Two states of a table, and the rows in which they differ."""

    diff: Diff
    one: Snapshot
    other: Snapshot

    @classmethod
    def of(cls, one: Snapshot, other: Snapshot, on: Sequence[str] | None) -> TableDiff:
        """Raises InvalidInputError for an `on` that cannot be a key, and for two tables without a
        key."""
        return cls(diff_of(one, other, on=on), one, other)

    def without_others(self) -> TableDiff:
        """The diff with those columns of both sides that DuckDB can hold; all are compared."""
        shown = [_held(self.arrow_schema.field(side).type) for side in SIDES]
        return replace(self, diff=self.diff._narrowed(CHANGES, *shown))

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """The columns of the rows that differ."""
        return self.diff.arrow_schema

    def batches(
        self, columns: Sequence[str], kinds: Collection[str] = CHANGES
    ) -> Iterator[pa.RecordBatch]:
        """Some columns of the rows that differ in one of the ways of `kinds`. A side that is not
        among the columns is compared, but not put together."""
        before, after = (
            [each.name for each in self.arrow_schema.field(side).type] if side in columns else []
            for side in SIDES
        )
        narrowed = self.diff._narrowed(tuple(kinds), before, after)
        return (batch.select(list(columns)) for batch in narrowed.to_batches())


def _held(rows: pa.StructType) -> list[str]:
    """The columns of one side that DuckDB can hold."""
    names = [each.name for each in rows]
    return [each.name for each in rows if why_not(each, names) is None]


Readable: TypeAlias = Snapshot | TableDiff
"""What stands in FROM: a version of a table, or what differs between two."""


def sees(sources: Iterable[Readable], table: Snapshot) -> bool:
    """Whether any of them, a statement's target aside, is a version of the table's branch."""
    states = (
        state
        for each in sources
        for state in ((each.one, each.other) if isinstance(each, TableDiff) else (each,))
        if not isinstance(state, AddressedSnapshot)
    )
    return any(state.location.uri == table.location.uri for state in states)
