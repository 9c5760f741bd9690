"""Rows that are one row by their primary key, although they have different ids; and different rows
that have one key, or would have it after the merge.

A side that deletes a row and inserts one with its key has replaced it, as loaders do that write a
table anew: that is a change of the row. And what both sides insert under one key is one row. Only
keys of rows that a side inserted, and of rows of the base that both sides touched and one of them
deleted, are read. A key with a null in it is that of no other row. Each of several bases may have
the row under another id.

Different rows that got one key, because a side changed that of one, stay different: a conflict. So
is a row that one side deleted, and that comes back although another one has its key by then.

A row that a rule or a decision gives back to the base, a key that a decision sets, and a key of
several columns that is put together from both sides may be the key of another row by then. Tasks
tell the keys of the rows on whose key the states do not agree. Besides those only rows count that
got another key on one side, or were inserted; all keys of ours are read for keys alone that no
state has under the row's id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lancewood.data.differing import Mask, differing
from lancewood.engine.rows import Ids, Ints, LiveRows, ScanPlan, ScanRequest, find_stretches
from lancewood.engine.snapshot import Snapshot
from lancewood.jobs.diff import Comparison, Places, RowReader, State
from lancewood.jobs.merge.conflicts import SIDES, SideRows, Sides
from lancewood.jobs.merge.touched_rows import (
    NOWHERE,
    ChangedKeys,
    GotKeys,
    RowLocations,
    RowRanges,
    TouchedRows,
)
from lancewood.jobs.merge_into.keys import Key, KeyIndex
from lancewood.model.schema import ROW_ID, Field
from lancewood.model.segments import expand

_THEIRS, _OURS, _BASE = range(3)


_ONE_BASE = 3
"""Number of states in a merge with one base: theirs, ours and the base."""


_NO_IDS: Ids = np.empty(0, np.uint64)


_NOTHING = RowLocations(np.empty(0, np.int64), np.empty(0, np.int64))


@dataclass(frozen=True, eq=False)
class KeyColumns:
    """The key of the merged schema, and its columns as each state has them."""

    key: Key
    names: tuple[str, ...]
    """The names of the key's columns in the merged schema."""
    fields: tuple[tuple[Field, ...], ...]
    """The key's columns as theirs, ours, the bases and the states below them have them."""

    def changed(self, compared: Comparison, side: int) -> ChangedKeys:
        """The rows that a side gave another key."""
        tops = {each.id for each in self.fields[side]}
        ids, places = list[Ids](), [_NOTHING]
        before, after = list[list[pa.Array]](), list[list[pa.Array]]()
        for doubt in compared.doubts:
            if tops.isdisjoint(each.after.id for each in doubt.columns):
                continue
            old = self.read(compared.before, _BASE, _places(doubt.before))
            there = _places(doubt.after)
            new = self.read(compared.after, side, there)
            differs = np.logical_or.reduce([*map(differing, old, new)])
            places.append(there.at(differs))
            ids.append(expand(doubt.after.firsts, doubt.after.counts, 1)[differs])
            before.append([each.filter(pa.array(differs)) for each in old])
            after.append([each.filter(pa.array(differs)) for each in new])
        none = [pa.nulls(0, kind) for kind in self.key.types]
        return ChangedKeys(
            np.concatenate([np.empty(0, np.uint64), *ids]),
            RowLocations(*map(np.concatenate, zip(*places, strict=True))),
            *(
                [pa.concat_arrays(each) for each in zip(none, *keys, strict=True)]
                for keys in (before, after)
            ),
        )

    def known_by(self, touched: TouchedRows, rows: RowRanges) -> list[pa.Array]:
        """The key of each row, as the first base that has it stores it, or else theirs or ours."""
        left, order, parts = np.ones(len(rows), np.bool_), list[Ints](), list[list[pa.Array]]()
        for side in (*range(_BASE, len(touched.states)), _THEIRS, _OURS):
            at = np.flatnonzero(left & rows.places[side].there)
            left[at] = False
            order.append(at)
            parts.append(self.read(touched.states[side], side, rows.places[side].at(at)))
        back = pa.array(np.argsort(np.concatenate(order)))
        return [pa.concat_arrays(each).take(back) for each in zip(*parts, strict=True)]

    def read_ours(self, ours: Snapshot) -> Iterator[tuple[Ids, list[pa.Array]]]:
        """The ids and keys of all rows of ours, some at a time."""
        fields, names = self.fields[_OURS], list(self.names)
        request = ScanRequest(columns=[each.name for each in fields], with_row_id=True)
        for rows in ScanPlan(ours, request).batches():
            columns = [rows.column(each.name) for each in fields]
            batch = pa.RecordBatch.from_arrays(columns, names=names)
            yield rows.column(ROW_ID).to_numpy(), self.key.values(batch)

    def read(self, state: State, side: int, rows: RowLocations) -> list[pa.Array]:
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


