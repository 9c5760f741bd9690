"""A pipeline as a structured stream: every micro-batch is a run, and published exactly once.

    rehearse   everything that can be wrong is found before the query starts
    start      Spark reads the source from where the checkpoint is
    batches    each becomes a run of its own; see ``batches``
    end        all that there was is read, somebody asks for it, or a batch was not published

Knows how a query is started and ended, and leaves what a batch does to the run that it is handed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lancewood.errors import InvalidInputError, UnsupportedError
from lancewood.pipeline.definition.durations import parsed_duration
from lancewood.pipeline.definition.model import Pipeline, Stream
from lancewood.pipeline.definition.sections import AVAILABLE_NOW
from lancewood.pipeline.frames.refusals import failed, refused_at, spark_errors, spark_may_be_gone
from lancewood.pipeline.frames.without_spark import check_python
from lancewood.pipeline.report.events import Listener, Silence
from lancewood.pipeline.report.facts import Ending, RunFacts
from lancewood.pipeline.running.errors import failure, shown
from lancewood.pipeline.running.ground import storage_texts
from lancewood.pipeline.running.quiet import quiet
from lancewood.pipeline.streaming.batches import Batches, RunBatch, stream_name
from lancewood.pipeline.streaming.incoming import open_stream
from lancewood.pipeline.streaming.interrupting import asked_to_stop
from lancewood.pipeline.streaming.summary import Summary
from lancewood.repo.repository import Repository
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
    """Run the stream until it ends; what all its batches did.

    The ways in which it ends are those of a run. Ctrl-C lets the batch under way come to its end.
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
    return this.rehearsed() if dry_run else this.told()


@dataclass
class _StreamRun:
    pipeline: Pipeline
    stream: Stream
    run_batch: RunBatch
    start_session: Callable[[], Any]
    listener: Listener
    verbose: bool

    def rehearsed(self) -> RunFacts:
        """Everything that comes before the first batch, which has no rows."""
        spark = self._spark()
        return self._rehearse(spark, self._opened(spark), self.listener)

    def told(self) -> RunFacts:
        """The stream to its end, and how that was to everybody who wants to know."""
        started, begun = datetime.now(UTC), time.monotonic()
        facts = RunFacts(
            pipeline=self.pipeline.name,
            run=self.pipeline.name,
            repository=self.pipeline.repository,
            branch=self.pipeline.branch,
            run_branch="",
            started=started.isoformat(timespec="seconds"),
            file=str(self.pipeline.file),
            parameters=dict(self.pipeline.parameters),
        )
        error: Exception | None = None
        try:
            self._perform(Summary(facts))
        except Exception as found:
            error, facts.ending, facts.error = found, Ending.FAILED, shown(self.pipeline, found)
        facts.seconds = time.monotonic() - begun
        self.listener.over(facts)
        if error is not None:
            raise failure(self.pipeline, error, facts)
        return facts

    def _perform(self, summary: Summary) -> None:
        spark = self._spark()
        # First of all: the checkpoint may be below the repository.
        options = storage_texts(self.pipeline)
        Repository.open_or_init(Path(self.pipeline.repository), storage_options=options)
        rows = self._opened(spark)
        self._rehearse(spark, rows, Silence())
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
        is_told = False
        try:
            while not query.awaitTermination(_POLL_SECONDS):
                if not batches.is_stopping or batches.failure is not None:
                    continue
                if not is_told:
                    self.listener.told("the stream ends after the batch under way")
                    is_told = True
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

    def _rehearse(self, spark: SparkSession, rows: DataFrame, listener: Listener) -> RunFacts:
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
    """What Spark says of a query that failed, without the numbers and the plan of the query."""
    return _QUERY.sub("", text)
