"""What differs between two commits: a summary per table, from the pins alone.

No table is opened here. How many rows moved is for ``measuring`` to add; which ones,
for ``Table.changes`` to tell.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, TypeAlias

from lancewood.catalog.pin import Pin
from lancewood.catalog.tables import TableTree
from lancewood.git.objects import Commit
from lancewood.jobs.counts import RowCounts

Kind = Literal["added", "removed", "changed", "moved"]
Renamed: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class TableChange:
    """One table on both sides."""

    name: str
    kind: Kind
    """``moved``: the same rows and columns, recorded at another version or branch."""
    before: Pin | None
    after: Pin | None
    counts: RowCounts | None = None
    """Rows that were inserted, updated and deleted. None where it cannot be told: without stable
    row ids, between two lines of the table, for a state that did not land as it is, or is gone."""
    renamed_columns: Renamed = ()
    """Columns that only have another name, as it was and as it is; where ``counts`` can be told."""
    is_same_rows: bool = False
    """The table was written over, and has the same rows in the same order. Seen only where the data
    files have at most 16 MiB on each side, and no blobs."""
    is_unrelated: bool = False
    """They are two tables of one name, and no commit that leads to both sides has one."""

    @property
    def rows(self) -> int | None:
        """How many rows more there are; None where a pin does not say."""
        counts = [0 if each is None else each.rows for each in (self.before, self.after)]
        if counts[0] is None or counts[1] is None:
            return None
        return counts[1] - counts[0]

    @property
    def fragments(self) -> int:
        """How many fragments more there are."""
        return _fragments(self.after) - _fragments(self.before)

    @property
    def added_columns(self) -> tuple[str, ...]:
        """Columns that are new, or of another type, as ``name: type``."""
        renamed = {new for _, new in self.renamed_columns}
        return _only_in(self.after, self.before, renamed)

    @property
    def removed_columns(self) -> tuple[str, ...]:
        """Columns that are gone, or were of another type."""
        renamed = {old for old, _ in self.renamed_columns}
        return _only_in(self.before, self.after, renamed)


@dataclass(frozen=True, slots=True)
class Shown:
    """A commit, and the tables that it changed."""

    commit: Commit
    changes: tuple[TableChange, ...]


def compare(before: TableTree, after: TableTree) -> tuple[TableChange, ...]:
    """The tables that differ, by name; those that do not are not even decoded."""
    found = []
    for name in sorted({*before.names(), *after.names()}):
        one, other = before.blob_hash(name), after.blob_hash(name)
        if one == other:
            continue
        then = None if one is None else before.pin(name)
        now = None if other is None else after.pin(name)
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
