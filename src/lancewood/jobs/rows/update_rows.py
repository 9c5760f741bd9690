"""One way to update: rows that match move to new fragments, and are deleted where they were."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lancewood.data.wanted import WantedColumns
from lancewood.engine.deletions import mark_deleted
from lancewood.engine.fanout import in_order
from lancewood.engine.homes import new_data_files, new_deletion_files
from lancewood.engine.rows import RowFacts
from lancewood.engine.snapshot import Snapshot
from lancewood.jobs.packing import AT_ONCE
from lancewood.jobs.rows.moving import MovingRows, read_moving, whole_rows, write_moved
from lancewood.jobs.rows.updating import Portion, Updated, Updating
from lancewood.model.bitmap import bitmap_of
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId


def move_rows(job: Updating, portion: Portion) -> Updated:
    """The task: all rows of some fragments that match go into common new ones."""
    snapshot = job.snapshot
    found: dict[FragmentId, list[npt.NDArray[np.int64]]] = {}
    new = write_moved(snapshot, _moving(job, portion, found))
    touched = [
        (each, bitmap_of(np.concatenate(found[each.id])))
        for each in portion.fragments
        if each.id in found
    ]
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
    """The fragment without the rows that left it; notes what was written at once."""
    image = mark_deleted(snapshot, fragment, offsets)
    if image is not None:
        images.append(image)
    yield image


def _moving(
    job: Updating, portion: Portion, found: dict[FragmentId, list[npt.NDArray[np.int64]]]
) -> Iterator[MovingRows]:
    """The rows with their new values; notes where they come from."""
    wanted = whole_rows(job.snapshot)
    work = (partial(_changed_rows, job, portion, each, wanted) for each in portion.fragments)
    for number, rows in in_order(work, workers=AT_ONCE, depth=1):
        found.setdefault(number, []).append(rows.offsets)
        yield rows


def _changed_rows(
    job: Updating, portion: Portion, fragment: Fragment, wanted: WantedColumns
) -> Iterator[tuple[FragmentId, MovingRows]]:
    offsets = portion.known.get(fragment.id)
    old = (
        job.matching.rows(fragment)
        if offsets is None
        else read_moving(job.snapshot, fragment, offsets, wanted)
    )
    facts = RowFacts(job.snapshot, fragment)
    for moving in old:
        yield fragment.id, moving.with_rows(_changed(job, facts, moving))


def _changed(job: Updating, facts: RowFacts, moving: MovingRows) -> pa.RecordBatch:
    columns = dict(zip(moving.rows.schema.names, moving.rows.columns, strict=True))
    seen = columns | {
        name: facts.column_at(name, moving.offsets) for name in job.assignments.system
    }
    rows = pa.RecordBatch.from_arrays(list(seen.values()), names=list(seen))
    columns |= job.assignments.new_columns(rows)
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
