"""A pipeline as a structured stream: each micro-batch is a run, published exactly once.

    plan       find everything that can be wrong before the query starts
    start      Spark reads the source from the checkpoint on
    batches    each becomes a run of its own; see ``batches``
    end        everything is read, somebody stops it, or a batch was not published

The source is read with the same format, options and schema as without a stream; a Lance table is
followed version by version. The first Ctrl-C ends the stream after the current batch, the next one
does what it always does.
"""

from __future__ import annotations

import json
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from lancewood.errors import InvalidInputError, NotFoundError, UnsupportedError
from lancewood.pipeline.context import new_facts, storage_texts
from lancewood.pipeline.definition.head import AVAILABLE_NOW
from lancewood.pipeline.definition.model import Pipeline, Source, Stream
from lancewood.pipeline.definition.names import wrong
from lancewood.pipeline.definition.section import parsed_duration
from lancewood.pipeline.definition.toml_file import plain_options
from lancewood.pipeline.frames.reading import (
    columns_read,
    configured,
    read_format,
    with_file,
)
from lancewood.pipeline.frames.refusals import failed, refused_at, spark_errors, spark_may_be_gone
from lancewood.pipeline.frames.texts import is_text, line_reader, lines_of
from lancewood.pipeline.frames.without_spark import check_python
from lancewood.pipeline.report.facts import Ending, Listener, RunFacts, Silence
from lancewood.pipeline.running.loads import quiet
from lancewood.pipeline.running.publishing import failure, shown
from lancewood.pipeline.streaming.batches import Batches, RunBatch, Summary, stream_name
from lancewood.repo import HEADS, MAIN, Repository
from lancewood.spark.tasks import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_POLL_SECONDS = 0.2
_QUERY = re.compile(
    r"\[STREAM_FAILED\] Query \[.*?\] terminated with exception: "
    r"|\s*SQLSTATE: \w+\s+=== Streaming Query ===.*",
    re.DOTALL,
)


def run_stream(
    pipeline: Pipeline,
    run_batch: RunBatch,
    start_session: Callable[[], Any],
    *,
    run_id: str | None = None,
    dry_run: bool = False,
    listener: Listener | None = None,
    verbose: bool = False,
) -> RunFacts:
    """Run the stream until it ends; returns what all its batches did.

    It ends in the same ways as a run. Ctrl-C lets the current batch finish.
    """
    assert pipeline.stream is not None
    if run_id is not None:
        raise InvalidInputError(
            f"{pipeline.stream.spot}: the batches of a stream have ids of their own, and run id "
            f"{run_id!r} is for none of them: leave it out"
        )
    this = _StreamRun(
        pipeline, pipeline.stream, run_batch, start_session, listener or Silence(), verbose
    )
    return this.plan() if dry_run else this.execute()


@dataclass
class _StreamRun:
    pipeline: Pipeline
    stream: Stream
    run_batch: RunBatch
    start_session: Callable[[], Any]
    listener: Listener
    verbose: bool

    def plan(self) -> RunFacts:
        """Everything before the first batch, on a batch without rows."""
        spark = self._spark()
        return self._plan(spark, self._opened(spark), self.listener)

    def execute(self) -> RunFacts:
        """Run to the end, report the outcome, and raise what failed."""
        begun = time.monotonic()
        facts = new_facts(self.pipeline, self.pipeline.name, "", datetime.now(UTC))
        error: Exception | None = None
        try:
            self._execute(Summary(facts))
        except Exception as found:
            error, facts.ending, facts.error = found, Ending.FAILED, shown(self.pipeline, found)
        facts.seconds = time.monotonic() - begun
        self.listener.over(facts)
        if error is not None:
            raise failure(self.pipeline, error, facts)
        return facts

    def _execute(self, summary: Summary) -> None:
        spark = self._spark()
        # First of all: the checkpoint may be below the repository.
        options = storage_texts(self.pipeline)
        Repository.open_or_init(Path(self.pipeline.repository), storage_options=options)
        rows = self._opened(spark)
        self._plan(spark, rows, Silence())
        batches = Batches(self.pipeline, self.stream.source, self.run_batch, self.listener, summary)
        with nullcontext() if self.verbose else quiet(spark), asked_to_stop(batches.stop):
            query = self._start(rows, batches)
            try:
                summary.facts.run = stream_name(self.pipeline.name, str(query.id))
                batches.begin(str(query.id))
                self._wait(query, batches)
            finally:
                with spark_may_be_gone():
                    query.stop()
        if batches.failure is not None:
            raise batches.failure

    def _start(self, rows: DataFrame, batches: Batches) -> Any:
        writer = rows.writeStream.foreachBatch(batches.take).option(
            "checkpointLocation", self.stream.checkpoint
        )
        if self.stream.trigger == AVAILABLE_NOW:
            writer = writer.trigger(availableNow=True)
        else:
            seconds = parsed_duration(self.stream.trigger).total_seconds()
            writer = writer.trigger(processingTime=f"{seconds:.0f} seconds")
        name = f"lancewood {self.pipeline.name}"
        with refused_at(self.stream.spot, self.pipeline):
            return writer.queryName(name).start()

    def _wait(self, query: Any, batches: Batches) -> None:
        is_reported = False
        try:
            while not query.awaitTermination(_POLL_SECONDS):
                if not batches.is_stopping or batches.failure is not None:
                    continue
                if not is_reported:
                    self.listener.noted("the stream ends after the batch under way")
                    is_reported = True
                if batches.is_idle:
                    query.stop()
        except spark_errors() as error:
            if not batches.is_stopping:
                found = failed(self.pipeline, error, f"the stream of {self.stream.source!r}")
                raise type(found)(without_query(found.message), **found.facts) from None

    def _opened(self, spark: SparkSession) -> DataFrame:
        path = Path(self.pipeline.repository)
        options = storage_texts(self.pipeline)
        is_there = (path / "HEAD").exists()
        repository = Repository.open(path, storage_options=options) if is_there else None
        return open_stream(spark, self.pipeline, self.stream, repository)

    def _plan(self, spark: SparkSession, rows: DataFrame, listener: Listener) -> RunFacts:
        return self.run_batch(
            self.pipeline,
            dry_run=True,
            spark=spark,
            listener=listener,
            overrides={self.stream.source: spark.createDataFrame([], rows.schema)},
        )

    def _spark(self) -> SparkSession:
        check_python(self.pipeline)
        spark: SparkSession = self.start_session()
        if is_connect(spark):
            raise UnsupportedError(
                f"{self.stream.spot}: over Spark Connect the batches of a stream are handed to "
                "another process, far from the repository: run it on a session of Spark itself "
                "(master), or without [stream]"
            )
        return spark


