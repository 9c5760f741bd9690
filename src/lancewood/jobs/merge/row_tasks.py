"""The rows that both sides may have changed, decided by tasks: read at all places, merged, written.

A task gets the stretches of its rows and the fragments that hold them, as those of a diff do. It
reads them in portions of some megabytes, and answers what becomes of each row, in one byte.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lancewood.data.differing import Mask
from lancewood.data.wanted import WantedColumns
from lancewood.engine.location import NewFile, new_data_files
from lancewood.engine.rows import Ids
from lancewood.engine.schema import Path
from lancewood.engine.snapshot import Snapshot
from lancewood.format.schema import to_arrow_schema
from lancewood.jobs.diff import Sending, SentFragments, State
from lancewood.jobs.merge.conflicts import (
    OURS,
    THEIRS,
    SideRows,
    Sides,
    UnresolvedConflicts,
)
from lancewood.jobs.merge.merge_bases import Bases
from lancewood.jobs.merge.resolve import Resolve
from lancewood.jobs.merge.row_resolver import ResolvedRows, RowFate, RowResolver
from lancewood.jobs.merge.same_key_rows import ResultKeys, result_keys
from lancewood.jobs.merge.side_rows import ReadRows, SideReader, fitting, opaque_cells, with_blobs
from lancewood.jobs.merge.touched_rows import RowLocations, RowRanges, TouchedRows
from lancewood.jobs.merge_into.keys import Key
from lancewood.jobs.rows.matching import MovingRows, read_moving, write_moved
from lancewood.model.fragment import Fragment
from lancewood.model.schema import Field, Schema
from lancewood.model.segments import expand

_MOST_STRETCHES = 1 << 16
"""Number of stretches in a portion: its message stays small however scattered the rows are."""


_LEAST_ROWS = 8_192
"""Fewer rows are not worth a task of their own."""


LOSERS = {OURS: 0, THEIRS: 1}
"""Which of the states, theirs and ours, gives way if a side is taken."""


class _BaseRows(NamedTuple):
    """Rows as bases have them."""

    rows: SideRows
    unsure: Mask
    """Rows whose state in the bases is not known."""


@dataclass(frozen=True)
class MergeShape:
    """What all tasks of a merge share. Pickles."""

    states: tuple[Snapshot, ...]
    """Theirs, ours, the bases and what is below them, without fragments."""
    bases: Bases[int]
    """Which of the states after ours are bases, and which are below them."""
    merged: Snapshot
    """Ours with the merged schema, without fragments."""
    columns: tuple[tuple[Field, tuple[Field | None, ...]], ...]
    """Each column of the merged schema, and how each state has it."""
    table: str
    """The name of the table, for conflicts."""
    primary_key: Key | None
    resolve: Resolve
    by_rows: bool
    writes: bool = True
    """False if nothing is to be written."""

    @property
    def key(self) -> tuple[Path, ...]:
        return () if self.primary_key is None else self.primary_key.paths

    @cached_property
    def arrow(self) -> pa.Schema:
        return to_arrow_schema(self.merged.schema).remove_metadata()

    @cached_property
    def opaque(self) -> frozenset[str]:
        """Columns whose values are not compared in memory."""
        return frozenset(each.name for each, _ in self.columns if each.is_blob)

    @cached_property
    def resolver(self) -> RowResolver:
        return RowResolver(
            self.arrow,
            self.resolve,
            self.key,
            self.table,
            self.by_rows,
            self.opaque,
            (self._added_by(1), self._added_by(2)),
        )

    def _added_by(self, count: int) -> frozenset[str]:
        """The columns that ``count`` sides have, and the base has not."""
        return frozenset(
            each.name
            for each, (theirs, ours, base, *_) in self.columns
            if base is None and (theirs is not None) + (ours is not None) == count
        )

    @cached_property
    def _among_bases(self) -> RowResolver:
        """How bases are merged. A value in a new column counts as a change here: a row that one of
        them deleted would else come back as a new one, from the side that still has it."""
        return RowResolver(self._values, Resolve(rows="base"), self.key, self.table)

    @cached_property
    def _in_steps(self) -> tuple[RowResolver, RowResolver]:
        """The rules for a step: to find what is in conflict with it, and to take what it did."""
        return RowResolver(self._values), RowResolver(self._values, Resolve(rows="theirs"))

    @cached_property
    def _values(self) -> pa.Schema:
        return pa.schema([each for each in self.arrow if each.name not in self.opaque])

    def sides(self, ids: Ids, found: Sequence[ReadRows]) -> Sides:
        """The rows side by side."""
        theirs, ours, *others = found
        bases = [others[each] for each in self.bases.all]
        base, unsure = self._base(ids, [each.rows for each in others])
        return Sides(
            ids,
            base=base,
            ours=ours.rows,
            theirs=theirs.rows,
            opaque={name: opaque_cells(name, bases, ours, theirs) for name in self.opaque},
            unsure=unsure,
        )

    def _base(self, ids: Ids, found: Sequence[SideRows]) -> tuple[SideRows, Mask]:
        """The rows as the base has them, or what several bases add up to: where two do not go
        together, what is below both counts. And of which rows that cannot be told: somebody decided
        a conflict in a step, or what is below counts, and too much of that is below."""

        def join(low: _BaseRows, one: _BaseRows, other: _BaseRows) -> _BaseRows:
            sides = Sides(ids, base=low.rows, ours=one.rows, theirs=other.rows)
            unsure = one.unsure | other.unsure
            if low.unsure.any():
                unsure |= low.unsure & sides.apart
            return _BaseRows(_decided_rows(sides, self._among_bases.decide(sides)), unsure)

        def add(low: _BaseRows, one: _BaseRows, other: _BaseRows) -> _BaseRows:
            sides = Sides(ids, base=low.rows, ours=one.rows, theirs=other.rows)
            left_open, taken = (each.decide(sides) for each in self._in_steps)
            unsure = one.unsure | (left_open.fates == RowFate.CONFLICT)
            return _BaseRows(_decided_rows(sides, taken), unsure)

        def cut(first: _BaseRows) -> _BaseRows:
            return _BaseRows(first.rows, ~sure)

        sure = np.zeros(len(ids), np.bool_)
        return self.bases.each(lambda at: _BaseRows(found[at], sure)).joined(join, add, cut)

    def with_key_of_base(self, sides: Sides) -> Sides:
        """The rows as if the side that is not taken had left their keys alone."""
        side, base = LOSERS[self.resolve.rows or ""], sides.base.values
        found, names = (sides.theirs, sides.ours)[side], {path[0] for path in self.key}
        columns = [
            (base if name in names else found.values).column(name) for name in base.schema.names
        ]
        made = SideRows(pa.RecordBatch.from_arrays(columns, schema=base.schema), found.there)
        return replace(sides, ours=made) if side else replace(sides, theirs=made)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without cached values."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True)
class Handling:
    """What is special about some of the rows that both sides may have changed."""

    keeps_ids: bool = False
    """Whether rows that ours has keep the ids that they have there, which theirs may not have."""
    rewrites: bool = False
    """Whether rows that stay as they are have to be written anew."""
    are_key_collisions: bool = False
    """Whether the rows of both sides are different ones with one key, and a conflict each."""
    loses_key: bool = False
    """Whether the side that is not taken gets the key back that the base has."""
    key_is_taken: bool = False
    """Whether other rows have the keys of these by now, so that none of them may be there."""
    compared: frozenset[str] | None = None
    """The columns in which the rows may differ. The others are read only of rows that are put
    together or in conflict. None if that is not known."""


@dataclass(frozen=True)
class MergePortion:
    """Some of the rows that both sides may have changed, as a task gets them. Pickles."""

    fragments: tuple[SentFragments, ...]
    rows: RowRanges
    handling: Handling
    tells_keys: bool
    """Whether the primary keys are told of rows on whose key the states do not agree."""


@dataclass
class MergedPortion:
    """What became of the rows of a portion."""

    fates: npt.NDArray[np.int8] = field(default_factory=lambda: np.empty(0, np.int8))
    """One ``RowFate`` for each row, in the order of the portion."""
    written: tuple[Fragment, ...] = ()
    """New fragments with the ids of their rows, in the order of the portion."""
    joined: int = 0
    resolved: int = 0
    left: UnresolvedConflicts = field(default_factory=UnresolvedConflicts)
    used: list[str] = field(default_factory=list)
    """The conflicts on which there were decisions."""
    keys: list[ResultKeys] = field(default_factory=list)
    """Keys of rows on whose key the states do not agree, if they are asked for."""

    @property
    def files(self) -> tuple[NewFile, ...]:
        """The files of what was written."""
        return new_data_files(self.written)


def merge_portion(shape: MergeShape, portion: MergePortion) -> MergedPortion:
    """The task: decide the rows of a portion, and write those that are merged."""
    merging = _PortionMerge(shape, portion)
    written: tuple[Fragment, ...] = ()
    if shape.writes:
        written = write_moved(shape.merged, merging.rows())
    else:
        deque(merging.rows(), maxlen=0)
    merging.done.written = written
    merging.done.fates = np.concatenate([merging.done.fates, *merging.fates])
    return merging.done


def conflict_batches(shape: MergeShape, portion: MergePortion) -> Iterator[pa.RecordBatch]:
    """The conflicts of a portion."""
    for decided in _PortionMerge(shape, portion).decided():
        if decided.conflicts.num_rows:
            yield decided.conflicts


def used_decisions(shape: MergeShape, portion: MergePortion) -> Iterator[str]:
    """The conflicts of a portion on which there are decisions."""
    for decided in _PortionMerge(shape, portion).decided():
        yield from decided.used


def copy_rows(shape: MergeShape, chosen: Sequence[tuple[Fragment, BitMap]]) -> MergedPortion:
    """The task: write rows of fragments of theirs under the merged schema, in their order."""
    return MergedPortion(written=write_moved(shape.merged, _copied(shape, chosen)))


def _copied(shape: MergeShape, chosen: Sequence[tuple[Fragment, BitMap]]) -> Iterator[MovingRows]:
    theirs = shape.states[0]
    fields = [side for _, (side, *_) in shape.columns if side is not None]
    wanted = WantedColumns(Schema(tuple(fields)))
    for fragment, offsets in chosen:
        for moving in read_moving(theirs, fragment, offsets, wanted):
            rows = moving.rows
            columns = [
                pa.nulls(len(rows), column.type)
                if side is None
                else fitting(rows.column(side.name), column)
                for column, (_, (side, *_)) in zip(shape.arrow, shape.columns, strict=True)
            ]
            yield moving.with_rows(pa.RecordBatch.from_arrays(columns, schema=shape.arrow))


class _Reading(NamedTuple):
    """Reads some columns of rows of all states."""

    readers: Sequence[SideReader]
    most: int
    """Number of rows that are read at a time."""

    def at(self, places: Sequence[RowLocations]) -> Sequence[ReadRows]:
        return [reader.at(each) for reader, each in zip(self.readers, places, strict=True)]


class _PortionMerge:
    """One portion, as it is decided."""

    def __init__(self, shape: MergeShape, portion: MergePortion) -> None:
        self._shape, self._portion = shape, portion
        sent = zip(portion.fragments, shape.states, strict=True)
        self._states = [each.state(snapshot) for each, snapshot in sent]
        self._whole = self._reading(frozenset(shape.arrow.names))
        compared = portion.handling.compared
        self._narrow = None if compared is None else self._reading(compared)
        self.fates: list[npt.NDArray[np.int8]] = []
        self.done = MergedPortion()

    def decided(self) -> Iterator[ResolvedRows]:
        for _, _, decided in self._parts():
            yield decided

    def rows(self) -> Iterator[MovingRows]:
        """The rows that are written."""
        for found, sides, decided in self._parts():
            self.done.joined += decided.joined
            self.done.resolved += decided.resolved
            self.done.used += decided.used
            self.done.left.note(decided.conflicts)
            chosen = np.flatnonzero(decided.fates == RowFate.WRITTEN)
            if not len(chosen) or not self._shape.writes:
                continue
            theirs, ours, base, *_ = found
            parts = with_blobs(
                decided.written, self._shape.arrow, decided.opaque, chosen, (base, ours, theirs)
            )
            for start, rows in parts:
                ids = sides.ids[chosen[start : start + len(rows)]]
                nothing = np.zeros(len(rows), np.uint64)
                yield MovingRows(rows, nothing, ids, nothing)

    def _parts(self) -> Iterator[tuple[Sequence[ReadRows], Sides, ResolvedRows]]:
        """The rows that are put together or in conflict, with all of their columns; and where it
        is not known in which they may differ, all rows. Notes what becomes of every row."""
        for ids, places in expanded(self._portion.rows, (self._narrow or self._whole).most):
            fates, left = np.zeros(len(ids), np.int8), np.arange(len(ids))
            if self._narrow is not None:
                fates, is_open = self._settled(ids, self._narrow.at(places))
                left = np.flatnonzero(is_open)
            self.fates.append(fates)
            for begin in range(0, len(left), self._whole.most):
                at = left[begin : begin + self._whole.most]
                found = self._whole.at([each.at(at) for each in places])
                sides = self._shape.sides(ids[at], found)
                decided = self._decided(sides)
                fates[at] = decided.fates
                self._tell_keys(sides, decided.fates, decided.written)
                yield found, sides, decided

    def _settled(self, ids: Ids, found: Sequence[ReadRows]) -> tuple[npt.NDArray[np.int8], Mask]:
        """Decide rows of which only some columns were read, and tell which are left open."""
        compared = self._portion.handling.compared
        assert compared is not None
        theirs, ours, base = found
        names = [each for each in self._shape.arrow.names if each in compared]
        opaque = {
            name: opaque_cells(name, [base], ours, theirs)
            for name in names
            if name in self._shape.opaque
        }
        sides = Sides(ids, base.rows, ours.rows, theirs.rows, opaque)
        fates, is_open = self._shape.resolver.settled(sides, names)
        at = np.flatnonzero(~is_open)
        self._tell_keys(sides.take(at), fates[at], ours.rows.take(at[:0]).values)
        return fates, is_open

    def _tell_keys(self, sides: Sides, fates: npt.NDArray[np.int8], written: Any) -> None:
        """Note the keys that decided rows come out with, where they are asked for."""
        key = self._shape.primary_key
        if key is not None and self._portion.tells_keys:
            at = np.flatnonzero(fates != RowFate.CONFLICT)
            result = _result(sides, fates, written).take(at)
            self.done.keys.append(result_keys(key, sides.take(at), result))

    def _decided(self, sides: Sides) -> ResolvedRows:
        handling, resolver = self._portion.handling, self._shape.resolver
        if handling.are_key_collisions:
            return resolver.key_collisions(sides)
        if handling.loses_key:
            sides = self._shape.with_key_of_base(sides)
        decided = resolver.decide(sides)
        if handling.key_is_taken:
            decided = _kept_away(sides, decided, resolver)
        if handling.rewrites or handling.keeps_ids:
            decided = _rewritten(sides, decided, stay=not handling.rewrites)
        return decided

    def _reading(self, names: frozenset[str]) -> _Reading:
        shape = self._shape
        columns = [(column, sides) for column, sides in shape.columns if column.name in names]
        arrow = pa.schema([each for each in shape.arrow if each.name in names])
        fields = [side for _, sides in columns for side in sides[:2] if side is not None]
        readers = [
            SideReader(
                state, [(column, sides[at]) for column, sides in columns], arrow, shape.opaque
            )
            for at, state in enumerate(self._states)
        ]
        return _Reading(readers, min(each.portion_rows(fields) for each in self._states))


def _result(sides: Sides, fates: npt.NDArray[np.int8], written: pa.RecordBatch) -> SideRows:
    """The rows as they were decided."""
    count = len(sides.ids)
    at = np.arange(count)
    at[fates == RowFate.THEIRS] += count
    is_written = fates == RowFate.WRITTEN
    at[is_written] = 2 * count + np.arange(len(written))
    parts = [sides.ours.values, sides.theirs.values, written]
    values = pa.concat_batches(parts)
    there = np.where(fates == RowFate.THEIRS, sides.theirs.there, sides.ours.there)
    there = np.where(is_written, True, there)
    there = np.where(fates == RowFate.GONE, False, there)
    return SideRows(values.take(pa.array(at, mask=~there)), there)


def _decided_rows(sides: Sides, decided: ResolvedRows) -> SideRows:
    return _result(sides, decided.fates, decided.written)


def _kept_away(sides: Sides, decided: ResolvedRows, resolver: RowResolver) -> ResolvedRows:
    """Turn a row into a key conflict if the merge would restore it while another row holds its
    key."""
    is_back = _decided_rows(sides, decided).there & (decided.fates != RowFate.CONFLICT)
    rows, stays = np.flatnonzero(is_back), ~is_back[decided.fates == RowFate.WRITTEN]
    conflicts = [decided.conflicts, resolver.key_collisions(sides.take(rows)).conflicts]
    return replace(
        decided,
        fates=np.where(is_back, np.int8(RowFate.CONFLICT), decided.fates),
        written=decided.written.filter(pa.array(stays)),
        opaque={name: codes[stays] for name, codes in decided.opaque.items()},
        conflicts=pa.concat_batches(conflicts),
        resolved=decided.resolved - len(rows),
    )


def _rewritten(sides: Sides, decided: ResolvedRows, *, stay: bool) -> ResolvedRows:
    """Write rows of theirs anew that ours has too, instead of taking them as they are; unless rows
    of ours may ``stay``, write all rows that are there."""
    result, fates = _decided_rows(sides, decided), decided.fates.copy()
    if stay:
        fates[(fates == RowFate.THEIRS) & sides.ours.there] = RowFate.WRITTEN
    else:
        fates[(fates <= RowFate.WRITTEN) & result.there] = RowFate.WRITTEN
    chosen = fates == RowFate.WRITTEN
    opaque = {}
    for name, codes in decided.opaque.items():
        whose = np.where(decided.fates == RowFate.THEIRS, np.int8(2), np.int8(1))
        whose[decided.fates == RowFate.WRITTEN] = codes
        opaque[name] = whose[chosen]
    written = result.values.filter(pa.array(chosen))
    return replace(decided, fates=fates, written=written, opaque=opaque)


def expanded(rows: RowRanges, most: int) -> Iterator[tuple[Ids, tuple[RowLocations, ...]]]:
    """Ids and places of the rows one by one, at most ``most`` at a time."""
    ends = np.cumsum(rows.counts)
    total = int(ends[-1]) if len(ends) else 0
    for begin in range(0, total, most):
        end = min(begin + most, total)
        low, high = np.searchsorted(ends, begin, side="right"), np.searchsorted(ends, end) + 1
        counts, starts = rows.counts[low:high], ends[low:high] - rows.counts[low:high]
        skipped = np.maximum(begin - starts, 0)
        taken = np.minimum(counts, end - starts) - skipped
        firsts = rows.firsts[low:high] + skipped.astype(np.uint64)
        yield (
            expand(firsts, taken, 1),
            tuple(each.at(slice(low, high)).each(taken, skipped) for each in rows.places),
        )


def cut(
    touched: TouchedRows, rows: RowRanges, count: int, handling: Handling
) -> Iterator[tuple[RowRanges, MergePortion]]:
    """Cut rows into about ``count`` portions, in the order of theirs: the rows as the merge has
    them, and as they are sent to a task."""
    rows = rows.at(np.lexsort((rows.theirs.offsets, rows.theirs.parts)))
    share = max(_LEAST_ROWS, -(-rows.row_count // count))
    ends = np.cumsum(rows.counts)
    low = 0
    while low < len(ends):
        done = int(ends[low] - rows.counts[low])
        high = max(low + 1, int(np.searchsorted(ends, done + share, side="right")))
        high = min(high, low + _MOST_STRETCHES)
        portion = rows.at(np.arange(low, high))
        fragments, sent = _sent(touched.states, portion)
        yield portion, MergePortion(fragments, sent, handling, bool(touched.got_keys))
        low = high


def _sent(states: Sequence[State], rows: RowRanges) -> tuple[tuple[SentFragments, ...], RowRanges]:
    """The fragments of each state that hold rows, and the rows in terms of these."""
    fragments, places = list[SentFragments](), list[RowLocations]()
    for state, placed in zip(states, rows.places, strict=True):
        there = placed.there
        sending = Sending(state, [(placed.at(there), rows.counts[there])])
        parts = placed.parts.copy()
        for renumbered in filter(None, sending.renumbered):
            parts[there], _ = renumbered
        places.append(RowLocations(parts, placed.offsets))
        fragments.append(sending.fragments(with_ids=False))
    return tuple(fragments), replace(rows, places=tuple(places))
