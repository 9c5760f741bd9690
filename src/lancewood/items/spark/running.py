"""Jobs over many items: the folder, the frame of names, and the counting of outcomes.

Names are listed in parallel. One task lists the folder itself, or the first folder below it that
holds more than one entry. The result is spread over all tasks, expanded by one level, spread again
and followed to the bottom, so both flat folders and fan-out folders such as ``ab/cd/<item>`` are
listed by many tasks. Names never pass through the driver, and outcomes are counted on the
executors.

A disk has bytes and Spark has UTF-8. A name that is not UTF-8 is escaped; no file has the escaped
name, so the item is reported instead of being left out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from lancewood.errors import InvalidInputError, LancewoodError
from lancewood.items.folder import checked_item, expand, first_folders, items_below, path_on_disk
from lancewood.items.outcome import ItemDone, ItemOutcome, Tally
from lancewood.items.writing import is_passing
from lancewood.spark.running.answers import is_last_attempt
from lancewood.spark.running.failures import as_our_error
from lancewood.spark.tasks import check_running, keep_loaded, slots, spread

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Working: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[ItemOutcome]]
"""Runs on an executor: the outcomes of the items in a partition."""
ITEM = "item"
_FOUND = pa.schema([pa.field(ITEM, pa.string()), pa.field("is_item", pa.bool_())])
_FOUND_DDL = "item string, is_item boolean"
_FOUND_AT_ONCE = 10_000
_TASKS_PER_SLOT = 2
DETAILS_DDL = "item string, done string, hash string, error string, why string"
_DETAILS = pa.schema([(each, pa.string()) for each in ("item", "done", "hash", "error", "why")])
_TALLY_DDL = "tally binary"
_DETAILS_AT_ONCE = 5_000
ON_ERROR = ("fail", "report")


@dataclass(frozen=True)
class ItemsDone:
    """The figures of a job; they add up to ``items``."""

    run: str | None
    """The id of the run; None for jobs without one."""
    items: int
    written: int
    """Items that have a new snapshot, a new tag, or were imported."""
    unchanged: int
    """Items that were in the wanted state before."""
    already: int
    """Items that the same run had written before, perhaps in another attempt."""
    moved: int
    """Items whose tag was moved."""
    refused: int
    """Items that were left as they are; only with ``on_error="report"``."""
    refusals: tuple[ItemOutcome, ...] = ()
    """The first few refusals, with reasons."""
    details: DataFrame | None = field(default=None, compare=False, repr=False)
    """A row for each item, with ``details=True``: item, done, hash, error, why."""

    @classmethod
    def of(cls, tally: Tally, run: str | None, details: DataFrame | None) -> ItemsDone:
        return cls(
            run,
            tally.items,
            tally[ItemDone.WRITTEN],
            tally[ItemDone.UNCHANGED],
            tally[ItemDone.ALREADY],
            tally[ItemDone.MOVED],
            tally[ItemDone.REFUSED],
            tuple(tally.refusals),
            details,
        )


def run_items(
    frame: DataFrame, working: Working, *, what: str, run: str | None, on_error: str, details: bool
) -> ItemsDone:
    """Do the work once and count the outcomes.

    With ``on_error="fail"``, raises the error of refused items after all others are done.
    ``details`` keeps a row for each item on the disks of the executors.
    """
    spark = frame.sparkSession
    check_running(spark)
    kept: DataFrame | None = None
    if details:
        from pyspark import StorageLevel

        kept = frame.mapInArrow(partial(_rows, working), DETAILS_DDL)
        kept = kept.persist(StorageLevel.DISK_ONLY)
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
    """The few rows of a frame; raises LancewoodError for a job that failed."""
    try:
        return frame.collect()
    except LancewoodError:
        raise
    except Exception as failure:
        raise as_our_error(failure, what) from None


def _count(working: Working, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    tally = Tally()
    for each in working(batches):
        tally.add(each)
    keep_loaded()
    yield _tallied(tally)


def _count_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    tally = Tally()
    for batch in batches:
        for row in batch.to_pylist():
            tally.add(ItemOutcome.from_row(row))
    yield _tallied(tally)


def _tallied(tally: Tally) -> pa.RecordBatch:
    return pa.record_batch({"tally": pa.array([tally.encode()], pa.binary())})


def _rows(working: Working, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    outcomes = working(batches)
    while rows := list(islice(outcomes, _DETAILS_AT_ONCE)):
        yield _as_rows(rows)
    keep_loaded()


def _as_rows(rows: list[ItemOutcome]) -> pa.RecordBatch:
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


def each_item(
    batches: Iterable[pa.RecordBatch],
    done: Callable[[str], ItemOutcome],
    *,
    last: int | None,
    on_error: str,
) -> Iterator[ItemOutcome]:
    """The outcomes of the items that a partition names; invalid names are refused.

    ``last`` and ``on_error`` are those of ``told_outcome``.
    """
    for batch in batches:
        for each in batch[ITEM]:
            item = text_of(each)
            try:
                yield done(checked_item(item))
            except LancewoodError as error:
                yield told_outcome(item, error, last, on_error)


def told_outcome(
    item: str | None, error: LancewoodError, last: int | None, on_error: str
) -> ItemOutcome:
    """The outcome for an item that raised an error; raises the error if Spark should try again.

    ``last`` is the number of a task's last attempt, None if unknown.
    """
    if is_passing(error) and not (on_error == "report" and is_last_attempt(last)):
        raise error
    return ItemOutcome.refused(item, error)


def check_on_error(on_error: object) -> None:
    if on_error not in ON_ERROR:
        raise InvalidInputError(f"on_error takes 'fail' or 'report', got {on_error!r}")


def checked_folder(folder: object) -> str:
    """The absolute path; raises InvalidInputError for anything that is not a path, and
    UnsupportedError for a place that is not on a local or mounted disk."""
    if not isinstance(folder, str | os.PathLike) or not os.fspath(folder):
        raise InvalidInputError(f"the folder of items is a path, got {folder!r}")
    path = os.fspath(folder)
    if not isinstance(path, str) or "\0" in path:
        raise InvalidInputError("the folder of items is a path of text, without NUL")
    return path_on_disk(folder, "a folder of items, which all executors see,")


def find(spark: SparkSession, folder: str, tasks: int) -> DataFrame:
    """The items below a folder in ``tasks`` partitions: one column, ``item``.

    Every action lists the folder anew, and raises NotFoundError if there is none.
    """
    frame = spread(spark, [b""]).mapInArrow(partial(_list_top, folder), _FOUND_DDL)
    # By name, not in turns: a partition that is computed again has the same rows.
    frame = frame.repartition(slots(spark) * _TASKS_PER_SLOT, ITEM)
    frame = frame.mapInArrow(partial(_expand, folder), _FOUND_DDL)
    frame = frame.repartition(tasks, ITEM).mapInArrow(partial(_to_the_bottom, folder), _FOUND_DDL)
    return frame.select(ITEM)


def as_text(name: str) -> str:
    """A name as UTF-8, with other bytes escaped."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def text_of(value: pa.Scalar[Any]) -> str | None:
    """The text of a Spark value; bytes that are not UTF-8 become surrogates, for later checks."""
    if not value.is_valid:
        return None
    try:
        return str(value.as_py())
    except UnicodeDecodeError:
        return bytes(value.as_buffer()).decode("utf-8", "surrogateescape")


