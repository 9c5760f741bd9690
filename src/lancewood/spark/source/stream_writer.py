"""What Spark calls to write a stream into a table: each micro-batch one version, exactly once.

For every batch Spark makes a writer in one process, writes in others and commits in a third, with
a writer made anew: what the commit has to know comes with the messages. The table notes the newest
batch of each query in the version that brings its rows, so that a batch that Spark runs again,
because it did not learn of the commit, is not added again. A batch without rows makes no version
and is not noted: run again, it has no rows again.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from lancewood.engine.snapshot import load_snapshot
from lancewood.errors import BatchAppliedError, InvalidInputError
from lancewood.model.table_config import AppliedBatch, newest_batch
from lancewood.spark.source.shape import spark_class
from lancewood.spark.writing.job import WriteJob
from lancewood.spark.writing.work import answers_in, decode_answers

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
