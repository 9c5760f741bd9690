"""The tasks of a stream: how the rows of a batch are cut into them, and how executors read them.

Small parts are joined and large ones cut, as in a read of a whole table; planning opens no file.
Tasks of a stream share nothing, so each carries all that it needs, opens no manifest and lists
nothing.

``find_between`` does once what a stream does batch by batch: it compares two versions on the driver
by their manifests, and executors read the new and changed rows. Deleted rows are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from lancewood.engine.changes import ChosenRows, Side, find_changes
from lancewood.engine.rows import LiveRows, RowShape, ScanPlan
from lancewood.engine.schema import Projection, project, stored_paths
from lancewood.engine.snapshot import Snapshot
from lancewood.model.fragment import Fragment
from lancewood.model.ids import Version
from lancewood.model.manifest import decode_fragment
from lancewood.model.schema import SYSTEM_COLUMNS
from lancewood.spark.reading.plan import LEAST, MOST, OPENING, count_tasks, row_width
from lancewood.spark.reading.task import (
    WORKERS,
    ReadWork,
    TablePortion,
    pack,
    sized,
    unpack,
)
from lancewood.spark.streaming.fitting import (
    StreamColumns,
    StreamFitting,
    StreamView,
    stream_schema,
)
from lancewood.spark.streaming.portions import Picked, PickedRows, RowChange, StreamRows
from lancewood.spark.tasks import messages_of, slots, spread

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_SAMPLE = 32


@dataclass(frozen=True, slots=True)
class ChangedPart:
    """Rows of one version with the same kind of change."""

    view: int
    """Index of the view of the task through which they are read."""
    change: RowChange
    version: Version
    rows: TablePortion | Picked


@dataclass(frozen=True, slots=True)
class StreamTask:
    """One task of a batch."""

    views: Sequence[StreamView]
    parts: Sequence[ChangedPart]

    def encode(self) -> bytes:
        """A message for an executor."""
        return pack((tuple(self.views), tuple(self.parts)))

    @classmethod
    def decode(cls, message: bytes) -> StreamTask:
        """The task in a message; only for messages that ``encode`` made."""
        return cls(*unpack(message))


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
            batches = view.work.rows(part.rows)
        for batch in batches:
            yield view.finished(batch, part.change.value, part.version)


def _picked(work: ReadWork, rows: Picked) -> Iterator[pa.RecordBatch]:
    """Single rows of fragments that pass the filter, as Spark takes them."""
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
            yield work.reading.convert(kept) if kept.num_columns else kept


def _chosen(work: ReadWork, rows: Picked, read: Projection) -> Iterator[pa.RecordBatch]:
    name = work.snapshot.manifest.name
    fragments = tuple(Fragment(decode_fragment(each, name)) for each in rows.fragments)
    unknown = np.zeros(len(rows.owners), np.uint64)
    live = LiveRows(unknown, rows.counts, rows.owners, rows.offsets, unknown, unknown)
    side = Side(work.snapshot, fragments, live)
    return ChosenRows(side, live, read, read.stored.by_name).batches(WORKERS)


class TaskSize(NamedTuple):
    """What decides the number of tasks."""

    slots: int
    """Number of tasks that are assumed to run at once."""
    most_bytes: int = MOST
    """Roughly the most bytes that one of them reads."""


def plan_tasks(rows: Iterable[StreamRows], fitting: StreamFitting, size: TaskSize) -> list[bytes]:
    """Messages for ``read_stream_task``.

    Raises UnsupportedError for rows of a version that does not fit the stream.
    """
    listed = [each for each in rows if each.row_count]
    if not listed:
        return []
    total = sum(each.row_count for each in listed)
    opened = sum(each.fragment_count for each in listed)
    first = listed[0]
    plan = ScanPlan(first.snapshot, fitting.view(first.snapshot).work.request)
    cost = total * row_width(plan, first.sample(_SAMPLE), total) + opened * OPENING
    tasks = count_tasks(cost, size.slots, size.most_bytes)
    share = -(-total // tasks)
    messages = []
    task: list[StreamRows] = []
    held = 0
    for each in listed:
        while each.row_count:
            part = each.cut(0, min(each.row_count, share - held))
            each = each.cut(part.row_count, each.row_count)
            task.append(part)
            held += part.row_count
            if held >= share:
                messages.append(_encoded(task, fitting))
                task, held = [], 0
    if task:
        messages.append(_encoded(task, fitting))
    return messages


def _encoded(rows: Sequence[StreamRows], fitting: StreamFitting) -> bytes:
    views: list[StreamView] = []
    parts: list[ChangedPart] = []
    for each in rows:
        view = fitting.view(each.snapshot)
        if not views or views[-1] is not view:
            views.append(view)
        rows_of_part = each.portion(with_lineage=view.needs_lineage)
        part = ChangedPart(len(views) - 1, each.change, each.version, rows_of_part)
        joined = _joined(parts[-1], part, fitting) if parts else None
        if joined is None:
            parts.append(part)
        else:
            parts[-1] = joined
    return StreamTask(views, parts).encode()


def _joined(one: ChangedPart, other: ChangedPart, fitting: StreamFitting) -> ChangedPart | None:
    """Two neighbouring parts of one manifest as one, unless their versions must be told apart;
    None if they cannot be joined."""
    if not isinstance(one.rows, TablePortion) or not isinstance(other.rows, TablePortion):
        return None
    is_told = fitting.columns.with_changes and one.version != other.version
    if one.view != other.view or is_told:
        return None
    fragments = [*one.rows.fragments, *other.rows.fragments]
    return replace(one, rows=TablePortion(fragments, {**one.rows.spans, **other.rows.spans}))


@dataclass(frozen=True)
class RowsBetween:
    """What ``find_between`` found: where the rows are, none of them read."""

    rows: tuple[PickedRows, ...]
    """Where the rows are, all in the later version."""
    fitting: StreamFitting
    schema: StructType

    @property
    def row_count(self) -> int:
        return sum(each.row_count for each in self.rows)

    def frame(self, spark: SparkSession) -> DataFrame:
        """The rows, with their values in the later version, cut into tasks."""
        messages = plan_tasks(self.rows, self.fitting, TaskSize(slots(spark)))
        size = LEAST * (len(messages) - 1)  # or more
        return spread(spark, messages, size).mapInArrow(_read, self.schema)


def find_between(
    since: Snapshot, until: Snapshot, columns: Sequence[str] | None = None
) -> RowsBetween:
    """The rows that were inserted or updated after one version, up to and including another.

    Both must be of one history of a table with stable row ids, which the caller ensures
    (``Table.changes`` checks it). Raises InvalidInputError for an unknown column, NotFoundError if
    a version in between is needed but was cleaned up.
    """
    asked = StreamColumns(columns=None if columns is None else list(columns))
    schema = stream_schema(until, asked)
    fitting = StreamFitting.of(until, asked, schema)
    found = find_changes(since, until)
    version, fragments = until.manifest.version, found.until.fragments
    fates = ((found.inserted, RowChange.INSERTED), (found.updated, RowChange.UPDATED))
    rows = tuple(
        PickedRows.of(until, version, fragments, part, change)
        for part, change in fates
        if part.row_count
    )
    return RowsBetween(rows, fitting, schema)


def _read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For mapInArrow over a spread frame."""
    for _, message in messages_of(batches):
        yield from read_stream_task(message)