def _list_top(folder: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if sum(each.num_rows for each in batches):
        yield from _batches((name, False) for name in first_folders(folder))


def _expand(folder: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return _batches(
        found
        for name, is_item in _names(batches)
        for found in ([(name, True)] if is_item else expand(folder, name))
    )


def _to_the_bottom(folder: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return _batches(
        (found, True)
        for name, is_item in _names(batches)
        for found in ([name] if is_item else items_below(folder, name))
    )


def _names(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, bool]]:
    for batch in batches:
        yield from zip(batch[0].to_pylist(), batch[1].to_pylist(), strict=True)


def _batches(found: Iterable[tuple[str, bool]]) -> Iterator[pa.RecordBatch]:
    names = iter(found)
    while rows := list(islice(names, _FOUND_AT_ONCE)):
        yield _batch(rows)


def _batch(rows: list[tuple[str, bool]]) -> pa.RecordBatch:
    """A name that is not UTF-8 counts as an item: it cannot be opened, and so it is reported."""
    texts = [as_text(name) for name, _ in rows]
    names = pa.array(texts, pa.string())
    are_items = [is_item or text != name for text, (name, is_item) in zip(texts, rows, strict=True)]
    return pa.RecordBatch.from_arrays([names, pa.array(are_items, pa.bool_())], schema=_FOUND)
