"""Writing what a merge does to rows: some move to new fragments, some are new, some go.

Which rows, and what they become, was found before: ``write_rows`` takes fragments, offsets and
rows of the source, whoever joined them. Nothing refers to the files until a commit does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lancewood.data.small_fragments import SmallFragments
from lancewood.data.wanted import WantedColumns
from lancewood.engine.base import in_order
from lancewood.engine.location import new_data_files, new_deletion_files
from lancewood.engine.rows import FragmentGroup, chosen, grouped, small_fragments
from lancewood.engine.snapshot import Snapshot
from lancewood.engine.write import mark_deleted
from lancewood.jobs.job import AT_ONCE, MOST_FRAGMENTS
from lancewood.jobs.merge_into.keys import Positions
from lancewood.jobs.merge_into.search import Matches
from lancewood.jobs.merge_into.source import Matched, SourceRows
from lancewood.jobs.rows.matching import MovingRows, read_moving, write_moved
from lancewood.jobs.rows.updating import Updated
from lancewood.model.bitmap import bitmap_of
from lancewood.model.fragment import Fragment
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
    positions: Positions
    """For each moved row, the row of the source that has the values."""
    deleted: BitMap = field(default_factory=BitMap)
    """Physical offsets of rows that go."""


def write_rows(
    snapshot: Snapshot,
    touched: Sequence[Touched],
    inserted: Iterable[pa.RecordBatch],
    kept: WantedColumns,
    source: SourceRows,
) -> Updated:
    """New fragments of moved and inserted rows, and deletion files where rows left.

    ``kept`` are the columns that moving rows keep; inserted rows have all of the table's. Whole
    rows are held only some megabytes at a time. ``snapshot`` may be bare. On any error no file is
    left.
    """
    new = write_moved(snapshot, _moving(snapshot, touched, kept, source), inserted)
    images: list[Fragment] = []
    work = (partial(_mark, snapshot, each, images) for each in touched)
    try:
        done = list(in_order(work, workers=AT_ONCE))
    except BaseException:
        snapshot.discard((*new_data_files(new), *new_deletion_files(images)))
        raise
    updated = tuple(each for each in done if each is not None)
    return Updated(
        rows=sum(len(each.moved) for each in touched),
        updated=updated,
        files=(*new_data_files(new), *new_deletion_files(updated)),
        removed=tuple(
            each.fragment.id for each, image in zip(touched, done, strict=True) if image is None
        ),
        new=new,
    )


def _mark(
    snapshot: Snapshot, touched: Touched, images: list[Fragment]
) -> Iterator[Fragment | None]:
    """The fragment without the rows that left it; notes what was written at once."""
    image = mark_deleted(snapshot, touched.fragment, bitmap_of(touched.moved) | touched.deleted)
    if image is not None:
        images.append(image)
    yield image


def _moving(
    snapshot: Snapshot, touched: Sequence[Touched], kept: WantedColumns, source: SourceRows
) -> Iterator[MovingRows]:
    """The moving rows with their new values."""
    losing = {each.fragment.id: each for each in touched if len(each.moved)}
    fragments = [each.fragment for each in losing.values()]
    reader = small_fragments(snapshot, kept)
    for group in grouped(fragments, reader):
        some = [losing[each.id] for each in group]
        positions = np.concatenate([each.positions for each in some])
        at = 0
        for old in _stayed(snapshot, some, kept, reader):
            for start in range(0, old.rows.num_rows, source.portion_rows):
                part = old.part(start, source.portion_rows)
                stop = start + part.rows.num_rows
                yield part.with_rows(
                    _beside(part.rows, source.at(positions[at + start : at + stop]))
                )
            at += old.rows.num_rows


def _beside(old: pa.RecordBatch, new: pa.RecordBatch) -> pa.RecordBatch:
    """Rows with the columns of both."""
    names = [*old.schema.names, *new.schema.names]
    return pa.RecordBatch.from_arrays([*old.columns, *new.columns], names=names)


def _stayed(
    snapshot: Snapshot, touched: Sequence[Touched], kept: WantedColumns, reader: SmallFragments
) -> Iterator[MovingRows]:
    """The moving rows of a group of fragments, with the columns that they keep."""
    if len(touched) == 1:
        (only,) = touched
        yield from read_moving(snapshot, only.fragment, bitmap_of(only.moved), kept)
        return
    group = FragmentGroup(snapshot, [each.fragment for each in touched], reader)
    begins = group.bounds[:-1]
    locations = np.concatenate([each.moved + at for each, at in zip(touched, begins, strict=True)])
    ids = created = None
    if snapshot.manifest.has_stable_row_ids:
        ids, created = group.row_ids.values_at(locations), group.created_at.values_at(locations)
    yield MovingRows(chosen(group.rows, locations), group.addresses(locations), ids, created)


@dataclass(frozen=True)
class MergeWork:
    """What the tasks of a merge have in common."""

    snapshot: Snapshot
    """Bare: fragments travel with the tasks."""
    source: SourceRows
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
    source: SourceRows | None = None
    """The rows of the source that are needed, if they travel with the task; None: the job has
    them."""
    new: SourceRows | None = None
    """Where inserted rows come from, if not from the source."""


def change_rows(job: MergeWork, task: RowTask) -> Updated:
    """The task: write what becomes of the rows."""
    pairs = zip(task.fragments, task.matches, strict=True)
    source = task.source or job.source
    return write_rows(
        job.snapshot,
        [_touched(job, fragment, found) for fragment, found in pairs],
        (task.new or source).whole_rows(task.inserted),
        job.kept,
        source,
    )


def _touched(job: MergeWork, fragment: Fragment, found: Matches) -> Touched:
    if job.matched == "delete":
        gone = found.bitmap | found.orphans
        return Touched(fragment, found.offsets[:0], found.positions[:0], gone)
    return Touched(fragment, found.offsets, found.positions, found.orphans)


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
