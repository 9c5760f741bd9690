"""What differs between two commits, table by table: from the pins, and measured in rows.

Comparing pins opens no table. Measuring counts rows by what happened to them, and finds renamed
columns. It relies on row ids, without reading columns, so the later state must be built on the
earlier one in the history of the table. Otherwise, or if something needed was cleaned up, there is
only what the pins say. Small tables are read in full to find out that one was overwritten with the
same rows. Which rows changed is for ``Table.changes``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import pyarrow as pa

from lancewood.catalog.pin import Pin
from lancewood.catalog.tables import TableTree
from lancewood.engine.schema import find_earlier
from lancewood.engine.snapshot import Descent, Snapshot
from lancewood.errors import LancewoodError
from lancewood.git.hashes import Hash
from lancewood.git.history import merge_bases
from lancewood.git.objects import Commit
from lancewood.jobs.counts import RowCounts
from lancewood.repo.context import RepoContext
from lancewood.repo.landing import landed_version
from lancewood.table.changes import changes_between
from lancewood.table.table import Table

Kind = Literal["added", "removed", "changed", "moved"]
Renamed: TypeAlias = tuple[tuple[str, str], ...]
_MOST_READ = 16 << 20
"""The most bytes of data files on each side that are read to compare rows."""


@dataclass(frozen=True, slots=True)
class TableChange:
    """One table on both sides."""

    name: str
    kind: Kind
    """``moved``: the same rows and columns, pinned at another version or branch."""
    before: Pin | None
    after: Pin | None
    counts: RowCounts | None = None
    """Rows that were inserted, updated and deleted. None if unknown: without stable row ids,
    between two lines of the table's history, or for a state that did not land unchanged or is
    gone."""
    renamed_columns: Renamed = ()
    """Columns that were only renamed, old and new name; known if ``counts`` is."""
    is_same_rows: bool = False
    """The table was overwritten with the same rows in the same order. Only detected if the data
    files have at most 16 MiB on each side, and no blobs."""
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


def compare(before: TableTree, after: TableTree) -> tuple[TableChange, ...]:
    """The tables that differ, by name; the pins of others are not decoded."""
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


def measured(context: RepoContext, changes: Iterable[TableChange]) -> tuple[TableChange, ...]:
    """The same changes, with what is known about their rows."""
    return tuple(_measured(context, each) for each in changes)


def mark_unrelated(
    context: RepoContext, changes: Iterable[TableChange], one: Hash, other: Hash
) -> Iterator[TableChange]:
    """The changes between two commits, with those marked where both sides made the table: no merge
    base has it, and the two share no row."""
    bases = [context.tree(each) for each in merge_bases(context.git.objects, one, other)]
    for each in changes:
        is_old = any(base.blob_hash(each.name) is not None for base in bases)
        is_apart = each.kind == "changed" and not is_old and not _has_common_rows(each)
        yield replace(each, is_unrelated=True, counts=None) if is_apart else each


def _has_common_rows(change: TableChange) -> bool:
    counts, before = change.counts, change.before
    is_kept = counts is not None and before is not None and counts.deleted != before.rows
    return is_kept or change.is_same_rows


def _measured(context: RepoContext, change: TableChange) -> TableChange:
    before, after = change.before, change.after
    if before is None or after is None:
        gone, new = (0 if each is None else each.rows for each in (before, after))
        if gone is None or new is None:
            return change
        return replace(change, counts=RowCounts(inserted=new, deleted=gone))
    if change.kind == "moved":
        return replace(change, counts=RowCounts())
    try:
        return _between(context, change, before, after)
    except LancewoodError:  # status and fsck report a state that cannot be read
        return change


def _between(context: RepoContext, change: TableChange, before: Pin, after: Pin) -> TableChange:
    # Only versions of the history have row ids that mean something to each other.
    one, other = (landed_version(context, each) for each in (before, after))
    if one is None or other is None:
        return change
    counts: RowCounts | None = None
    renamed: Renamed = ()
    if before.uri == after.uri and Descent(other).find(one) is not None:
        counts, renamed = _counts(one, other), _renamed(one, other)
    elif before.uri == after.uri and Descent(one).find(other) is not None:
        back = _counts(other, one)
        if back is not None:
            counts = RowCounts(back.deleted, back.updated, back.inserted)
        renamed = tuple((new, old) for old, new in _renamed(other, one))
    is_rewritten = counts is None or counts.deleted == before.rows
    may_be_same = before.rows and before.rows == after.rows and before.schema == after.schema
    is_same = bool(is_rewritten and may_be_same) and _same_rows(one, other)
    return replace(change, counts=counts, renamed_columns=renamed, is_same_rows=is_same)


def _counts(since: Snapshot, until: Snapshot) -> RowCounts | None:
    """None where a table has no stable row ids, or a version in between is gone."""
    try:
        return changes_between(since, until, columns=[]).counts
    except LancewoodError:
        return None


def _renamed(since: Snapshot, until: Snapshot) -> Renamed:
    """Columns with the same id and another name."""
    older = {each.id: each.name for each in since.schema.fields}
    if all(older.get(each.id, each.name) == each.name for each in until.schema.fields):
        return ()
    found = find_earlier(since, until, until.schema)
    return tuple(
        (older[each.id], each.name)
        for each in until.schema.fields
        if each.name in found
        and found[each.name].id == each.id
        and older.get(each.id, each.name) != each.name
    )


def _same_rows(one: Snapshot, other: Snapshot) -> bool:
    """Whether two tables of equal length hold the same rows in the same order; False if comparing
    would cost too much."""
    if not (_is_small(one) and _is_small(other)):
        return False
    pairs = _aligned(Table(one).to_batches(), Table(other).to_batches())
    return all(_same_values(*each) for each in pairs)


def _aligned(
    one: Iterator[pa.RecordBatch], other: Iterator[pa.RecordBatch]
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """The rows of two streams side by side."""
    here, there = next(one, None), next(other, None)
    while here is not None and there is not None:
        rows = min(here.num_rows, there.num_rows)
        yield here.slice(0, rows), there.slice(0, rows)
        here = here.slice(rows) if rows < here.num_rows else next(one, None)
        there = there.slice(rows) if rows < there.num_rows else next(other, None)


def _same_values(one: pa.RecordBatch, other: pa.RecordBatch) -> bool:
    """Compares values, then bytes: for Arrow, NaN is not equal to NaN."""
    return bool(one.equals(other) or one.serialize().equals(other.serialize()))


def _is_small(snapshot: Snapshot) -> bool:
    left = _MOST_READ
    for fragment in snapshot.manifest.fragments:
        for file in fragment.files:
            left -= file.size or _MOST_READ + 1
            if left < 0:
                return False
    return not any(each.is_blob for field in snapshot.schema.fields for each in field.walk())
