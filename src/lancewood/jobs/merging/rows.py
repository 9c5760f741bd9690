"""Writing what a merge does to rows: some move to new fragments, some are new, some go.

Which rows, and what they become, was found before: ``write_rows`` takes fragments, offsets and
rows of the source, whoever joined them. Nothing refers to the files until a commit does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa
from pyroaring import BitMap

from lancewood.data.wanted import WantedColumns
from lancewood.engine.deletions import mark_deleted
from lancewood.engine.homes import new_data_files, new_deletion_files
from lancewood.engine.snapshot import Snapshot
from lancewood.jobs.merging.keys import Positions
from lancewood.jobs.merging.search import Matches
from lancewood.jobs.merging.source import FittedSource, Matched, NewValues
from lancewood.jobs.packing import MOST_FRAGMENTS
from lancewood.jobs.rows.moving import MovingRows, read_moving, write_moved
from lancewood.jobs.rows.updating import Updated
from lancewood.model.bitmap import bitmap_of
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId
from lancewood.model.schema import Schema

_LEAST_MOVED = 65_536
_LEAST_INSERTED = 262_144
_MOST_INSERTED = 1_048_576


@dataclass(frozen=True, slots=True)
class Touched:
    """A fragment that rows leave."""

    fragment: Fragment
    moved: Positions
    """Physical offsets of rows that get new values, rising."""
    new_values: NewValues
    """Of the columns that change."""
    deleted: BitMap = field(default_factory=BitMap)
    """Physical offsets of rows that go."""


def write_rows(
    snapshot: Snapshot,
    touched: Sequence[Touched],
    inserted: Iterable[pa.RecordBatch],
    kept: WantedColumns,
    portion_rows: int,
) -> Updated:
    """New fragments of moved and inserted rows, and deletion files where rows left.

    ``kept`` are the columns that moving rows keep; inserted rows have all of the table's. Whole
    rows are held only ``portion_rows`` at a time. ``snapshot`` may be bare. On any error no file is
    left.
    """
    moving = (rows for each in touched for rows in _moving(snapshot, each, kept, portion_rows))
    new = write_moved(snapshot, moving, inserted)
    updated: list[Fragment] = []
    removed: list[FragmentId] = []
    try:
        for each in touched:
            gone = bitmap_of(each.moved) | each.deleted
            image = mark_deleted(snapshot, each.fragment, gone)
            if image is None:
                removed.append(each.fragment.id)
            else:
                updated.append(image)
    except BaseException:
        snapshot.discard((*new_data_files(new), *new_deletion_files(updated)))
        raise
    return Updated(
        rows=sum(len(each.moved) for each in touched),
        updated=tuple(updated),
        files=(*new_data_files(new), *new_deletion_files(updated)),
        removed=tuple(removed),
        new=new,
    )


def _moving(
    snapshot: Snapshot, touched: Touched, kept: WantedColumns, portion_rows: int
) -> Iterator[MovingRows]:
    """The moving rows of one fragment with their new values."""
    offsets, at = bitmap_of(touched.moved), 0
    for old in read_moving(snapshot, touched.fragment, offsets, kept):
        rows = old.rows
        for start in range(0, rows.num_rows, portion_rows):
            part = rows.slice(start, portion_rows)
            stop = start + part.num_rows
            new = touched.new_values(at + start, at + stop)
            arrays = [*part.columns, *new.columns]
            names = [*part.schema.names, *new.schema.names]
            yield MovingRows(
                pa.RecordBatch.from_arrays(arrays, names=names),
                old.offsets[start:stop],
                None if old.ids is None else old.ids[start:stop],
                None if old.created_at is None else old.created_at[start:stop],
            )
        at += rows.num_rows


@dataclass(frozen=True)
class RowChanges:
    """What the tasks of a merge have in common."""

    snapshot: Snapshot
    """Bare: fragments travel with the tasks."""
    source: FittedSource
    matched: Matched

    @cached_property
    def kept(self) -> WantedColumns:
        """The columns that the source does not have."""
        given = set(self.source.columns.names)
        fields = self.snapshot.schema.fields
        return WantedColumns(Schema(tuple(each for each in fields if each.name not in given)))


@dataclass(frozen=True, slots=True)
class RowTask:
    """Fragments with what was found in them, and rows of the source to be inserted."""

    fragments: tuple[Fragment, ...]
    matches: tuple[Matches, ...]
    inserted: Positions


def change_rows(job: RowChanges, task: RowTask) -> Updated:
    """The task: write what becomes of the rows."""
    pairs = zip(task.fragments, task.matches, strict=True)
    return write_rows(
        job.snapshot,
        [_touched(job, fragment, found) for fragment, found in pairs],
        job.source.whole_rows(task.inserted),
        job.kept,
        job.source.portion_rows,
    )


def _touched(job: RowChanges, fragment: Fragment, found: Matches) -> Touched:
    new_values = job.source.values_at(found.positions)
    if job.matched == "delete":
        gone = found.bitmap | found.orphans
        return Touched(fragment, found.offsets[:0], new_values, gone)
    return Touched(fragment, found.offsets, new_values, found.orphans)


def plan_row_tasks(
    snapshot: Snapshot, matches: Sequence[Matches], inserted: Positions, slots: int
) -> list[RowTask]:
    """The work in tasks that are neither many nor few: each makes new fragments of its own.

    Inserted rows come after the moved rows of the last task, and in tasks of their own.
    """
    groups = list(_packed(matches, slots))
    share = min(max(len(inserted) // max(slots, 1), _LEAST_INSERTED), _MOST_INSERTED)
    chunks = [inserted[at : at + share] for at in range(0, len(inserted), share)]
    tasks = [
        RowTask(
            tuple(snapshot.manifest.fragment(each.fragment_id) for each in group),
            tuple(group),
            chunks.pop(0) if chunks and number == len(groups) - 1 else inserted[:0],
        )
        for number, group in enumerate(groups)
    ]
    return tasks + [RowTask((), (), each) for each in chunks]


def _packed(matches: Sequence[Matches], slots: int) -> Iterator[list[Matches]]:
    total = sum(len(each.offsets) for each in matches)
    share = max(total // max(slots, 1), _LEAST_MOVED)
    group: list[Matches] = []
    held = 0
    for each in matches:
        group.append(each)
        held += len(each.offsets)
        if held >= share or len(group) >= MOST_FRAGMENTS:
            yield group
            group, held = [], 0
    if group:
        yield group
