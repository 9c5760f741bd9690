"""Which rows differ between two versions of a table: inserted, updated, deleted, by row id.

Rows are compared by metadata, not by values: whether the id is live in both versions, and which
version last changed it (``change_marks`` says which marks count). Fragments that are the same in
both are skipped. Nothing is assumed about the order of versions, so overwrites and restores in
between are no special case. Reads manifests, deletion files and sequences; a column only where a
writer rewrote it in place and marked no row (``unmarked``). Rows that such a writer changed and a
compaction moved afterwards are not found, since only their values would show it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from lancewood.engine.rows import Ids, Ints, LiveRows, cut_at, distinct
from lancewood.engine.snapshot import Snapshot
from lancewood.jobs.diff.change_marks import (
    Pieces,
    RowMarks,
    common_fields,
    same_columns,
    same_marks,
)
from lancewood.jobs.diff.compare import AlignedRows
from lancewood.jobs.diff.unmarked import Unmarked
from lancewood.model.fragment import DataFile, Fragment
from lancewood.model.ids import FieldId
from lancewood.model.manifest import decode_fragment, peek_fragment_id

_Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Side:
    """The fragments of one version that differ from the other's, and their rows."""

    snapshot: Snapshot
    fragments: tuple[Fragment, ...]
    rows: LiveRows


@dataclass(frozen=True, eq=False)
class RowChanges:
    """What happened to rows from ``since`` to ``until``; the parts are stretches of their sides."""

    since: Side
    until: Side
    inserted: LiveRows
    """Stretches of ``until``."""
    updated: LiveRows
    """Stretches of ``until``."""
    deleted: LiveRows
    """Stretches of ``since``."""


def find_changes(since: Snapshot, until: Snapshot) -> RowChanges:
    """What happened to every row between two versions of a table with stable row ids.

    Raises NotFoundError where a version in between is needed that was cleaned up.
    """
    return _Comparison(since, until).changes()


