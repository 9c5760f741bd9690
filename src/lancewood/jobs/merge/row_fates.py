"""What becomes of rows, gathered by fragment: which ours leaves, which theirs brings.

Rows are gathered as stretches, so that a million rows in a row are one entry, and expanded one
fragment at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from lancewood.engine.rows import Ints
from lancewood.jobs.diff import State
from lancewood.jobs.merge.row_resolver import RowFate
from lancewood.jobs.merge.row_tasks import MergedPortion, expanded
from lancewood.jobs.merge.touched_rows import NOWHERE, Graft, RowLocations, RowRanges, TouchedRows
from lancewood.model.bitmap import bitmap_of
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId
from lancewood.model.segments import expand

_AT_ONCE = 1 << 20
"""Number of decided rows that are expanded at a time."""


class TakenRows(NamedTuple):
    """Stretches of rows of one fragment, and where ours has the same rows."""

    offsets: Ints
    counts: Ints
    ours: Ints
    """Ids of fragments of ours, or ``NOWHERE``."""
    ours_offsets: Ints
    changes: npt.NDArray[np.bool_]
    """Whether more differs than cells of new columns."""

    @property
    def rows(self) -> BitMap:
        return bitmap_of(expand(self.offsets.astype(np.uint64), self.counts, 1))

    @property
    def row_count(self) -> int:
        return int(self.counts.sum())

    @property
    def ours_places(self) -> RowLocations:
        """Where ours has each of the rows, by ids of fragments."""
        return RowLocations(self.ours, self.ours_offsets).each(self.counts)

    @property
    def only_from(self) -> FragmentId | None:
        """The fragment of ours that has all of the rows, at the same offsets."""
        is_one = len(self.ours) and (self.ours == self.ours[0]).all() and self.ours[0] != NOWHERE
        if not is_one or (self.offsets != self.ours_offsets).any():
            return None
        return FragmentId(int(self.ours[0]))


@dataclass(frozen=True, eq=False)
class WrittenRows:
    """New fragments, and where ours has their rows, in their order."""

    fragments: tuple[Fragment, ...]
    ours: RowLocations
    """Ids of fragments, or ``NOWHERE``, and offsets."""


@dataclass(eq=False)
class MergedRows:
    """The rows that a merge changes, counted and gathered by fragment."""

    written: list[WrittenRows] = field(default_factory=list)
    inserted: int = 0
    """Rows that ours did not have."""
    updated: int = 0
    rewritten: int = 0
    """Rows with columns that theirs wrote anew in place, and whose values are not read."""
    deleted: int = 0
    joined: int = 0
    resolved: int = 0
    used: set[str] = field(default_factory=set)
    """The conflicts on which there were decisions."""
    written_rows: int = 0
    """Rows that are written anew, also if nothing is written yet."""
    grafts: dict[FragmentId, Graft] = field(default_factory=dict)
    """Fragments of ours that get columns of theirs."""
    _taken: list[tuple[npt.NDArray[Any], ...]] = field(default_factory=list)
    """Stretches: fragment of theirs, offset, count, fragment of ours, offset, whether more differs
    than new columns."""
    _left: list[tuple[npt.NDArray[Any], ...]] = field(default_factory=list)
    """Stretches: fragment of ours, offset, count."""

    @property
    def changes_rows(self) -> bool:
        """Whether rows of ours come, go, or may have other cells."""
        return bool(self.inserted or self.updated or self.rewritten or self.deleted)

    def take(self, touched: TouchedRows, rows: RowRanges) -> None:
        """Take rows of theirs as they are."""
        ours, theirs = _by_id(touched.states[1], rows.ours), _by_id(touched.states[0], rows.theirs)
        self._taken.append((*theirs, rows.counts, *ours, rows.changes))
        self._leave(ours, rows.counts)
        self.inserted += int(rows.counts[~ours.there].sum())
        is_changed = ours.there & rows.changes
        self.updated += int(rows.counts[is_changed & ~rows.in_place].sum())
        self.rewritten += int(rows.counts[is_changed & rows.in_place].sum())

    def drop(self, touched: TouchedRows, rows: RowRanges) -> None:
        """Delete rows of ours."""
        self._leave(_by_id(touched.states[1], rows.ours), rows.counts)
        self.deleted += rows.row_count

    def graft(self, grafts: Iterable[Graft]) -> None:
        """Give fragments of ours columns of theirs."""
        for each in grafts:
            self.grafts[each.ours] = each
            self.rewritten += each.rows if each.changes else 0

    def decide(self, touched: TouchedRows, rows: RowRanges, done: MergedPortion) -> None:
        """Gather rows that a task decided, each by its fate."""
        self.joined += done.joined
        self.resolved += done.resolved
        self.used.update(done.used)
        begin, places = 0, list[RowLocations]()
        for ids, found in expanded(rows, _AT_ONCE):
            fates = done.fates[begin : begin + len(ids)]
            begin += len(ids)
            ones = np.ones(len(ids), np.int64)
            every = ones.astype(np.bool_)
            single = RowRanges(ids, ones, found, every, ~every)
            self.take(touched, single.at(fates == RowFate.THEIRS))
            self.drop(touched, single.at((fates == RowFate.GONE) & single.ours.there))
            written = single.at(fates == RowFate.WRITTEN)
            ours = _by_id(touched.states[1], written.ours)
            self._leave(ours, written.counts)
            self.written_rows += len(written)
            self.inserted += int((~ours.there).sum())
            self.updated += int(ours.there.sum())
            places.append(ours)
        if done.written:
            ours = RowLocations(*(np.concatenate(each) for each in zip(*places, strict=True)))
            self.written.append(WrittenRows(done.written, ours))

    def taken(self) -> Iterator[tuple[FragmentId, TakenRows]]:
        """The fragments of theirs that have rows which are taken."""
        for number, columns in _grouped(self._taken):
            yield number, TakenRows(*columns)

    def left(self) -> Iterator[tuple[FragmentId, BitMap]]:
        """The fragments of ours that lose rows, and which."""
        for number, (offsets, counts) in _grouped(self._left):
            yield number, bitmap_of(expand(offsets.astype(np.uint64), counts, 1))

    def _leave(self, ours: RowLocations, counts: Ints) -> None:
        there = ours.there
        self._left.append((ours.parts[there], ours.offsets[there], counts[there]))


def _by_id(state: State, places: RowLocations) -> RowLocations:
    """Places by the ids of fragments."""
    ids = np.array([NOWHERE, *(each.fragment.id for each in state.parts)], np.int64)
    return RowLocations(ids[places.parts + 1], places.offsets)


def _grouped(
    stretches: Sequence[tuple[npt.NDArray[Any], ...]],
) -> Iterator[tuple[FragmentId, tuple[npt.NDArray[Any], ...]]]:
    """Stretches by the fragment that comes first in each, in the order of offsets."""
    if not stretches:
        return
    columns = [np.concatenate(each) for each in zip(*stretches, strict=True)]
    order = np.lexsort((columns[1], columns[0]))
    numbers, *others = (each[order] for each in columns)
    bounds: npt.NDArray[np.intp] = np.flatnonzero(np.diff(numbers, prepend=-1, append=-1))
    for low, high in pairwise(bounds.tolist()):
        yield FragmentId(int(numbers[low])), tuple(each[low:high] for each in others)