def paired_by_key(
    touched: TouchedRows, columns: KeyColumns, lost: Ids = _NO_IDS, *, is_given: bool = False
) -> tuple[TouchedRows, KeyCollisions | None]:
    """Pair rows that have different ids but one primary key (``keyed``), and collect different
    rows that claim one key (``key_collisions``). ``lost`` are ids of rows that do not keep the key
    that they got; ``is_given`` says that decisions give rows keys."""
    is_new = ~touched.only_theirs.ours.there & ~touched.only_theirs.base.there
    is_partial = ~np.logical_and.reduce([each.there for each in touched.changed_by_both.places])
    fresh, added = touched.only_theirs.at(is_new).singles(), touched.inserted_by_ours.singles()
    partial = RowRanges.joined(
        touched.changed_by_both.at(is_partial), touched.deleted_by_both
    ).singles()
    if sum(map(bool, map(len, (fresh, added, partial)))) < 2 and len(touched.states) == _ONE_BASE:
        return _with_keys_got(touched, columns, (fresh, added), lost, is_given=is_given)
    rows = RowRanges.joined(RowRanges.joined(fresh, added), partial)
    groups = _groups(rows, columns.known_by(touched, rows))
    is_left = ~np.isin(np.arange(len(rows)), groups.at)
    ends = len(fresh), len(fresh) + len(added)
    fresh_left, added_left, partial_left = np.split(is_left, ends)
    partial_left &= partial.ours.there | partial.theirs.there
    fresh, added = fresh.at(fresh_left), added.at(added_left)
    partial = partial.at(partial_left)
    unknown = np.full(len(partial), NOWHERE)
    theirs, ours = (np.concatenate((each[~is_partial], unknown)) for each in touched.doubts_of_both)
    touched = replace(
        touched,
        only_theirs=RowRanges.joined(touched.only_theirs.at(~is_new), fresh),
        inserted_by_ours=added,
        changed_by_both=RowRanges.joined(touched.changed_by_both.at(~is_partial), partial),
        doubts_of_both=(theirs, ours),
        keyed=groups.joined(rows),
    )
    return _with_keys_got(touched, columns, (fresh, added), lost, is_given=is_given)


def _with_keys_got(
    touched: TouchedRows,
    columns: KeyColumns,
    inserted: tuple[RowRanges, RowRanges],
    lost: Ids,
    *,
    is_given: bool,
) -> tuple[TouchedRows, KeyCollisions | None]:
    """Move rows into ``key_collisions`` and ``key_taken`` where a side gave a row another key;
    ``inserted`` are those that theirs and ours inserted."""
    changed = [columns.changed(compared, side) for side, compared in enumerate(touched.sides)]
    is_changed = any(len(each.ids) for each in changed)
    if not is_changed and not is_given:
        return touched, None
    theirs, ours = (
        _got_keys(touched, columns, side, each, rows)
        for side, (each, rows) in enumerate(zip(changed, inserted, strict=True))
    )
    kept = theirs.without(lost), ours.without(lost)
    touched = replace(touched, got_keys=kept)
    if not is_changed:
        return touched, None
    collisions = _key_collisions(touched, theirs, ours)
    touched = _with_key_taken(touched, columns, [each.keys for each in kept])
    return touched if collisions is None else replace(
        touched, key_collisions=collisions.rows
    ), collisions