def without_query(text: str) -> str:
    """Spark's message about a failed query, without its ids and plan."""
    return _QUERY.sub("", text)


@contextmanager
def asked_to_stop(stop: Callable[[], None]) -> Iterator[None]:
    """Call ``stop``, at any point, at the first Ctrl-C inside the block.

    Outside the main thread Python does not deliver signals, and nothing happens.
    """
    before = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if before is None or not is_main:
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, before)
        stop()

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def open_stream(
    spark: SparkSession, pipeline: Pipeline, stream: Stream, repository: Repository | None
) -> DataFrame:
    """The rows of the source as a stream; raises InvalidInputError.

    ``repository`` is None if there is none yet.
    """
    source = next(each for each in pipeline.sources if each.name == stream.source)
    with refused_at(source.spot, pipeline):
        if source.format is not None:
            frame = _of_format(spark, stream, source)
        else:
            frame = _of_table(spark, pipeline, stream, source, repository)
        _ = frame.schema
        return frame


def _of_format(spark: SparkSession, stream: Stream, source: Source) -> DataFrame:
    if is_text(source):
        reader = line_reader(spark.readStream, source).options(**stream.options)
        return lines_of(spark, reader.load(source.paths[0]), source, list(source.paths))
    reader = configured(spark.readStream, source).options(**stream.options)
    if not source.paths:
        return reader.load()
    if source.schema is None:
        # A stream of files needs a schema: take the one that a run would read now.
        reader = reader.schema(read_format(spark, source).schema)
    return with_file(reader.load(source.paths[0]), source)


def _of_table(
    spark: SparkSession,
    pipeline: Pipeline,
    stream: Stream,
    source: Source,
    repository: Repository | None,
) -> DataFrame:
    uri, branch = _location(pipeline, source, repository)
    _check_no_circle(pipeline, source)
    reader = spark.readStream.format("lance").options(**stream.options)
    for name, value in plain_options(pipeline.storage_options).items():
        reader = reader.option(f"storage.{name}", value)
    columns = columns_read(source)
    if columns is not None:
        reader = reader.option("columns", json.dumps(columns))
    if branch is not None:
        reader = reader.option("branch", branch)
    return reader.load(uri)


def _location(
    pipeline: Pipeline, source: Source, repository: Repository | None
) -> tuple[str, str | None]:
    """The uri and branch of a table; None for the branch that the uri means."""
    if source.table is None:
        assert source.uri is not None
        return source.uri, None
    spot = source.spot.at("table")
    try:
        if repository is None:
            raise NotFoundError(f"there is no repository at {pipeline.repository}")
        pin = repository.at(HEADS + pipeline.branch).pin(source.table)
    except NotFoundError as missing:
        raise wrong(spot, missing.message) from missing
    branch = MAIN if pin.branch is None else str(pin.branch)
    if branch != pipeline.branch:
        raise wrong(
            spot,
            f"branch {pipeline.branch!r} has not written {source.table!r} yet and reads that of "
            f"{branch!r}, so that there is nothing to follow: write to it once, or stream from "
            f"{branch!r} with uri",
        )
    return str(repository.path / pin.uri) if pin.is_own else pin.uri, branch


def _check_no_circle(pipeline: Pipeline, source: Source) -> None:
    """A stream that writes what it reads would never end."""
    for target in pipeline.targets:
        is_same = target.table == source.table or (
            source.uri is not None and target.uri == source.uri
        )
        if is_same:
            raise wrong(
                target.spot.at("table"),
                f"{target.table!r} is the table that the stream reads: every batch would make "
                "another. Write to another table",
            )
