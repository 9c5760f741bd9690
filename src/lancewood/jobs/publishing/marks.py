"""Which rows the work of a branch really changed, where its marks say more than that.

A version that adds or casts columns marks every row as changed. On the branch its transaction tells
so; after publishing there is one transaction for everything. So where such versions came together
with others, rows keep the mark that they had at the fork unless they really have other values.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lancewood.engine.changes import RowChanges, find_changes
from lancewood.engine.live_rows import LiveRows
from lancewood.jobs.publishing.net import Net, updated_at
from lancewood.jobs.publishing.work import Work
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId
from lancewood.model.operations import (
    Append,
    CreateIndex,
    Delete,
    Merge,
    Project,
    ReserveFragments,
    UpdateBases,
    UpdateConfig,
)
from lancewood.model.rowids import RowVersions

_MARK_NOTHING_ELSE = (Append, Delete, CreateIndex, ReserveFragments, UpdateConfig, UpdateBases)
"""Beside these, one Merge alone is understood from its fragments, as on any table."""


def needs_exact_marks(work: Work) -> bool:
    """Whether marks of the branch would say of rows that they changed, and nothing could tell."""
    if not work.head.manifest.has_stable_row_ids:
        return False
    kinds = [type(each.operation) for each in work.steps]
    merges = kinds.count(Merge)
    return merges > 1 or (
        merges == 1 and any(each not in (Merge, *_MARK_NOTHING_ELSE) for each in kinds)
    )


def has_exact_marks(work: Work) -> bool:
    """Whether the marks are to be believed although the work may be recorded as a Merge: they were
    made exact, or the schema changed without one, which marks nothing."""
    kinds = {type(each.operation) for each in work.steps}
    return needs_exact_marks(work) or (Project in kinds and Merge not in kinds)


def exact_marks(work: Work, net: Net) -> dict[FragmentId, RowVersions]:
    """For each fragment that came or changed the versions that really changed its rows last."""
    changes = find_changes(work.first, work.head)
    real = _real_rows(changes)
    found = {}
    for each in (*net.added, *(pair.now for pair in net.changed)):
        found[each.id] = _marks(each, real.get(each.id), changes.since.rows, work.fork)
    then = {pair.now.id: pair.then for pair in net.changed}
    seen = {each.id for each in changes.until.fragments}
    for number, before in then.items():
        if number not in seen:  # the same rows with the same values
            found[number] = updated_at(before)
    return found


def _real_rows(changes: RowChanges) -> dict[FragmentId, npt.NDArray[np.int64]]:
    """The offsets of rows that were inserted or got other values, by fragment."""
    found: dict[FragmentId, npt.NDArray[np.int64]] = {}
    for part in (changes.inserted, changes.updated):
        for at, offsets in part.by_fragment():
            number = changes.until.fragments[at].id
            known = found.get(number, np.empty(0, np.int64))
            found[number] = np.concatenate((known, offsets))
    return found


def _marks(
    fragment: Fragment, real: npt.NDArray[np.int64] | None, before: LiveRows, fork: int
) -> RowVersions:
    marks = updated_at(fragment).to_numpy().copy()
    doubtful = marks > np.uint64(fork)
    if real is not None:
        doubtful[real] = False
    ids = fragment.row_ids
    assert ids is not None, "asked of a table without stable row ids"
    offsets = np.flatnonzero(doubtful)
    at = before.find(ids.values_at(offsets))
    marks[offsets[at >= 0]] = before.updated[at[at >= 0]]
    return RowVersions.from_values(marks)
