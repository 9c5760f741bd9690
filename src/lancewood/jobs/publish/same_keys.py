"""Rows that both sides of a publishing brought under one primary key.

A schema may declare a key, and nobody enforces it: what is unique on the branch and unique on the
target need not be so once they are one. That can only come of keys that are new on both sides, so
rows from before the fork are not read unless a side may have given them other keys; what a side has
twice by itself is its own matter. A key with a null in it equals none, and floats are no keys. The
keys of the side with fewer rows are held in memory, some millions at a time, and looked up in those
of the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lancewood.engine.rows import RowFacts, ScanPlan, ScanRequest
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import IncompatibleConflictError
from lancewood.jobs.job import pack_fragments
from lancewood.jobs.merge_into.keys import Key, KeyIndex, key_of, shown_key
from lancewood.jobs.merge_into.search import Matches, Search, find_matches
from lancewood.jobs.publish.work import Net
from lancewood.jobs.runner import Runner
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FieldId
from lancewood.model.schema import ROW_ID
from lancewood.rules.indices import changed_fields

_MOST_KEYS = 4_000_000
"""Keys that are held in memory at once."""
_KEYS_IN_A_TASK = 1_000_000
_MOST_SHOWN = 3


@dataclass(frozen=True)
class NewKeys:
    """Rows of one side whose keys the other may not have."""

    snapshot: Snapshot
    fragments: tuple[Fragment, ...]
    key: Key
    born: int | None
    """Rows with ids from here on; None: all rows of the fragments."""

    @property
    def row_count(self) -> int:
        return sum(each.physical_rows for each in self.fragments)

    def tasks(self, slots: int) -> list[tuple[Fragment, ...]]:
        return list(pack_fragments(self.fragments, max(slots, self.row_count // _KEYS_IN_A_TASK)))

    def are_new(self, fragment: Fragment, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        ids = RowFacts(self.snapshot, fragment).row_ids
        if self.born is None or ids is None:
            return np.ones(len(offsets), np.bool_)
        return ids.values_at(offsets) >= np.uint64(self.born)


def new_keys(
    snapshot: Snapshot,
    net: Net,
    key: Sequence[FieldId],
    born: int,
    given: frozenset[FieldId] | None,
) -> NewKeys | None:
    """The rows of a side that may have keys which were not there at the fork; None for a side that
    has none, or not all columns of the key.

    ``net`` is what became of its fragments, ``born`` the first row id after the fork, ``given`` the
    columns in which rows of before got other values, None if any may be among them.
    """
    found = key_of(snapshot.schema, key)
    if found is None:
        return None
    parts = frozenset(key)
    is_stable = snapshot.manifest.has_stable_row_ids
    only_born = is_stable and given is not None and parts.isdisjoint(given)
    fragments = [
        each for each in net.added if not only_born or _has_born(RowFacts(snapshot, each), born)
    ]
    if not only_born:
        pairs = ((each.then, each.now) for each in net.changed)
        fragments += [now for then, now in pairs if not parts.isdisjoint(changed_fields(then, now))]
    if not fragments:
        return None
    return NewKeys(snapshot, tuple(fragments), found, born if only_born else None)


def _has_born(facts: RowFacts, born: int) -> bool:
    last = None if facts.row_ids is None else facts.row_ids.max_value()
    return last is not None and last >= born


def check_keys(mine: NewKeys, theirs: NewKeys, runner: Runner) -> None:
    """Raises IncompatibleConflictError, with a few of the keys, if both sides have new rows under
    the same."""
    held, other = sorted((mine, theirs), key=lambda each: each.row_count)
    by_id = {each.id: each for each in other.fragments}
    for columns in _portions(held, runner):
        index = KeyIndex(columns)
        search = Search(
            other.snapshot.bare(),
            other.key,
            index,
            condition=None,
            conditional=pa.table({}),
            changes_matches=True,
            wants_orphans=False,
        )
        work = partial(find_matches, search)
        tasks = other.tasks(runner.slots) if len(index) else []
        twice: set[int] = set()
        for found in runner.run(work, tasks, what="comparing keys"):
            for each in found.matches:
                twice.update(_new(other, by_id[each.fragment_id], each))
        if twice:
            raise _conflict(mine.key, columns, sorted(twice))


def _new(side: NewKeys, fragment: Fragment, matches: Matches) -> Iterable[int]:
    chosen: list[int] = matches.positions[side.are_new(fragment, matches.offsets)].tolist()
    return chosen


def _portions(side: NewKeys, runner: Runner) -> Iterator[list[pa.Array]]:
    """The key's columns of all rows, in portions of at least ``_MOST_KEYS`` rows but for the
    last."""
    work = partial(_read_keys, replace(side, snapshot=side.snapshot.bare(), fragments=()))
    waiting: list[pa.Table] = []
    for each in runner.run(work, side.tasks(runner.slots), what="reading keys"):
        waiting.append(each)
        if sum(part.num_rows for part in waiting) >= _MOST_KEYS:
            yield side.key.values(pa.concat_tables(waiting))
            waiting = []
    if waiting:
        yield side.key.values(pa.concat_tables(waiting))


def _read_keys(side: NewKeys, fragments: Sequence[Fragment]) -> pa.Table:
    """The task: the key's columns of the new rows of some fragments."""
    is_chosen = side.born is not None
    request = ScanRequest(columns=side.key.names, with_row_id=is_chosen, fragments=fragments)
    plan = ScanPlan(side.snapshot, request)
    rows = pa.Table.from_batches(plan.batches(), schema=plan.schema)
    if not is_chosen:
        return rows
    born = pc.greater_equal(rows.column(ROW_ID), pa.scalar(side.born, pa.uint64()))
    return rows.filter(born).drop_columns([ROW_ID])


def _conflict(
    key: Key, columns: Sequence[pa.Array], rows: Sequence[int]
) -> IncompatibleConflictError:
    some = [shown_key(key, columns, each) for each in rows[:_MOST_SHOWN]]
    more = f" and {len(rows) - len(some):,} more" if len(rows) > len(some) else ""
    told = "; ".join(shown for shown, _ in some)
    return IncompatibleConflictError(
        f"both have new rows with the same primary key ({told}{more}), and it would be there twice",
        keys=[values for _, values in some],
    )
