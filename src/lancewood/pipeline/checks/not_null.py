"""The check that columns are never null.

Executors look for nulls while they read, so that only failing rows go any further.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancewood.pipeline.checks.columns import check_columns, quoted, telling_columns
from lancewood.pipeline.checks.kind import CheckKind, CheckWork, Finding, find_failing, in_table
from lancewood.pipeline.checks.relations import CheckedTable
from lancewood.pipeline.definition.model import NotNullCheck
from lancewood.pipeline.frames.refusals import refused_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def _asked(check: NotNullCheck) -> str:
    are = "is" if len(check.columns) == 1 else "are"
    return f"{in_table(check.table, check.columns)} {are} never null"


def _plan(work: CheckWork, check: NotNullCheck) -> None:
    relation = work.relations.now(check.table, check.spot.at("table"))
    check_columns(relation, check.columns, check.spot.at("not_null"))
    with refused_at(check.spot.at("not_null"), work.pipeline):
        _ = _failing(work, check, relation).schema


def _judge(work: CheckWork, check: NotNullCheck) -> Finding:
    relation = work.relations.now(check.table, check.spot.at("table"))
    return find_failing(work, relation, lambda: _failing(work, check, relation))


def _failing(work: CheckWork, check: NotNullCheck, relation: CheckedTable) -> DataFrame:
    where = " OR ".join(f"{quoted(each)} IS NULL" for each in check.columns)
    return relation.rows(work.spark, telling_columns(relation, check.columns), where)


NOT_NULL = CheckKind("not null", _asked, _plan, _judge)
