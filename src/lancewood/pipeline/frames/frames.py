"""The frames of a run: every source and step by name, good rows and bad ones apart.

What a source brings in is everything, its new files, or its new rows; all kinds have one interface.
Spark counts the rows while it reads them for other reasons. If no job has counted them, the number
is unknown, and nothing waits for it for long. Over Connect the count only arrives if the frame was
used without our SQL in between, since the client cannot see behind a view.

Frames are made once for an attempt of a run. They are plans: rows are read when a target is loaded,
and a frame that is needed more than once is computed once and kept by Spark until ``close``. Reads
the repository as it was at the commit that the run began with, and writes nothing.
"""

from __future__ import annotations

import hashlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

from lancewood.pipeline.context import RunContext
from lancewood.pipeline.definition.model import Pipeline, Source, Step
from lancewood.pipeline.definition.names import near, wrong
from lancewood.pipeline.frames.bad_rows import Judged, judge
from lancewood.pipeline.frames.functions import (
    LINES_BEFORE,
    Modules,
    Registered,
    Views,
    check_step,
    over_views,
    run_step,
)
from lancewood.pipeline.frames.reading import (
    bytes_of,
    chosen_columns,
    files_of,
    has_lines,
    keeps_corrupt,
    open_source,
    read_format,
    rows_of,
    with_file,
)
from lancewood.pipeline.frames.refusals import Uses, refused_at, spark_errors, spark_may_be_gone
from lancewood.pipeline.frames.unread import (
    NewFiles,
    TableRows,
    find_new_files,
    passed_over,
    rows_since,
    whole_table,
)
from lancewood.pipeline.report.facts import SourceFacts
from lancewood.spark.tasks import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


_ROWS = "rows"
_PATIENCE_SECONDS = 0.5
_PAUSE_SECONDS = 0.01
_BY_COLUMNS = frozenset(["parquet", "orc"])
"""Formats that Spark reads column by column, and that know their number of rows."""
_WHOLE_FILES = "binaryfile"


@dataclass
class Incoming(ABC):
    """The rows of a source for one run, found once: all that it has, unless a subclass knows what
    is new."""

    source: Source
    _count: RowCount | RowsOfFiles | None = field(default=None, init=False)

    @abstractmethod
    def frame(self, spark: SparkSession) -> DataFrame:
        """All rows of the source for this run."""

    def counting(self, frame: DataFrame) -> DataFrame:
        """The rows of ``frame``, counted while they are read."""
        self._count = RowCount()
        return self._count.of(frame)

    def is_empty(self) -> bool:
        """Whether it is certain that there is nothing new."""
        return False

    def news(self) -> str:
        """A text that is the same for the same rows, and differs for others."""
        return ""

    def facts(self) -> SourceFacts:
        source = self.source
        kind = source.format or ("sql" if source.sql is not None else "lance table")
        rows = None if self._count is None else self._count.value()
        left_out = passed_over(source) if source.paths else None
        return SourceFacts(source.name, kind, _where(source), rows=rows, passed_over=left_out)

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
        new = find_new_files(spark, pipeline, source, context)
        return IncomingFiles(source, spark, new, context.run)
    return IncomingWhole(source, lambda spark: read_format(spark, source))


@dataclass
class IncomingWhole(Incoming):
    """Everything that a source has; not incremental."""

    read: Callable[[SparkSession], DataFrame]
    _read: DataFrame | None = field(default=None, init=False)

    def frame(self, spark: SparkSession) -> DataFrame:
        self._read = self.read(spark)
        self._count = RowsOfFiles(self._read, self.source)
        return self._read

    def facts(self) -> SourceFacts:
        facts = super().facts()
        if self.source.paths and self._read is not None:
            facts.files, facts.bytes = files_of(self._read) or None, bytes_of(self._read)
        return facts


@dataclass
class IncomingFiles(Incoming):
    """The files that are new."""

    spark: SparkSession
    new: NewFiles
    run: str

    def frame(self, spark: SparkSession) -> DataFrame:
        found = self.new.frame(spark)
        self._count = RowsOfFiles(found, self.source)
        return found

    def is_empty(self) -> bool:
        return not self.new.files

    def news(self) -> str:
        found = hashlib.sha256()
        for each in self.new.files:
            found.update(repr(each).encode())
        return found.hexdigest()

    def facts(self) -> SourceFacts:
        facts = super().facts()
        facts.files, facts.bytes = len(self.new.files), self.new.bytes
        facts.since = None if self.source.is_from_start else "the files of earlier runs"
        if not self.new.files:
            facts.rows = 0
        return facts

    def seen_files(self) -> tuple[str, DataFrame] | None:
        if not self.new.files and not self.source.is_from_start:
            return None
        self.new.check_unchanged(self.spark)
        return self.new.seen_in, self.new.table(self.spark, self.run)


