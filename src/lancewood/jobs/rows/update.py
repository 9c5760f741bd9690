"""Updating rows: matching rows move to new fragments, or columns are rewritten in place.

Moving writes all columns of the matching rows and deletes them in their old place. Rewriting writes
new files with the set columns, for all rows of every fragment with a match, and rows stay in place.
Which of the two writes less is estimated from a few fragments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lancewood.data.arrays import FieldPart, assemble
from lancewood.data.wanted import WantedColumns
from lancewood.engine.base import (
    Addresses,
    Task,
    check_choice,
    in_order,
    offsets_by_fragment,
    offsets_of,
)
from lancewood.engine.commit import PutIfAbsent
from lancewood.engine.location import NewFile, new_data_file, new_data_files, new_deletion_files
from lancewood.engine.rows import RowFacts, batch_of, open_fragment
from lancewood.engine.schema import Parameters, cut_schema
from lancewood.engine.snapshot import Snapshot
from lancewood.engine.write import ColumnFileWriter, laid_over, mark_deleted
from lancewood.errors import UnsupportedError
from lancewood.format.schema import to_arrow_schema
from lancewood.jobs.counts import RowCounts
from lancewood.jobs.job import AT_ONCE, Change, PreparedJob, gather, pack_fragments
from lancewood.jobs.rows.assignments import Assignments
from lancewood.jobs.rows.matching import (
    Matching,
    MovingRows,
    check_movable,
    read_moving,
    whole_rows,
    write_moved,
)
from lancewood.jobs.rows.updating import (
    Estimate,
    Portion,
    Rewriting,
    Updated,
    Updating,
    estimate,
    sample,
)
from lancewood.jobs.runner import Runner
from lancewood.model.bitmap import bitmap_of, numbers_in
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId
from lancewood.model.schema import Field, Schema
from lancewood.model.transaction import Update

_LEAST_BYTES = 8 << 20
"""Rows moving out of at least this much data share new fragments."""


@dataclass(frozen=True)
class UpdateRows(PreparedJob[RowCounts]):
    """An update with all its settings."""

    values: Mapping[str, Any] = field(repr=False)
    where: str | None
    parameters: Parameters = field(repr=False)
    rewrite: Rewriting
    runner: Runner = field(repr=False)

    def __post_init__(self) -> None:
        check_choice("rewrite", self.rewrite, Rewriting)

    def plan(self, snapshot: Snapshot) -> RowCounts:
        """How many rows match; reads only the columns of the condition."""
        matching, _ = self._checked(snapshot)
        rows, fragments = matching.count(self.runner)
        return RowCounts(updated=rows, fragments=fragments)

    def _checked(self, snapshot: Snapshot) -> tuple[Matching, Rewriting]:
        """The condition, and the way to write.

        Raises InvalidInputError, before anything is read, for arguments that do not fit the table.
        """
        matching = Matching(snapshot, self.where, self.parameters)
        assignments = Assignments(snapshot.schema, self.values, self.parameters)
        snapshot.check_writable()
        return matching, _possible(snapshot, assignments, self.rewrite)

    def prepare(self, snapshot: Snapshot) -> Change[RowCounts]:
        """Find the matching rows of one version and write their new values."""
        matching, rewrite = self._checked(snapshot)
        fragments = list(matching.fragments())
        if not fragments:
            return Change(None, RowCounts())
        PutIfAbsent().check_trust(snapshot.location.store)
        job = Updating(matching.bare(), self.values)
        known: dict[FragmentId, BitMap] = {}
        if rewrite == "auto":
            looked_at = sample(fragments)
            found: list[Estimate] = list(
                self.runner.run(partial(estimate, job), looked_at, what="looking at a sample")
            )
            known = {each.id: one.offsets for each, one in zip(looked_at, found, strict=True)}
            is_less = sum(each.columns for each in found) < sum(each.rows for each in found)
            rewrite = "columns" if is_less else "rows"
        return self._run(snapshot, job, fragments, known, rewrite)

    def _run(
        self,
        snapshot: Snapshot,
        job: Updating,
        fragments: Sequence[Fragment],
        known: Mapping[FragmentId, BitMap],
        rewrite: Rewriting,
    ) -> Change[RowCounts]:
        by_columns = rewrite == "columns"
        tasks = [
            Portion(each, {one.id: known[one.id] for one in each if one.id in known})
            for each in pack_fragments(
                fragments, self.runner.slots, least_bytes=0 if by_columns else _LEAST_BYTES
            )
        ]
        done = gather(
            self.runner,
            partial(rewrite_columns if by_columns else move_rows, job),
            tasks,
            what="updating rows",
            snapshot=snapshot,
        )
        changed = job.assignments.field_ids
        operation = Update(
            removed_fragment_ids=tuple(each for part in done for each in part.removed),
            updated_fragments=tuple(each for part in done for each in part.updated),
            new_fragments=tuple(each for part in done for each in part.new),
            fields_modified=changed if by_columns else (),
            fields_for_preserving_frag_bitmap=() if by_columns else changed,
            rewrites_columns=by_columns,
            updated_offsets={key: each for part in done for key, each in part.offsets.items()},
        )
        rows = sum(each.rows for each in done)
        return Change(
            operation if rows else None,
            RowCounts(
                updated=rows,
                fragments=len(operation.updated_fragments) + len(operation.removed_fragment_ids),
            ),
            tuple(key for each in done for key in each.files),
        )


def _possible(snapshot: Snapshot, assignments: Assignments, asked: Rewriting) -> Rewriting:
    """The requested way, or the only possible one. Blobs, which are large, stay in place if they
    can."""
    has_blobs = any(each.is_blob for each in snapshot.schema.fields)
    if assignments.sets_blobs and asked == "columns":
        raise UnsupportedError("a column of blobs cannot be rewritten in place: use rewrite='rows'")
    if asked == "columns" or (asked == "auto" and has_blobs and not assignments.sets_blobs):
        return "columns"
    try:
        check_movable(snapshot)
    except UnsupportedError as cause:
        if assignments.sets_blobs:
            raise
        if asked == "auto":
            return "columns"
        raise UnsupportedError(
            f"rows of this table cannot be moved: {cause.message}. rewrite='columns' leaves those "
            "columns alone",
            **cause.facts,
        ) from cause
    return "rows" if assignments.sets_blobs else asked


def move_rows(job: Updating, portion: Portion) -> Updated:
    """The task: move all matching rows of some fragments into common new ones."""
    snapshot = job.snapshot
    left: list[Addresses] = []
    new = write_moved(snapshot, _moving(job, portion, left))
    locations = np.concatenate([np.empty(0, np.uint64), *left])
    found = {number: bitmap_of(offsets) for number, offsets in offsets_by_fragment(locations)}
    touched = [(each, found[each.id]) for each in portion.fragments if each.id in found]
    images: list[Fragment] = []
    work = (partial(_mark, snapshot, *each, images) for each in touched)
    try:
        done = list(in_order(work, workers=AT_ONCE))
    except BaseException:
        snapshot.discard((*new_data_files(new), *new_deletion_files(images)))
        raise
    updated = tuple(each for each in done if each is not None)
    return Updated(
        rows=sum(len(offsets) for _, offsets in touched),
        updated=updated,
        files=(*new_data_files(new), *new_deletion_files(updated)),
        removed=tuple(
            each.id for (each, _), image in zip(touched, done, strict=True) if image is None
        ),
        new=new,
    )


def _mark(
    snapshot: Snapshot, fragment: Fragment, offsets: BitMap, images: list[Fragment]
) -> Iterator[Fragment | None]:
    """The fragment without the moved rows, which is noted at once; None if no row is left."""
    image = mark_deleted(snapshot, fragment, offsets)
    if image is not None:
        images.append(image)
    yield image


def _moving(job: Updating, portion: Portion, left: list[Addresses]) -> Iterator[MovingRows]:
    """The rows with their new values; their old addresses are noted in ``left``."""
    for rows in in_order(_tasks(job, portion), workers=AT_ONCE, depth=1):
        left.append(rows.addresses)
        yield rows


def _tasks(job: Updating, portion: Portion) -> Iterator[Task[MovingRows]]:
    """Concurrent tasks: small fragments together, others one by one."""
    wanted = whole_rows(job.snapshot)
    for group in _groups(job, portion):
        if len(group) == 1:
            (only,) = group
            yield partial(_changed_rows, job, only, portion.known.get(only.id), wanted)
        else:
            yield partial(_changed_group, job, group)


def _groups(job: Updating, portion: Portion) -> Iterator[tuple[Fragment, ...]]:
    """All fragments in order, in groups; those with known matches one by one."""
    for is_known, some in groupby(portion.fragments, lambda each: each.id in portion.known):
        if is_known or job.assignments.system:
            yield from ((each,) for each in some)
        else:
            yield from job.matching.row_groups(some)


def _changed_group(job: Updating, group: Sequence[Fragment]) -> Iterator[MovingRows]:
    """The changed rows of small fragments, read at once."""
    return iter([each.with_rows(_with_changes(job, each, {})) for each in job.matching.rows(group)])


def _changed_rows(
    job: Updating, fragment: Fragment, offsets: BitMap | None, wanted: WantedColumns
) -> Iterator[MovingRows]:
    """The changed rows of one fragment: those at the offsets, or with None all that match."""
    old = (
        job.matching.rows((fragment,))
        if offsets is None
        else read_moving(job.snapshot, fragment, offsets, wanted)
    )
    facts = RowFacts(job.snapshot, fragment)
    for moving in old:
        here = offsets_of(moving.addresses)
        system = {name: facts.column_at(name, here) for name in job.assignments.system}
        yield moving.with_rows(_with_changes(job, moving, system))


def _with_changes(
    job: Updating, moving: MovingRows, system: Mapping[str, pa.Array]
) -> pa.RecordBatch:
    columns = dict(zip(moving.rows.schema.names, moving.rows.columns, strict=True))
    seen = {**columns, **system}
    rows = pa.RecordBatch.from_arrays(list(seen.values()), names=list(seen))
    columns |= job.assignments.new_columns(rows)
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def rewrite_columns(job: Updating, portion: Portion) -> Updated:
    """The task: write new files with the set columns for the fragments that have a match."""
    files: list[NewFile] = []
    writer = ColumnFileWriter(job.snapshot, job.rewritten)
    work = (partial(_rewrite_one, job, portion, each, files, writer) for each in portion.fragments)
    try:
        done = list(in_order(work, workers=AT_ONCE))
        writer.finish()
    except BaseException:
        job.snapshot.discard(files)
        raise
    return Updated(
        rows=sum(len(offsets) for _, offsets in done),
        updated=tuple(image for image, _ in done),
        files=tuple(files),
        offsets={
            image.id: offsets
            for image, offsets in done
            if len(offsets) < image.physical_rows - image.num_deleted_rows
        },
    )


def _rewrite_one(
    job: Updating,
    portion: Portion,
    fragment: Fragment,
    files: list[NewFile],
    writer: ColumnFileWriter,
) -> Iterator[tuple[Fragment, BitMap]]:
    """One fragment with its new file, which is noted at once; nothing if no row matches."""
    offsets = portion.offsets(job, fragment)
    if offsets:
        batches = _new_batches(job, fragment, offsets, job.rewritten)
        file = writer.write(fragment, batches)
        files.append(new_data_file(file))
        offsets.run_optimize()
        yield fragment.with_columns(file, job.assignments.field_ids), offsets


def _new_batches(
    job: Updating, fragment: Fragment, offsets: BitMap, part: Schema
) -> Iterator[pa.RecordBatch]:
    """All physical rows of the written part, in order, with new values in the matching rows.

    Expressions see only matching rows: they must not fail on the values of others.
    """
    facts, arrow = RowFacts(job.snapshot, fragment), to_arrow_schema(part).remove_metadata()
    wanted = _read_part(job, fragment, is_whole=len(offsets) == fragment.physical_rows)
    asked = numbers_in(offsets)
    at = 0
    for read in open_fragment(job.snapshot, fragment, wanted).batches():
        batch = _joinable(wanted.schema, read)
        low, high = np.searchsorted(asked, (at, at + batch.num_rows))
        locations = asked[low:high] - at
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        if len(locations):
            columns |= _changed_columns(job, facts, batch, columns, locations, at)
        at += batch.num_rows
        arrays = [
            assemble(field, kind, [FieldPart(columns[field.name])], batch.num_rows)
            for field, kind in zip(part.fields, arrow.types, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=arrow)


def _joinable(part: Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch without nulls among dictionary values: Arrow cannot join such dictionaries."""
    columns = {
        field.name: assemble(field, array.type, [FieldPart(array)], batch.num_rows)
        for field, array in zip(part.fields, batch.columns, strict=True)
    }
    return batch_of(columns, batch.num_rows)


