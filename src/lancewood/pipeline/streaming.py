"""A pipeline as a structured stream: each micro-batch is a run, published exactly once.

    plan       find everything that can be wrong before the query starts
    start      Spark reads the source from the checkpoint on
    batches    each becomes a run of its own, whose id says which batch of which stream it is
    end        everything is read, somebody stops it, or a batch was not published

The source is read with the same format, options and schema as without a stream; a Lance table is
followed version by version. The first Ctrl-C ends the stream after the current batch, the next one
does what it always does.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from threading import Lock
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from lancewood.errors import InvalidInputError, LancewoodError, NotFoundError, UnsupportedError
from lancewood.pipeline.context import new_facts, storage_texts
from lancewood.pipeline.definition.load import AVAILABLE_NOW
from lancewood.pipeline.definition.model import Pipeline, Source, Stream
from lancewood.pipeline.definition.names import wrong
from lancewood.pipeline.definition.section import parsed_duration
from lancewood.pipeline.definition.toml_file import plain_options
from lancewood.pipeline.frames.functions import check_python
from lancewood.pipeline.frames.reading import (
    columns_read,
    configured,
    is_text,
    line_reader,
    lines_of,
    read_format,
    with_file,
)
from lancewood.pipeline.frames.refusals import failed, refused_at, spark_errors, spark_may_be_gone
from lancewood.pipeline.loading.quarantine import MOST_REASONS
from lancewood.pipeline.report.facts import (
    Ending,
    Listener,
    QuarantineFacts,
    RunFacts,
    SourceFacts,
    StageFacts,
    TargetFacts,
)
from lancewood.pipeline.report.lines import CHANGES, is_published, row_changes
from lancewood.pipeline.report.markup import counted, short_hash, total
from lancewood.pipeline.running.ledger import Ledger
from lancewood.pipeline.running.publishing import FACTS, failure, shown
from lancewood.pipeline.running.run import quiet
from lancewood.pipeline.running.runs import RunFolder
from lancewood.repo import HEADS, MAIN, Repository
from lancewood.spark.tasks import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_Facts = TypeVar("_Facts", SourceFacts, TargetFacts, StageFacts)
RunBatch: TypeAlias = Callable[..., RunFacts]
"""``start.run_pipeline``, which is above this room."""
KEPT_REPORTS = 100
"""Number of newest batches whose reports are kept; an interval of seconds makes thousands a day."""
_ID_DIGITS = 16
_STOPPING = (Ending.CHECKS_FAILED, Ending.TOO_MANY_BAD_ROWS)


class StoppedError(Exception):
    """Tells Spark that the batch is not done; we report the reason."""


def batch_run_id(pipeline: str, stream: str, batch: int) -> str:
    """The run id of one batch; ``stream`` is the id that Spark keeps in the checkpoint."""
    return f"{stream_name(pipeline, stream)}-{batch}"


def stream_name(pipeline: str, stream: str) -> str:
    """The name of a stream; another checkpoint is another stream."""
    return f"{pipeline}-{stream.replace('-', '')[:_ID_DIGITS]}"


@dataclass
class Batches:
    """The batches of one stream, one after the other."""

    pipeline: Pipeline
    source: str
    run_batch: RunBatch
    listener: Listener
    summary: Summary
    failure: BaseException | None = None
    """What ended the stream, if anything did."""
    _stream: Future[str] = field(default_factory=Future, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)
    _is_stopping: bool = False
    _is_busy: bool = False

    def begin(self, stream: str) -> None:
        """Set the id of the stream, for which batches wait."""
        self._stream.set_result(stream)
        self._report_a_reset(f"{stream_name(self.pipeline.name, stream)}-")

    def stop(self) -> None:
        """Let no further batch begin."""
        self._is_stopping = True

    @property
    def is_stopping(self) -> bool:
        return self._is_stopping

    @property
    def is_idle(self) -> bool:
        """Whether no batch is running; once stopped, none will."""
        with self._lock:
            return not self._is_busy

    def take(self, rows: DataFrame, batch: int) -> None:
        """For ``foreachBatch``: raises StoppedError if the batch is not done."""
        with self._lock:
            if self._is_stopping:
                raise StoppedError("the stream is stopped")
            self._is_busy = True
        try:
            is_done = self._run(rows, batch)
        except BaseException as error:  # raised by the caller that waits for the stream
            self.failure, self._is_stopping = error, True
            found = error.facts.get(FACTS) if isinstance(error, LancewoodError) else None
            if isinstance(found, RunFacts):
                self.summary.fail(found)
            raise StoppedError(f"batch {batch}: {shown(self.pipeline, error)}") from None
        finally:
            with self._lock:
                self._is_busy = False
        if not is_done:
            raise StoppedError(str(self.summary.facts.error))

    def _run(self, rows: DataFrame, batch: int) -> bool:
        """Whether the stream may continue with the next batch."""
        old = batch_run_id(self.pipeline.name, self._stream.result(), batch - KEPT_REPORTS)
        folder = RunFolder.of(Path(self.pipeline.repository), self.pipeline.name, old)
        if folder.is_there:
            shutil.rmtree(folder.path, ignore_errors=True)
        try:
            if rows.isEmpty():  # it changes nothing, whatever the mode of a target
                return True
        except Exception as error:
            raise failed(self.pipeline, error, f"reading {self.source!r}") from None
        run = batch_run_id(self.pipeline.name, self._stream.result(), batch)
        facts = self.run_batch(
            self.pipeline,
            run_id=run,
            spark=rows.sparkSession,
            listener=BatchListener(self.listener, batch),
            overrides={self.source: rows},
        )
        self.summary.add(facts)
        if facts.ending in _STOPPING:
            self._is_stopping = True
            self.summary.stop(facts, batch)
            return False
        return True

    def _report_a_reset(self, prefix: str) -> None:
        """The checkpoint does not know if the branch was reset to before some of its batches."""
        pipeline = self.pipeline
        repository = Repository.open(pipeline.repository, storage_options=storage_texts(pipeline))
        ledger = Ledger(repository, pipeline.name, pipeline.branch)
        noted = ledger.all_noted(prefix)
        numbers = (run.removeprefix(prefix) for run in noted)
        newest_first = sorted((int(each) for each in numbers if each.isdecimal()), reverse=True)
        runs = (f"{prefix}{number}" for number in newest_first)
        lost = [*takewhile(lambda run: ledger.is_lost(noted[run], run), runs)]
        if lost:
            which = lost[0] if len(lost) == 1 else f"{lost[-1]} to {lost[0]}"
            self.listener.noted(
                f"branch {pipeline.branch} was reset and has lost {which}: what the checkpoint "
                "counts as done is not read again; a new checkpoint reads everything"
            )


class BatchListener(Listener):
    """Passes on what a batch's run reports; at its end a line, as only the stream is over once."""

    def __init__(self, listener: Listener, batch: int) -> None:
        self._listener, self._batch = listener, batch

    def begun(self, stage: str) -> None:
        self._listener.begun(stage)

    def moved(self, stage: str, done: int, total: int) -> None:
        self._listener.moved(stage, done, total)

    def ended(self, stage: str, seconds: float, **amounts: int | None) -> None:
        self._listener.ended(stage, seconds, **amounts)

    def noted(self, text: str) -> None:
        self._listener.noted(text)

    def over(self, facts: RunFacts) -> None:
        self._listener.noted(batch_line(facts, self._batch))


