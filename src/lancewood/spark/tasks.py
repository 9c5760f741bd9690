"""Handing tasks to Spark: each in a partition of its own, on classic sessions and over Connect.

A message is bytes that only its own task needs; what all tasks share belongs in the function
that runs them. Knows nothing of tables.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from lancewood.errors import InvalidInputError
from lancewood.spark.abilities import ARROW_FRAMES, PLACING, release_here, release_of
from lancewood.spark.types import handed_over

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TASK, MESSAGE = "task", "message"
_SCHEMA = pa.schema([pa.field(TASK, pa.int32(), False), pa.field(MESSAGE, pa.binary(), False)])
_MANY_ROWS = 1 << 20
_SEED = 42
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
    return placed(spark, frame, len(messages))


def placed(spark: SparkSession, frame: DataFrame, tasks: int) -> DataFrame:
    """The rows of each task in the partition that has its number."""
    count = max(1, tasks)
    if PLACING.is_in(release_of(spark)):
        return frame.repartitionById(count, TASK)
    from pyspark.sql import functions

    keys = functions.split(functions.lit(",".join(map(str, leading_keys(count)))), ",")
    key = functions.element_at(keys, functions.col(TASK) + 1)
    return frame.repartition(count, key.cast("int"))


def leading_keys(partitions: int) -> list[int]:
    """For each partition a number that Spark's hash puts there."""
    found = np.full(partitions, -1, np.int64)
    first, many = 0, 4 * partitions
    while (found < 0).any():
        keys = np.arange(first, first + many)
        numbers, at = np.unique(_hashed(keys) % partitions, return_index=True)
        isnew = found[numbers] < 0
        found[numbers[isnew]] = keys[at[isnew]]
        first += many
    return found.tolist()


def _hashed(keys: Any) -> Any:
    """Spark's hash of whole numbers of 32 bits: Murmur3 with its seed."""
    mixed = keys.astype(np.uint32) * np.uint32(0xCC9E2D51)
    mixed = _rotated(mixed, 15) * np.uint32(0x1B873593)
    mixed = _rotated(mixed ^ np.uint32(_SEED), 13) * np.uint32(5) + np.uint32(0xE6546B64)
    mixed ^= np.uint32(4)  # bytes of a number
    mixed = (mixed ^ (mixed >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    mixed = (mixed ^ (mixed >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return (mixed ^ (mixed >> np.uint32(16))).view(np.int32).astype(np.int64)


def _rotated(values: Any, bits: int) -> Any:
    return (values << np.uint32(bits)) | (values >> np.uint32(32 - bits))


def frame_of(spark: SparkSession, rows: pa.Table, columns: str) -> DataFrame:
    """A few rows of the driver as a frame."""
    if ARROW_FRAMES.is_in(release_here()):
        # With arrow.maxRecordsPerBatch 0, no limit, PySpark cuts by it nevertheless.
        with suppress(ValueError):
            return spark.createDataFrame(rows, columns)
    return spark.createDataFrame([tuple(each.values()) for each in rows.to_pylist()], columns)


def arrow_of(frame: DataFrame) -> pa.Table:
    """The rows of a frame, on the driver."""
    if ARROW_FRAMES.is_in(release_here()):
        return frame.toArrow()
    batches = cast(Any, frame)._collect_as_arrow()
    return pa.Table.from_batches(batches, None if batches else handed_over(frame.schema))


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
