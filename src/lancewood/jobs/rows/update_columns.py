"""The other way to update: the columns that are set get new files, and every row stays in place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lancewood.data.arrays import Part, assemble
from lancewood.data.wanted import WantedColumns
from lancewood.engine.column_file import ColumnFileWriter, laid_over
from lancewood.engine.fanout import in_order
from lancewood.engine.fragments import open_fragment
from lancewood.engine.homes import NewFile, new_data_file
from lancewood.engine.projection import cut_schema
from lancewood.engine.row_shape import batch_of
from lancewood.engine.rows import RowFacts
from lancewood.engine.snapshot import Snapshot
from lancewood.format.arrow import to_arrow_schema
from lancewood.jobs.packing import AT_ONCE
from lancewood.jobs.rows.updating import Portion, Updated, Updating
from lancewood.model.bitmap import numbers_in
from lancewood.model.fragment import Fragment
from lancewood.model.schema import Field, Schema


def rewrite_columns(job: Updating, portion: Portion) -> Updated:
    """The task: new files for the fragments in which a row matches."""
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
    """One fragment with its new file, if a row matches; notes what was written at once."""
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
    """All physical rows of the part that is written, in order; those that match have new values.

    Expressions see only rows that match: they must not fail on what others hold.
    """
    facts, arrow = RowFacts(job.snapshot, fragment), to_arrow_schema(part).remove_metadata()
    wanted = _read_part(job, fragment, is_whole=len(offsets) == fragment.physical_rows)
    asked = numbers_in(offsets)
    at = 0
    for read in open_fragment(job.snapshot, fragment, wanted).batches():
        batch = _joinable(wanted.schema, read)
        low, high = np.searchsorted(asked, (at, at + batch.num_rows))
        places = asked[low:high] - at
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        if len(places):
            columns |= _changed(job, facts, batch, columns, places, at)
        at += batch.num_rows
        arrays = [
            assemble(field, kind, [Part(columns[field.name])], batch.num_rows)
            for field, kind in zip(part.fields, arrow.types, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=arrow)


def _joinable(part: Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch without null among the values of dictionaries: Arrow joins no such ones."""
    columns = {
        field.name: assemble(field, array.type, [Part(array)], batch.num_rows)
        for field, array in zip(part.fields, batch.columns, strict=True)
    }
    return batch_of(columns, batch.num_rows)


def _changed(
    job: Updating,
    facts: RowFacts,
    batch: pa.RecordBatch,
    columns: Mapping[str, pa.Array],
    places: npt.NDArray[np.int64],
    first: int,
) -> dict[str, pa.Array]:
    """The columns that are set, with new values at some places of a batch."""
    every = len(places) == batch.num_rows
    chosen = batch if every else batch.take(pa.array(places))
    seen = dict(zip(chosen.schema.names, chosen.columns, strict=True)) | {
        name: facts.column_at(name, places + first) for name in job.assignments.system
    }
    made = job.assignments.new_columns(batch_of(seen, len(places)))
    if every:
        return made
    return {name: laid_over(name, columns[name], new, places) for name, new in made.items()}


def _read_part(job: Updating, fragment: Fragment, *, is_whole: bool) -> WantedColumns:
    """What is read to write what is set: what expressions need, and old values unless all change.

    Whether a struct is null may be told by any of its fields: one that is spread over several
    files is read whole.
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
    """Whether one file of a fragment holds all of a column."""
    wanted = WantedColumns(Schema((top,)))
    files = open_fragment(snapshot, fragment, wanted).file_numbers
    return len(files) == 1 and not wanted.missing(fragment)
