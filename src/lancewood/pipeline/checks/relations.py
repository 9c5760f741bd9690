"""The tables that checks refer to: as the run leaves them, and as they were before it.

While a run is planned, tables have columns but no rows yet; later they are what the run's branch
holds. Checks are built the same way from either, so whatever can be planned can be run. Executors
read the rows, and only the columns and rows that are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lancewood.pipeline.context import RunContext
from lancewood.pipeline.definition.model import Spot
from lancewood.pipeline.definition.names import near, wrong
from lancewood.pipeline.loading.quarantine import SCHEMA as QUARANTINE_SCHEMA
from lancewood.spark.reading.read import read_snapshot
from lancewood.spark.types import spark_schema
from lancewood.table import Parameters, Table, check_where, scanned_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class CheckedTable:
    """A table as a check sees it."""

    name: str
    schema: pa.Schema
    table: Table | None = None
    """The table; None: there are no rows, or none yet."""

    def count(self) -> int:
        """The number of rows, from the manifest."""
        return 0 if self.table is None else self.table.count_rows()

    def rows(
        self,
        spark: SparkSession,
        columns: Sequence[str],
        where: str | None = None,
        parameters: Parameters = None,
    ) -> DataFrame:
        """Some columns of the rows for which a condition in the engine's dialect holds.

        Raises InvalidInputError for a wrong condition, UnsupportedError for a type that Spark does
        not have.
        """
        if self.table is not None:
            return read_snapshot(spark, self.table._snapshot, columns, where, parameters)
        if where is not None:
            check_where(self.schema, where, parameters)
        return spark.createDataFrame([], spark_schema(scanned_schema(self.schema, columns)))


Find = Callable[[str], CheckedTable | None]


@dataclass(frozen=True)
class CheckedTables:
    """All tables that a check may refer to."""

    find_now: Find
    find_before: Find
    names: Callable[[], Iterable[str]]

    def now(self, table: str, spot: Spot) -> CheckedTable:
        """The table as the run leaves it; raises InvalidInputError, starting with the spot."""
        found = self.find_now(table)
        if found is None:
            raise wrong(
                spot,
                f"there is no table {table!r} in the repository, and no target makes it: "
                f"{near(table, self.names())}",
            )
        return found

    def before(self, table: str, spot: Spot) -> CheckedTable | None:
        """The table as it was before the run; None if it did not exist."""
        self.now(table, spot)
        return self.find_before(table)


def planned_relations(context: RunContext, planned: Mapping[str, pa.Schema]) -> CheckedTables:
    """The tables to expect, from columns alone; ``planned`` are those that the run creates or
    changes."""
    future = _own_tables(context) | dict(planned)

    def before(table: str) -> CheckedTable | None:
        return CheckedTable(table, context.open(table).schema) if context.has(table) else None

    def now(table: str) -> CheckedTable | None:
        was = before(table)
        if table in planned or (was is None and table in future):
            return CheckedTable(table, future[table])
        return was

    return CheckedTables(now, before, lambda: {*_names(context, None), *future})


def standing_relations(context: RunContext) -> CheckedTables:
    """The tables on the run's branch, and those that existed when the run began."""
    own = _own_tables(context)

    def now(table: str) -> CheckedTable | None:
        if context.has_now(table):
            found = context.open_now(table)
            return CheckedTable(table, found.schema, found)
        return before(table) or (CheckedTable(table, own[table]) if table in own else None)

    def before(table: str) -> CheckedTable | None:
        if not context.has(table):
            return None
        found = context.open(table)
        return CheckedTable(table, found.schema, found)

    return CheckedTables(now, before, lambda: {*_names(context, context.branch), *own})


def _own_tables(context: RunContext) -> dict[str, pa.Schema]:
    """Tables of the run that are only created once there is a row for them."""
    return {context.pipeline.quarantine.table: QUARANTINE_SCHEMA}


def _names(context: RunContext, branch: str | None) -> Iterable[str]:
    revision = branch or context.base
    return () if revision is None else context.repository.at(revision).tables
