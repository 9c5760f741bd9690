"""Finding items on executors: a frame of their names, listed in parallel.

One task lists the folder itself, or the first one below it that holds more than one; what is there
is spread and looked into by all, and then, spread again, to the bottom. So flat folders and fan-out
folders such as ``ab/cd/<item>`` are listed by many. Nothing goes through the driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from lancewood.repo.items.finding import expand, first_folders, items_below
from lancewood.spark.items.texts import as_text
from lancewood.spark.tasks import slots, spread

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ITEM = "item"
_FOUND = pa.schema([pa.field(ITEM, pa.string()), pa.field("is_item", pa.bool_())])
_DDL = "item string, is_item boolean"
_AT_ONCE = 10_000
_TASKS_PER_SLOT = 2


def find(spark: SparkSession, folder: str, tasks: int) -> DataFrame:
    """The items below a folder, in so many partitions: one column, ``item``. Listed anew by every
    action.

    An action raises NotFoundError where there is no folder.
    """
    frame = spread(spark, [b""]).mapInArrow(partial(_list_top, folder), _DDL)
    # By name, not in turns: a partition that is computed again has the same rows.
    frame = frame.repartition(slots(spark) * _TASKS_PER_SLOT, ITEM)
    frame = frame.mapInArrow(partial(_expand, folder), _DDL)
    frame = frame.repartition(tasks, ITEM).mapInArrow(partial(_to_the_bottom, folder), _DDL)
    return frame.select(ITEM)


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
    rows: list[tuple[str, bool]] = []
    for each in found:
        rows.append(each)
        if len(rows) == _AT_ONCE:
            yield _batch(rows)
            rows = []
    if rows:
        yield _batch(rows)


def _batch(rows: list[tuple[str, bool]]) -> pa.RecordBatch:
    """What is not UTF-8 is taken for an item: nobody can open it, and so it is told."""
    texts = [as_text(name) for name, _ in rows]
    names = pa.array(texts, pa.string())
    are_items = [is_item or text != name for text, (name, is_item) in zip(texts, rows, strict=True)]
    return pa.RecordBatch.from_arrays([names, pa.array(are_items, pa.bool_())], schema=_FOUND)
