"""What an executor does for a merge once rows are paired: judge the pairs, write what changes.

It does to its rows what ``jobs.merge_into`` does on one machine, and answers with little: new
fragments, counts, hashes of keys. Nothing refers to its files until the driver commits; run twice,
it writes other files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancewood.data.wanted import WantedColumns
from lancewood.engine.base import offsets_of
from lancewood.engine.location import NewFile
from lancewood.engine.rows import ScanPlan, ScanRequest
from lancewood.engine.snapshot import Snapshot
from lancewood.jobs.merge_into.columns import ColumnChanges, change_columns
from lancewood.jobs.merge_into.condition import MatchCondition
from lancewood.jobs.merge_into.key_hashes import hash_keys, whole_keys
from lancewood.jobs.merge_into.keys import Positions
from lancewood.jobs.merge_into.rows import MergeWork, RowTask, change_rows
from lancewood.jobs.merge_into.search import Matches
from lancewood.jobs.merge_into.source import Matched, rows_at
from lancewood.jobs.rows.updating import Updated, weigh
from lancewood.model.bitmap import bitmap_of
from lancewood.model.fragment import Fragment
from lancewood.model.schema import ROW_ADDRESS
from lancewood.rules.overlaps import Hashes
from lancewood.spark.merge_into.staged_source import StagedSource
from lancewood.spark.merge_into.task_rows import TaskRows

_Mask: TypeAlias = npt.NDArray[np.bool_]

_CONDITION_ROWS = 65_536


@dataclass(frozen=True)
class MergeChanges:
    """The part of a task that all tasks of a merge share. Pickles."""

    snapshot: Snapshot
    """Bare: fragments come with the tasks."""
    source: StagedSource
    matched: Matched
    condition: MatchCondition | None
    by_columns: bool = False
    wants_hashes: bool = False
    """Whether the answer is to have the keys of inserted rows."""
    new: StagedSource | None = None
    """Where inserted rows come from, if not from the source."""

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the fields alone: the rest is worked out again elsewhere."""
        return {each.name: self.__dict__[each.name] for each in fields(self)}

    @cached_property
    def target_columns(self) -> tuple[str, ...]:
        """Columns of the table that the condition reads."""
        assert self.condition is not None
        return tuple(dict.fromkeys(self.condition.target_columns))


@dataclass(frozen=True, slots=True)
class TaskDone:
    """The rows that a task of a merge changed, and the files that it wrote."""

    changes: Updated
    updated: int
    deleted: int
    unchanged: int
    hashes: Hashes | None = None
    """Hashes of the keys of inserted rows."""

    @property
    def files(self) -> tuple[NewFile, ...]:
        return self.changes.files


@dataclass(frozen=True, slots=True)
class Weight:
    """The bytes that each way of updating writes for some fragments."""

    rows: float
    columns: float


def change(job: MergeChanges, rows: TaskRows) -> TaskDone:
    """The task: write what changes."""
    fragments = rows.fragments(job.snapshot.manifest.name)
    chosen = [_meeting(job, each, rows.found_in(each.id)) for each in fragments]
    unmet = len(rows.pairs) - sum(len(each.offsets) for each in chosen)
    if job.source.deleted is not None:
        chosen = [_deleting(job.source, each) for each in chosen]
    matched = sum(len(each.offsets) for each in chosen)
    orphans = sum(len(each.orphans) for each in chosen)
    hashes = key_hashes(job.new or job.source, rows.inserted) if job.wants_hashes else None
    touched = [n for n, each in enumerate(chosen) if len(each.offsets) or each.orphans]
    task = RowTask(
        tuple(fragments[n] for n in touched),
        tuple(chosen[n] for n in touched),
        rows.inserted,
        new=job.new,
    )
    if job.by_columns:
        changes = change_columns(ColumnChanges(job.snapshot, job.source), task)
    else:
        changes = change_rows(MergeWork(job.snapshot, job.source, job.matched), task)
    return TaskDone(
        changes,
        updated=matched if job.matched == "update" else 0,
        deleted=orphans + (matched if job.matched == "delete" else 0),
        unchanged=unmet,
        hashes=hashes,
    )


def weigh_ways(job: MergeChanges, rows: TaskRows) -> Weight:
    """The task: what each way of updating would write; writes nothing."""
    moved = rewritten = 0.0
    wanted = WantedColumns(job.source.changed)
    for each in rows.fragments(job.snapshot.manifest.name):
        chosen = _meeting(job, each, rows.found_in(each.id))
        if len(chosen.offsets):
            by_rows, by_columns = weigh(job.snapshot, each, chosen.bitmap, wanted)
            moved, rewritten = moved + by_rows, rewritten + by_columns
    return Weight(moved, rewritten)


def _deleting(source: StagedSource, found: Matches) -> Matches:
    """The pairs whose row of the source deletes, as rows that go."""
    goes = source.deletes(found.positions)
    return replace(
        found,
        offsets=found.offsets[~goes],
        positions=found.positions[~goes],
        orphans=found.orphans | bitmap_of(found.offsets[goes]),
    )


def _meeting(job: MergeChanges, fragment: Fragment, found: Matches) -> Matches:
    """The pairs in a fragment that meet the condition."""
    if job.condition is None or not len(found.offsets):
        return found
    masks = list(_judged(job, job.condition, fragment, found))
    kept = np.concatenate(masks) if masks else np.zeros(0, np.bool_)
    return replace(found, offsets=found.offsets[kept], positions=found.positions[kept])


def _judged(
    job: MergeChanges, condition: MatchCondition, fragment: Fragment, found: Matches
) -> Iterator[_Mask]:
    """Which of the pairs meet it, portion by portion."""
    request = ScanRequest(columns=job.target_columns, with_row_address=True, fragments=[fragment])
    names = dict.fromkeys(each.partition(".")[0] for each in job.target_columns)
    at = 0
    for batch in ScanPlan(job.snapshot, request).batches(1):
        offsets = offsets_of(batch.column(ROW_ADDRESS).to_numpy())
        target = pa.Table.from_batches([batch])
        target = target.select([each for each in target.schema.names if each in names])
        end = int(np.searchsorted(found.offsets, offsets[-1], side="right"))
        for start in range(at, end, _CONDITION_ROWS):
            stop = min(start + _CONDITION_ROWS, end)
            theirs = rows_at(target, np.searchsorted(offsets, found.offsets[start:stop]))
            mine = job.source.at(found.positions[start:stop], condition.source_columns)
            yield condition.mask(mine, theirs)
        at = end
        if at == len(found.offsets):
            return


def key_hashes(source: StagedSource, inserted: Positions) -> Hashes:
    """Hashes of the keys that are inserted."""
    parts = [np.empty(0, np.uint64)]
    columns = list(dict.fromkeys(path[0] for path in source.key.paths))
    for start in range(0, len(inserted), source.portion_rows):
        rows = source.at(inserted[start : start + source.portion_rows], columns)
        parts.append(hash_keys(whole_keys(source.key.values(rows))))
    return np.concatenate(parts)
