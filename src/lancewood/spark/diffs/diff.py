"""``lancewood.spark.diff``: the rows that differ between two revisions, as a DataFrame.

The driver compares both by their manifests and deletion files and cuts what it found into tasks.
Those read values, compare and show them. Rows that only one revision has are paired by their keys:
a few on the driver, many by Spark (``keys``).
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from lancewood.engine.snapshot import Access
from lancewood.jobs.diff import Comparison, Costs, DiffCutting, DiffRows, DiffShape
from lancewood.spark.diffs.keys import KeyPairing
from lancewood.spark.diffs.work import DiffWork, encode
from lancewood.spark.reading.plan import OPENING, check_reachable, count_tasks
from lancewood.spark.tasks import slots, spread
from lancewood.spark.types import Reading
from lancewood.table.by_uri import open as open_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lancewood.table.table import Table

MOST_KEYS = 1 << 20
"""Number of rows that the driver pairs by their keys at most; more are paired by Spark."""
_REACHING = 4 << 10
"""The cost of reaching a row that does not follow the one before, as bytes that could be read
instead."""


def diff(
    spark: SparkSession,
    uri: str | os.PathLike[str],
    a: int | str | datetime | os.PathLike[str] | Table,
    b: int | str | datetime | os.PathLike[str] | Table | None = None,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    change: str | Sequence[str] | None = None,
    on: str | Sequence[str] | None = None,
    access: Access | None = None,
) -> DataFrame:
    """The rows that differ between two revisions, from ``a`` to ``b``, as a DataFrame. Without
    ``b`` it is the version that the uri leads to, usually the newest. Each may be another table,
    as in ``Table.diff``.

    The rows are those of ``Table.diff``: ``_change``, ``_rowid``, ``_columns``, ``before`` and
    ``after``, in no particular order; ``columns``, ``where``, ``change`` and ``on`` are given as
    there. Revisions are compared by the driver, now, without reading values; executors read the
    rows that may differ, at every action. Only rows that are asked for here leave Python: what
    Spark selects and filters later is read before it is dropped.

    Storage options travel to the executors as with ``read``. Raises what ``Table.diff`` raises,
    also where rows may have moved and nothing tells which, and UnsupportedError for a type that
    Spark does not have. A key that is not unique is found now, or in an action if there are many
    rows to be paired.
    """
    table = open_table(
        uri,
        access=access,
    )
    found = table.diff(a, b, columns=columns, where=where, change=change, on=on)
    return diff_frame(spark, found._rows)


def diff_frame(
    spark: SparkSession, rows: DiffRows, names: Sequence[str] | None = None
) -> DataFrame:
    """The rows of a diff as a DataFrame, with all columns or some."""
    plan = rows.plan
    for each in (plan.one, plan.other):
        check_reachable(each)
    schema = (
        rows.schema if names is None else pa.schema([rows.schema.field(each) for each in names])
    )
    shape, running = replace(rows.shape), slots(spark)
    work = DiffWork(plan.one.bare(), plan.other.bare(), shape, Reading(schema))
    pairing, messages, size = _pairing(work, rows), list[bytes](), 0
    for found in plan.comparisons(pairs_keys=pairing is None):
        left = found if pairing is None else pairing.without(found)
        cutting = DiffCutting(left, shape, costs(found, shape))
        messages += map(encode, cutting.portions(_share(cutting.cost, running)))
        size += cutting.cost
    if pairing is not None and not messages:
        return pairing.frame(spark, running)
    frame = spread(spark, messages, size).rows(work, work.reading.spark, work.name)
    return frame if pairing is None else frame.unionAll(pairing.frame(spark, running))


def costs(found: Comparison, shape: DiffShape) -> Costs:
    """The costs of reading a row of each state, as far as the diff compares or shows it."""
    before = {each.name: each for each in (*shape.before, *(one.before for one in shape.columns))}
    after = {each.name: each for each in (*shape.after, *(one.after for one in shape.columns))}
    return Costs(
        math.ceil(found.before.row_width([*before.values()])),
        math.ceil(found.after.row_width([*after.values()])),
        OPENING,
        _REACHING,
    )


def _pairing(work: DiffWork, rows: DiffRows) -> KeyPairing | None:
    """How Spark pairs rows by their keys; None if there are few, or no keys."""
    plan = rows.plan
    if plan.key is None:
        return None
    for last in plan.comparisons(pairs_keys=False):  # which has all rows that are to be paired
        sides = last.deleted.row_count, last.inserted.row_count
    if not all(sides) or sum(sides) <= MOST_KEYS:
        return None
    return KeyPairing(work, plan.key, last, costs(last, work.shape))


def _share(cost: int, running: int) -> int:
    return math.ceil(cost / count_tasks(cost, running)) or 1
