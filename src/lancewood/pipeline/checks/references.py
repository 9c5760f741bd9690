"""The check that every value of some columns is among those of another table's; nulls refer to
nothing.

Of the other table only the referred columns are read, of the table itself these and its keys.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from lancewood.pipeline.checks.columns import check_columns, key_columns, quoted
from lancewood.pipeline.checks.kind import CheckKind, CheckWork, Finding, find_failing, in_table
from lancewood.pipeline.checks.relations import CheckedTable
from lancewood.pipeline.definition.model import ReferenceCheck
from lancewood.pipeline.definition.refusal import wrong
from lancewood.pipeline.frames.refusals import refused_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def _asked(check: ReferenceCheck) -> str:
    own = in_table(check.table, check.columns)
    return f"{own} is in {in_table(check.other, check.other_columns)}, or null"


def _plan(work: CheckWork, check: ReferenceCheck) -> None:
    relation, other = _relations(work, check)
    below = check.spot.at("references", "columns")
    check_columns(relation, check.columns, check.spot.at("columns"))
    check_columns(other, check.other_columns, below)
    with refused_at(check.spot.at("columns"), work.pipeline):
        own = relation.rows(work.spark, check.columns).schema
    with refused_at(below, work.pipeline):
        others = other.rows(work.spark, check.other_columns).schema
    for index, (name, named) in enumerate(zip(check.columns, check.other_columns, strict=True)):
        one, two = own[name].dataType, others[named].dataType
        if _family(one) != _family(two):
            raise wrong(
                below.at(index),
                f"{check.other}.{named} is {two.simpleString()}, and cannot be compared with "
                f"{check.table}.{name}, which is {one.simpleString()}",
            )
    with refused_at(check.spot.at("columns"), work.pipeline):
        _ = _failing(work, check, relation, other).schema


def _judge(work: CheckWork, check: ReferenceCheck) -> Finding:
    relation, other = _relations(work, check)
    return find_failing(work, relation, lambda: _failing(work, check, relation, other))


def _relations(work: CheckWork, check: ReferenceCheck) -> tuple[CheckedTable, CheckedTable]:
    return (
        work.relations.now(check.table, check.spot.at("table")),
        work.relations.now(check.other, check.spot.at("references", "table")),
    )


def _failing(
    work: CheckWork, check: ReferenceCheck, relation: CheckedTable, other: CheckedTable
) -> DataFrame:
    columns = key_columns(relation, check.columns, work.pipeline)
    rows = relation.rows(work.spark, columns, _have_values(check.columns))
    referred = other.rows(work.spark, check.other_columns, _have_values(check.other_columns))
    named = zip(check.columns, check.other_columns, strict=True)
    pairs = [rows[_escaped(own)] == referred[_escaped(theirs)] for own, theirs in named]
    return rows.join(referred, reduce(lambda one, two: one & two, pairs), "left_anti")


def _have_values(columns: tuple[str, ...]) -> str:
    return " AND ".join(f"{quoted(each)} IS NOT NULL" for each in columns)


def _escaped(column: str) -> str:
    return f"`{column}`"


def _family(kind: Any) -> str:
    """What a Spark type can be compared with, without guesses."""
    from pyspark.sql.types import NumericType

    return "number" if isinstance(kind, NumericType) else str(kind.simpleString())


REFERENCES = CheckKind("references", _asked, _plan, _judge)