@dataclass
class IncomingRows(Incoming):
    """A Lance table, or its new rows. The state is kept even if it was read whole, so that later
    runs can start there."""

    rows: TableRows

    def frame(self, spark: SparkSession) -> DataFrame:
        return self.rows.frame(spark)

    def counting(self, frame: DataFrame) -> DataFrame:
        return frame if self.rows.row_count is not None else super().counting(frame)

    def is_empty(self) -> bool:
        return self.rows.row_count == 0

    def news(self) -> str:
        return repr(self.rows.state())

    def facts(self) -> SourceFacts:
        facts = super().facts()
        if self.rows.row_count is not None:
            facts.rows = self.rows.row_count
        facts.since = self.rows.since_text
        return facts

    def state(self) -> dict[str, Any] | None:
        return self.rows.state()


def _where(source: Source) -> str:
    """Path, table or uri as the file has it: a secret is shown as its template."""
    if source.sql is not None:
        return ""
    if source.table is not None or source.uri is not None:
        at = "" if source.revision is None else f" at {source.revision}"
        return f"{source.table or source.uri}{at}"
    if source.paths:
        return ", ".join(source.paths)
    said = source.options_said
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
        if self._source.kind == _WHOLE_FILES:
            return files_of(self._frame)
        if not is_by_columns(self._source) or _has_partitions(self._frame):
            return None
        try:
            return self._frame.count()
        except spark_errors():  # one of them is gone by now
            return None


def is_by_columns(source: Source) -> bool:
    """Whether reading a part of a source is cheap."""
    return source.kind in _BY_COLUMNS


def is_read_whole(frame: DataFrame, source: Source) -> bool:
    """Whether Spark reads every row of a source anyway, so that counting is free: files of rows,
    unless they are partitioned."""
    if not source.paths or is_by_columns(source) or source.kind == _WHOLE_FILES:
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


