"""What Spark calls to read a table as a stream.

Spark keeps one reader for the life of a query, in a process beside the driver: it is asked for
offsets, and for the partitions of each batch. Copies of it read on executors, which need nothing
but the partition. The first offset names no version: what "now" means is settled when the first
batch is planned, and from then on every offset carries it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancewood.engine.snapshot import Snapshot
from lancewood.errors import InvalidInputError
from lancewood.model.ids import Version
from lancewood.spark.source.shape import spark_class
from lancewood.spark.streaming.fitting import StreamColumns, StreamFitting
from lancewood.spark.streaming.history import History
from lancewood.spark.streaming.offsets import Offset, OffsetMap, beginning, decode_offset
from lancewood.spark.streaming.options import StreamOptions
from lancewood.spark.streaming.task import TaskSize, plan_tasks, read_stream_task
from lancewood.spark.streaming.walk import Walk
from lancewood.spark.tasks import keep_loaded

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


_CLASSES: dict[str, tuple[type, *tuple[str, ...]]] = {
    "UnlimitedStreamReader": (UnlimitedReader, "pyspark.sql.datasource.DataSourceStreamReader"),
    "LanceStreamReader": (
        LimitedReader,
        "pyspark.sql.datasource.DataSourceStreamReader",
        "pyspark.sql.streaming.datasource.SupportsTriggerAvailableNow",
    ),
    "StreamPartition": (Message, "pyspark.sql.datasource.InputPartition"),
}


def __getattr__(name: str) -> Any:
    return spark_class(globals(), _CLASSES, name)
