"""Rows that are one row by their key, although they have different ids.

A side that deletes a row and inserts one with its key has replaced it, as loaders do that write a
table anew: that is a change of the row. And what both sides insert under one key is one row. Only
keys of rows that a side inserted, and of rows of the base that both sides touched and one of them
deleted, are read. A key with a null in it is that of no other row. Each of several bases may have
the row under another id.

Different rows that got one key, because a side changed that of one, stay different: a conflict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lancewood.data.differing import differing
from lancewood.engine.comparing import Comparison, Places, RowReader, State
from lancewood.engine.rows import Ids, Ints, LiveRows
from lancewood.jobs.merging.keys import Key, KeyIndex
from lancewood.jobs.uniting.meeting import NOWHERE, Met, MetRows, Placed
from lancewood.model.schema import Field
from lancewood.model.segments import expand

_THEIRS, _OURS, _BASE = range(3)
_ONE_BASE = 3
"""So many states there are if there is one base."""
_NOTHING = Placed(np.empty(0, np.int64), np.empty(0, np.int64))


@dataclass(frozen=True, eq=False)
class KeyColumns:
    """The key of the merged schema, and its columns as each state has them."""

    key: Key
    names: tuple[str, ...]
    """Of the columns in the merged schema."""
    fields: tuple[tuple[Field, ...], ...]
    """The same of theirs, ours, the bases and what is below them."""

    def changed(self, compared: Comparison, side: int) -> tuple[Ids, Placed, list[pa.Array]]:
        """The rows that a side gave another key: their ids, where they are there, and the new
        keys."""
        tops = {each.id for each in self.fields[side]}
        ids, places, keys = list[Ids](), [_NOTHING], list[list[pa.Array]]()
        for doubt in compared.doubts:
            if tops.isdisjoint(each.after.id for each in doubt.columns):
                continue
            old = self.read(compared.before, _BASE, _places(doubt.before))
            there = _places(doubt.after)
            new = self.read(compared.after, side, there)
            differs = np.logical_or.reduce([*map(differing, old, new)])
            places.append(there.at(differs))
            ids.append(expand(doubt.after.firsts, doubt.after.counts, 1)[differs])
            keys.append([each.filter(pa.array(differs)) for each in new])
        none = [pa.nulls(0, kind) for kind in self.key.types]
        return (
            np.concatenate([np.empty(0, np.uint64), *ids]),
            Placed(*map(np.concatenate, zip(*places, strict=True))),
            [pa.concat_arrays(each) for each in zip(none, *keys, strict=True)],
        )

    def known_by(self, met: Met, rows: MetRows) -> list[pa.Array]:
        """The keys of rows: those that the bases have them under, or else a side."""
        left, order, parts = np.ones(len(rows), np.bool_), list[Ints](), list[list[pa.Array]]()
        for side in (*range(_BASE, len(met.states)), _THEIRS, _OURS):
            at = np.flatnonzero(left & rows.places[side].there)
            left[at] = False
            order.append(at)
            parts.append(self.read(met.states[side], side, rows.places[side].at(at)))
        back = pa.array(np.argsort(np.concatenate(order)))
        return [pa.concat_arrays(each).take(back) for each in zip(*parts, strict=True)]

    def read(self, state: State, side: int, rows: Placed) -> list[pa.Array]:
        """The keys of rows of a state, in their order."""
        fields = self.fields[side]
        names = list(self.names)
        reader, parts = RowReader(state, fields), list[list[pa.Array]]()
        most = state.portion_rows(fields)
        for low in range(0, max(1, len(rows.parts)), most):
            found = reader.at(Places(*rows.at(slice(low, low + most))))
            batch = pa.RecordBatch.from_arrays([found[each.name] for each in fields], names=names)
            parts.append(self.key.values(batch))
        return [pa.concat_arrays(each) for each in zip(*parts, strict=True)]


def paired_by_key(met: Met, columns: KeyColumns) -> Met:
    """The same, with rows that are one by their key in ``keyed``, and different ones that got one
    key in ``clashing``."""
    is_new = ~met.taken.ours.there & ~met.taken.base.there
    is_partial = ~np.logical_and.reduce([each.there for each in met.both.places])
    fresh, added = met.taken.at(is_new).singles(), met.added.singles()
    partial = MetRows.joined(met.both.at(is_partial), met.vanished).singles()
    if sum(map(bool, map(len, (fresh, added, partial)))) < 2 and len(met.states) == _ONE_BASE:
        return replace(met, clashing=_clashing(met, columns, fresh, added))
    rows = MetRows.joined(MetRows.joined(fresh, added), partial)
    groups = _groups(rows, columns.known_by(met, rows))
    is_left = ~np.isin(np.arange(len(rows)), groups.at)
    ends = len(fresh), len(fresh) + len(added)
    fresh_left, added_left, partial_left = np.split(is_left, ends)
    partial_left &= partial.ours.there | partial.theirs.there
    fresh, added = fresh.at(fresh_left), added.at(added_left)
    return replace(
        met,
        clashing=_clashing(met, columns, fresh, added),
        taken=MetRows.joined(met.taken.at(~is_new), fresh),
        added=added,
        both=MetRows.joined(met.both.at(~is_partial), partial.at(partial_left)),
        keyed=groups.joined(rows),
    )


def _clashing(met: Met, columns: KeyColumns, fresh: MetRows, added: MetRows) -> MetRows:
    """Different rows of both sides that got one key: one that a side changed, and one that the
    other inserted or changed. Each pair is under the id of ours, as if no base had it."""
    changed = [columns.changed(compared, side) for side, compared in enumerate(met.sides)]
    if not any(len(ids) for ids, _, _ in changed):
        return met.keyed.at(slice(0))
    found = []
    for side, rows in ((_THEIRS, fresh), (_OURS, added)):
        ids, places, keys = changed[side]
        inserted = columns.read(met.states[side], side, rows.places[side])
        found.append(
            (
                np.concatenate((ids, rows.firsts)),
                Placed(*map(np.concatenate, zip(places, rows.places[side], strict=True))),
                [pa.concat_arrays(each) for each in zip(keys, inserted, strict=True)],
            )
        )
    (their_ids, theirs, their_keys), (our_ids, ours, our_keys) = found
    owners = KeyIndex(our_keys).find(their_keys)
    at = np.flatnonzero(owners >= 0)
    at = at[our_ids[owners[at]] != their_ids[at]]
    nowhere = Placed(np.full(len(at), NOWHERE), np.zeros(len(at), np.int64))
    bases = (nowhere for _ in met.states[_BASE:])
    ones = np.ones(len(at), np.int64)
    pairs = (theirs.at(at), ours.at(owners[at]), *bases)
    return MetRows(our_ids[owners[at]], ones, pairs, ones.astype(np.bool_))


def _places(rows: LiveRows) -> Placed:
    return Placed(rows.fragments, rows.offsets).each(rows.counts)


@dataclass(frozen=True, eq=False)
class _Groups:
    """Rows that are one row."""

    at: Ints
    """Which rows these are."""
    numbers: Ints
    """Which of the groups each is in."""
    count: int

    def joined(self, rows: MetRows) -> MetRows:
        """Each group as one row, as all states have it, under the id of ours if it is there."""
        found = rows.at(self.at)
        places = tuple(self._placed(each) for each in found.places)
        ids = np.zeros(self.count, np.uint64)
        for chosen in (slice(None), found.theirs.there, found.ours.there):
            ids[self.numbers[chosen]] = found.firsts[chosen]
        changes = np.zeros(self.count, np.bool_)
        np.logical_or.at(changes, self.numbers, found.changes)
        return MetRows(ids, np.ones(self.count, np.int64), places, changes)

    def _placed(self, places: Placed) -> Placed:
        parts, offsets = np.full(self.count, NOWHERE), np.zeros(self.count, np.int64)
        there = places.there
        parts[self.numbers[there]] = places.parts[there]
        offsets[self.numbers[there]] = places.offsets[there]
        return Placed(parts, offsets)


def _groups(rows: MetRows, keys: Sequence[pa.Array]) -> _Groups:
    """The rows with one key of which no state has two."""
    first = KeyIndex(keys).find(keys)
    at = np.flatnonzero(first >= 0)
    _, numbers, sizes = np.unique(first[at], return_inverse=True, return_counts=True)
    is_one = sizes > 1
    for each in rows.places:
        is_one &= np.bincount(numbers[each.there[at]], minlength=len(sizes)) < 2
    chosen = is_one[numbers]
    _, numbers = np.unique(numbers[chosen], return_inverse=True)
    return _Groups(at[chosen], numbers, int(is_one.sum()))
