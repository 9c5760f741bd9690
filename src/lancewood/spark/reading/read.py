"""Rows of a table as a DataFrame, and how many there are.

The version is found and the tasks are planned when the DataFrame is made; what others commit later
does not change it. Knows sessions and nothing of how rows are read: that is ``plan`` and ``task``.
A table may be handed over open, instead of a uri: a state of a transaction, or a handle on a
branch.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from lancewood.engine.location import Bases
from lancewood.engine.rows import plan_scan
from lancewood.engine.schema import Columns, Parameters
from lancewood.engine.snapshot import Access, At, Snapshot
from lancewood.errors import InvalidInputError
from lancewood.spark.columnar import planned_frame, why_closed
from lancewood.spark.reading.plan import ReadPlan, columnar_read, plan_read
from lancewood.spark.reading.task import (
    COUNT_SCHEMA,
    MARK_SCHEMA,
    count_rows,
    mark_rows,
)
from lancewood.spark.tasks import slots, spread
from lancewood.table.by_uri import open as open_table
from lancewood.table.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MOST_LIMIT = (1 << 31) - 1
_FEW_ROWS = 10_000
"""Number of rows that pass through one partition in no time, however wide they are."""


def read(
    spark: SparkSession,
    uri: str | os.PathLike[str] | Table,
    *,
    branch: str | None = None,
    version: int | None = None,
    tag: str | None = None,
    as_of: datetime | None = None,
    at: At = None,
    columns: Columns = None,
    where: str | None = None,
    parameters: Parameters = None,
    limit: int | None = None,
    with_row_id: bool = False,
    with_row_address: bool = False,
    batch_rows: int | None = None,
    in_bases: Bases = None,
    use_indices: bool = True,
    access: Access | None = None,
) -> DataFrame:
    """The rows of one version as a DataFrame, whose partitions are in the order of the table.

    The version is given as for ``lancewood.open``, or by a table that is open, such as a state of
    a transaction; ``columns``, ``where``, ``parameters``, ``in_bases`` and ``use_indices`` are as
    for ``Table.scan``, and all of them are checked now. Only the columns and rows that are asked
    for here leave Python; where the session has the columnar door, so it is with what Spark selects
    and filters later, for which each task asks indices, and else that is read before it is dropped.
    ``limit`` gives so many rows, the first ones if there is no filter. Row ids and addresses are
    the columns ``_rowid`` and ``_rowaddr``, of type long. ``batch_rows`` are in a batch at most; by
    default that follows the width of a row.

    Storage options travel to the executors inside of tasks; they are in no plan that Spark prints.
    Every action reads the files anew, and fails with NotFoundError in its text
    if a cleanup has taken them: a tag keeps a version.
    Raises NotFoundError, InvalidInputError, UnsupportedError for a type that Spark does not have.
    """
    how: dict[str, Any] = {
        "branch": branch,
        "version": version,
        "tag": tag,
        "as_of": as_of,
        "at": at,
        "access": access,
    }
    scan = plan_scan(
        opened(uri, how),
        columns=columns,
        where=where,
        parameters=parameters,
        limit=limit,
        batch_rows=batch_rows,
        with_row_id=with_row_id,
        with_row_address=with_row_address,
        bases=in_bases,
        use_indices=use_indices,
    )
    return _frame(spark, plan_read(scan.snapshot, scan.request, slots(spark)))


def read_snapshot(
    spark: SparkSession,
    snapshot: Snapshot,
    columns: Columns = None,
    where: str | None = None,
    parameters: Parameters = None,
) -> DataFrame:
    """The rows of a version that is open already, otherwise as ``read``."""
    scan = plan_scan(snapshot, columns=columns, where=where, parameters=parameters)
    return _frame(spark, plan_read(scan.snapshot, scan.request, slots(spark)))


def _frame(spark: SparkSession, plan: ReadPlan) -> DataFrame:
    """A planned read as a DataFrame."""
    if plan.limit is not None and plan.limit > _MOST_LIMIT:
        raise InvalidInputError(
            f"a limit beside a filter is {_MOST_LIMIT} at most on Spark, got {plan.limit}"
        )
    if plan.scan is not None and why_closed(spark) is None:
        frame = planned_frame(spark, columnar_read(plan, plan.scan, slots(spark)))
        return frame if plan.limit is None else frame.limit(plan.limit)
    tasks, work = spread(spark, plan.messages, plan.size), plan.work
    if plan.spark.fields:
        frame = tasks.rows(work, plan.spark, work.name)
    else:  # Spark 4.0 loses rows that have no column
        marked = tasks.rows(partial(mark_rows, work), MARK_SCHEMA, work.name)
        frame = marked.drop(*marked.columns)
    return frame if plan.limit is None else taken_whole(frame, plan.limit).limit(plan.limit)


def taken_whole(frame: DataFrame, rows: int) -> DataFrame:
    """A read of few rows, through one more exchange if a limit may follow.

    A limit stops asking when it has its rows. Spark ends a Python worker that it stopped asking,
    and the next task has to start another: a second and more, where the rows took none. What is
    exchanged is asked for to its end. Many rows are left as they are.
    """
    return frame.repartition(1) if rows <= _FEW_ROWS else frame


def count(
    spark: SparkSession,
    uri: str | os.PathLike[str] | Table,
    *,
    branch: str | None = None,
    version: int | None = None,
    tag: str | None = None,
    as_of: datetime | None = None,
    at: At = None,
    where: str | None = None,
    parameters: Parameters = None,
    access: Access | None = None,
) -> int:
    """How many rows a version has, or how many of them meet a condition.

    Without a condition the manifest says it, if its writers recorded it; else executors
    read the columns of the condition, and each task answers with a number.
    Raises what ``read`` raises.
    """
    how: dict[str, Any] = {
        "branch": branch,
        "version": version,
        "tag": tag,
        "as_of": as_of,
        "at": at,
        "access": access,
    }
    scan = plan_scan(opened(uri, how), columns=(), where=where, parameters=parameters)
    known = scan.snapshot.manifest.row_count
    if where is None and known is not None:
        return known
    plan = plan_read(scan.snapshot, scan.request, slots(spark))
    if not plan.messages:
        return 0
    work = partial(count_rows, plan.work)
    counted = spread(spark, plan.messages).rows(work, COUNT_SCHEMA, plan.work.name)
    return sum(each.rows for each in counted.collect())


def opened(uri: str | os.PathLike[str] | Table, how: Mapping[str, Any]) -> Snapshot:
    """The version that is asked for, or that a handle is on; raises what either raises."""
    given = snapshot_in(uri, **how)
    if given is not None:
        return given
    assert not isinstance(uri, Table)
    return open_table(uri, **how)._snapshot


def snapshot_in(given: Any, **how: Any) -> Snapshot | None:
    """The version that a handle is on; None for a uri.

    ``how`` are the arguments that say how a table is opened. Raises InvalidInputError for one that
    comes with a handle, where it would do nothing.
    """
    if not isinstance(given, Table):
        return None
    for name, value in how.items():
        if value is not None and value is not False:
            raise InvalidInputError(
                f"{name}= says how a table is opened, and this one is open already: leave it out, "
                "or give the uri"
            )
    return given._snapshot
