"""Loading one target onto the run's branch.

Every write goes through ``lancewood.spark``: executors write files, and the driver commits a
version on the table's branch. Recording that in the repository and publishing it is done elsewhere.
What a change wrote is derived from two manifests; nothing else is read.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancewood.errors import InvalidInputError
from lancewood.pipeline.context import RunContext, TargetTable
from lancewood.pipeline.definition.model import Mode, Pipeline, Target
from lancewood.pipeline.definition.names import checked_files_table
from lancewood.pipeline.frames.frames import Frames
from lancewood.pipeline.frames.incoming import RowCount
from lancewood.pipeline.loading.planning import (
    DELETED,
    Indexing,
    choices_of,
    chosen,
    new_schema,
    stored_types,
    without_duplicates,
)
from lancewood.pipeline.report.facts import Listener, Silence, TargetFacts
from lancewood.spark.columns.fill import fill_columns
from lancewood.spark.runner import SparkRunner
from lancewood.spark.types import spark_schema
from lancewood.spark.types.schemas import arrow_schema
from lancewood.spark.write_frame import write
from lancewood.spark.writing.work import Written
from lancewood.table import files_added

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def stage_of(target: Target) -> str:
    """The name of the stage that loads a target."""
    return f"load {target.table}"


def load_target(
    spark: SparkSession,
    context: RunContext,
    target: Target,
    frames: Frames,
    listener: Listener | None = None,
) -> TargetFacts:
    """Write what a target says on the run's branch; returns what was done.

    A missing table is created; one that starts anew first loses its rows and columns. An empty
    frame makes no version of an existing table, unless it overwrites it. Indices follow the rows,
    in versions of their own. The listener hears of
    progress under the name of ``stage_of``; the run reports the beginning and end of the stage.
    """
    started = time.monotonic()
    was_there = context.is_there(target.table)
    if was_there:
        location = context.location(target.table)
    else:
        location = context.create(target.table, _new_schema(target, frames))
    before = location.opened()
    if was_there and target.is_anew:
        before.overwrite(pa.Table.from_batches([], _new_schema(target, frames)))
    loading = _Loading(spark, context, target, frames, listener or Silence(), location)
    done = loading.run()
    after = location.opened()
    files, size, counts = done.files, done.bytes, done.counts
    assert counts is not None
    if files is None or size is None:
        files, size = files_added(before, after)
    indexing = Indexing(context, target, loading.listener)
    after = indexing.run(after, loading.runner)
    return TargetFacts(
        table=target.table,
        mode=f"{target.mode.value}, full refresh" if target.is_anew else target.mode.value,
        rows_before=before.count_rows() if was_there else None,
        rows_after=after.count_rows(),
        inserted=counts.inserted,
        updated=counts.updated,
        deleted=counts.deleted,
        replaced=before.count_rows() if target.replaces_all else None,
        duplicates=loading.duplicates,
        columns_added=tuple(each for each in after.schema.names if each not in before.schema.names),
        files=files,
        bytes=size,
        version=after.version,
        indices_created=tuple(indexing.created),
        indices_extended=tuple(indexing.extended),
        indices_waiting=tuple(indexing.waiting),
        seconds=time.monotonic() - started,
    )


def _new_schema(target: Target, frames: Frames) -> pa.Schema:
    """The columns of a table that a target creates."""
    assert target.source is not None
    frame = chosen(frames.frame(target.source), target.columns_left_out)
    return new_schema(frame.schema, stored_types(target))


@dataclass
class _Loading:
    _spark: SparkSession
    _context: RunContext
    _target: Target
    _frames: Frames
    listener: Listener
    _location: TargetTable
    _counts: tuple[RowCount, RowCount] | None = None
    """Counts of all rows, and of those that ``keep`` left."""

    @property
    def runner(self) -> SparkRunner:
        """Executors, of whose progress the listener hears."""
        return SparkRunner(self._spark, self._progress)

    def run(self) -> Written:
        match self._target.mode:
            case Mode.APPEND:
                return self._write("append", skip_empty=True, **self._limits)
            case Mode.OVERWRITE:
                return self._overwrite()
            case Mode.MERGE:
                return self._merge()
            case Mode.ADD_COLUMNS:
                return self._fill()

    @property
    def _message(self) -> str:
        context, target = self._context, self._target
        return f"{context.pipeline.name} {context.run}: {target.mode.value} {target.table}"

    @property
    def _frame(self) -> DataFrame:
        assert self._target.source is not None
        return self._frames.frame(self._target.source)

    @property
    def _limits(self) -> dict[str, Any]:
        most = self._target.max_rows_per_file
        return {} if most is None else {"max_rows_per_file": most}

    def _write(self, mode: Any, frame: DataFrame | None = None, **said: Any) -> Written:
        rows = self._frame if frame is None else frame
        return write(
            chosen(rows, self._target.columns_left_out),
            self._location.uri,
            mode,
            branch=self._location.branch,
            partitions=self._target.partitions,
            storage_options=self._location.options,
            message=self._message,
            **said,
        )

    def _overwrite(self) -> Written:
        frame = chosen(self._frame, self._target.columns_left_out)
        schema = new_schema(
            frame.schema, stored_types(self._target), self._location.opened().schema
        )
        return self._write("overwrite", schema=schema, overwrite_schema=True, **self._limits)

    def _merge(self) -> Written:
        from pyspark.sql import functions

        choices = choices_of(self._target)
        said: dict[str, Any] = {
            "on": choices.on,
            "matched": choices.matched,
            "not_matched": choices.not_matched,
            "not_matched_by_source": choices.not_matched_by_source,
        }
        frame = self._frame
        if self._target.keep is not None:
            given, kept = self._counts = RowCount(), RowCount()
            frame = kept.of(without_duplicates(given.of(frame), self._target))
        if choices.matched == "update":
            frame = self._without_computed(frame)
        if self._target.deleted is not None:
            frame = frame.withColumn(DELETED, functions.expr(self._target.deleted))
            said["deleted"] = DELETED
        try:
            return self._write("merge", frame, **said)
        except InvalidInputError as error:
            if "key" not in error.facts or self._target.keep is not None:
                raise
            way_out = 'keep = "last" or "first" with order_by does that'
            raise InvalidInputError(f"{error.message}: {way_out}", **error.facts) from error

    @property
    def duplicates(self) -> int | None:
        """How many rows of the frame ``keep`` left out; None if that is unknown."""
        if self._counts is None:
            return None
        given, kept = (each.value() for each in self._counts)
        return None if given is None or kept is None else given - kept

    def _without_computed(self, frame: DataFrame) -> DataFrame:
        """The frame with null for what the pipeline computes from a row: an updated row loses it,
        and a later target computes it again."""
        from pyspark.sql import functions

        known = self._location.opened().schema
        computed = computed_columns(self._context.pipeline, self._target.table)
        said = [each for each in known if each.name in computed - {*frame.columns}]
        nothing = [
            functions.lit(None).cast(each.dataType).alias(each.name)
            for each in spark_schema(pa.schema(said)).fields
        ]
        return frame.select("*", *nothing) if nothing else frame

    def _fill(self) -> Written:
        target = self._target
        return fill_columns(
            self._spark,
            self._location.uri,
            target.columns,
            branch=self._location.branch,
            types=stored_types(target),
            overwrite=target.overwrite,
            message=self._message,
            storage_options=self._location.options,
            progress=self._progress,
        )

    def _progress(self, what: str, done: int, total: int) -> None:
        self.listener.moved(stage_of(self._target), done, total)


def computed_columns(pipeline: Pipeline, table: str) -> set[str]:
    """The columns of a table that targets of the pipeline compute."""
    return {
        name
        for each in pipeline.targets
        if each.mode is Mode.ADD_COLUMNS and each.table == table
        for name in each.columns
    }


def load_files(spark: SparkSession, context: RunContext, table: str, files: DataFrame) -> None:
    """Append the files that a source has read to the table that records them. If the source was
    read from the start, they replace what the table had."""
    pipeline = context.pipeline
    from_start = [each.name for each in pipeline.sources if each.is_from_start]
    is_anew = table in [checked_files_table(pipeline.name, each) for each in from_start]
    location = context.create(table, arrow_schema(files.schema))
    write(
        files,
        location.uri,
        "overwrite" if is_anew else "append",
        branch=location.branch,
        storage_options=location.options,
    )
