"""What Spark calls to write: a planned job, run by executors, committed or aborted by the driver.

Spark makes the writer in one process, writes in others and commits in a third: nothing but the
messages comes back from the executors. After a commit that raised it calls ``abort`` with all
messages; the job itself finds out whether it landed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from lancewood.spark.source.shape import spark_class
from lancewood.spark.writing.job import WriteJob
from lancewood.spark.writing.work import answers_in


class Writer:
    """One planned write."""

    def __init__(self, job: WriteJob) -> None:
        self._job = job

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Any:
        """On an executor: the rows of one partition into files."""
        return __getattr__("FilesWritten")(self._job.run(iterator))

    def commit(self, messages: Sequence[Any]) -> None:
        """On the driver, once all partitions are written."""
        self._job.commit(answers_in(messages))

    def abort(self, messages: Sequence[Any]) -> None:
        """On the driver, where something failed."""
        self._job.abort(answers_in(messages))


class Wrote:
    """What a partition answers: see ``writing.answers``."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer


_CLASSES = {
    "LanceWriter": (Writer, "pyspark.sql.datasource.DataSourceArrowWriter"),
    "FilesWritten": (Wrote, "pyspark.sql.datasource.WriterCommitMessage"),
}


def __getattr__(name: str) -> Any:
    return spark_class(globals(), _CLASSES, name)
