"""What an executor does for a stream: the rows of one task, as Spark takes them.

A task carries all that it needs, because a stream has nothing that its tasks share. It opens no
manifest and lists nothing.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lancewood.engine.change_rows import ChosenRows
from lancewood.engine.changes import Side
from lancewood.engine.live_rows import LiveRows
from lancewood.engine.projection import Projection, project, stored_paths
from lancewood.engine.row_shape import RowShape
from lancewood.engine.scan import ScanPlan
from lancewood.model.fragment import Fragment
from lancewood.model.ids import Version
from lancewood.model.manifest import decode_fragment
from lancewood.model.schema import SYSTEM_COLUMNS
from lancewood.spark.reading.batches import sized
from lancewood.spark.reading.message import Portion
from lancewood.spark.reading.task import WORKERS, ReadWork, read_task
from lancewood.spark.streaming.fitting import View
from lancewood.spark.streaming.portions import Change, Picked

_CODEC = "zstd"
_SIZE_BYTES = 8


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one version that met the same fate."""

    view: int
    """Which of the task's views they are read through."""
    change: Change
    version: Version
    rows: Portion | Picked


@dataclass(frozen=True, slots=True)
class StreamTask:
    """One task of a batch."""

    views: Sequence[View]
    parts: Sequence[Part]

    def encode(self) -> bytes:
        """A message for an executor."""
        plain = pickle.dumps((tuple(self.views), tuple(self.parts)))
        size = len(plain).to_bytes(_SIZE_BYTES, "little")
        return size + bytes(pa.compress(plain, _CODEC, asbytes=True))

    @classmethod
    def decode(cls, message: bytes) -> StreamTask:
        """Only of messages that ``encode`` made."""
        size = int.from_bytes(message[:_SIZE_BYTES], "little")
        plain = pa.decompress(message[_SIZE_BYTES:], size, _CODEC, asbytes=True)
        return cls(*pickle.loads(plain))


def read_stream_task(message: bytes) -> Iterator[pa.RecordBatch]:
    """The rows of one task; raises NotFoundError if files of a version are gone."""
    task = StreamTask.decode(message)
    most = task.views[0].work.request.batch_rows if task.views else None
    yield from sized(_rows(task), most)


def _rows(task: StreamTask) -> Iterator[pa.RecordBatch]:
    for part in task.parts:
        view = task.views[part.view]
        if isinstance(part.rows, Picked):
            batches = _picked(view.work, part.rows)
        else:
            batches = read_task(view.work, part.rows.encode())
        for batch in batches:
            yield view.finished(batch, part.change.value, part.version)


def _picked(work: ReadWork, rows: Picked) -> Iterator[pa.RecordBatch]:
    """Single rows of fragments, those that pass the filter, as Spark takes them."""
    snapshot = work.snapshot
    plan = ScanPlan(snapshot, replace(work.request, fragments=()))
    predicate, projection = plan.predicate, plan.projection
    read = projection
    if predicate is not None:
        paths = [".".join(each) for each in (*projection.paths, *stored_paths(predicate))]
        system = [*projection.system, *(e for e in predicate.columns if e in SYSTEM_COLUMNS)]
        read = project(snapshot.schema, list(dict.fromkeys((*paths, *system))))
    shape = RowShape(snapshot=snapshot, projection=projection)
    for batch in _chosen(work, rows, read):
        kept = batch
        if predicate is not None:
            kept = batch.filter(predicate.mask(batch))
            columns = dict(zip(kept.schema.names, kept.columns, strict=True))
            kept = shape.shaped(columns, kept.num_rows)
        if kept.num_rows:
            yield _converted(work, kept)


def _chosen(work: ReadWork, rows: Picked, read: Projection) -> Iterator[pa.RecordBatch]:
    name = work.snapshot.manifest.name
    fragments = tuple(Fragment(decode_fragment(each, name)) for each in rows.fragments)
    unknown = np.zeros(len(rows.owners), np.uint64)
    live = LiveRows(unknown, rows.counts, rows.owners, rows.offsets, unknown, unknown)
    side = Side(work.snapshot, fragments, live)
    return ChosenRows(side, live, read, read.stored.by_name).batches(WORKERS)


def _converted(work: ReadWork, batch: pa.RecordBatch) -> pa.RecordBatch:
    return work.reading.convert(batch) if batch.num_columns else batch
