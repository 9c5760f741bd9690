"""What Spark calls to read a table as a stream, and to write a stream into a table.

Spark keeps one reader for the life of a query, in a process beside the driver: it is asked for
offsets, and for the partitions of each batch. Copies of it read on executors, which need nothing
but the partition. The first offset names no version: what "now" means is settled when the first
batch is planned, and from then on every offset carries it.

Each micro-batch that is written is one version, exactly once. For every batch Spark makes a writer
in one process, writes in others and commits in a third, with a writer made anew: what the commit
has to know comes with the messages. The table notes the newest batch of each query in the version
that brings its rows, so that a batch that Spark runs again, because it did not learn of the commit,
is not added again. A batch without rows makes no version and is not noted: run again, it has no
rows again.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancewood.engine.snapshot import Snapshot, load_snapshot
from lancewood.errors import BatchAppliedError, InvalidInputError
from lancewood.model.ids import Version
from lancewood.model.table_config import AppliedBatch, newest_batch
from lancewood.spark.source.shape import spark_class
from lancewood.spark.streaming.fitting import StreamColumns, StreamFitting
from lancewood.spark.streaming.history import History, Offset, OffsetMap, beginning, decode_offset
from lancewood.spark.streaming.options import StreamOptions
from lancewood.spark.streaming.task import TaskSize, plan_tasks, read_stream_task
from lancewood.spark.streaming.walk import Walk
from lancewood.spark.tasks import keep_loaded
from lancewood.spark.writing.job import WriteJob
from lancewood.spark.writing.work import answers_in, decode_answers

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class StreamReader:
    """One stream that reads one branch of a table."""

    def __init__(
        self,
        opened: Snapshot,
        schema: StructType,
        columns: StreamColumns,
        options: StreamOptions,
        tasks: TaskSize,
    ) -> None:
        """``opened`` is the version whose columns the stream has, ``schema`` what Spark expects.

        Raises InvalidInputError or UnsupportedError for what cannot be.
        """
        self._options = options
        self._tasks = tasks
        self._history = History(opened)
        self._walk = Walk(
            self._history, StreamFitting.of(opened, columns, schema), options.on_change
        )

    def __getstate__(self) -> dict[str, Any]:
        """Executors need nothing of it: a partition says all."""
        return {}

    def initialOffset(self) -> OffsetMap:
        return beginning()

    def partitions(self, start: OffsetMap, end: OffsetMap) -> list[Any]:
        """The tasks of the batch between two offsets."""
        until = decode_offset(end)
        if until is None:
            raise InvalidInputError(
                "a batch is to end at the beginning of the stream: the checkpoint is damaged. "
                "Start the query with a new checkpointLocation"
            )
        since = decode_offset(start) or Offset.start(until.origin)
        rows = self._walk.rows(since, until)
        messages = plan_tasks(rows, self._walk.fitting, self._tasks)
        return [__getattr__("StreamPartition")(each) for each in messages]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """On an executor: the rows of a partition."""
        yield from read_stream_task(partition.value)
        keep_loaded()

    def commit(self, end: OffsetMap) -> None:
        """Nothing to let go of: a table keeps its versions until cleanup."""

    def stop(self) -> None:
        """Nothing is held open."""


class LimitedReader(StreamReader):
    """Stream reader for a Spark that says where a batch begins, and how much it may hold."""

    _last: Version | None = None
    """The newest version for a trigger that stops where it began."""

    def getDefaultReadLimit(self) -> Any:
        """Rows if the user says so, else versions, which Spark calls files."""
        from pyspark.sql.streaming.datasource import ReadMaxFiles, ReadMaxRows

        if self._options.max_rows is not None:
            return ReadMaxRows(self._options.max_rows)
        return ReadMaxFiles(self._options.max_versions)

    def prepareForTriggerAvailableNow(self) -> None:
        self._last = self._history.newest()

    def latestOffset(self, start: OffsetMap, limit: Any) -> OffsetMap:
        """How far the next batch goes; ``start`` itself if there is nothing new."""
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

        at = decode_offset(start)
        if at is None:
            at = Offset.start(self._history.origin(self._options))
        newest = self._newest(at)
        is_all = isinstance(limit, ReadAllAvailable)
        end = self._walk.advance(
            at,
            newest,
            max_rows=limit.max_rows if isinstance(limit, ReadMaxRows) else None,
            max_versions=None if is_all else self._options.max_versions,
        )
        return end.encode()

    def _newest(self, at: Offset) -> Version:
        """The newest version that may be read now."""
        newest = self._history.newest()
        if self._last is None:
            return newest
        return min(newest, max(self._last, Version(at.version - 1)))


class UnlimitedReader(StreamReader):
    """For Spark 4.0 and 4.1, which ask for the newest offset, and say neither where the batch
    begins nor how large it may be.

    A batch begins where the last one that was planned ended, and before a query goes on, Spark has
    an empty one planned there. Only where ``availableNow`` is made to run several batches it does
    not: then the end of the first has another origin than its beginning, which counts.
    """

    _at: Offset | None = None

    def latestOffset(self) -> OffsetMap:
        """The offset at the end of the table's newest version."""
        at = self._at or Offset.start(self._history.origin(self._options))
        newest = self._history.newest()
        return self._walk.advance(at, newest, max_rows=None, max_versions=None).encode()

    def partitions(self, start: OffsetMap, end: OffsetMap) -> list[Any]:
        """The tasks of the batch between two offsets, which becomes the last one."""
        since, until = decode_offset(start), decode_offset(end)
        if since is not None and until is not None:
            end = replace(until, origin=since.origin).encode()
        planned = super().partitions(start, end)
        self._at = until
        return planned


