"""What is wrong with the checks, told before anything is written.

Every check is built as it will be built later, on tables without rows that have the columns which
the run will leave. Spark analyses; no job runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from lancewood.pipeline.checks.kind import Work
from lancewood.pipeline.checks.kinds import kind_of, table_of, tables_seen
from lancewood.pipeline.checks.needs import Ground
from lancewood.pipeline.checks.relations import planned_relations
from lancewood.pipeline.definition.model import Pipeline, SqlCheck
from lancewood.pipeline.frames.refusals import refused_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def plan_checks(
    spark: SparkSession, pipeline: Pipeline, ground: Ground, planned: Mapping[str, pa.Schema]
) -> None:
    """Raise InvalidInputError, which begins with the spot, for the first check that speaks of what
    there will not be: tables, columns, functions, values of another type, SQL that means nothing.

    ``planned`` are the columns of tables that the run makes or changes: what ``plan_targets``
    gives. SQL may call the pipeline's functions: the frames of the run, which are open now, have
    made them known.
    """
    work = Work(spark, pipeline, planned_relations(ground, planned))
    for check in pipeline.checks:
        with refused_at(check.spot, pipeline):
            kind_of(check).plan(work, check)


def check_tables(pipeline: Pipeline, ground: Ground) -> None:
    """Raise InvalidInputError for the first check of a table that nobody has and no target makes:
    what can be told of checks without Spark."""
    standing = planned_relations(ground, {})
    names = {*standing.names(), *(each.table for each in pipeline.targets)}
    relations = replace(standing, names=lambda: names)
    known = {each.casefold() for each in names}
    for check in pipeline.checks:
        for table in sorted(tables_seen(check)):
            if table.casefold() not in known:
                is_sql, is_own = isinstance(check, SqlCheck), table == table_of(check)
                key = ("sql",) if is_sql else ("table",) if is_own else ("references", "table")
                relations.now(table, check.spot.at(*key))
