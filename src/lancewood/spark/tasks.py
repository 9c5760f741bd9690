"""Handing tasks to Spark: each in a partition of its own, on classic sessions and over Connect.

A message is bytes that only its own task needs; what all tasks share belongs in the function
that runs them. Knows nothing of tables.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import pyarrow as pa

from lancewood.errors import InvalidInputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TASK, MESSAGE = "task", "message"
_SCHEMA = pa.schema([pa.field(TASK, pa.int32(), False), pa.field(MESSAGE, pa.binary(), False)])
_MANY_ROWS = 1 << 20
_slots_over_connect: WeakKeyDictionary[Any, int] = WeakKeyDictionary()


def is_connect(spark: SparkSession) -> bool:
    """Whether the session talks to a Spark elsewhere, and has neither context nor RDDs."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def check_running(spark: SparkSession) -> None:
    """Raise InvalidInputError for a session that was stopped."""
    if is_connect(spark):
        is_stopped = bool(getattr(spark, "is_stopped", False))
    else:
        java: Any = spark.sparkContext._jsc
        is_stopped = java is None or bool(java.sc().isStopped())
    if is_stopped:
        raise InvalidInputError(
            "the Spark session was stopped: make another one, as with lancewood.spark.session()"
        )


def slots(spark: SparkSession) -> int:
    """How many tasks run at once. Over Connect this takes a small job, once for a session.

    Raises InvalidInputError for a session that was stopped.
    """
    check_running(spark)
    if not is_connect(spark):
        return int(spark.sparkContext.defaultParallelism)
    known = _slots_over_connect.get(spark)
    if known is None:
        # A range has as many partitions as Spark has slots, if nobody says otherwise.
        sample = spark.range(_MANY_ROWS).mapInArrow(_count_one, "partitions long")
        known = _slots_over_connect[spark] = len(sample.collect())
    return known


def spread(spark: SparkSession, messages: Sequence[bytes]) -> DataFrame:
    """A frame of ``task`` and ``message``, one row in each partition, in the order of the tasks.

    Without a message there is no row, and perhaps no task.
    """
    numbers = pa.array(range(len(messages)), pa.int32())
    rows = pa.Table.from_arrays([numbers, pa.array(messages, pa.binary())], schema=_SCHEMA)
    frame = frame_of(spark, rows, f"{TASK} int not null, {MESSAGE} binary not null")
    return frame.repartitionById(max(1, len(messages)), TASK)


def frame_of(spark: SparkSession, rows: pa.Table, columns: str) -> DataFrame:
    """A few rows of the driver as a frame."""
    try:
        return spark.createDataFrame(rows, columns)
    except ValueError:  # arrow.maxRecordsPerBatch is 0, no limit: PySpark cuts by it nevertheless
        return spark.createDataFrame([tuple(each.values()) for each in rows.to_pylist()], columns)


def messages_of(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, bytes]]:
    """On an executor: the tasks in a partition of a spread frame; usually one."""
    for batch in batches:
        for number, message in zip(batch[TASK], batch[MESSAGE], strict=True):
            yield number.as_py(), message.as_py()
    keep_loaded()


def keep_loaded() -> None:
    """At the end of a task: Spark collects garbage after each one, and looking through all modules
    for it would take longer than most tasks."""
    if not gc.get_freeze_count():
        gc.collect()
        gc.freeze()


def _count_one(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        pass
    yield pa.record_batch({"partitions": pa.array([1], pa.int64())})
