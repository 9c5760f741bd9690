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
from lancewood.repo.items.outcome import Done, Outcome
from lancewood.spark.items.finding import ITEM
from lancewood.spark.items.frame_rows import by_item, items_in, names_only
from lancewood.spark.items.running import collected, run_items
from lancewood.spark.tasks import slots

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TASKS_PER_SLOT = 2
_MOST_TOLD = 10


def check_names(df: DataFrame, mode: Mode, message: str) -> int:
    """How many items a frame has. Raises InvalidInputError, which names the first few that cannot
    be written, with the reasons."""
    names = by_item(names_only(df), slots(df.sparkSession) * _TASKS_PER_SLOT)
    found = run_items(
        names,
        partial(_check, mode, message),
        what="checking the names of items",
        run=None,
        on_error="fail",
        details=False,
    )
    # What is in a folder is counted as moved, only to be told apart here.
    if found.moved:
        _check_apart(df)
    return found.items


def _check(mode: Mode, message: str, batches: Iterable[pa.RecordBatch]) -> Iterator[Outcome]:
    for item, rows in items_in(batches):
        try:
            files = item_files(item, rows, mode, message)
        except InvalidInputError as error:
            yield Outcome.refused(item, error)
        else:
            yield Outcome(item, Done.MOVED if "/" in files.item else Done.UNCHANGED)


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
    found = sorted(each[0] for each in collected(both, "checking the names of items"))
    if found:
        raise InvalidInputError(
            f"items are not in each other, and others of the frame are in "
            f"{', '.join(map(repr, found))}",
            items=found,
        )
