"""What executors do for new columns: give Spark the rows of whole fragments, and write what it
makes of them, one file for each fragment.

Between the two Spark computes. Every row carries the number of its fragment and its place in it,
so that a row which was lost, doubled or moved on the way is found out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from lancewood.engine.group_scan import scan_each
from lancewood.engine.new_columns import NewColumns
from lancewood.engine.projection import project
from lancewood.engine.row_shape import RowShape
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import InvalidInputError
from lancewood.jobs.columns.files import Batches, ColumnWriter, WrittenColumns, write_columns
from lancewood.model.fragment import Fragment
from lancewood.model.schema import Schema
from lancewood.spark.columns.expressions import FRAGMENT, HIDDEN, ROW, TASK
from lancewood.spark.reading.batches import sized
from lancewood.spark.running.answers import Shared, answered, as_rows, dumps, loads
from lancewood.spark.tasks import messages_of
from lancewood.spark.types import Reading, Writing


@dataclass(frozen=True)
class FragmentRows:
    """What all tasks share that read rows."""

    snapshot: Snapshot
    """Bare: fragments travel with the tasks."""
    columns: tuple[str, ...]
    reading: Reading
    batch_rows: int | None

    @property
    def schema(self) -> pa.Schema:
        kinds = (pa.binary(), pa.int32(), pa.int64())
        return pa.schema([*zip(HIDDEN, kinds, strict=True), *self.reading.schema])

    def of(
        self, task: bytes, fragments: Sequence[Fragment], first: int
    ) -> Iterator[pa.RecordBatch]:
        """The live rows of fragments, each with its place: fragments are numbered from ``first``
        on, and the first row has the task."""
        projection = project(self.snapshot.schema, list(self.columns))
        shape = RowShape(snapshot=self.snapshot, projection=projection)
        schema = self.schema
        for number, batches in enumerate(scan_each(shape, fragments), first):
            at = 0
            for batch in sized(map(self.reading.convert, batches), self.batch_rows):
                if batch.num_rows:
                    yield _with_places(schema, batch, task, number, at)
                    at, task = at + batch.num_rows, b""


def _with_places(
    schema: pa.Schema, batch: pa.RecordBatch, task: bytes, fragment: int, at: int
) -> pa.RecordBatch:
    rows = batch.num_rows
    nulls = pa.nulls(rows - bool(task), pa.binary())
    tasks = pa.concat_arrays([pa.array([task], pa.binary()), nulls]) if task else nulls
    fragments = pa.array(np.full(rows, fragment, np.int32))
    places = pa.array(np.arange(at, at + rows, dtype=np.int64))
    columns = [tasks, fragments, places, *batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def read_fragments(
    rows: FragmentRows, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """For mapInArrow over a spread frame: the rows of its tasks."""
    first = 0
    for number, message in messages_of(batches):
        fragments: Sequence[Fragment] = loads(message)
        yield from rows.of(dumps((number, fragments)), fragments, first)
        first += len(fragments)


def write_computed(shared: Shared, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For mapInArrow over computed columns: the answers of its tasks, usually one."""
    rows = ComputedRows(batches)
    first = 0
    while (task := rows.next_task()) is not None:
        number, fragments = loads(task)
        mine = ComputedTask(rows, fragments, first)
        yield from as_rows(number, answered(shared, partial(_written, mine)))
        first += len(fragments)


def _written(task: ComputedTask, work: WriteComputed) -> WrittenColumns:
    return work(task)


@dataclass(frozen=True)
class ComputedTask:
    """A task with what Spark has computed for it."""

    rows: ComputedRows
    fragments: Sequence[Fragment]
    first: int
    """The number of the first fragment in the partition."""


@dataclass(frozen=True)
class WriteComputed:
    """The work of a task: write what Spark has computed for fragments."""

    snapshot: Snapshot
    """Bare: fragments travel with the tasks."""
    written: Schema
    new: NewColumns | None
    writing: Writing
    names: tuple[str, ...]
    mark: str = ""
    """In the names of the files."""

    def __call__(self, task: ComputedTask) -> WrittenColumns:
        values = _Values(task, self.writing, self.names)
        writer = ColumnWriter(self.snapshot, self.written, values, self.new, self.mark)
        return write_columns(writer, task.fragments)


class ComputedRows:
    """The rows that come out of Spark, from which those of one fragment after the other are taken.

    Raises InvalidInputError for rows that are not where they belong.
    """

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._rest: pa.RecordBatch | None = None

    def next_task(self) -> bytes | None:
        """What the next row says of its task; None if there is no more row."""
        head = self._head()
        if head is None:
            return None
        task: bytes | None = head.column(TASK)[0].as_py()
        if task is None:
            raise _mixed_up()
        return task

    def of_fragment(self, number: int) -> Iterator[pa.RecordBatch]:
        """The new columns of the rows of one fragment."""
        at = 0
        while (head := self._head()) is not None:
            others = np.flatnonzero(head.column(FRAGMENT).to_numpy() != number)
            here = int(others[0]) if len(others) else head.num_rows
            if not here:
                return
            part, self._rest = head.slice(0, here), head.slice(here)
            if not np.array_equal(part.column(ROW).to_numpy(), np.arange(at, at + here)):
                raise _mixed_up()
            at += here
            yield part.select([each for each in part.schema.names if each not in HIDDEN])

    def _head(self) -> pa.RecordBatch | None:
        while self._rest is None or not self._rest.num_rows:
            self._rest = next(self._batches, None)
            if self._rest is None:
                return None
        return self._rest


@dataclass(frozen=True)
class _Values:
    """Computed rows as values for a ``ColumnWriter``."""

    task: ComputedTask
    writing: Writing
    names: tuple[str, ...]

    def of(self, snapshot: Snapshot, fragments: Sequence[Fragment]) -> Iterator[Batches]:
        first = self.task.first
        return map(self._converted, range(first, first + len(fragments)))

    def _converted(self, number: int) -> Batches:
        for batch in self.task.rows.of_fragment(number):
            made = self.writing.convert(batch)
            yield pa.RecordBatch.from_arrays(made.columns, names=list(self.names))


def _mixed_up() -> InvalidInputError:
    return InvalidInputError(
        "Spark gave the rows in another order than it got them, so the expressions do not go row "
        "by row; nothing was changed"
    )
