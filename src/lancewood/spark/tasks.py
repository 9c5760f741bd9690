"""Handing tasks to Spark: each in a partition of its own, on classic sessions and over Connect.

A message is bytes that only its own task needs; what all tasks share belongs in the function
that runs them. Partitions carry the numbers of their tasks, and the function all messages, so that
nothing has to be exchanged before; messages of megabytes travel as rows instead. Knows nothing of
tables.

What Spark believes about the size of a frame decides how it joins it, and after a function it
believes what was true before. There, a large result has as many numbers as take its size: all but
one of a task are dropped where they are made, at a billion a second.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from lancewood.errors import InvalidInputError
from lancewood.spark.abilities import ARROW_FRAMES, PLACING, release_here, release_of
from lancewood.spark.running.failures import sentence_first
from lancewood.spark.types import handed_over

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Run: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""On an executor: rows for the tasks of a partition, which ``messages_of`` gives."""
Work: TypeAlias = Callable[[bytes], Iterator[pa.RecordBatch]]
"""On an executor: rows for the message of one task. Pickles, and is what all tasks share."""
TASK, MESSAGE = "task", "message"
_SCHEMA = pa.schema([pa.field(TASK, pa.int32(), False), pa.field(MESSAGE, pa.binary(), False)])
_MANY_ROWS = 1 << 20
_SEED = 42
_MOST_INSIDE = 1 << 20
"""Bytes of messages that a function may carry."""
_NUMBER_BYTES, _MESSAGE_BYTES = 58, 56
"""What Spark takes the rows for that carry a number, or a message."""
_MOST_SIZE = 1 << 30
"""The largest size that is made known: Spark joins what is larger alike."""
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


@dataclass(frozen=True)
class Spread:
    """Tasks, each in a partition of its own, in their order."""

    spark: SparkSession
    messages: Sequence[bytes] = field(repr=False)
    size: float = 0.0
    """The estimated bytes of what the tasks give."""

    def mapInArrow(self, run: Run, schema: StructType | str) -> DataFrame:
        """What a function gives for the tasks, named like DataFrame's. Without a message it is
        perhaps not called."""
        if sum(map(len, self.messages)) > _MOST_INSIDE:
            return self._exchanged().mapInArrow(_named(partial(_led, run), run), schema)
        count = max(1, len(self.messages))
        shift = _shift(self.size / count / _NUMBER_BYTES)
        numbers = self.spark.range(0, len(self.messages) << shift, 1, count)
        told = _named(partial(_told, run, tuple(self.messages), shift), run)
        if shift:
            # What is null takes no room, and Spark takes it for 100 bytes.
            numbers = numbers.where(f"(id & {(1 << shift) - 1}) = 0")
            numbers = numbers.selectExpr("id", "cast(null as binary) as room")
        return numbers.mapInArrow(told, schema)

    def rows(self, work: Work, schema: StructType | str, name: str) -> DataFrame:
        """The rows of all tasks; ``name`` is what Spark's plans show."""
        run: Any = partial(task_rows, work)
        run.__name__ = name
        return self.mapInArrow(run, schema)

    def _exchanged(self) -> DataFrame:
        """Rows of ``task`` and ``message``, one in each partition."""
        columns = f"{TASK} int not null, {MESSAGE} binary not null"
        numbers = pa.array(range(len(self.messages)), pa.int32())
        rows = [numbers, pa.array(self.messages, pa.binary())]
        frame = frame_of(self.spark, pa.Table.from_arrays(rows, schema=_SCHEMA), columns)
        more = 1 << _shift(self.size / _MESSAGE_BYTES)
        if more > len(self.messages):
            none = self.spark.range(0, more, 1, 1).where("id < 0")
            none = none.selectExpr(
                f"cast(id as int) as {TASK}", f"cast(null as binary) as {MESSAGE}"
            )
            frame = frame.unionAll(none)
        return placed(self.spark, frame, len(self.messages))


def spread(spark: SparkSession, messages: Sequence[bytes], size: float = 0.0) -> Spread:
    """Tasks for a function. A frame of at least about ``size`` bytes is what they become."""
    return Spread(spark, messages, min(size, _MOST_SIZE))


def _shift(wanted: float) -> int:
    """The power of two nearest to a number; 0 for less than two."""
    return max(0, round(math.log2(wanted))) if wanted >= 2 else 0


def _told(
    run: Run, messages: Sequence[bytes], shift: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """On an executor: run the tasks whose numbers are in a partition."""

    def rows() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers = [number >> shift for number in batch["id"].to_pylist()]
            chosen = pa.array([messages[number] for number in numbers], pa.binary())
            yield pa.RecordBatch.from_arrays(
                [pa.array(numbers, pa.int32()), chosen], schema=_SCHEMA
            )

    with sentence_first():
        yield from run(rows())


def _named(function: Any, run: Run) -> Any:
    """The function, called in Spark's plans what ``run`` is called."""
    function.__name__ = getattr(run, "__name__", type(run).__name__)
    return function


def _led(run: Run, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On an executor: run tasks that came as rows."""
    with sentence_first():
        yield from run(batches)


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
    """A number for each partition that Spark's hash puts there."""
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

    def rotated(values: Any, bits: int) -> Any:
        return (values << np.uint32(bits)) | (values >> np.uint32(32 - bits))

    mixed = keys.astype(np.uint32) * np.uint32(0xCC9E2D51)
    mixed = rotated(mixed, 15) * np.uint32(0x1B873593)
    mixed = rotated(mixed ^ np.uint32(_SEED), 13) * np.uint32(5) + np.uint32(0xE6546B64)
    mixed ^= np.uint32(4)  # bytes of a number
    mixed = (mixed ^ (mixed >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    mixed = (mixed ^ (mixed >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return (mixed ^ (mixed >> np.uint32(16))).view(np.int32).astype(np.int64)


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


def task_rows(work: Work, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On an executor: the rows of the tasks in a partition of a spread frame."""
    for _, message in messages_of(batches):
        yield from work(message)


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
