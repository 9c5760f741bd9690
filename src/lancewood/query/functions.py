"""The functions of tables that stand in FROM: `diff('photos', 'v1', 'v2')` has the rows that differ
between two revisions, `blame('photos', 'exp')` the rows of one with the versions that wrote them.

All columns are compared or followed, whichever a query asks for: what differs, and who wrote a row,
does not depend on the query.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import pyarrow as pa

from lancewood.engine.snapshot import Snapshot
from lancewood.expr import Predicate
from lancewood.expr.columns import why_not
from lancewood.model.ids import version_words
from lancewood.model.refs import called
from lancewood.query.sources import AddressedSnapshot
from lancewood.table.diffs import Diff, diff_of
from lancewood.table.table import Table

if TYPE_CHECKING:
    from lancewood.jobs.blaming import BlameRows

DIFF, BLAME = "diff", "blame"
CHANGE, SIDES = "_change", ("before", "after")
CHANGES = ("deleted", "inserted", "updated")
Revision: TypeAlias = str | int


class Signature(NamedTuple):
    """What a function takes after the name of a table."""

    takes: str
    """The same in words."""
    revisions: range
    """How many revisions."""
    keyword: str
    """What names columns, in one text with commas between."""


SIGNATURES = {
    DIFF: Signature(
        "diff takes the name of a table and one or two revisions of it, such as "
        "diff('photos', 'v1', 'main'), and perhaps on => 'id', the columns of a key",
        range(1, 3),
        "on",
    ),
    BLAME: Signature(
        "blame takes the name of a table and perhaps a revision of it, such as "
        "blame('photos', 'exp'), and columns => 'price', those whose values count",
        range(2),
        "columns",
    ),
}


@dataclass(frozen=True)
class Call:
    """The arguments of a call."""

    table: str
    revisions: tuple[Revision, ...]
    columns: tuple[str, ...] | None
    """Those of the keyword."""
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

    @property
    def states(self) -> dict[str, Snapshot]:
        return {"from": self.one, "to": self.other}

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """The columns of the rows that differ."""
        return self.diff.arrow_schema

    def gains(self, columns: Sequence[str]) -> bool:
        """Whether there is less to do if a condition on these columns is applied."""
        return columns == (CHANGE,)

    def read(self, columns: Sequence[str], predicate: Predicate | None) -> Iterator[pa.RecordBatch]:
        """Some columns of the rows that meet a condition about the kinds of changes. A side that is
        not among the columns is compared, but not put together."""
        kinds = pa.record_batch({CHANGE: CHANGES})
        if predicate is not None:
            kinds = kinds.filter(predicate.mask(kinds))
        before, after = (
            [each.name for each in self.arrow_schema.field(side).type] if side in columns else []
            for side in SIDES
        )
        narrowed = self.diff._narrowed(kinds.column(0).to_pylist(), before, after)
        return (batch.select(list(columns) or [CHANGE]) for batch in narrowed.to_batches())


@dataclass(frozen=True, eq=False)
class TableBlame:
    """A state of a table, and who wrote its rows."""

    rows: BlameRows

    @classmethod
    def of(cls, snapshot: Snapshot, columns: Sequence[str] | None) -> TableBlame:
        """The rows with all columns that DuckDB can hold; the values of `columns` count. Raises
        what ``Table.blame`` raises."""
        shown = _held(snapshot.arrow_schema)
        return cls(Table(snapshot).blame(columns=columns, show=shown)._rows)

    @property
    def states(self) -> dict[str, Snapshot]:
        return {"version": self.rows.snapshot}

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns of the table, between the row's id and its writers."""
        return self.rows.schema

    def gains(self, columns: Sequence[str]) -> bool:
        """Whether a condition on these columns leaves out rows before they are followed."""
        return set(columns) <= set(self.rows.shown)

    def read(self, columns: Sequence[str], predicate: Predicate | None) -> Iterator[pa.RecordBatch]:
        """Some columns of the rows that meet a condition about columns of the table."""
        shown = tuple(each for each in self.rows.shown if each in columns)
        found = replace(self.rows, shown=shown, predicate=predicate)
        return (batch.select(list(columns)) for batch in found.batches())


def _held(rows: Iterable[pa.Field]) -> list[str]:
    """The columns of some rows that DuckDB can hold."""
    fields = list(rows)
    names = [each.name for each in fields]
    return [each.name for each in fields if why_not(each, names) is None]


Readable: TypeAlias = Snapshot | TableDiff | TableBlame
"""What stands in FROM: a version of a table, or what a function makes of one or two."""


def states_of(source: Readable) -> dict[str, Snapshot]:
    """The versions of a table that are read, by what they are called in a plan."""
    return {"version": source} if isinstance(source, Snapshot) else source.states


def state_lines(source: Readable) -> Iterator[str]:
    """The versions of a table that are read, in lines of a plan."""
    for word, state in states_of(source).items():
        number = version_words(state.manifest.version)
        number = number.removeprefix("version ") if word == "version" else number
        yield f"  {word:8} {number} of {called(state.manifest.branch)}, {state.location.uri}"


def sees(sources: Iterable[Readable], table: Snapshot) -> bool:
    """Whether any of them, a statement's target aside, is a version of the table's branch."""
    states = (state for each in sources for state in states_of(each).values())
    return any(
        state.location.uri == table.location.uri and not isinstance(state, AddressedSnapshot)
        for state in states
    )