def _with_key_taken(
    touched: TouchedRows, columns: KeyColumns, got: Sequence[Sequence[pa.Array]]
) -> TouchedRows:
    """Move rows into ``key_taken`` that one side deleted, and that would have the key of another
    one if they came back; ``got`` are keys that rows of theirs and ours got."""
    both, keyed = touched.changed_by_both, touched.keyed
    from_both, from_keyed = (
        (rows.ours.there != rows.theirs.there) & rows.base.there for rows in (both, keyed)
    )
    rows = both.at(from_both).singles()
    back = RowRanges.joined(rows, keyed.at(from_keyed))
    is_taken = np.zeros(len(back), np.bool_)
    for side, other in ((_THEIRS, _OURS), (_OURS, _THEIRS)):
        at = np.flatnonzero(back.places[side].there)
        keys = columns.read(touched.states[side], side, back.places[side].at(at))
        is_taken[at] = KeyIndex(got[other]).find(keys) >= 0
    if not is_taken.any():
        return touched
    stays = ~is_taken[: len(rows)]
    counts = both.counts[from_both]
    theirs, ours = (
        np.concatenate((each[~from_both], np.repeat(each[from_both], counts)[stays]))
        for each in touched.doubts_of_both
    )
    from_keyed[from_keyed] = is_taken[len(rows) :]
    return replace(
        touched,
        changed_by_both=RowRanges.joined(both.at(~from_both), rows.at(stays)),
        doubts_of_both=(theirs, ours),
        keyed=keyed.at(~from_keyed),
        key_taken=back.at(is_taken),
    )


@dataclass(frozen=True, eq=False)
class KeyCollisions:
    """Different rows of both sides that got one key: one that a side changed, and one that the
    other inserted or changed."""

    rows: RowRanges
    """Each pair under the id of ours, as if no base had it."""
    at: tuple[Ints, Ints]
    """Positions of the pairs among the rows of theirs and of ours that got a key."""
    sides: tuple[GotKeys, GotKeys]

    def lost_by(self, side: int, keyed: RowRanges) -> tuple[Ids, Ids] | None:
        """The rows of a side that do not get their key: those that keep the one that they had, and
        those that it inserted, which go. None if another row has that key by now: one of the side,
        or, for one of the rows that are one by their key, the other side's."""
        if np.isin(_addresses(self.rows.places[side]), _addresses(keyed.places[side])).any():
            return None
        found, at = self.sides[side], self.at[side]
        count = len(found.changed.ids)
        back, gone = at[at < count], at[at >= count]
        others = pa.array(np.setdiff1d(np.arange(len(found.ids)), at))
        known = KeyIndex([each.take(others) for each in found.keys])
        if (known.find([each.take(pa.array(back)) for each in found.changed.before]) >= 0).any():
            return None
        return found.ids[back], found.ids[gone]


def without_inserted(touched: TouchedRows, side: int, ids: Ids) -> TouchedRows:
    """Drop rows that a side inserted, by id: those of theirs do not come, those of ours go."""
    if side == _THEIRS:
        is_new = ~touched.only_theirs.ours.there & ~touched.only_theirs.base.there
        fresh = touched.only_theirs.at(is_new).singles()
        fresh = fresh.at(~np.isin(fresh.firsts, ids))
        return replace(
            touched, only_theirs=RowRanges.joined(touched.only_theirs.at(~is_new), fresh)
        )
    added = touched.inserted_by_ours.singles()
    is_lost = np.isin(added.firsts, ids)
    return replace(
        touched,
        inserted_by_ours=added.at(~is_lost),
        deleted_by_theirs=RowRanges.joined(touched.deleted_by_theirs, added.at(is_lost)),
    )


