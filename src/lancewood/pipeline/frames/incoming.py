"""What comes in by one source: everything, the files that are new, or the rows that are new.

One face for all kinds, so that a run need not know which it has.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from lancewood.pipeline.definition.model import Pipeline, Source
from lancewood.pipeline.frames.counting import RowCount, RowsOfFiles, files_and_bytes
from lancewood.pipeline.frames.needs import Tables
from lancewood.pipeline.frames.new_files import NewFiles, find_new_files
from lancewood.pipeline.frames.new_rows import TableRows, rows_since, whole_table
from lancewood.pipeline.frames.reading import open_source, read_format
from lancewood.pipeline.report.facts import SourceFacts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Incoming(Protocol):
    """The rows of a source for one run, found once."""

    def frame(self, spark: SparkSession) -> DataFrame:
        """All of them, as they come."""

    def counting(self, frame: DataFrame) -> DataFrame:
        """The same, counted while they are read."""

    def is_empty(self) -> bool:
        """Whether it is known that there is nothing new."""

    def news(self) -> str:
        """The same for the same rows, another for others."""

    def facts(self) -> SourceFacts: ...

    def state(self) -> dict[str, Any] | None:
        """What the next run has to know."""

    def seen_files(self) -> tuple[str, DataFrame] | None:
        """A table of files, and the rows that are to be appended to it."""


def find_incoming(
    spark: SparkSession, pipeline: Pipeline, source: Source, ground: Tables, state: object
) -> Incoming:
    """Open, or list, what a source names; raises what that raises."""
    if source.format is None:
        opened = open_source(pipeline, source, ground)
        if not source.incremental:
            return Rows(source, whole_table(source, opened, ground))
        return Rows(source, rows_since(source, opened, ground, state))
    if source.incremental:
        return Files(spark, find_new_files(spark, pipeline, source, ground), ground.run)
    return Whole(source, lambda spark: read_format(spark, source))


@dataclass
class Whole:
    """Everything that a source has, of whatever kind; not incremental."""

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

    def is_empty(self) -> bool:
        return False

    def news(self) -> str:
        return ""

    def facts(self) -> SourceFacts:
        facts = _facts(self.source, self._count)
        if self.source.paths and self._read is not None:
            facts.files, facts.bytes = files_and_bytes(self._read)
        return facts

    def state(self) -> dict[str, Any] | None:
        return None

    def seen_files(self) -> tuple[str, DataFrame] | None:
        return None


@dataclass
class Files:
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

    def state(self) -> dict[str, Any] | None:
        return None

    def seen_files(self) -> tuple[str, DataFrame] | None:
        if not self.new.files and not self.new.source.is_from_start:
            return None
        self.new.check_unchanged(self.spark)
        return self.new.seen_in, self.new.table(self.spark, self.run)


@dataclass
class Rows:
    """A Lance table, or the rows of it that are new. Also one that is read whole is remembered, so
    that later runs can begin there."""

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
        facts.since = self.rows.told_since
        return facts

    def state(self) -> dict[str, Any] | None:
        return self.rows.state()

    def seen_files(self) -> tuple[str, DataFrame] | None:
        return None


def _facts(source: Source, count: RowCount | RowsOfFiles | None) -> SourceFacts:
    kind = source.format or ("sql" if source.sql is not None else "lance table")
    rows = None if count is None else count.value()
    return SourceFacts(source.name, kind, _where(source), rows=rows)


def _where(source: Source) -> str:
    """Path, table or uri as the file says it: a secret is shown as its template."""
    if source.sql is not None:
        return ""
    if source.table is not None or source.uri is not None:
        at = "" if source.revision is None else f" at {source.revision}"
        return f"{source.table or source.uri}{at}"
    if source.paths:
        return ", ".join(source.paths)
    said = {name.casefold(): str(value) for name, value in source.options.items()}
    return said.get("dbtable") or said.get("query") or said.get("url") or ""
