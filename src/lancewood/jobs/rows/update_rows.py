"""One way to update: rows that match move to new fragments, and are deleted where they were."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lancewood.data.wanted import WantedColumns
from lancewood.engine.addresses import Addresses, offsets_by_fragment, offsets_of
from lancewood.engine.deletions import mark_deleted
from lancewood.engine.fanout import Task, in_order
from lancewood.engine.homes import new_data_files, new_deletion_files
from lancewood.engine.rows import RowFacts
from lancewood.engine.snapshot import Snapshot
from lancewood.jobs.packing import AT_ONCE
from lancewood.jobs.rows.moving import MovingRows, read_moving, whole_rows, write_moved
from lancewood.jobs.rows.updating import Portion, Updated, Updating
from lancewood.model.bitmap import bitmap_of
from lancewood.model.fragment import Fragment


def move_rows(job: Updating, portion: Portion) -> Updated:
    """The task: all rows of some fragments that match go into common new ones."""
    snapshot = job.snapshot
    left: list[Addresses] = []
    new = write_moved(snapshot, _moving(job, portion, left))
    places = np.concatenate([np.empty(0, np.uint64), *left])
    found = {number: bitmap_of(offsets) for number, offsets in offsets_by_fragment(places)}
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
    """The fragment without the rows that left it; notes what was written at once."""
    image = mark_deleted(snapshot, fragment, offsets)
    if image is not None:
        images.append(image)
    yield image


def _moving(job: Updating, portion: Portion, left: list[Addresses]) -> Iterator[MovingRows]:
    """The rows with their new values; notes where they come from."""
    for rows in in_order(_tasks(job, portion), workers=AT_ONCE, depth=1):
        left.append(rows.addresses)
        yield rows


def _tasks(job: Updating, portion: Portion) -> Iterator[Task[MovingRows]]:
    """What is done at once: small fragments together, others one by one."""
    wanted = whole_rows(job.snapshot)
    for group in _groups(job, portion):
        if len(group) == 1:
            (only,) = group
            yield partial(_changed_rows, job, only, portion.known.get(only.id), wanted)
        else:
            yield partial(_changed_group, job, group)


def _groups(job: Updating, portion: Portion) -> Iterator[tuple[Fragment, ...]]:
    """All fragments in their order; where matches are known already, each by itself."""
    for is_known, some in groupby(portion.fragments, lambda each: each.id in portion.known):
        if is_known or job.assignments.system:
            yield from ((each,) for each in some)
        else:
            yield from job.matching.row_groups(some)


def _changed_group(job: Updating, group: Sequence[Fragment]) -> Iterator[MovingRows]:
    """Of small fragments the rows that match, which are read now."""
    return iter([each.with_rows(_changed(job, each, {})) for each in job.matching.rows(group)])


def _changed_rows(
    job: Updating, fragment: Fragment, offsets: BitMap | None, wanted: WantedColumns
) -> Iterator[MovingRows]:
    """Of one fragment the rows at the offsets; None: those that match."""
    old = (
        job.matching.rows((fragment,))
        if offsets is None
        else read_moving(job.snapshot, fragment, offsets, wanted)
    )
    facts = RowFacts(job.snapshot, fragment)
    for moving in old:
        here = offsets_of(moving.addresses)
        system = {name: facts.column_at(name, here) for name in job.assignments.system}
        yield moving.with_rows(_changed(job, moving, system))


def _changed(job: Updating, moving: MovingRows, system: Mapping[str, pa.Array]) -> pa.RecordBatch:
    columns = dict(zip(moving.rows.schema.names, moving.rows.columns, strict=True))
    seen = {**columns, **system}
    rows = pa.RecordBatch.from_arrays(list(seen.values()), names=list(seen))
    columns |= job.assignments.new_columns(rows)
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