class Frames(AbstractContextManager["Frames"]):
    """Every source and step of a pipeline as a frame."""

    def __init__(
        self,
        spark: SparkSession,
        pipeline: Pipeline,
        context: RunContext,
        states: Mapping[str, Any] | None = None,
        overrides: Mapping[str, DataFrame] | None = None,
    ) -> None:
        """``states`` are what the last published run has left, by source. ``overrides`` are read
        in place of sources: the micro-batches of a stream, whose session ``spark`` has to be
        (``batch.sparkSession``)."""
        self._spark, self._pipeline, self._context = spark, pipeline, context
        self._states, self._overrides = dict(states or {}), dict(overrides or {})
        self._origins: dict[str, Source | Step] = {
            **{each.name: each for each in pipeline.sources},
            **{each.name: each for each in pipeline.steps},
        }
        self._uses = Uses.of(pipeline)
        self._modules = Modules(pipeline.file.parent)
        self._functions = Registered(spark, pipeline, self._modules)
        self._views = Views(spark)
        self._has_functions = False
        self._incoming: dict[str, Incoming] = {}
        self._good: dict[str, DataFrame] = {}
        self._judged: dict[str, Judged] = {}
        self._kept: list[DataFrame] = []

    def check(self) -> None:
        """Raise InvalidInputError for anything that Spark, Python or a table would refuse later.

        Sources are opened and incremental ones are listed, functions are imported, Python steps
        are called, everything is analysed; nothing is written, and no row is loaded.
        """
        self.register_functions()
        for step in self._pipeline.steps:
            if step.python is not None:
                check_step(step, self._modules)
        for name in self._origins:
            self.schema(name)
            if name in self._judged:
                with refused_at(self._origins[name].spot, self._pipeline):
                    _ = self._judged[name].bad().schema

    def register_functions(self) -> None:
        """Make the functions of the pipeline known to SQL; they are until ``close``."""
        if not self._has_functions:
            self._has_functions = True
            self._functions.register(self._pipeline.functions)

    def frame(self, name: str) -> DataFrame:
        """The good rows of a source or step; raises InvalidInputError."""
        if name not in self._good:
            self.register_functions()
            self._build(name)
        return self._good[name]

    def schema(self, name: str) -> StructType:
        """The columns of the good rows."""
        frame = self.frame(name)
        with self._refused(name):
            return frame.schema

    def bad_rows(self) -> DataFrame | None:
        """The bad rows of all sources and steps that targets need, with the columns ``origin``,
        ``reason``, ``file``, ``line`` and ``record``; None where there can be none."""
        found = []
        for name in self._uses.counts:
            self.frame(name)
            if name in self._judged:
                rows = self._judged[name].bad(self._origins[name])
                # Lines are looked for once.
                found.append(self._keep(rows) if isinstance(self._origins[name], Source) else rows)
        return reduce(lambda one, other: one.unionByName(other), found) if found else None

    def counted(self) -> list[SourceFacts]:
        """What came in, as far as it is known without reading it again; to be asked after the
        loads."""
        return [
            replace(self._coming(each).facts(), is_derived=bool(self._uses.inputs[each.name]))
            for each in self._needed()
        ]

    def states(self) -> dict[str, Any]:
        """What the next run has to know, by source, as values for JSON."""
        found = {each.name: self._coming(each).state() for each in self._needed()}
        return {name: state for name, state in found.items() if state is not None}

    def file_tables(self) -> list[tuple[str, DataFrame]]:
        """The tables of files that were read, and the files of this run, to be appended to them
        (``path``, ``size``, ``modified``, ``run``); a source without new files is left out."""
        found = (self._coming(each).seen_files() for each in self._needed())
        return [each for each in found if each is not None]

    def is_empty(self) -> bool | None:
        """Whether every incremental source has nothing new; None if there is no such source.

        Cheaper than ``check``, and may be asked before it.
        """
        said = [
            self._coming(each).is_empty()
            for each in self._needed()
            if each.incremental and each.name not in self._overrides
        ]
        return all(said) if said else None

    def news(self) -> str:
        """One number for what incremental sources have to give: which files, which versions."""
        found = hashlib.sha256()
        for each in self._needed():
            if each.incremental and each.name not in self._overrides:
                found.update(f"{each.name}\n{self._coming(each).news()}\n".encode())
        return found.hexdigest()

    def close(self) -> None:
        """Let go of what Spark keeps for this run: rows, views and functions."""
        kept, self._kept = self._kept, []
        self._has_functions = False
        self._good.clear()
        self._judged.clear()
        endings: list[Callable[[], object]] = [
            *(each.unpersist for each in kept),
            self._views.close,
            self._functions.close,
        ]
        for each in endings:
            with spark_may_be_gone():
                each()

    def __exit__(self, *error: object) -> None:
        self.close()

    def _needed(self) -> list[Source]:
        """The sources that targets need: of the others nothing is read, and nothing remembered."""
        return [each for each in self._pipeline.sources if each.name in self._uses.counts]

    def _build(self, name: str) -> None:
        origin = self._origins.get(name)
        if origin is None:
            raise wrong(
                self._pipeline.spot,
                f"there is no source or step {name!r}: {near(name, self._origins)}",
            )
        with self._refused(name):
            if isinstance(origin, Source):
                frame = self._read(origin)
            elif origin.python is not None:
                inputs = [self.frame(each) for each in origin.inputs]
                frame = run_step(origin, inputs, self._modules, self._pipeline)
            else:
                frame = self._queried(origin)
            judged = judge(frame, origin, self._pipeline)
            if judged is None:
                self._good[name] = self._keep(frame) if self._is_kept(origin) else frame
                return
            kept = Judged(name, self._keep(judged.rows), judged.left_out)
            self._judged[name], self._good[name] = kept, kept.good()

    def _read(self, source: Source) -> DataFrame:
        coming = self._coming(source)
        frame = coming.frame(self._spark)
        is_given = source.name in self._overrides
        if not is_given:
            frame = with_file(frame, source)
        # A filter above a count does not reach the reader any more: nothing is counted where
        # that would cost something.
        is_free = is_given or self._is_kept(source)
        if source.name not in self._uses.in_steps or is_free or is_read_whole(frame, source):
            frame = coming.counting(frame)
        return chosen_columns(frame, source)

    def _queried(self, origin: Source | Step) -> DataFrame:
        assert origin.sql is not None
        names = dict.fromkeys(self._uses.inputs[origin.name])
        views = {each: self._views.named(each, self.frame(each)) for each in names}
        sql = over_views(origin.sql, views)
        before = LINES_BEFORE if views else 0
        spot = origin.spot.at("sql")
        with refused_at(spot, self._pipeline, views=views, lines_before=before):
            frame = self._spark.sql(sql)
            _ = frame.schema
            return frame

    def _coming(self, source: Source) -> Incoming:
        known = self._incoming.get(source.name)
        if known is None:
            with self._refused(source.name):
                known = self._found(source)
            self._incoming[source.name] = known
        return known

    def _found(self, source: Source) -> Incoming:
        override = self._overrides.get(source.name)
        if override is not None:
            if has_lines(override):
                return IncomingWhole(source, lambda spark: rows_of(spark, override, source))
            return IncomingWhole(source, lambda _: override)
        if source.sql is not None:
            return IncomingWhole(source, lambda _: self._queried(source))
        state = None if source.is_from_start else self._states.get(source.name)
        return find_incoming(self._spark, self._pipeline, source, self._context, state)

    def _is_kept(self, origin: Source | Step) -> bool:
        """Whether the rows of a frame are computed once and kept.

        Those of a Lance table are not, unless they are judged, nor those of files that Spark
        reads column by column: they stay what they are, and reading a part is cheap.
        """
        if origin.bad is not None or origin.rejects:
            return True
        if isinstance(origin, Source):
            if keeps_corrupt(origin):
                return True
            is_lance = origin.table is not None or origin.uri is not None
            if is_lance or is_by_columns(origin):
                return origin.name in self._overrides
        return self._uses.counts.get(origin.name, 0) > 1

    def _keep(self, frame: DataFrame) -> DataFrame:
        from pyspark import StorageLevel

        kept = frame.persist(StorageLevel.MEMORY_AND_DISK)
        self._kept.append(kept)
        return kept

    def _refused(self, name: str) -> Any:
        return refused_at(self._origins[name].spot, self._pipeline)
