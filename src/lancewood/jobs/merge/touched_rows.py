"""Which rows theirs changed since the base, and what ours made of the same rows.

Only what theirs changed is looked at. Where ours left a row alone, theirs is taken without a look
at its values; so it goes where theirs deleted one. Rows that both may have changed are read by
tasks, at all three places. Reads deletion files and sequences, never a column.

Where both sides have the same rows of the base in one fragment, and wrote different columns of it
anew, the files of both go together without reading a row: a graft. That is how two sides meet that
each add a column.

After criss-cross merges there are several bases. Rows that differ between them are read as well, at
every base, because none of the bases alone says what they were.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancewood.engine.rows import Ids, Ints, LiveRows, RowFacts, cut_at, distinct
from lancewood.engine.snapshot import Snapshot
from lancewood.jobs.diff import (
    ALL_IDS,
    ColumnPair,
    Comparing,
    Comparison,
    IdRange,
    Part,
    Places,
    State,
    id_ranges,
)
from lancewood.jobs.merge.merged_columns import changes_rows, comparing, is_new
from lancewood.model.ids import FieldId, FragmentId
from lancewood.model.segments import expand

_Mask: TypeAlias = npt.NDArray[np.bool_]


_Chosen: TypeAlias = npt.NDArray[Any] | slice


_KEPT, _INSERTED, _DELETED, _DOUBTFUL = range(4)
"""What a side made of a row, as far as it is known without its values."""


_NO_IDS: Ids = np.empty(0, np.uint64)


NOWHERE = -1
"""The fragment of a row that a state does not have."""


class RowLocations(NamedTuple):
    """Stretches of rows of one state."""

    parts: Ints
    """The fragment of each stretch, by its position in the state, or ``NOWHERE``."""
    offsets: Ints

    def at(self, chosen: _Chosen) -> RowLocations:
        return RowLocations(self.parts[chosen], self.offsets[chosen])

    def each(self, counts: Ints, skipped: Ints | int = 0) -> RowLocations:
        """Every row as a stretch of its own: ``counts`` rows of each stretch, after ``skipped``."""
        starts = (self.offsets + skipped).astype(np.uint64)
        return RowLocations(
            np.repeat(self.parts, counts), expand(starts, counts, 1).astype(np.int64)
        )

    @property
    def there(self) -> _Mask:
        found: _Mask = self.parts != NOWHERE
        return found


@dataclass(frozen=True, eq=False)
class RowRanges:
    """Stretches of rows, as each state has them."""

    firsts: Ids
    """The first id of each stretch."""
    counts: Ints
    places: tuple[RowLocations, ...]
    """Where theirs, ours and each of the bases have the stretches."""
    changes: _Mask
    """Whether more differs in theirs than the cells of columns that ours has not."""
    in_place: _Mask
    """Whether theirs is only known to have written columns of the rows anew, in place: which of the
    rows have other values was not read."""

    @property
    def theirs(self) -> RowLocations:
        return self.places[0]

    @property
    def ours(self) -> RowLocations:
        return self.places[1]

    @property
    def base(self) -> RowLocations:
        """Where the first base has the stretches."""
        return self.places[2]

    @property
    def row_count(self) -> int:
        return int(self.counts.sum())

    def __len__(self) -> int:
        """How many stretches there are."""
        return len(self.counts)

    @classmethod
    def joined(cls, one: RowRanges, other: RowRanges) -> RowRanges:
        pairs = zip(one.places, other.places, strict=True)
        return cls(
            np.concatenate((one.firsts, other.firsts)),
            np.concatenate((one.counts, other.counts)),
            tuple(RowLocations(*map(np.concatenate, zip(*each, strict=True))) for each in pairs),
            np.concatenate((one.changes, other.changes)),
            np.concatenate((one.in_place, other.in_place)),
        )

    def singles(self) -> RowRanges:
        """Every row as a stretch of its own."""
        ones = np.ones(self.row_count, np.int64)
        return RowRanges(
            expand(self.firsts, self.counts, 1),
            ones,
            tuple(places.each(self.counts) for places in self.places),
            np.repeat(self.changes, self.counts),
            np.repeat(self.in_place, self.counts),
        )

    def at(self, chosen: _Chosen) -> RowRanges:
        places = tuple(each.at(chosen) for each in self.places)
        marks = self.changes[chosen], self.in_place[chosen]
        return RowRanges(self.firsts[chosen], self.counts[chosen], places, *marks)


class ChangedKeys(NamedTuple):
    """Rows that a side gave another primary key."""

    ids: Ids
    places: RowLocations
    before: list[pa.Array]
    after: list[pa.Array]


class GotKeys(NamedTuple):
    """The rows that got a primary key on one side: first those that had another one, then new
    ones."""

    changed: ChangedKeys
    ids: Ids
    places: RowLocations
    keys: list[pa.Array]

    def without(self, ids: Ids) -> GotKeys:
        """The rows, but for those with these ids; all that were changed stay in ``changed``."""
        kept = ~np.isin(self.ids, ids)
        keys = [each.filter(pa.array(kept)) for each in self.keys]
        return GotKeys(self.changed, self.ids[kept], self.places.at(kept), keys)


@dataclass(frozen=True, eq=False)
class TouchedRows:
    """Rows in a range of ids, grouped by which side of a merge changed them."""

    states: tuple[State, ...]
    """Theirs, ours, and each of the bases, with the fragments that the places speak of."""
    only_theirs: RowRanges
    """Rows that theirs inserted, or changed while ours left them as they were."""
    deleted_by_theirs: RowRanges
    """Rows that theirs deleted, and ours left as they were."""
    changed_by_both: RowRanges
    """Rows that both sides may have changed, or of which the bases differ."""
    inserted_by_ours: RowRanges
    """Rows that only ours has."""
    deleted_by_both: RowRanges
    """Rows that both sides, or all bases, deleted."""
    sides: tuple[Comparison, Comparison]
    """The base compared with theirs, and with ours."""
    doubts_of_both: tuple[Ints, Ints]
    """The doubt that each stretch of ``both`` is in, of theirs and of ours; ``NOWHERE`` for
    none."""
    keyed: RowRanges
    """Rows that have different ids and are one row by their key (``paired_by_key``)."""
    key_collisions: RowRanges
    """Pairs of different rows, one of theirs and one of ours, that got one key."""
    key_taken: RowRanges
    """Rows that one side deleted and the other may have changed, and whose key another row got on
    the side that deleted them."""
    asked: RowRanges
    """Rows that the caller asked for by their ids; they are in no other group."""
    got_keys: tuple[GotKeys, ...] = ()
    """The primary keys that rows got on theirs and on ours, without those that lost theirs; empty
    if no side gave a row another key, and no decision does."""
    resolved_collisions: int = 0
    """Number of pairs with one key that were decided; rows that lost it are in ``asked``."""
    grafts: tuple[Graft, ...] = ()
    """Fragments of ours that get columns of theirs."""


@dataclass(frozen=True, eq=False)
class Graft:
    """A fragment of ours that gets columns of a fragment of theirs with the same rows."""

    ours: FragmentId
    theirs: FragmentId
    columns: tuple[ColumnPair, ...]
    """The columns that theirs wrote, as the base and theirs have them."""
    rows: int
    changes: bool
    """Whether more comes than columns that ours has not."""


@dataclass(frozen=True, eq=False)
class ThreeWayComparison:
    """Three states of a table, or more if there are several bases."""

    bases: tuple[Snapshot, ...]
    ours: Snapshot
    theirs: Snapshot
    below: tuple[Snapshot, ...] = ()
    """For each base but the first, what it and the first come from."""
    kept: frozenset[FieldId] = frozenset()
    """Fields of one side that the other one dropped, and that stay: they count as new."""
    with_ours: bool = True
    """Whether rows that only ours has are asked for as well."""
    converts: bool = False
    """Whether rows of ours are written anew, so that those that only ours changed are asked for,
    too: theirs kept them although a column was cast there which no file of them holds."""

    def whole(self, asked: Ids = _NO_IDS) -> TouchedRows:
        """All rows that theirs changed; those that are asked for by their ids, which a side must
        have changed, by themselves."""
        return self._met(ALL_IDS, asked)

    def ranges(self) -> Iterator[TouchedRows]:
        """The rows that theirs changed, a range of ids at a time: nearly always one range."""
        sides = (self._there, self._here, *self._crossing)
        for ids in id_ranges(*(each for side in sides for each in side.numbered)):
            yield self._met(ids)

    @cached_property
    def _there(self) -> Comparing:
        return comparing(self.bases[0], self.theirs, self.kept)

    @cached_property
    def _here(self) -> Comparing:
        return comparing(self.bases[0], self.ours, self.kept)

    @cached_property
    def _crossing(self) -> tuple[Comparing, ...]:
        """The first base compared with the others, and with what is below them."""
        return tuple(comparing(self.bases[0], each) for each in (*self.bases[1:], *self.below))

    def _met(self, ids: IdRange, asked: Ids = _NO_IDS) -> TouchedRows:
        compared = (self._there, self._here, *self._crossing)
        theirs = self._there.rows(ids)
        if self.with_ours or self._crossing:
            sides = (theirs, *(each.rows(ids) for each in compared[1:]))
            firsts, counts = _stretches(sides, asked, converts=self.converts)
        else:
            parts = _touched(theirs)
            firsts = np.concatenate([each.firsts for each in parts])
            order = np.argsort(firsts, kind="stable")
            firsts = firsts[order]
            counts = np.concatenate([each.counts for each in parts])[order]
            sides = (theirs, self._here.rows(ids, (firsts, counts)))
            firsts, counts = cut_at(_edges(_live_rows_of(sides[1:])), firsts, counts)
        is_asked = np.isin(firsts, asked)
        found_as = self._groups([_made_of(side, firsts) for side in sides])
        groups = (*(each & ~is_asked for each in found_as), is_asked)
        wanted = np.logical_or.reduce(groups)
        firsts, counts = firsts[wanted], counts[wanted]
        found = _LocatedRows(sides, compared, firsts)
        doubts = _doubt_of(sides[0], firsts), _doubt_of(sides[1], firsts)
        is_more = [changes_rows(each.columns, self.ours) for each in theirs.doubts]
        changes = np.array([*is_more, True])[doubts[0]]
        in_place = (doubts[0] != NOWHERE) & _in_place(found.states, found.places)
        touched = RowRanges(firsts, counts, found.places, changes, in_place)
        is_both = groups[2][wanted]
        taken, gone, both, added, vanished, alone = (touched.at(each[wanted]) for each in groups)
        return TouchedRows(
            found.states,
            taken,
            gone,
            both,
            added,
            vanished,
            (sides[0], sides[1]),
            (doubts[0][is_both], doubts[1][is_both]),
            keyed=touched.at(slice(0)),
            key_collisions=touched.at(slice(0)),
            key_taken=touched.at(slice(0)),
            asked=alone,
        )

    def _groups(self, made: Sequence[npt.NDArray[np.int8]]) -> tuple[_Mask, ...]:
        """Masks of the stretches in ``taken``, ``gone``, ``both``, ``added`` and ``vanished`` of
        ``TouchedRows``, by what each state made of them."""
        theirs, ours, *others = made
        bases, below = others[: len(self.bases) - 1], others[len(self.bases) - 1 :]
        is_crossed = np.zeros(len(theirs), np.bool_)
        for each in bases:
            is_crossed |= each != _KEPT
        is_alone = (ours == _KEPT) & ~is_crossed
        is_lost = (theirs == _DELETED) & (ours == _DELETED) & ~is_crossed
        is_both = (((theirs != _KEPT) & (ours != _KEPT)) | is_crossed) & ~is_lost
        if self.converts:
            is_both |= ours == _DOUBTFUL
        for each in below:
            is_lost |= (each == _INSERTED) & (theirs == _KEPT) & is_alone
        return (
            ((theirs == _INSERTED) | (theirs == _DOUBTFUL)) & is_alone,
            (theirs == _DELETED) & is_alone,
            is_both,
            (ours == _INSERTED) & (theirs == _KEPT) & ~is_crossed,
            is_lost,
        )


def _stretches(sides: Sequence[Comparison], asked: Ids, *, converts: bool) -> tuple[Ids, Ints]:
    """Rows that theirs changed, that ours inserted (with ``converts`` or changed), in which bases
    differ, or that are asked for, so that all of a stretch are in one place of each state: first
    ids, and how many."""
    edges = _edges(rows for side in sides for rows in _touched(side))
    cuts = distinct(np.concatenate((edges, asked, asked + np.uint64(1))))
    firsts, counts = cuts[:-1], np.diff(cuts).astype(np.int64)
    theirs, ours, *others = (_made_of(side, firsts) for side in sides)
    wanted = (theirs != _KEPT) | (ours == _INSERTED) | np.isin(firsts, asked)
    if converts:
        wanted |= ours == _DOUBTFUL
    for each in others:
        wanted |= each != _KEPT
    return cut_at(_edges(_live_rows_of(sides)), firsts[wanted], counts[wanted])


def _live_rows_of(sides: Iterable[Comparison]) -> Iterator[LiveRows]:
    return (rows for side in sides for rows in (side.before.rows, side.after.rows))


def _edges(rows: Iterable[LiveRows]) -> Ids:
    return np.concatenate(
        [np.empty(0, np.uint64), *(edge for each in rows for edge in (each.firsts, each.ends))]
    )


def _touched(side: Comparison) -> Sequence[LiveRows]:
    return [side.inserted, side.deleted, *(each.before for each in side.doubts)]


def _made_of(side: Comparison, firsts: Ids) -> npt.NDArray[np.int8]:
    """The change of each stretch on a side: kept, inserted, deleted or doubtful."""
    found = np.full(len(firsts), _KEPT, np.int8)
    found[side.inserted.find(firsts) >= 0] = _INSERTED
    found[side.deleted.find(firsts) >= 0] = _DELETED
    for each in side.doubts:
        found[each.before.find(firsts) >= 0] = _DOUBTFUL
    return found


def _doubt_of(side: Comparison, firsts: Ids) -> Ints:
    """The doubt that each stretch is in, or ``NOWHERE``."""
    found = np.full(len(firsts), NOWHERE)
    for at, each in enumerate(side.doubts):
        found[each.before.find(firsts) >= 0] = at
    return found


def _in_place(states: Sequence[State], places: Sequence[RowLocations]) -> _Mask:
    """Whether each stretch is in theirs where it is in the first base."""
    ids = [
        np.array([NOWHERE, *(part.fragment.id for part in states[at].parts)], np.int64)[
            places[at].parts + 1
        ]
        for at in (0, 2)
    ]
    same: _Mask = (ids[0] == ids[1]) & (places[0].offsets == places[2].offsets)
    return same & places[0].there


class _LocatedRows:
    """Where the rows of stretches are, in theirs, in ours and in every base."""

    def __init__(
        self, sides: Sequence[Comparison], comparing: Sequence[Comparing], firsts: Ids
    ) -> None:
        self._firsts = firsts
        base = self._in_base(sides)
        found = [self._in(side, each, base) for side, each in zip(sides, comparing, strict=True)]
        (theirs, ours, *others), first = found, base
        ordered = (theirs, ours, first, *others)
        self.places = tuple(places for places, _ in ordered)
        self.states = tuple(state for _, state in ordered)

    def _in_base(self, sides: Sequence[Comparison]) -> tuple[RowLocations, State]:
        """Where the first base has the rows: each comparison has fragments of it that differ."""
        parts, offsets = self._nowhere()
        known, numbers = list[Part](), dict[FragmentId, int]()
        for side in sides:
            at = side.before.rows.find(self._firsts)
            fresh = np.flatnonzero((at >= 0) & (parts == NOWHERE))
            placed = _located(side.before.rows, at[fresh], self._firsts[fresh])
            renumbered = np.empty(len(side.before.parts), np.int64)
            for number in distinct(placed.parts).tolist():
                part = side.before.parts[number]
                if part.fragment.id not in numbers:
                    numbers[part.fragment.id] = len(known)
                    known.append(part)
                renumbered[number] = numbers[part.fragment.id]
            parts[fresh], offsets[fresh] = renumbered[placed.parts], placed.offsets
        return RowLocations(parts, offsets), State(sides[0].before.snapshot, tuple(known))

    def _in(
        self, side: Comparison, comparing: Comparing, base: tuple[RowLocations, State]
    ) -> tuple[RowLocations, State]:
        """Where another state has the rows: in fragments that differ from the base's, or in one
        that does not, at the same offset."""
        parts, offsets = self._nowhere()
        at = side.after.rows.find(self._firsts)
        moved = np.flatnonzero(at >= 0)
        placed = _located(side.after.rows, at[moved], self._firsts[moved])
        parts[moved], offsets[moved] = placed.parts, placed.offsets
        (there, state) = base
        gone = side.deleted.find(self._firsts) >= 0
        rest = np.flatnonzero((at < 0) & there.there & ~gone)
        known, renumbered = list(side.after.parts), np.full(len(state.parts), NOWHERE)
        asked = {
            state.parts[each].fragment.id: each for each in distinct(there.parts[rest]).tolist()
        }
        for number, fragment in comparing.unchanged(asked).items():
            renumbered[asked[number]] = len(known)
            known.append(Part(RowFacts(comparing.other, fragment), fragment))
        parts[rest], offsets[rest] = renumbered[there.parts[rest]], there.offsets[rest]
        return RowLocations(parts, offsets), State(comparing.other, tuple(known))

    def _nowhere(self) -> tuple[Ints, Ints]:
        return np.full(len(self._firsts), NOWHERE), np.zeros(len(self._firsts), np.int64)


def _located(rows: LiveRows, at: Ints, firsts: Ids) -> RowLocations:
    """Where stretches begin that lie within those at these positions."""
    skipped = (firsts - rows.firsts[at]).astype(np.int64)
    return RowLocations(rows.fragments[at], rows.offsets[at] + skipped)


_Column: TypeAlias = tuple[bool, int | str]


def with_grafts(touched: TouchedRows, *, by_rows: bool) -> TouchedRows:
    """Move rows of ``both`` that need not be read into ``grafts``. If both sides may not change one
    row (``by_rows``), only those to which a side did no more than add columns."""
    theirs, ours = touched.doubts_of_both
    chosen = np.flatnonzero((theirs != NOWHERE) & (ours != NOWHERE))
    if not len(chosen):
        return touched
    both, count = touched.changed_by_both, len(touched.sides[1].doubts)
    pairs = theirs[chosen] * count + ours[chosen]
    together = [
        pair
        for pair in distinct(pairs).tolist()
        if _go_together(touched, *divmod(pair, count), by_rows=by_rows)
    ]
    chosen = chosen[np.isin(pairs, together)]
    is_aligned = both.theirs.offsets[chosen] == both.ours.offsets[chosen]
    grafts, rows = list[Graft](), list[Ints]()
    for graft, at in _grafts(touched, chosen[is_aligned]):
        grafts.append(graft)
        rows.append(at)
    if not grafts:
        return touched
    left = np.ones(len(both), np.bool_)
    left[np.concatenate(rows)] = False
    return replace(
        touched,
        changed_by_both=both.at(left),
        doubts_of_both=(theirs[left], ours[left]),
        grafts=tuple(grafts),
    )


def _go_together(touched: TouchedRows, theirs: int, ours: int, *, by_rows: bool) -> bool:
    """Whether two doubts have no column in common."""
    there, here = touched.sides[0].doubts[theirs].columns, touched.sides[1].doubts[ours].columns
    if by_rows and not (all(map(is_new, there)) or all(map(is_new, here))):
        return False
    return {*map(_column, there)}.isdisjoint(map(_column, here))


def _column(pair: ColumnPair) -> _Column:
    return (True, pair.name) if is_new(pair) else (False, pair.before.id)


def _grafts(touched: TouchedRows, chosen: Ints) -> Iterator[tuple[Graft, Ints]]:
    """The fragments of ours of which all rows that stay are among the chosen stretches."""
    rows, (there, here) = touched.changed_by_both.at(chosen), touched.states[:2]
    leaving = _rows_in(
        len(here.parts), (touched.changed_by_both, touched.only_theirs, touched.deleted_by_theirs)
    )
    for number, at in Places(*rows.ours).by_part():
        sources = distinct(rows.theirs.parts[at])
        doubts = distinct(touched.doubts_of_both[0][chosen[at]])
        ours, theirs = here.parts[number], there.parts[int(sources[0])]
        live = ours.fragment.physical_rows - len(ours.facts.deleted)
        is_whole = len(sources) == len(doubts) == 1 and leaving[number] == live
        if is_whole and ours.facts.row_ids == theirs.facts.row_ids:
            columns = touched.sides[0].doubts[int(doubts[0])].columns
            count, changes = int(rows.counts[at].sum()), changes_rows(columns, here.snapshot)
            yield Graft(ours.fragment.id, theirs.fragment.id, columns, count, changes), chosen[at]


def _rows_in(parts: int, groups: Iterable[RowRanges]) -> Ints:
    """How many rows of each fragment of ours theirs touched: those that are not grafted leave."""
    found = np.zeros(parts, np.int64)
    for each in groups:
        there = each.ours.there
        np.add.at(found, each.ours.parts[there], each.counts[there])
    return found
