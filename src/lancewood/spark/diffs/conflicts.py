"""``lancewood.spark.conflicts``: the rows that a merge leaves to decide, as a DataFrame.

The driver finds which rows both branches may have changed, by their manifests and deletion files,
and cuts those into tasks, which read and decide them. What rules decide never leaves a task.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from lancewood.engine.snapshot import Access
from lancewood.jobs.merge.merge_branch import BranchMerge
from lancewood.jobs.merge.row_merge import RowMerge
from lancewood.jobs.merge.row_tasks import MergeShape, conflict_batches
from lancewood.spark.reading.plan import check_reachable
from lancewood.spark.reading.task import missing_explained, pack, sized, unpack
from lancewood.spark.tasks import slots, spread
from lancewood.spark.types import Reading
from lancewood.table.by_uri import open as open_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def conflicts(
    spark: SparkSession,
    uri: str | os.PathLike[str],
    name: str,
    into: str | None = None,
    *,
    resolve: Any = None,
    detect: Literal["cells", "rows"] = "cells",
    access: Access | None = None,
) -> DataFrame:
    """The rows that a merge of a branch would leave to decide, as a DataFrame. Without ``into`` it
    is merged into the branch that the uri leads to, usually main.

    The rows are those of ``Table.branches.conflicts``: ``_conflict``, ``_kind``, ``_rowid``,
    ``_columns``, ``key`` if the table has one, ``base``, ``ours`` and ``theirs``, in no particular
    order; columns of blobs are not shown. ``resolve`` and ``detect`` are given as there. A
    DataFrame with ``_conflict`` and ``take`` is a decision for ``resolve=`` of a merge.

    Which rows both may have changed is found by the driver, now; executors read and decide them, at
    every action. Storage options travel to the executors as with ``read``. Raises what
    ``Table.branches.conflicts`` raises, and UnsupportedError for a type that Spark does not have.
    """
    table = open_table(
        uri,
        access=access,
    )
    check_reachable(table._snapshot)
    asked = BranchMerge.asked(table._snapshot, name, into, resolve, detect)
    return _frame(spark, asked.row_merge() or asked.nothing())


def _frame(spark: SparkSession, row_merge: RowMerge) -> DataFrame:
    running = slots(spark)
    work = ConflictWork(row_merge.shape, Reading(row_merge.shape.resolver.shape.schema))
    messages = [
        pack(portion)
        for touched in row_merge.touched()
        for _, portion in row_merge.cut(touched, running)
    ]
    return spread(spark, messages).rows(work, work.reading.spark, work.name)


@dataclass(frozen=True)
class ConflictWork:
    """What all tasks share. Pickles; the states in the shape have no fragments."""

    shape: MergeShape
    reading: Reading

    @property
    def name(self) -> str:
        """What is merged, for people who look at Spark's plans."""
        table = self.shape.table.rstrip("/").rpartition("/")[2]
        theirs, ours = (each.manifest for each in self.shape.states[:2])
        return f"conflicts of {table} versions {ours.version} and {theirs.version}"

    def __call__(self, message: bytes) -> Iterator[pa.RecordBatch]:
        """The conflicts of one task, as Spark takes them; raises NotFoundError for files that are
        gone."""
        theirs, ours = self.shape.states[:2]
        with missing_explained("compared", ours, theirs):
            found = conflict_batches(self.shape, unpack(message))
            yield from sized(map(self.reading.convert, found))
