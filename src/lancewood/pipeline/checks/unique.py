"""The check that no two rows have the same key. A row with a null in its key has none, as in SQL.

Only the columns of the key are read. What is told and kept are the keys that several rows have, and
how many have each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancewood.pipeline.checks.columns import check_columns, quoted
from lancewood.pipeline.checks.kind import CheckKind, CheckWork, Finding, gather, in_table, of_rows
from lancewood.pipeline.checks.relations import CheckedTable
from lancewood.pipeline.definition.model import UniqueCheck
from lancewood.pipeline.frames.refusals import refused_at
from lancewood.pipeline.report.markup import counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_HOW_OFTEN = "rows"


def _asked(check: UniqueCheck) -> str:
    return f"{in_table(check.table, check.columns)} is unique; nulls do not count"


def _plan(work: CheckWork, check: UniqueCheck) -> None:
    relation = work.relations.now(check.table, check.spot.at("table"))
    check_columns(relation, check.columns, check.spot.at("unique"))
    with refused_at(check.spot.at("unique"), work.pipeline):
        _ = _failing(work, check, relation).schema


def _judge(work: CheckWork, check: UniqueCheck) -> Finding:
    relation = work.relations.now(check.table, check.spot.at("table"))
    total = relation.count()
    if not total:
        return Finding(True, of_rows(0, 0))
    found = gather(_failing(work, check, relation), work.pipeline.kept_rows, _how_often(check))
    told = of_rows(found.weight, total)
    if found.rows:
        told = f"{told} have {counted(found.rows, 'key')} that others have, too"
    return Finding(not found.rows, told, found.weight, found)


def _failing(work: CheckWork, check: UniqueCheck, relation: CheckedTable) -> DataFrame:
    from pyspark.sql import functions

    where = " AND ".join(f"{quoted(each)} IS NOT NULL" for each in check.columns)
    rows = relation.rows(work.spark, check.columns, where)
    how_often = _how_often(check)
    keys = rows.groupBy(*rows.columns).agg(functions.count("*").alias(how_often))
    return keys.where(functions.col(how_often) > 1)


def _how_often(check: UniqueCheck) -> str:
    """A name that no column of the key has, in either case of letters."""
    name, taken = _HOW_OFTEN, {each.casefold() for each in check.columns}
    while name in taken:
        name = f"{name}_"
    return name


UNIQUE = CheckKind("unique", _asked, _plan, _judge)