@dataclass
class _Comparison:
    since: Snapshot
    until: Snapshot

    def changes(self) -> RowChanges:
        since, until = self._sides()
        rows, new = AlignedRows.of(since.rows, until.rows), until.rows
        before, after = rows.both()
        is_same, is_doubtful = self._in_place(since, before, until, after)
        suspects = Pieces(before.firsts, before.counts, before.updated, after.updated)
        marked = new.part(*_by_id(self._marks.really_updated(suspects.only(~is_same))))
        doubtful = _without(after.only(is_doubtful), marked)
        others = self._unmarked.rows(since.fragments, until.fragments, doubtful, self._fields)
        return RowChanges(
            since,
            until,
            inserted=rows.inserted,
            updated=LiveRows.joined((marked, new.part(*others))),
            deleted=rows.deleted,
        )

    @cached_property
    def _unmarked(self) -> Unmarked:
        return Unmarked(self.since, self.until)

    @cached_property
    def _marks(self) -> RowMarks:
        return RowMarks(self.since, self.until)

    @cached_property
    def _fields(self) -> frozenset[FieldId]:
        return common_fields(self.since.manifest, self.until.manifest)

    @cached_property
    def _are_fields_same(self) -> bool:
        """Whether both have the same fields. A field that was later dropped or cast may have got
        other values before, an added one afterwards: for those only the marks of rows decide."""
        sides = (self.since.manifest.fields, self.until.manifest.fields)
        return all(each.id in self._fields for side in sides for each in side)

    def _sides(self) -> tuple[Side, Side]:
        old = dict.fromkeys(self.since.manifest.message.fragments)
        new = dict.fromkeys(self.until.manifest.message.fragments)
        self._marks.passed.update(old.keys() & new.keys())
        old = {raw: None for raw in old if raw not in self._marks.passed}
        new = {raw: None for raw in new if raw not in self._marks.passed}
        by_id = {peek_fragment_id(raw, self.until.manifest.name): raw for raw in new}
        for raw in list(old):
            other = by_id.get(peek_fragment_id(raw, self.since.manifest.name))
            if other is not None and self._same_rows(raw, other):
                self._marks.passed.update((raw, other))
                del old[raw], new[other]
        return self._side(self.since, old), self._side(self.until, new)

    def _same_rows(self, raw: bytes, other: bytes) -> bool:
        """Whether one fragment at two versions has the same rows with the same values."""
        then = Fragment(decode_fragment(raw, self.since.manifest.name))
        now = Fragment(decode_fragment(other, self.until.manifest.name))
        return (
            then.lineage("row_ids") == now.lineage("row_ids")
            and then.message.deletion_file == now.message.deletion_file
            and (same_columns(then, now, self._fields) or self._is_only_moved(then, now))
            and (self._are_fields_same or same_marks(then, now))
        )

    def _side(self, snapshot: Snapshot, raws: Iterable[bytes]) -> Side:
        listed = list(raws)
        name = snapshot.manifest.name
        fragments = tuple(Fragment(decode_fragment(raw, name)) for raw in listed)
        rows = LiveRows.of(self._marks.stretches(snapshot, listed), name)
        return Side(snapshot, fragments, rows)

    def _in_place(
        self, since: Side, before: LiveRows, until: Side, after: LiveRows
    ) -> tuple[_Mask, _Mask]:
        """Which rows are in the same place in unchanged files; and which are in the same place but
        may have other values without a mark."""
        is_same = np.zeros(len(before.firsts), np.bool_)
        is_doubtful = is_same.copy()
        if not len(before.firsts):
            return is_same, is_doubtful
        old_ids = np.array([each.id for each in since.fragments], np.int64)
        new_ids = np.array([each.id for each in until.fragments], np.int64)
        stayed = (old_ids[before.fragments] == new_ids[after.fragments]) & (
            before.offsets == after.offsets
        )
        pairs = before.fragments[stayed] * len(new_ids) + after.fragments[stayed]
        known = distinct(pairs)
        same, doubtful = np.zeros(len(known), np.bool_), np.zeros(len(known), np.bool_)
        for at, (one, other) in enumerate(divmod(each, len(new_ids)) for each in known.tolist()):
            then, now = since.fragments[one], until.fragments[other]
            if same_columns(then, now, self._fields):
                same[at] = self._are_fields_same
            else:
                doubtful[at] = self._may_differ(then, now)
        found = np.searchsorted(known, pairs)
        is_same[stayed], is_doubtful[stayed] = same[found], doubtful[found]
        return is_same, is_doubtful

    def _may_differ(self, then: Fragment, now: Fragment) -> bool:
        """Whether unmarked rows may have other values, because columns of their fragment come from
        other files."""
        if _is_moved(then, now):
            return not self._is_only_moved(then, now)
        return same_marks(then, now) or self._unmarked.may_be_in(now.id)

    def _is_only_moved(self, then: Fragment, now: Fragment) -> bool:
        return _is_moved(then, now) and not self._unmarked.is_in(now.id)


def _is_moved(then: Fragment, now: Fragment) -> bool:
    """Whether files are in other roots now, with no row marked since."""
    old, new = then.message.files, now.message.files
    return (
        same_marks(then, now)
        and len(old) == len(new)
        and all(
            a.fields == b.fields
            and a.column_indices == b.column_indices
            and DataFile(a).base_id != DataFile(b).base_id
            for a, b in zip(old, new, strict=True)
            if a != b
        )
    )


def _by_id(parts: Iterable[Pieces]) -> tuple[Ids, Ints]:
    """The stretches of all parts, by id."""
    listed = list(parts)
    firsts = np.concatenate([np.empty(0, np.uint64), *(each.firsts for each in listed)])
    counts = np.concatenate([np.empty(0, np.int64), *(each.counts for each in listed)])
    order = np.argsort(firsts)
    return firsts[order], counts[order]


def _without(rows: LiveRows, others: LiveRows) -> LiveRows:
    """The rows that are not among the others."""
    if not len(rows.firsts) or not len(others.firsts):
        return rows
    edges = np.concatenate((others.firsts, others.ends))
    firsts, counts = cut_at(edges, rows.firsts, rows.counts)
    left = others.find(firsts) < 0
    return rows.part(firsts[left], counts[left])