def _changed_columns(
    job: Updating,
    facts: RowFacts,
    batch: pa.RecordBatch,
    columns: Mapping[str, pa.Array],
    locations: npt.NDArray[np.int64],
    first: int,
) -> dict[str, pa.Array]:
    """The set columns, with new values at some places of a batch."""
    every = len(locations) == batch.num_rows
    chosen = batch if every else batch.take(pa.array(locations))
    seen = dict(zip(chosen.schema.names, chosen.columns, strict=True)) | {
        name: facts.column_at(name, locations + first) for name in job.assignments.system
    }
    made = job.assignments.new_columns(batch_of(seen, len(locations)))
    if every:
        return made
    return {name: laid_over(name, columns[name], new, locations) for name, new in made.items()}


def _read_part(job: Updating, fragment: Fragment, *, is_whole: bool) -> WantedColumns:
    """What must be read: the inputs of expressions, and old values unless all rows change.

    A struct that is spread over several files is read whole, since any of its fields may say
    whether it is null.
    """
    snapshot, paths = job.snapshot, list(job.assignments.reads)
    for path in job.assignments.stored_alone(snapshot.manifest.file_version):
        top = snapshot.schema.by_name[path[0]]
        is_set_whole = (path[0],) in job.assignments.paths
        if is_set_whole and is_whole:
            continue
        if len(path) > 1 and not _is_together(snapshot, fragment, top):
            path = path[:1]
        paths.append(path)
    return WantedColumns(cut_schema(snapshot.schema, paths))


def _is_together(snapshot: Snapshot, fragment: Fragment, top: Field) -> bool:
    """Whether one file of a fragment holds the whole column."""
    wanted = WantedColumns(Schema((top,)))
    files = open_fragment(snapshot, fragment, wanted).file_numbers
    return len(files) == 1 and not wanted.missing(fragment)