def batch_line(facts: RunFacts, batch: int) -> str:
    """How a batch ended, in one line."""
    parts = [f"batch {batch}: {facts.ending.value}"]
    if is_published(facts):
        inserted = row_changes(facts.targets)[0]
        parts += [] if inserted is None else [f"{counted(inserted, 'row')} inserted"]
        parts.append(f"commit {short_hash(facts.commit)}")
    return ", ".join(parts)


_RANK = (Ending.NOTHING_NEW, Ending.REVERTED, Ending.ALREADY_PUBLISHED, Ending.PUBLISHED)
"""The ways in which batches end well: the stream ends in the last of them in which a batch did."""


class Summary:
    """The facts of a stream that goes on."""

    def __init__(self, facts: RunFacts) -> None:
        self.facts = facts
        facts.ending, facts.batches = Ending.NOTHING_NEW, 0

    def add(self, batch: RunFacts) -> None:
        """One more batch is done. What a repeated batch brings in counts for nothing."""
        facts = self.facts
        facts.batches = (facts.batches or 0) + 1
        facts.attempts = max(facts.attempts, batch.attempts)
        facts.stages = _stages(facts.stages, batch.stages)
        facts.folder, facts.run_branch = batch.folder, batch.run_branch
        facts.graph, facts.past, facts.versions = batch.graph, batch.past, batch.versions
        if batch.commit is not None:
            facts.commit, facts.tag = batch.commit, batch.tag
        if batch.ending in _RANK:
            facts.ending = max(facts.ending, batch.ending, key=_RANK.index)
            facts.what_next = batch.what_next
        if batch.ending not in (Ending.ALREADY_PUBLISHED, Ending.REVERTED):
            facts.base_commit = facts.base_commit or batch.base_commit
            facts.checks = batch.checks or facts.checks
            before = {each.name: each for each in facts.sources}
            facts.sources = [
                _added(before[each.name], each, "rows", "files", "bytes")
                if each.name in before
                else each
                for each in batch.sources
            ]
            facts.quarantine = _quarantine(facts.quarantine, batch.quarantine)
        if batch.ending is Ending.PUBLISHED:
            # In the order of the file: a table may be among them twice.
            pairs = zip(facts.targets or batch.targets, batch.targets, strict=True)
            facts.targets = [new if old is new else _target(old, new) for old, new in pairs]

    def stop(self, batch: RunFacts, number: int) -> None:
        """A batch ended without an error, and was not published: the stream ends with it."""
        facts = self.facts
        page = RunFolder(Path(batch.folder)).page
        facts.ending = batch.ending
        facts.error = (
            f"{batch.ending.value} in batch {number}, and the stream stopped before it: nothing of "
            f"it is published. Look at branch {batch.run_branch} and at {page}; the stream goes "
            "on with this batch when it is started again"
        )
        facts.what_next = batch.what_next

    def fail(self, batch: RunFacts) -> None:
        """An error ended a batch, and with it the stream: where there is something to see."""
        facts = self.facts
        facts.folder, facts.run_branch = batch.folder, batch.run_branch
        facts.stages = _stages(facts.stages, batch.stages)
        facts.what_next = batch.what_next


