"""Rows that came or changed between two versions of a table, as a frame that executors read.

What a stream does batch by batch, done once: versions are compared on the driver by what manifests
say of rows, rows are read by tasks. Rows that are gone are not told of. Changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lancewood.engine.changes import find_changes
from lancewood.engine.snapshot import Snapshot
from lancewood.spark.streaming.fitting import Fitting, StreamColumns, stream_schema
from lancewood.spark.streaming.plan import TaskSize, plan_tasks
from lancewood.spark.streaming.portions import Change, PickedRows
from lancewood.spark.streaming.task import read_stream_task
from lancewood.spark.tasks import messages_of, slots, spread

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class RowsBetween:
    """What ``find_between`` found: where the rows are, none of them read."""

    rows: tuple[PickedRows, ...]
    """All of the later version."""
    fitting: Fitting
    schema: StructType

    @property
    def row_count(self) -> int:
        return sum(each.row_count for each in self.rows)

    def frame(self, spark: SparkSession) -> DataFrame:
        """The rows, with their values in the later version, cut into tasks."""
        messages = plan_tasks(self.rows, self.fitting, TaskSize(slots(spark)))
        return spread(spark, messages).mapInArrow(_read, self.schema)


def find_between(
    since: Snapshot, until: Snapshot, columns: Sequence[str] | None = None
) -> RowsBetween:
    """The rows that were inserted or updated after one version, up to and with another.

    Both are of one history of a table with stable row ids, which is for the caller to know
    (``Table.changes`` checks it). Raises InvalidInputError for an unknown column, NotFoundError
    where a version in between is needed that was cleaned up.
    """
    asked = StreamColumns(columns=None if columns is None else list(columns))
    schema = stream_schema(until, asked)
    fitting = Fitting.of(until, asked, schema)
    found = find_changes(since, until)
    version, fragments = until.manifest.version, found.until.fragments
    fates = ((found.inserted, Change.INSERTED), (found.updated, Change.UPDATED))
    rows = tuple(
        PickedRows.of(until, version, fragments, part, change)
        for part, change in fates
        if part.row_count
    )
    return RowsBetween(rows, fitting, schema)


def _read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For mapInArrow over a spread frame."""
    for _, message in messages_of(batches):
        yield from read_stream_task(message)
