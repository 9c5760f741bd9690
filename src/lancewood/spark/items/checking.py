"""Checking the names in a frame before anything is written.

Executors look at items and paths, without the contents, and count what they find; items that are
in each other are found by a join. Raises for what cannot be written; writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from lancewood.errors import InvalidInputError
from lancewood.repo.items.file_rows import Mode, item_files
from lancewood.repo.items.outcome import Done, Outcome, Tally
from lancewood.spark.items.finding import ITEM
from lancewood.spark.items.frame_rows import by_item, items_in, names_only
from lancewood.spark.items.running import collected
from lancewood.spark.tasks import slots

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WHAT = "checking the names of items"
_DDL = "tally binary, has_folders boolean"
_TASKS_PER_SLOT = 2
_MOST_TOLD = 10


def check_names(df: DataFrame, mode: Mode, message: str) -> int:
    """How many items a frame has. Raises InvalidInputError, which names the first few that cannot
    be written, with the reasons."""
    names = by_item(names_only(df), slots(df.sparkSession) * _TASKS_PER_SLOT)
    found = collected(names.mapInArrow(partial(_check, mode, message), _DDL), _WHAT)
    tally = Tally.joined(bytes(each.tally) for each in found)
    tally.check("names cannot be written of")
    if any(each.has_folders for each in found):
        _check_apart(df)
    return tally.items


def _check(mode: Mode, message: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On an executor: the names in a partition, counted, and whether some are in folders."""
    tally, has_folders = Tally(), False
    for item, rows in items_in(batches):
        try:
            files = item_files(item, rows, mode, message)
        except InvalidInputError as error:
            tally.add(Outcome.refused(item, error))
        else:
            tally.add(Outcome(item, Done.UNCHANGED))
            has_folders = has_folders or "/" in files.item
    yield pa.record_batch(
        {
            "tally": pa.array([tally.encode()], pa.binary()),
            "has_folders": pa.array([has_folders], pa.bool_()),
        }
    )


def _check_apart(df: DataFrame) -> None:
    """Raise InvalidInputError for items that are in each other."""
    from pyspark.sql import functions

    items = df.select(ITEM).distinct()
    parts = functions.split(functions.col(ITEM), "/", -1)
    depths = functions.sequence(functions.lit(1), functions.size(parts) - 1)
    above = functions.transform(
        depths, lambda depth: functions.array_join(functions.slice(parts, 1, depth), "/")
    )
    nested = items.where(functions.col(ITEM).contains("/"))
    folders = nested.select(functions.explode(above).alias(ITEM)).distinct()
    both = items.join(folders, ITEM, "left_semi").limit(_MOST_TOLD)
    found = sorted(each[0] for each in collected(both, _WHAT))
    if found:
        raise InvalidInputError(
            f"items are not in each other, and others of the frame are in "
            f"{', '.join(map(repr, found))}",
            items=found,
        )
