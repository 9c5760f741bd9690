"""What differs between two commits, table by table, as the pins say; opens no table."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from lancewood.catalog.pin import Pin
from lancewood.catalog.tables import TableTree
from lancewood.git.objects import Commit

if TYPE_CHECKING:
    from lancewood.jobs.counts import RowCounts

Kind = Literal["added", "removed", "changed", "moved"]
Renamed: TypeAlias = tuple[tuple[str, str], ...]
Kinds: TypeAlias = tuple[tuple[str, str], ...]
"""Names of indices, each with its kind."""


@dataclass(frozen=True, slots=True)
class TableChange:
    """One table on both sides."""

    name: str
    kind: Kind
    """``moved``: the same rows and columns, pinned at another version or branch."""
    before: Pin | None
    after: Pin | None
    counts: RowCounts | None = None
    """Rows that were inserted, updated and deleted. None if unknown: if a state is gone, and for
    rows that moved in a table with neither stable row ids nor a primary key."""
    is_exact: bool = True
    """False if ``counts.updated`` is an upper bound: at most some 16 MiB of rows that were written
    are read to see which of them hold other values."""
    renamed_columns: Renamed = ()
    """Columns that were only renamed, old and new name; known if ``counts`` is."""
    is_same_rows: bool = False
    """The table was overwritten with the same rows in the same order. Only detected if the data
    files have at most 16 MiB on each side, and no blobs."""
    added_indices: Kinds = ()
    """Indices that are new, or of another kind, each with its kind."""
    removed_indices: Kinds = ()
    """Indices that are gone, or were of another kind, each with its kind."""
    changed_indices: Kinds = ()
    """Indices that were extended, optimized or built anew, each with its kind."""
    is_unrelated: bool = False
    """Two tables of one name: no common ancestor of the commits has it."""

    @property
    def rows(self) -> int | None:
        """The change in the number of rows; None if a pin does not say."""
        counts = [0 if each is None else each.rows for each in (self.before, self.after)]
        if counts[0] is None or counts[1] is None:
            return None
        return counts[1] - counts[0]

    @property
    def fragments(self) -> int:
        """The change in the number of fragments."""
        return _fragments(self.after) - _fragments(self.before)

    @property
    def added_columns(self) -> tuple[str, ...]:
        """Columns that are new, or have another type, as ``name: type``."""
        renamed = {new for _, new in self.renamed_columns}
        return _only_in(self.after, self.before, renamed)

    @property
    def removed_columns(self) -> tuple[str, ...]:
        """Columns that are gone, or had another type."""
        renamed = {old for old, _ in self.renamed_columns}
        return _only_in(self.before, self.after, renamed)


@dataclass(frozen=True, slots=True)
class Shown:
    """A commit, and the tables that it changed."""

    commit: Commit
    changes: tuple[TableChange, ...]


def changed_tables(
    before: TableTree, after: TableTree, names: Collection[str] | None = None
) -> tuple[TableChange, ...]:
    """The tables that differ, by name, or those among the named ones; the pins of others are not
    decoded."""
    found = []
    for name in sorted({*before.names(), *after.names()} if names is None else names):
        if before.blob_hash(name) == after.blob_hash(name):
            continue
        then, now = before.find(name), after.find(name)
        found.append(TableChange(name, _kind(then, now), then, now))
    return tuple(found)


def _kind(before: Pin | None, after: Pin | None) -> Kind:
    if before is None:
        return "added"
    if after is None:
        return "removed"
    return "moved" if before.content == after.content else "changed"


def _only_in(pin: Pin | None, other: Pin | None, renamed: Collection[str]) -> tuple[str, ...]:
    known = () if other is None else other.schema
    return tuple(
        f"{name}: {kind}"
        for name, kind in (() if pin is None else pin.schema)
        if (name, kind) not in known and name not in renamed
    )


def _fragments(pin: Pin | None) -> int:
    return 0 if pin is None else pin.fragments
