"""The tasks of a stream: rows of a batch by where they are, cut into tasks, and read by executors.

Rows of whole fragments are counted with those that are deleted: only a task reads deletion files.
Small parts are joined and large ones cut, as in a read of a whole table; planning opens no file.
Tasks of a stream share nothing, so each carries all that it needs, opens no manifest and lists
nothing.

``find_between`` does once what a stream does batch by batch: it compares two versions on the driver
by their manifests, and executors read the new and changed rows. Deleted rows are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from lancewood.engine.rows import Ints, LiveRows, RowShape, ScanPlan, ScanRequest
from lancewood.engine.schema import Projection, project, stored_paths
from lancewood.engine.snapshot import Snapshot
from lancewood.jobs.diff import ChosenRows, Side, find_changes
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId, Version
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
    without_lineage,
)
from lancewood.spark.streaming.fitting import (
    StreamColumns,
    StreamFitting,
    StreamView,
    stream_schema,
)
from lancewood.spark.tasks import slots, spread

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_LARGE_FRAGMENT = 1_024


class RowChange(Enum):
    """What became of a row, in the words of ``Table.changes``."""

    INSERTED = "inserted"
    UPDATED = "updated"
    DELETED = "deleted"


@dataclass(frozen=True)
class Picked:
    """Single rows of fragments, for a task: stretches of physical rows, sorted."""

    fragments: tuple[bytes, ...]
    owners: Ints
    """Which of the fragments each stretch is in."""
    offsets: Ints
    counts: Ints


@dataclass(frozen=True)
class FragmentRows:
    """The rows of fragments, from one physical row to before another, all counted in one."""

    snapshot: Snapshot
    version: Version
    """The version that brought the rows."""
    fragments: Sequence[bytes]
    physical: Ints
    """The physical rows of each fragment."""
    start: int
    stop: int
    change: RowChange = RowChange.INSERTED

    @classmethod
    def of(
        cls, snapshot: Snapshot, version: Version, fragments: Sequence[bytes], physical: Ints
    ) -> FragmentRows:
        return cls(snapshot, version, fragments, physical, 0, int(physical.sum()))

    @property
    def row_count(self) -> int:
        """Number of rows, deleted ones included."""
        return self.stop - self.start

    @property
    def fragment_count(self) -> int:
        first, last = self._reach
        return last - first

    def cut(self, start: int, stop: int) -> FragmentRows:
        return replace(self, start=self.start + start, stop=self.start + stop)

    def sample(self, most: int) -> Iterator[Fragment]:
        first, last = self._reach
        for at in range(first, last, max(1, (last - first) // most)):
            yield self._decoded(at)

    def portion(self, *, with_lineage: bool) -> TablePortion:
        """The rows as a portion for a task, with the ids and versions of rows or without."""
        first, last = self._reach
        spans: dict[FragmentId, tuple[int, int]] = {}
        for at in {first, last - 1} if last > first else ():
            before = int(self._ends[at] - self.physical[at])
            begin, end = max(self.start - before, 0), min(self.stop, int(self._ends[at])) - before
            if (begin, end) != (0, int(self.physical[at])):
                spans[self._decoded(at).id] = begin, end
        raws = self.fragments[first:last]
        if not with_lineage:
            raws = [without_lineage(each, self._name) for each in raws]
        return TablePortion(raws, spans)

    @cached_property
    def _ends(self) -> Ints:
        return np.cumsum(self.physical)

    @cached_property
    def _reach(self) -> tuple[int, int]:
        """The fragments that the rows are in."""
        if self.stop <= self.start:
            return 0, 0
        first = int(np.searchsorted(self._ends, self.start, side="right"))
        last = int(np.searchsorted(self._ends, self.stop))
        return first, last + 1

    @property
    def _name(self) -> str:
        return self.snapshot.manifest.name

    def _decoded(self, at: int) -> Fragment:
        return Fragment(decode_fragment(self.fragments[at], self._name))


@dataclass(frozen=True)
class PickedRows:
    """Live rows here and there in fragments."""

    snapshot: Snapshot
    version: Version
    fragments: tuple[Fragment, ...]
    owners: Ints
    offsets: Ints
    counts: Ints
    change: RowChange

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        version: Version,
        fragments: tuple[Fragment, ...],
        rows: LiveRows,
        change: RowChange,
    ) -> PickedRows:
        """The rows of one side of a comparison, in the order of its fragments."""
        order = np.lexsort((rows.offsets, rows.fragments))
        return cls(
            snapshot,
            version,
            fragments,
            rows.fragments[order],
            rows.offsets[order],
            rows.counts[order],
            change,
        )

    @property
    def row_count(self) -> int:
        return int(self.counts.sum())

    @property
    def fragment_count(self) -> int:
        return len(np.unique(self.owners))

    def cut(self, start: int, stop: int) -> PickedRows:
        ends = np.cumsum(self.counts)
        begins = ends - self.counts
        low, high = np.maximum(begins, start), np.minimum(ends, stop)
        kept = low < high
        return replace(
            self,
            owners=self.owners[kept],
            offsets=(self.offsets + low - begins)[kept],
            counts=(high - low)[kept],
        )

    def sample(self, most: int) -> Iterator[Fragment]:
        used = np.unique(self.owners)
        for at in used[:: max(1, len(used) // most)].tolist():
            yield self.fragments[at]

    def portion(self, *, with_lineage: bool) -> Picked:
        """The rows as a portion for a task, with the ids and versions of rows or without."""
        used, owners = np.unique(self.owners, return_inverse=True)
        name = self.snapshot.manifest.name
        raws = [self.fragments[at].message.SerializeToString() for at in used.tolist()]
        if not with_lineage:
            raws = [without_lineage(each, name) for each in raws]
        return Picked(tuple(raws), owners.astype(np.int64), self.offsets, self.counts)


StreamRows: TypeAlias = FragmentRows | PickedRows


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


def read_stream_task(message: bytes) -> Iterator[pa.RecordBatch]:
    """The rows of one task; raises NotFoundError if files of a version are gone."""
    task: StreamTask = unpack(message)
    most = task.views[0].work.request.batch_rows if task.views else None
    yield from sized(_task_rows(task), most)


def _task_rows(task: StreamTask) -> Iterator[pa.RecordBatch]:
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
    live = LiveRows.without_ids(rows.owners, rows.offsets, rows.counts)
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
    return pack(StreamTask(views, parts))


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
        return spread(spark, messages, size).rows(read_stream_task, self.schema, "changed rows")


def find_between(
    since: Snapshot, until: Snapshot, columns: Sequence[str] | None = None
) -> RowsBetween:
    """The rows that were inserted or updated after one version, up to and including another.

    Both must be of one history of a table with stable row ids, which the caller ensures
    (``Table.changes`` checks it). Raises InvalidInputError for an unknown column, NotFoundError if
    a version in between is needed but was cleaned up.
    """
    asked = StreamColumns(ScanRequest(columns=None if columns is None else list(columns)))
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
