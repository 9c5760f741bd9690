"""Adding columns that Spark expressions compute; executors write files, the driver commits once.

Only the new columns are written, one file for each fragment, by the same operation as
``Table.add_columns``. Rows are not shuffled. A task reads whole fragments, Spark computes, and the
same task writes the result. Each row carries a number, which says its fragment and its place in
it, so that rows which are lost, doubled or reordered in between are detected.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from lancewood.engine.base import check_number
from lancewood.engine.rows import RowShape, scan_each
from lancewood.engine.schema import NewColumns, project
from lancewood.engine.snapshot import Access, Address, Snapshot
from lancewood.errors import BatchAppliedError, InvalidInputError, UnsupportedError
from lancewood.jobs.columns.add import WHAT, AddColumns
from lancewood.jobs.columns.files import (
    Batches,
    ColumnFiles,
    ColumnWriter,
    WrittenColumns,
    read_fields,
    write_columns,
)
from lancewood.jobs.counts import RowCounts
from lancewood.jobs.job import CommitOptions, gather, pack_fragments
from lancewood.jobs.runner import Progress
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FieldId
from lancewood.model.schema import Schema
from lancewood.rules.features import is_applied
from lancewood.spark.columns.expressions import (
    HIDDEN,
    PLACE,
    TASK,
    Checked,
    ColumnExpressions,
    check_expressions,
    hidden_fields,
)
from lancewood.spark.reading.task import sized
from lancewood.spark.runner import Answering, SparkRunner
from lancewood.spark.running.answers import Shared, answered, as_rows, dumps, loads
from lancewood.spark.tasks import Spread, keep_loaded, messages_of
from lancewood.spark.types import Reading, Writing
from lancewood.spark.writing.work import (
    Written,
    as_planned,
    as_skipped,
    as_written,
    batches_of,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_ROW_BITS = 40
"""The lower bits of a place, which say the row; those above say the fragment."""


def add_columns(
    spark: SparkSession,
    uri: str | os.PathLike[str],
    columns: Mapping[str, str | Column],
    *,
    branch: str | None = None,
    batch_rows: int | None = None,
    message: str | None = None,
    commit: CommitOptions | None = None,
    access: Access | None = None,
    progress: Progress | None = None,
    dry_run: bool = False,
) -> Written:
    """Add columns whose values are Spark expressions over the other columns of a row.

    ``columns`` maps names to Spark SQL or to a ``Column``; Spark's Python functions are fine. An
    expression that needs more than its own row (aggregates, windows, generators, subqueries) is
    refused. A dotted name adds a field to a struct. Only columns that an expression names are read,
    and only the new ones are written.

    At most ``batch_rows`` rows go to Spark at once. If another writer commits first, values for new
    or changed rows are computed again; an expression that is not deterministic then gives other
    values. A batch of an app that the table already has is skipped. With ``dry_run`` everything is
    checked, expressions by Spark, and nothing computed; the result has the number of files that
    would be written. The other arguments are those of ``write``.

    Raises InvalidInputError, before anything is written, for a name that is taken and for an
    expression that Spark does not understand.
    """
    asked = ColumnExpressions(columns)
    if batch_rows is not None:
        batch_rows = check_number("batch_rows", batch_rows, least=1)
    commit_options = CommitOptions.of(commit, message, takes_batch=True)
    address = Address(uri, access)
    snapshot = address.open(branch=branch)
    if is_applied(snapshot.manifest.config, commit_options.policy.applied):
        return as_skipped(snapshot, dry_run=dry_run)
    source = ExpressionColumns(spark, asked)
    files = ExpressionFiles(snapshot, source, batch_rows, progress)
    job = AddColumns(snapshot, source, files)
    if dry_run:
        snapshot.check_writable()
        snapshot.check_open()
        return as_planned(snapshot, RowCounts(), len(snapshot.manifest.fragments))
    try:
        after, _ = job.run(snapshot, commit_options)
    except BatchAppliedError:
        return as_skipped(snapshot.newest())
    return as_written(after, RowCounts(), len(files), files.bytes)


class ExpressionColumns:
    """Spark expressions as a source of columns. Lives on the driver."""

    can_repeat: ClassVar[bool] = True
    can_extend: ClassVar[bool] = True

    def __init__(
        self,
        spark: SparkSession,
        asked: ColumnExpressions,
        types: Mapping[str, pa.DataType] | None = None,
    ) -> None:
        """``types`` are for columns whose types do not follow from the expressions."""
        self.spark = spark
        self.asked = asked
        self._types = types or {}
        self._checked: tuple[Schema, Checked] | None = None

    def checked(self, snapshot: Snapshot) -> Checked:
        """The expressions, checked by Spark against the schema of a version."""
        if self._checked is None or self._checked[0] != snapshot.schema:
            found = check_expressions(self.spark, self.asked, snapshot.arrow_schema, self._types)
            self._checked = snapshot.schema, found
        return self._checked[1]

    def columns(self, snapshot: Snapshot) -> pa.Schema:
        return self.checked(snapshot).schema

    def inputs(self, snapshot: Snapshot) -> frozenset[FieldId]:
        read = list(self.checked(snapshot).columns_read)
        return read_fields(project(snapshot.schema, read).stored)

    def of(self, snapshot: Snapshot, fragments: Sequence[Fragment]) -> Any:
        raise UnsupportedError("Spark expressions are computed by executors only")


class ExpressionFiles(ColumnFiles):
    """Column files whose values Spark computes."""

    def __init__(
        self,
        snapshot: Snapshot,
        source: ExpressionColumns,
        batch_rows: int | None,
        progress: Progress | None,
    ) -> None:
        super().__init__(snapshot, SparkRunner(source.spark, progress), WHAT)
        self._source = source
        self._batch_rows = batch_rows
        self._progress = progress

    @property
    def bytes(self) -> int:
        return sum(each.file.size or 0 for each in self._kept.values())

    def _in_tasks(
        self, writer: ColumnWriter, fragments: Sequence[Fragment]
    ) -> Sequence[WrittenColumns]:
        for each in fragments:
            if each.num_rows == 0:
                writer.write(each, ())  # says why there can be no file for it
        checked = self._source.checked(writer.snapshot)
        bare = writer.snapshot.bare()
        rows = RowsToRead(bare, checked.columns_read, checked.reading, self._batch_rows)
        runner = ExpressionRunner(self._source, rows, self._progress)
        tasks: list[Any] = list(pack_fragments(fragments, runner.slots))
        work = WriteComputed(
            bare, writer.written, writer.new, checked.writing, checked.names, writer.mark
        )
        with batches_of(self._source.spark, checked.moved):
            return gather(runner, work, tasks, what=WHAT, snapshot=writer.snapshot)


class ExpressionRunner(SparkRunner):
    """Runs tasks on executors that first read their fragments and compute."""

    def __init__(
        self, source: ExpressionColumns, rows: RowsToRead, progress: Progress | None
    ) -> None:
        super().__init__(source.spark, progress)
        self._asked = source.asked
        self._rows = rows

    def _planned(self, tasks: Spread, shared: Shared) -> tuple[DataFrame | Spread, Answering]:
        from pyspark.sql.types import StructType

        schema = StructType([*hidden_fields(), *self._rows.reading.spark])
        read = tasks.mapInArrow(partial(read_fragments, self._rows), schema)
        return self._asked.selected(read), partial(write_computed, shared)


@dataclass(frozen=True)
class RowsToRead:
    """The part of a reading task that all tasks share: version, columns and their form in Spark."""

    snapshot: Snapshot
    """Bare: fragments travel with the tasks."""
    columns: tuple[str, ...]
    reading: Reading
    batch_rows: int | None

    @property
    def schema(self) -> pa.Schema:
        kinds = (pa.binary(), pa.int64())
        return pa.schema([*zip(HIDDEN, kinds, strict=True), *self.reading.schema])

    def of(
        self, task: bytes, fragments: Sequence[Fragment], first: int
    ) -> Iterator[pa.RecordBatch]:
        """The live rows of fragments, each with its place.

        Fragments are numbered from ``first``; the first row also carries the task.
        """
        projection = project(self.snapshot.schema, list(self.columns))
        shape = RowShape(snapshot=self.snapshot, projection=projection)
        schema = self.schema
        for number, batches in enumerate(scan_each(shape, fragments), first):
            at = number << _ROW_BITS
            for batch in sized(map(self.reading.convert, batches), self.batch_rows):
                rows = batch.num_rows
                if not rows:
                    continue
                tasks = pa.nulls(rows - bool(task), pa.binary())
                if task:
                    tasks = pa.concat_arrays([pa.array([task], pa.binary()), tasks])
                places = pa.array(np.arange(at, at + rows, dtype=np.int64))
                columns = [tasks, places, *batch.columns]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)
                at, task = at + rows, b""


def read_fragments(rows: RowsToRead, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
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
    keep_loaded()


def _written(task: ComputedTask, work: WriteComputed) -> WrittenColumns:
    return work(task)


@dataclass(frozen=True)
class ComputedTask:
    """A task, with the rows that Spark computed for it."""

    rows: ComputedRows
    fragments: Sequence[Fragment]
    first: int
    """The number of the first fragment in the partition."""


@dataclass(frozen=True)
class WriteComputed:
    """The work of a task: write what Spark computed for its fragments."""

    snapshot: Snapshot
    """Bare: fragments travel with the tasks."""
    written: Schema
    new: NewColumns | None
    writing: Writing
    names: tuple[str, ...]
    mark: str = ""
    """Part of the file names."""

    def __call__(self, task: ComputedTask) -> WrittenColumns:
        values = _Values(task, self.writing, self.names)
        writer = ColumnWriter(self.snapshot, self.written, values, self.new, self.mark)
        return write_columns(writer, task.fragments)


class ComputedRows:
    """The rows that Spark computed, taken one fragment after the other.

    Raises InvalidInputError for rows out of place.
    """

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._rest: pa.RecordBatch | None = None

    def next_task(self) -> bytes | None:
        """The task that the next row carries; None at the end."""
        head = self._head()
        if head is None:
            return None
        task: bytes | None = head.column(TASK)[0].as_py()
        if task is None:
            raise _mixed_up()
        return task

    def of_fragment(self, number: int) -> Iterator[pa.RecordBatch]:
        """The new columns of the rows of one fragment."""
        at = number << _ROW_BITS
        while (head := self._head()) is not None:
            places = head.column(PLACE).to_numpy()
            others = np.flatnonzero(places >> _ROW_BITS != number)
            here = int(others[0]) if len(others) else head.num_rows
            if not here:
                return
            part, self._rest = head.slice(0, here), head.slice(here)
            if not np.array_equal(places[:here], np.arange(at, at + here)):
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
