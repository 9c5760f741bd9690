"""Running a job over items: outcomes are counted on the executors, and the driver gets figures.

Knows frames, and what a failed Spark job means. Does not know what is done to an item.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from lancewood.errors import InvalidInputError, LancewoodError
from lancewood.repo.items.names import checked_item
from lancewood.repo.items.outcome import Outcome, Tally
from lancewood.repo.items.writing import is_passing
from lancewood.spark.items.finding import ITEM
from lancewood.spark.items.result import ItemsDone
from lancewood.spark.items.texts import as_text, text_of
from lancewood.spark.running.answers import is_last_attempt
from lancewood.spark.running.failures import told
from lancewood.spark.tasks import check_running

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Working: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[Outcome]]
"""On an executor: what became of the items in a partition."""
DETAILS_DDL = "item string, done string, hash string, error string, why string"
_DETAILS = pa.schema([(each, pa.string()) for each in ("item", "done", "hash", "error", "why")])
_TALLY_DDL = "tally binary"
_AT_ONCE = 5_000
ON_ERROR = ("fail", "report")


def check_on_error(on_error: object) -> None:
    if on_error not in ON_ERROR:
        raise InvalidInputError(f"on_error takes 'fail' or 'report', got {on_error!r}")


def run_items(
    frame: DataFrame,
    working: Working,
    *,
    what: str,
    run: str | None,
    on_error: str,
    details: bool,
) -> ItemsDone:
    """Do the work once, and count what became of it.

    With ``on_error="fail"`` raises the error of the items that were refused, when all others are
    done. ``details`` keeps a row for each item on the disks of the executors.
    """
    spark = frame.sparkSession
    check_running(spark)
    kept: DataFrame | None = None
    if details:
        kept = frame.mapInArrow(partial(_rows, working), DETAILS_DDL)
        kept = kept.persist(_on_disk())
        counting = kept.mapInArrow(_count_rows, _TALLY_DDL)
    else:
        counting = frame.mapInArrow(partial(_count, working), _TALLY_DDL)
    try:
        tally = Tally.joined(bytes(each[0]) for each in collected(counting, what))
        if on_error == "fail":
            tally.check(f"{what} refused")
    except LancewoodError:
        if kept is not None:
            kept.unpersist()
        raise
    return ItemsDone.of(tally, run, kept)


def collected(frame: DataFrame, what: str) -> list[Any]:
    """The few rows of a frame; raises a LancewoodError for a job that failed."""
    try:
        return frame.collect()
    except LancewoodError:
        raise
    except Exception as failure:
        raise told(failure, what) from None


def each_item(
    batches: Iterable[pa.RecordBatch],
    done: Callable[[str], Outcome],
    *,
    last: int | None,
    on_error: str,
) -> Iterator[Outcome]:
    """What became of the items that a partition names, one after the other; what is no name of an
    item is refused. ``last`` and ``on_error`` are as in ``told_outcome``."""
    for batch in batches:
        for each in batch[ITEM]:
            item = text_of(each)
            try:
                yield done(checked_item(item))
            except LancewoodError as error:
                yield told_outcome(item, error, last, on_error)


def told_outcome(
    item: str | None, error: LancewoodError, last: int | None, on_error: str
) -> Outcome:
    """What an error that was raised for one item means: raises it where Spark is to try again.

    ``last`` is the number of the last attempt that a task has, None if that is not known.
    """
    if is_passing(error) and not (on_error == "report" and is_last_attempt(last)):
        raise error
    return Outcome.refused(item, error)


def _count(working: Working, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    tally = Tally()
    for each in working(batches):
        tally.add(each)
    yield _tallied(tally)


def _count_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    tally = Tally()
    for batch in batches:
        for row in batch.to_pylist():
            tally.add(Outcome.from_row(row))
    yield _tallied(tally)


def _tallied(tally: Tally) -> pa.RecordBatch:
    return pa.record_batch({"tally": pa.array([tally.encode()], pa.binary())})


def _rows(working: Working, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows: list[Outcome] = []
    for each in working(batches):
        rows.append(each)
        if len(rows) == _AT_ONCE:
            yield _as_rows(rows)
            rows = []
    if rows:
        yield _as_rows(rows)


def _as_rows(rows: list[Outcome]) -> pa.RecordBatch:
    columns = [
        [None if each.item is None else as_text(each.item) for each in rows],
        [each.done.value for each in rows],
        [each.hash for each in rows],
        [each.error for each in rows],
        [None if each.why is None else as_text(each.why) for each in rows],
    ]
    return pa.RecordBatch.from_arrays(
        [pa.array(each, pa.string()) for each in columns], schema=_DETAILS
    )


def _on_disk() -> Any:
    from pyspark import StorageLevel

    return StorageLevel.DISK_ONLY
