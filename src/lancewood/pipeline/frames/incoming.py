"""What one source brings in: everything, its new files, or its new rows.

All kinds have one interface, so a run need not know which it has. Spark counts the rows while it
reads them for other reasons. If no job has counted them, the number is unknown, and nothing waits
for it for long. Over Connect the count only arrives if the frame was used without our SQL in
between, since the client cannot see behind a view.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from lancewood.pipeline.context import RunContext
from lancewood.pipeline.definition.model import Pipeline, Source
from lancewood.pipeline.frames.reading import open_source, read_format
from lancewood.pipeline.frames.refusals import spark_errors
from lancewood.pipeline.frames.texts import bytes_of, files_of
from lancewood.pipeline.frames.unread import (
    NewFiles,
    TableRows,
    find_new_files,
    rows_since,
    whole_table,
)
from lancewood.pipeline.frames.without_spark import passed_over
from lancewood.pipeline.report.facts import SourceFacts
from lancewood.spark.tasks import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_ROWS = "rows"
_PATIENCE_SECONDS = 0.5
_PAUSE_SECONDS = 0.01
_BY_COLUMNS = frozenset(["parquet", "orc"])
"""Formats that Spark reads column by column, and that know their number of rows."""
_WHOLE_FILES = "binaryfile"


class Incoming(Protocol):
    """The rows of a source for one run, found once."""

    def frame(self, spark: SparkSession) -> DataFrame:
        """All rows of the source for this run."""

    def counting(self, frame: DataFrame) -> DataFrame:
        """The rows of ``frame``, counted while they are read."""

    def is_empty(self) -> bool:
        """Whether it is certain that there is nothing new."""
        return False

    def news(self) -> str:
        """A text that is the same for the same rows, and differs for others."""

    def facts(self) -> SourceFacts: ...

    def state(self) -> dict[str, Any] | None:
        """What the next run has to know."""
        return None

    def seen_files(self) -> tuple[str, DataFrame] | None:
        """A table of files, and the rows to append to it."""
        return None


def find_incoming(
    spark: SparkSession, pipeline: Pipeline, source: Source, context: RunContext, state: object
) -> Incoming:
    """Open or list what a source names."""
    if source.format is None:
        opened = open_source(pipeline, source, context)
        if not source.incremental:
            return IncomingRows(source, whole_table(source, opened, context))
        return IncomingRows(source, rows_since(source, opened, context, state))
    if source.incremental:
        return IncomingFiles(spark, find_new_files(spark, pipeline, source, context), context.run)
    return IncomingWhole(source, lambda spark: read_format(spark, source))


@dataclass
class IncomingWhole(Incoming):
    """Everything that a source has; not incremental."""

    source: Source
    read: Callable[[SparkSession], DataFrame]
    _count: RowCount | RowsOfFiles | None = None
    _read: DataFrame | None = field(default=None, repr=False)

    def frame(self, spark: SparkSession) -> DataFrame:
        self._read = self.read(spark)
        self._count = RowsOfFiles(self._read, self.source)
        return self._read

    def counting(self, frame: DataFrame) -> DataFrame:
        self._count = RowCount()
        return self._count.of(frame)

    def news(self) -> str:
        return ""

    def facts(self) -> SourceFacts:
        facts = _facts(self.source, self._count)
        if self.source.paths and self._read is not None:
            facts.files, facts.bytes = files_of(self._read) or None, bytes_of(self._read)
        return facts


@dataclass
class IncomingFiles(Incoming):
    """The files that are new."""

    spark: SparkSession
    new: NewFiles
    run: str
    _count: RowCount | RowsOfFiles | None = None

    def frame(self, spark: SparkSession) -> DataFrame:
        found = self.new.frame(spark)
        self._count = RowsOfFiles(found, self.new.source)
        return found

    def counting(self, frame: DataFrame) -> DataFrame:
        self._count = RowCount()
        return self._count.of(frame)

    def is_empty(self) -> bool:
        return not self.new.files

    def news(self) -> str:
        found = hashlib.sha256()
        for each in self.new.files:
            found.update(repr(each).encode())
        return found.hexdigest()

    def facts(self) -> SourceFacts:
        facts = _facts(self.new.source, self._count)
        facts.files, facts.bytes = len(self.new.files), self.new.bytes
        facts.since = None if self.new.source.is_from_start else "the files of earlier runs"
        if not self.new.files:
            facts.rows = 0
        return facts

    def seen_files(self) -> tuple[str, DataFrame] | None:
        if not self.new.files and not self.new.source.is_from_start:
            return None
        self.new.check_unchanged(self.spark)
        return self.new.seen_in, self.new.table(self.spark, self.run)


@dataclass
class IncomingRows(Incoming):
    """A Lance table, or its new rows. The state is kept even if it was read whole, so that later
    runs can start there."""

    source: Source
    rows: TableRows
    _count: RowCount | None = None

    def frame(self, spark: SparkSession) -> DataFrame:
        return self.rows.frame(spark)

    def counting(self, frame: DataFrame) -> DataFrame:
        if self.rows.row_count is not None:
            return frame
        self._count = RowCount()
        return self._count.of(frame)

    def is_empty(self) -> bool:
        return self.rows.row_count == 0

    def news(self) -> str:
        return repr(self.rows.state())

    def facts(self) -> SourceFacts:
        facts = _facts(self.source, self._count)
        if self.rows.row_count is not None:
            facts.rows = self.rows.row_count
        facts.since = self.rows.since_text
        return facts

    def state(self) -> dict[str, Any] | None:
        return self.rows.state()


def _facts(source: Source, count: RowCount | RowsOfFiles | None) -> SourceFacts:
    kind = source.format or ("sql" if source.sql is not None else "lance table")
    rows = None if count is None else count.value()
    left_out = passed_over(source) if source.paths else None
    return SourceFacts(source.name, kind, _where(source), rows=rows, passed_over=left_out)


def _where(source: Source) -> str:
    """Path, table or uri as the file has it: a secret is shown as its template."""
    if source.sql is not None:
        return ""
    if source.table is not None or source.uri is not None:
        at = "" if source.revision is None else f" at {source.revision}"
        return f"{source.table or source.uri}{at}"
    if source.paths:
        return ", ".join(source.paths)
    said = {name.casefold(): str(value) for name, value in source.options.items()}
    return said.get("dbtable") or said.get("query") or said.get("url") or ""


class RowCount:
    """Counts the rows of a frame when it is first evaluated."""

    def __init__(self) -> None:
        from pyspark.sql import Observation

        self._observation: Any = Observation()
        self._is_connect = False
        self._patience = _PATIENCE_SECONDS

    def of(self, frame: DataFrame) -> DataFrame:
        """The frame to use from now on."""
        from pyspark.sql import functions as F

        self._is_connect = is_connect(frame.sparkSession)
        return frame.observe(self._observation, F.count(F.lit(1)).alias(_ROWS))

    def value(self) -> int | None:
        """The count; None if no job has evaluated the frame completely."""
        try:
            if not self._is_connect and not self._has_arrived():
                return None
            found = self._observation.get.get(_ROWS)
        except spark_errors():  # the optimizer has left the frame out
            return None
        return None if found is None else int(found)

    def _has_arrived(self) -> bool:
        """Spark reports a finished job a moment later; we wait for that once."""
        future = self._observation._jo.future()
        end, self._patience = time.monotonic() + self._patience, 0.0
        while not future.isCompleted():
            if time.monotonic() > end:
                return False
            time.sleep(_PAUSE_SECONDS)
        return True


class RowsOfFiles:
    """The number of rows of files that record it: one each, or what a small Spark job finds in
    their footers. Unknown for partitioned files: a run may have read only some of them."""

    def __init__(self, frame: DataFrame, source: Source) -> None:
        self._frame, self._source = frame, source

    def value(self) -> int | None:
        """The number of rows; None if unknown."""
        return self._value

    @cached_property
    def _value(self) -> int | None:
        if (self._source.format or "").casefold() == _WHOLE_FILES:
            return files_of(self._frame)
        if not is_by_columns(self._source) or _has_partitions(self._frame):
            return None
        try:
            return self._frame.count()
        except spark_errors():  # one of them is gone by now
            return None


def is_by_columns(source: Source) -> bool:
    """Whether reading a part of a source is cheap."""
    return (source.format or "").casefold() in _BY_COLUMNS


def is_read_whole(frame: DataFrame, source: Source) -> bool:
    """Whether Spark reads every row of a source anyway, so that counting is free: files of rows,
    unless they are partitioned."""
    format = (source.format or "").casefold()
    if not source.paths or is_by_columns(source) or format == _WHOLE_FILES:
        return False
    return not _has_partitions(frame)


def _has_partitions(frame: DataFrame) -> bool:
    """Whether directories are partitions (``day=7``); True if Spark does not tell."""
    if is_connect(frame.sparkSession):
        return True
    java: Any = frame._jdf
    try:
        leaves = java.queryExecution().analyzed().collectLeaves()
        found = [leaves.apply(at).relation().partitionSchema() for at in range(leaves.size())]
        return any(not each.isEmpty() for each in found)
    except spark_errors():  # no files
        return True
