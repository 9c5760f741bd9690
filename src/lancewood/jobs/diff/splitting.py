"""A comparison cut into portions that are sent to tasks: the fragments and places of its rows.

A task gets the stretches of its own rows, and the fragments that hold them without ids and versions
of rows; of the ids only those from its first row of a fragment to its last. It opens no manifest
and lists nothing. Rows are cut in the order of the later state, by what reading them costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lancewood.engine.rows import Ints, LiveRows, RowFacts
from lancewood.engine.snapshot import Snapshot
from lancewood.jobs.diff.columns import ColumnPair
from lancewood.jobs.diff.states import Comparison, Doubt, Part, State
from lancewood.jobs.diff.tasks import DELETED, INSERTED, UPDATED, DiffShape
from lancewood.model.fragment import Fragment
from lancewood.model.manifest import decode_fragment
from lancewood.model.rowids import RowIdSequence
from lancewood.model.schema import ROW_ID
from lancewood.model.segments import MAX_ROWS

_MOST_STRETCHES = 1 << 16
"""In a portion, so that a message stays small however scattered the rows are."""


class Costs(NamedTuple):
    """What reading takes, in bytes."""

    before: int
    """A row of the earlier state."""
    after: int
    opening: int
    """A fragment, whatever is read of it."""
    reaching: int = 0
    """A stretch, whatever is read of it: rows here and there take longer than rows in a row."""


class PlacedStretches(NamedTuple):
    """Rows of one state, or pairs of rows of both: so many from an offset of a fragment on."""

    counts: Ints
    before: tuple[Ints, Ints] | None
    """Fragments of the earlier state, by position, and offsets."""
    after: tuple[Ints, Ints] | None

    def at(self, low: int, high: int) -> PlacedStretches:
        return PlacedStretches(
            self.counts[low:high], _cut(self.before, low, high), _cut(self.after, low, high)
        )


@dataclass(frozen=True)
class SentFragments:
    """The fragments of one state that a task reads."""

    raws: tuple[bytes, ...]
    numbers: Ints
    """The position of each in the state."""
    ids: Mapping[int, tuple[int, bytes]] = field(default_factory=dict)
    """The ids of rows of a fragment, by its position: from which offset on, and encoded."""

    def state(self, snapshot: Snapshot) -> State:
        """The state as far as the task needs it; ``snapshot`` has no fragments."""
        name, parts = snapshot.manifest.name, list[Part]()
        for at, raw in enumerate(self.raws):
            fragment = Fragment(decode_fragment(raw, name))
            facts: RowFacts = RowFacts(snapshot, fragment)
            if at in self.ids:
                first, ids = self.ids[at]
                facts = _SentFacts(snapshot, fragment, first, RowIdSequence.decode(ids))
            parts.append(Part(facts, fragment))
        return State(snapshot, tuple(parts))


@dataclass(frozen=True)
class DiffPortion:
    """Some of the rows of a diff. Pickles."""

    before: SentFragments
    after: SentFragments
    rows: tuple[tuple[str, tuple[int, ...], PlacedStretches], ...]
    """What became of rows, which columns may differ, by position in ``DiffShape.columns``, and
    where they are, in terms of the fragments here."""

    def comparison(self, one: Snapshot, other: Snapshot, shape: DiffShape) -> Comparison:
        """These rows as ``DiffTask`` takes them; the snapshots have no fragments."""
        return Comparison(
            self.before.state(one),
            self.after.state(other),
            shape.paired,
            deleted=_live(0, *(at for kind, _, at in self.rows if kind == DELETED)),
            inserted=_live(1, *(at for kind, _, at in self.rows if kind == INSERTED)),
            doubts=tuple(
                Doubt(tuple(shape.columns[each] for each in columns), _live(0, at), _live(1, at))
                for kind, columns, at in self.rows
                if kind == UPDATED
            ),
        )


@dataclass(frozen=True, eq=False)
class DiffCutting:
    """The rows of a comparison that are asked for, to be cut by what reading them costs."""

    found: Comparison
    shape: DiffShape
    costs: Costs

    @property
    def cost(self) -> int:
        """What reading all of them takes."""
        return sum(each.cost for each in self._lines)

    def portions(self, share: int) -> Iterator[DiffPortion]:
        """The rows in portions that cost about as much as ``share``."""
        pieces, stretches, left = list[_Piece](), 0, share
        for line in self._lines:
            done = 0
            while done < line.cost:
                piece, end = line.piece(done, done + left, _MOST_STRETCHES - stretches)
                if len(piece.at.counts):
                    pieces.append(piece)
                stretches, left, done = stretches + len(piece.at.counts), left - (end - done), end
                if pieces and (left <= 0 or stretches >= _MOST_STRETCHES):
                    yield _sent(self.found, self.shape, pieces)
                    pieces, stretches = [], 0
                left = left if left > 0 and pieces else share
        if pieces:
            yield _sent(self.found, self.shape, pieces)

    @cached_property
    def _lines(self) -> tuple[_Line, ...]:
        found, costs, made = self.found, self.costs, list[_Line]()
        if DELETED in self.shape.kinds:
            at = PlacedStretches(found.deleted.counts, _places(found.deleted), None)
            made.append(_Line(DELETED, (), _ordered(at), costs.before, costs))
        if INSERTED in self.shape.kinds:
            at = PlacedStretches(found.inserted.counts, None, _places(found.inserted))
            made.append(_Line(INSERTED, (), _ordered(at), costs.after, costs))
        for doubt in found.doubts if UPDATED in self.shape.kinds else ():
            columns = self.shape.compared_in(doubt)
            if columns:
                at = PlacedStretches(
                    doubt.after.counts, _places(doubt.before), _places(doubt.after)
                )
                both = costs.before + costs.after
                made.append(_Line(UPDATED, columns, _ordered(at), both, costs))
        return tuple(each for each in made if len(each.at.counts))


class _Piece(NamedTuple):
    kind: str
    columns: tuple[ColumnPair, ...]
    at: PlacedStretches


@dataclass(frozen=True, eq=False)
class _Line:
    """Rows of one kind, in the order of their places."""

    kind: str
    columns: tuple[ColumnPair, ...]
    at: PlacedStretches
    width: int
    costs: Costs

    @property
    def cost(self) -> int:
        return int(self._ends[-1])

    @cached_property
    def _ends(self) -> Ints:
        """The costs up to the end of each stretch; one opens the fragments that the one before is
        not in."""
        found = self.at.counts * self.width
        for side in (self.at.before, self.at.after):
            if side is not None:
                found += self.costs.reaching
                found += (np.diff(side[0], prepend=-1) != 0) * self.costs.opening
        return np.cumsum(found)

    def piece(self, begin: int, end: int, most: int) -> tuple[_Piece, int]:
        """The rows between two costs, in at most so many stretches, and where they end. A row that
        is cut belongs to the next piece."""
        low = int(np.searchsorted(self._ends, begin, side="right"))
        high = min(int(np.searchsorted(self._ends, end)) + 1, low + most, len(self._ends))
        end = min(end, int(self._ends[high - 1]))
        at, ends = self.at.at(low, high), self._ends[low:high]
        starts = ends - at.counts * self.width
        skipped = np.clip((begin - starts) // self.width, 0, at.counts)
        stops = np.clip((end - starts) // self.width, 0, at.counts)
        kept = np.flatnonzero(stops > skipped)
        sides = (
            None if side is None else (side[0][kept], (side[1] + skipped)[kept])
            for side in (at.before, at.after)
        )
        return _Piece(
            self.kind, self.columns, PlacedStretches((stops - skipped)[kept], *sides)
        ), end


def _ordered(rows: PlacedStretches) -> PlacedStretches:
    """By place in the later state, if they are there; neighbours are joined."""
    sides = [side for side in (rows.after, rows.before) if side is not None]
    order = np.lexsort((sides[0][1], sides[0][0]))
    counts = rows.counts[order]
    ordered = [(parts[order], offsets[order]) for parts, offsets in sides]
    is_first = np.zeros(len(counts), np.bool_)
    is_first[:1] = True
    for parts, offsets in ordered:
        is_first[1:] |= np.diff(parts) != 0
        is_first[1:] |= offsets[1:] != offsets[:-1] + counts[:-1]
    firsts = np.flatnonzero(is_first)
    joined = [(parts[firsts], offsets[firsts]) for parts, offsets in ordered]
    total = np.add.reduceat(counts, firsts) if len(firsts) else counts
    after = joined[0] if rows.after is not None else None
    return PlacedStretches(total, joined[-1] if rows.before is not None else None, after)


def _sent(found: Comparison, shape: DiffShape, pieces: Sequence[_Piece]) -> DiffPortion:
    before = Sending(found.before, [(each.at.before, each.at.counts) for each in pieces])
    after = Sending(found.after, [(each.at.after, each.at.counts) for each in pieces])
    rows = []
    for each, one, other in zip(pieces, before.renumbered, after.renumbered, strict=True):
        columns = tuple(shape.columns.index(column) for column in each.columns)
        rows.append((each.kind, columns, PlacedStretches(each.at.counts, one, other)))
    with_ids = shape.is_by_key or any(each.kind == DELETED for each in pieces)
    return DiffPortion(before.fragments(with_ids=with_ids), after.fragments(), tuple(rows))


def sent_whole(state: State) -> SentFragments:
    """All fragments of a state, for tasks that get places of rows from elsewhere."""
    parts = np.arange(len(state.parts))
    places = parts, np.zeros(len(parts), np.int64)
    return Sending(state, [(places, np.full(len(parts), MAX_ROWS))]).fragments()


class Sending:
    """The fragments of one state that a portion needs."""

    def __init__(
        self, state: State, places: Sequence[tuple[tuple[Ints, Ints] | None, Ints]]
    ) -> None:
        self._state = state
        here = [(*side, counts) for side, counts in places if side is not None]
        none = np.empty(0, np.int64)
        parts, offsets, counts = (
            np.concatenate(each) for each in zip((none, none, none), *here, strict=True)
        )
        self._used, owners = np.unique(parts, return_inverse=True)
        self._firsts = np.full(len(self._used), np.iinfo(np.int64).max)
        self._lasts = np.zeros(len(self._used), np.int64)
        np.minimum.at(self._firsts, owners, offsets)
        np.maximum.at(self._lasts, owners, offsets + counts)
        self.renumbered = [
            None if side is None else (np.searchsorted(self._used, side[0]), side[1])
            for side, _ in places
        ]

    def fragments(self, *, with_ids: bool = True) -> SentFragments:
        raws, ids = list[bytes](), dict[int, tuple[int, bytes]]()
        for at, number in enumerate(self._used.tolist()):
            part = self._state.parts[number]
            bare = part.fragment.with_lineage(None, None, None)
            raws.append(bare.message.SerializeToString())
            known = part.facts.row_ids if with_ids else None
            if known is not None:
                first = int(self._firsts[at])
                last = min(int(self._lasts[at]), len(known))
                ids[at] = first, known.slice(first, last).encode()
        return SentFragments(tuple(raws), self._used, ids)


@dataclass(frozen=True)
class _SentFacts(RowFacts):
    """The facts of a fragment of which a task has only some ids."""

    first: int
    sent: RowIdSequence

    def column_at(self, name: str, offsets: Ints) -> pa.Array:
        if name == ROW_ID:
            return pa.array(self.sent.values_at(offsets - self.first), pa.uint64())
        return super().column_at(name, offsets)


def _places(rows: LiveRows) -> tuple[Ints, Ints]:
    return rows.fragments, rows.offsets


def _cut(side: tuple[Ints, Ints] | None, low: int, high: int) -> tuple[Ints, Ints] | None:
    return None if side is None else (side[0][low:high], side[1][low:high])


def _live(side: int, *rows: PlacedStretches) -> LiveRows:
    """Rows of the earlier (0) or later (1) state, by place alone."""
    none = np.empty(0, np.int64)
    found = [(*((each.before, each.after)[side] or (none, none)), each.counts) for each in rows]
    parts, offsets, counts = (
        np.concatenate(each) for each in zip((none, none, none), *found, strict=True)
    )
    return LiveRows.without_ids(parts, offsets, counts)