class Message:
    """One task. It holds what opens the table, so it is not shown."""

    def __init__(self, value: bytes) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self.value)} bytes>"


QUERY_ID = "sql.streaming.queryId"
"""The property of a task that names its query: the same after a restart from a checkpoint."""
_WITH_THE_JOB = 3
"""Number of partitions that bring the job along: all others may be thousands."""


@dataclass(frozen=True)
class BatchPart:
    """The answer of a partition of a micro-batch."""

    answer: bytes = field(repr=False)
    app: str | None
    """The app of the batch: the name that the user chose, or the query's id."""
    job: bytes | None = field(default=None, repr=False)
    """The pickled job; not shown, as it holds what opens the table."""


class StreamWriter:
    """One micro-batch of one query, in whichever process."""

    def __init__(self, plan: Callable[[], WriteJob], app: str | None = None) -> None:
        """``plan`` checks everything and writes nothing. It is called before the writer travels to
        the executors, and not by one that is made to commit."""
        self._plan = plan
        self._app = app

    @cached_property
    def _job(self) -> WriteJob:
        return self._plan()

    def prepare(self) -> None:
        """Plan the batch; raises what ``plan`` raises."""
        _ = self._job

    def __getstate__(self) -> dict[str, Any]:
        return {"_job": self._job, "_app": self._app}

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Any:
        """On an executor: the rows of one partition into files."""
        from pyspark import TaskContext

        context = TaskContext.get()
        number = 0 if context is None else context.partitionId()
        query = None if context is None else context.getLocalProperty(QUERY_ID)
        return __getattr__("BatchWritten")(
            self._job.run(iterator),
            query if self._app is None else self._app,
            pickle.dumps(self._job) if number < _WITH_THE_JOB else None,
        )

    def commit(self, messages: Sequence[Any], batchId: int) -> None:
        """On the driver, once all partitions are written.

        A batch that is there already is left out, and its new files go. Raises BatchAppliedError
        for one that is older than what the table has of this query.
        """
        job, answers = _of_batch(messages, batchId), answers_in(messages)
        if job is None or _is_idle(job, answers):
            return
        assert job.applied is not None
        if job.commit(answers).skipped:
            _check_latest(job, job.applied)

    def abort(self, messages: Sequence[Any], batchId: int) -> None:
        """On the driver, where something failed; after a commit that raised, too."""
        try:
            job = _of_batch(messages, batchId)
        except InvalidInputError:  # no commit got further than this
            job = _brought(messages)
        if job is not None:
            job.abort(answers_in(messages))


def _of_batch(messages: Sequence[Any], batch: int) -> WriteJob | None:
    """The job that the messages are of, as the one of this batch, the same for commit and abort;
    None if there is no message that knows."""
    job = _brought(messages)
    if job is None:
        return None
    app = next(each.app for each in messages if each is not None)
    if app is None:
        raise InvalidInputError(
            "Spark does not say which query this is, so that nobody could tell its batches from "
            "those of others; name it with option app"
        )
    return job.of_batch(AppliedBatch(app, batch))


def _brought(messages: Sequence[Any]) -> WriteJob | None:
    """The job as it was planned, of whichever batch."""
    brought = next((each.job for each in messages if each is not None and each.job), None)
    return None if brought is None else pickle.loads(brought)


def _is_idle(job: WriteJob, answers: Sequence[bytes | None]) -> bool:
    """Whether there is nothing to commit: no rows are added to a table that is there."""
    if job.is_new or job.plan.kind == "overwrite":
        return False
    found = decode_answers(answers)
    return not found.fragments and not found.errors


def _check_latest(job: WriteJob, applied: AppliedBatch) -> None:
    """Raises for a batch before the newest: Spark only ever runs the newest one again."""
    found = newest_batch(load_snapshot(job.base.location).manifest.config, applied.app)
    if found is not None and found > applied.batch:
        raise BatchAppliedError(
            f"batch {applied.batch} of {applied.app!r} comes after batch {found}, which {job.uri} "
            "has already: the checkpoint is a new one, or older than the table. Bring the right "
            "checkpoint back; to load with a new one, let the query have another app",
            app=applied.app,
            batch=applied.batch,
            applied=found,
        )


_CLASSES: dict[str, tuple[type, *tuple[str, ...]]] = {
    "UnlimitedStreamReader": (UnlimitedReader, "pyspark.sql.datasource.DataSourceStreamReader"),
    "LanceStreamReader": (
        LimitedReader,
        "pyspark.sql.datasource.DataSourceStreamReader",
        "pyspark.sql.streaming.datasource.SupportsTriggerAvailableNow",
    ),
    "StreamPartition": (Message, "pyspark.sql.datasource.InputPartition"),
    # By the second, Spark 4.0 knows already that the sink takes Arrow batches.
    "LanceStreamWriter": (
        StreamWriter,
        "pyspark.sql.datasource.DataSourceStreamWriter",
        "pyspark.sql.datasource.DataSourceArrowWriter",
    ),
    "BatchWritten": (BatchPart, "pyspark.sql.datasource.WriterCommitMessage"),
}


def __getattr__(name: str) -> Any:
    return spark_class(globals(), _CLASSES, name)