def _key_collisions(touched: TouchedRows, theirs: GotKeys, ours: GotKeys) -> KeyCollisions | None:
    """The rows of both sides that got one key; None if there are none."""
    owners = KeyIndex(ours.keys).find(theirs.keys)
    there = np.flatnonzero(owners >= 0)
    there = there[ours.ids[owners[there]] != theirs.ids[there]]
    if not len(there):
        return None
    here = owners[there]
    nowhere = RowLocations(np.full(len(there), NOWHERE), np.zeros(len(there), np.int64))
    ones = np.ones(len(there), np.int64)
    places = (
        theirs.places.at(there),
        ours.places.at(here),
        *(nowhere for _ in touched.states[_BASE:]),
    )
    rows = RowRanges(ours.ids[here], ones, places, ones.astype(np.bool_), ~ones.astype(np.bool_))
    return KeyCollisions(rows, (there, here), (theirs, ours))


def _got_keys(
    touched: TouchedRows, columns: KeyColumns, side: int, changed: ChangedKeys, inserted: RowRanges
) -> GotKeys:
    places = inserted.places[side]
    keys = columns.read(touched.states[side], side, places)
    return GotKeys(
        changed,
        np.concatenate((changed.ids, inserted.firsts)),
        RowLocations(*map(np.concatenate, zip(changed.places, places, strict=True))),
        [pa.concat_arrays(each) for each in zip(changed.after, keys, strict=True)],
    )


def _addresses(rows: RowLocations) -> Ints:
    addresses: Ints = (rows.parts[rows.there] << 32) + rows.offsets[rows.there]
    return addresses


def _places(rows: LiveRows) -> RowLocations:
    return RowLocations(rows.fragments, rows.offsets).each(rows.counts)


@dataclass(frozen=True, eq=False)
class _Groups:
    """Groups of rows with different ids that are one row by their key."""

    at: Ints
    """Positions of the rows that are in a group."""
    numbers: Ints
    """The number of the group that each of these rows is in."""
    count: int

    def joined(self, rows: RowRanges) -> RowRanges:
        """Each group as one row, as all states have it, under the id of ours if it is there."""
        found = rows.at(self.at)
        places = tuple(self._placed(each) for each in found.places)
        ids = np.zeros(self.count, np.uint64)
        for chosen in (slice(None), found.theirs.there, found.ours.there):
            ids[self.numbers[chosen]] = found.firsts[chosen]
        changes, in_place = np.zeros((2, self.count), np.bool_)
        np.logical_or.at(changes, self.numbers, found.changes)
        np.logical_or.at(in_place, self.numbers, found.in_place)
        return RowRanges(ids, np.ones(self.count, np.int64), places, changes, in_place)

    def _placed(self, places: RowLocations) -> RowLocations:
        parts, offsets = np.full(self.count, NOWHERE), np.zeros(self.count, np.int64)
        there = places.there
        parts[self.numbers[there]] = places.parts[there]
        offsets[self.numbers[there]] = places.offsets[there]
        return RowLocations(parts, offsets)


def _groups(rows: RowRanges, keys: Sequence[pa.Array]) -> _Groups:
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


@dataclass(frozen=True, eq=False)
class ResultKeys:
    """Primary keys of rows after a merge. Pickles."""

    ids: Ids
    keys: list[pa.Array]
    """The columns of the keys; null for rows of ours that go."""
    as_in: Mask
    """Whether base, ours and theirs have the row under the same key: a line for each of them."""

    @classmethod
    def joined(cls, parts: Sequence[ResultKeys]) -> ResultKeys:
        """All rows of the parts, of which there is at least one."""
        return cls(
            np.concatenate([each.ids for each in parts]),
            [pa.concat_arrays(each) for each in zip(*(each.keys for each in parts), strict=True)],
            np.concatenate([each.as_in for each in parts], axis=1),
        )

    @classmethod
    def of_side(cls, side: str, got: GotKeys, chosen: Mask) -> ResultKeys:
        """Some of the rows that got a key on a side, and keep it."""
        as_in = np.zeros((len(SIDES), int(chosen.sum())), np.bool_)
        as_in[SIDES.index(side)] = True
        return cls(got.ids[chosen], [each.filter(pa.array(chosen)) for each in got.keys], as_in)

    def shared(self) -> Ints:
        """The first row of each group of rows with one key. A group that one state has as it is
        does not count: nobody enforces keys there."""
        first = KeyIndex(self.keys).find(self.keys)
        is_keyed = first >= 0
        owners, groups, sizes = np.unique(first[is_keyed], return_inverse=True, return_counts=True)
        is_new = sizes > 1
        for line in self.as_in:
            is_new &= np.bincount(groups[line[is_keyed]], minlength=len(sizes)) < sizes
        return owners[is_new]


