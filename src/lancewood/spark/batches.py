"""How many rows of a frame Spark hands to Python at once while the frame is written.

Spark bounds its batches by rows and by bytes, and for the second it measures the batch after
every row: on narrow rows that takes longer than all the rest. Here the bound by bytes is lifted
for frames whose rows cannot be large, and kept for all others. Knows frames and settings, and not
what is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
ADVISED_BYTES = "8m"
NO_BOUND = str((1 << 31) - 1)
"""What Spark takes for no bound: it then measures nothing."""

NUMBER_ROWS = 10_000
TEXT_ROWS = 2_048
"""A batch of Arrow's holds 2 GiB of text: a megabyte for each of these rows."""

_NOT_CHOSEN = frozenset({ADVISED_BYTES, "64MB", "67108864b"})
"""Bounds by bytes that nobody chose: Lancewood's advice and Spark's default. Others are kept."""


@dataclass(slots=True)
class _Writes:
    """The writes that run in one session."""

    narrow: int = 0
    wide: int = 0
    saved: tuple[str, str] | None = None
    """The session's own bounds, while others are set."""


_lock = Lock()
_writes: WeakKeyDictionary[Any, _Writes] = WeakKeyDictionary()


def rows_at_once(schema: DataType) -> int | None:
    """How many rows can go at once without a look at their bytes; None if that is unknown."""
    from pyspark.sql import types

    if isinstance(schema, types.StructType):
        found = [rows_at_once(each.dataType) for each in schema.fields]
        return None if None in found else min(filter(None, found), default=NUMBER_ROWS)
    if isinstance(schema, types.StringType):
        return TEXT_ROWS
    fixed = (types.NumericType, types.BooleanType, types.DatetimeType, types.NullType)
    return NUMBER_ROWS if isinstance(schema, fixed) else None


@contextmanager
def batches_for(df: DataFrame) -> Iterator[None]:
    """Have Spark cut batches as suits this frame, until the block ends.

    The setting is the session's: other jobs that are planned in it meanwhile have it too. A write
    of wide rows at the same time gets the bounds of the session, and a bound by bytes that
    somebody chose is not touched.
    """
    spark = df.sparkSession
    rows = rows_at_once(df.schema)
    with _lock:
        writes = _writes.setdefault(spark, _Writes())
        if rows is None:
            writes.wide += 1
            _restore(spark, writes)
        else:
            writes.narrow += 1
            _lift(spark, writes, rows)
    try:
        yield
    finally:
        with _lock:
            if rows is None:
                writes.wide -= 1
            else:
                writes.narrow -= 1
                if not writes.narrow:
                    _restore(spark, writes)


def _lift(spark: Any, writes: _Writes, rows: int) -> None:
    if writes.wide:
        return
    own = writes.saved or (spark.conf.get(ROWS), spark.conf.get(BYTES))
    if own[1] not in _NOT_CHOSEN:
        return
    now = int(spark.conf.get(ROWS))
    writes.saved = own
    spark.conf.set(ROWS, str(min(rows, now) if now > 0 else rows))
    spark.conf.set(BYTES, NO_BOUND)


def _restore(spark: Any, writes: _Writes) -> None:
    if writes.saved is not None:
        spark.conf.set(ROWS, writes.saved[0])
        spark.conf.set(BYTES, writes.saved[1])
        writes.saved = None
