"""The other way to merge: columns of the source replace those of the rows that match, in place.

New files hold the columns of whole fragments, whose rows stay where they are. For merges that
neither insert nor delete; which rows match was found before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lancewood.data.arrays import FieldPart, assemble
from lancewood.data.wanted import WantedColumns
from lancewood.engine.location import NewFile, new_data_file
from lancewood.engine.rows import open_fragment
from lancewood.engine.snapshot import Snapshot
from lancewood.engine.write import ColumnFileWriter, laid_over
from lancewood.format.schema import to_arrow_schema
from lancewood.jobs.merge_into.rows import RowTask
from lancewood.jobs.merge_into.source import NewValues, SourceRows
from lancewood.jobs.rows.updating import Updated
from lancewood.model.bitmap import numbers_in
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId
from lancewood.model.schema import Schema


@dataclass(frozen=True)
class ColumnChanges:
    """The part of a task that all tasks of a change by columns share."""

    snapshot: Snapshot
    """Bare: fragments travel with the tasks."""
    source: SourceRows


def change_columns(job: ColumnChanges, task: RowTask) -> Updated:
    """The task: new files for some fragments."""
    part = job.source.changed
    writer = ColumnFileWriter(job.snapshot, part)
    updated: list[Fragment] = []
    files: list[NewFile] = []
    changed: dict[FragmentId, BitMap] = {}
    rows = 0
    try:
        for fragment, found in zip(task.fragments, task.matches, strict=True):
            offsets = found.bitmap
            new_values = (task.source or job.source).values_at(found.positions, part.names)
            updated.append(write_columns(job.snapshot, fragment, offsets, new_values, part, writer))
            files.append(new_data_file(updated[-1].files[-1]))
            if len(offsets) < fragment.physical_rows - fragment.num_deleted_rows:
                offsets.run_optimize()
                changed[fragment.id] = offsets
            rows += len(offsets)
        writer.finish()
    except BaseException:
        job.snapshot.discard(files)
        raise
    return Updated(rows, tuple(updated), tuple(files), offsets=changed)


def write_columns(
    snapshot: Snapshot,
    fragment: Fragment,
    offsets: BitMap,
    new_values: NewValues,
    part: Schema,
    writer: ColumnFileWriter,
) -> Fragment:
    """The fragment with a new file for the columns of ``part``: new values for the rows at the
    physical offsets, and those that were there for all others."""
    batches = _new_batches(snapshot, fragment, offsets, new_values, part)
    file = writer.write(fragment, batches)
    return fragment.with_columns(file, (each.id for each in part.walk()))


def _new_batches(
    snapshot: Snapshot,
    fragment: Fragment,
    offsets: BitMap,
    new_values: NewValues,
    part: Schema,
) -> Iterator[pa.RecordBatch]:
    arrow = to_arrow_schema(part).remove_metadata()
    asked = numbers_in(offsets)
    first = 0
    for batch in open_fragment(snapshot, fragment, WantedColumns(part)).batches():
        rows = batch.num_rows
        low, high = np.searchsorted(asked, (first, first + rows)).tolist()
        new = new_values(low, high) if high > low else None
        arrays = []
        for field, kind in zip(part.fields, arrow.types, strict=True):
            array = assemble(field, kind, [FieldPart(batch.column(field.name))], rows)
            if new is not None:
                locations = asked[low:high] - first
                array = laid_over(field.name, array, new.column(field.name), locations)
            arrays.append(array)
        yield pa.RecordBatch.from_arrays(arrays, schema=arrow)
        first += rows