def _added(old: _Facts, new: _Facts, *names: str) -> _Facts:
    """The new facts, with the numbers of both added up."""
    sums: dict[str, Any] = {name: total((getattr(old, name), getattr(new, name))) for name in names}
    return replace(new, **sums)


def _target(old: TargetFacts, new: TargetFacts) -> TargetFacts:
    def either(name: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*getattr(old, name), *getattr(new, name))))

    names = (*CHANGES, "duplicates", "files", "bytes", "seconds")
    return replace(
        _added(old, new, *names),
        rows_before=old.rows_before,
        columns_added=either("columns_added"),
        indices_created=either("indices_created"),
        indices_extended=either("indices_extended"),
    )


def _quarantine(
    before: QuarantineFacts | None, now: QuarantineFacts | None
) -> QuarantineFacts | None:
    if before is None or now is None:
        return now or before
    counts: Counter[tuple[str, str]] = Counter()
    for origin, reason, rows in (*before.by_reason, *now.by_reason):
        counts[origin, reason] += rows
    most = counts.most_common(MOST_REASONS)
    by_reason = tuple((origin, reason, rows) for (origin, reason), rows in most)
    sample = now.sample or before.sample
    return replace(now, rows=before.rows + now.rows, by_reason=by_reason, sample=sample)


def _stages(before: Sequence[StageFacts], now: Sequence[StageFacts]) -> list[StageFacts]:
    """Stages of one name together, in the order in which each was first there."""
    found = {each.name: each for each in before}
    for each in now:
        old = found.get(each.name)
        if old is not None:
            each = _added(old, each, "seconds", "rows", "bytes", "files")
            each.is_failed |= old.is_failed
        found[each.name] = replace(each, begun=None)
    return [*found.values()]


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
        pipeline, pipeline.stream, run_batch, start_session, listener or Listener(), verbose
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
        self._plan(spark, rows, Listener())
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
