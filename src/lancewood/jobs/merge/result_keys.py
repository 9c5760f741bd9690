"""Primary keys that rows have after a merge, and which of them two rows would have.

A row that a rule or a decision gives back to the base, a key that a decision sets, and a key of
several columns that is put together from both sides may be the key of another row by then. Tasks
tell the keys of the rows on whose key the states do not agree. Besides those only rows count that
got another key on one side, or were inserted; all keys of ours are read for keys alone that no
state has under the row's id.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lancewood.data.differing import Mask, differing
from lancewood.engine.rows import Ids, Ints
from lancewood.jobs.merge.conflicts import SIDES, SideRows, Sides
from lancewood.jobs.merge.meeting import GotKeys, Met, MetRows, Placed
from lancewood.jobs.merge_into.keys import Key, KeyIndex


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
    as_in = np.array([_has_keys(key, each, keys) & result.there for each in sides.each])
    rows = np.flatnonzero((result.there | sides.ours.there) & ~as_in.all(axis=0))
    return ResultKeys(sides.ids[rows], [each.take(pa.array(rows)) for each in keys], as_in[:, rows])


def _has_keys(key: Key, side: SideRows, keys: Sequence[pa.Array]) -> Mask:
    differs: Mask = np.logical_or.reduce([*map(differing, keys, key.values(side.values))])
    return side.there & ~differs


def shared_keys(
    met: Met, decided: Sequence[ResultKeys], ours: Iterable[tuple[Ids, list[pa.Array]]]
) -> list[pa.Array]:
    """The keys that several rows would have after a merge, once each.

    ``decided`` are the rows that tasks told of. ``ours`` are all rows of ours, by id; they are only
    read if a key is among those that no state has under the row's id.
    """
    got = zip(("theirs", "ours"), met.got_keys, strict=True)
    rows = ResultKeys.joined(
        [
            *(
                ResultKeys.of_side(name, each, ~_is_decided(met, side, each.places))
                for side, (name, each) in enumerate(got)
            ),
            *decided,
        ]
    )
    shared = rows.shared()
    given = np.flatnonzero(~rows.as_in.any(axis=0))
    index = KeyIndex([each.take(pa.array(given)) for each in rows.keys])
    if len(index):
        known = np.concatenate((rows.ids, met.got_keys[0].changed.ids))
        for ids, keys in ours:
            at = index.find(keys)
            stays = ~np.isin(ids, known) & ~_are_within(met.gone.firsts, met.gone.counts, ids)
            shared = np.union1d(shared, given[at[(at >= 0) & stays]])
    found = [each.take(pa.array(shared)) for each in rows.keys]
    once = pa.array(np.unique(KeyIndex(found).find(found)))
    return [each.take(once) for each in found]


def _is_decided(met: Met, side: int, places: Placed) -> Mask:
    """Which rows of a side a task decides."""
    groups = (met.both, met.keyed, met.rivals, met.key_taken, met.asked)
    found = [_addressed(each, side) for each in groups]
    starts, counts = (np.concatenate(each) for each in zip(*found, strict=True))
    return _are_within(starts, counts, _addresses(places))


def _addressed(rows: MetRows, side: int) -> tuple[Ids, Ints]:
    """The stretches that a side has, by address."""
    there = rows.places[side].there
    return _addresses(rows.places[side].at(there)), rows.counts[there]


def _addresses(places: Placed) -> Ids:
    return ((places.parts << 32) + places.offsets).astype(np.uint64)


def _are_within(starts: Ids, counts: Ints, numbers: Ids) -> Mask:
    """Which numbers are in one of these stretches, which do not overlap."""
    if not len(starts):
        return np.zeros(len(numbers), np.bool_)
    order = np.argsort(starts)
    starts, ends = starts[order], (starts + counts.astype(np.uint64))[order]
    at = np.searchsorted(starts, numbers, side="right") - 1
    found: Mask = (at >= 0) & (numbers < ends[at])
    return found