def result_keys(key: Key, sides: Sides, result: SideRows) -> ResultKeys:
    """The keys that rows come out with where base, ours and theirs do not agree on them, and rows
    of ours that go."""
    keys = key.values(result.values)
    lines = []
    for side in sides.each:
        differs = np.logical_or.reduce([*map(differing, keys, key.values(side.values))])
        lines.append(side.there & ~differs & result.there)
    as_in = np.array(lines)
    rows = np.flatnonzero((result.there | sides.ours.there) & ~as_in.all(axis=0))
    return ResultKeys(sides.ids[rows], [each.take(pa.array(rows)) for each in keys], as_in[:, rows])


def shared_keys(
    touched: TouchedRows, decided: Sequence[ResultKeys], ours: Iterable[tuple[Ids, list[pa.Array]]]
) -> list[pa.Array]:
    """The keys that several rows would have after a merge, once each.

    ``decided`` are the rows that tasks told of. ``ours`` are all rows of ours, by id; they are only
    read if a key is among those that no state has under the row's id.
    """
    got = zip(("theirs", "ours"), touched.got_keys, strict=True)
    rows = ResultKeys.joined(
        [
            *(
                ResultKeys.of_side(name, each, ~_is_decided(touched, side, each.places))
                for side, (name, each) in enumerate(got)
            ),
            *decided,
        ]
    )
    shared = rows.shared()
    given = np.flatnonzero(~rows.as_in.any(axis=0))
    index = KeyIndex([each.take(pa.array(given)) for each in rows.keys])
    if len(index):
        known = np.concatenate((rows.ids, touched.got_keys[0].changed.ids))
        for ids, keys in ours:
            at = index.find(keys)
            stays = ~np.isin(ids, known) & ~_are_within(
                touched.deleted_by_theirs.firsts, touched.deleted_by_theirs.counts, ids
            )
            shared = np.union1d(shared, given[at[(at >= 0) & stays]])
    found = [each.take(pa.array(shared)) for each in rows.keys]
    once = pa.array(np.unique(KeyIndex(found).find(found)))
    return [each.take(once) for each in found]


def _is_decided(touched: TouchedRows, side: int, places: RowLocations) -> Mask:
    """Which rows of a side a task decides."""
    starts, counts = list[Ids](), list[Ints]()
    for rows in (
        *(touched.changed_by_both, touched.keyed, touched.key_collisions),
        *(touched.key_taken, touched.asked),
    ):
        there = rows.places[side].there
        starts.append(_addresses_of(rows.places[side].at(there)))
        counts.append(rows.counts[there])
    addresses = _addresses_of(places)
    return _are_within(np.concatenate(starts), np.concatenate(counts), addresses)


def _addresses_of(places: RowLocations) -> Ids:
    return ((places.parts << 32) + places.offsets).astype(np.uint64)


def _are_within(starts: Ids, counts: Ints, numbers: Ids) -> Mask:
    """Which numbers are in one of these stretches, which do not overlap."""
    order = np.argsort(starts)
    ends = starts + counts.astype(np.uint64)
    found: Mask = find_stretches(starts[order], ends[order], numbers) >= 0
    return found
