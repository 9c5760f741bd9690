"""The check that a column has only values of a list. Null passes, as in a CHECK of SQL: say
``not_null`` beside it where that is not meant.

Executors compare while they read, so that only failing rows go any further.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lancewood.errors import InvalidInputError
from lancewood.pipeline.checks.columns import (
    check_column,
    plain_text,
    quoted,
    shortened,
    telling_columns,
)
from lancewood.pipeline.checks.kind import CheckKind, CheckWork, Finding, find_failing
from lancewood.pipeline.checks.relations import CheckedTable
from lancewood.pipeline.definition.model import AcceptedCheck
from lancewood.pipeline.definition.refusal import described, wrong
from lancewood.pipeline.frames.refusals import refused_at
from lancewood.table import check_where

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MOST_TOLD = 10


def _asked(check: AcceptedCheck) -> str:
    values = [shortened(plain_text(each)) for each in check.values[:_MOST_TOLD]]
    if len(check.values) > _MOST_TOLD:
        values.append(f"… {len(check.values):,} values in all")
    return f"{check.table}.{check.column} is one of {', '.join(values)}; null passes"


def _plan(work: CheckWork, check: AcceptedCheck) -> None:
    relation = work.relations.now(check.table, check.spot.at("table"))
    check_column(relation, check.column, check.spot.at("column"))
    try:
        check_where(relation.schema, _condition(check, check.values), check.values)
    except InvalidInputError:
        _refuse_value(relation, check)
        raise
    with refused_at(check.spot.at("column"), work.pipeline):
        _ = _failing(work, check, relation).schema


def _refuse_value(relation: CheckedTable, check: AcceptedCheck) -> None:
    """Raise InvalidInputError for the first value that does not go with the column."""
    kind = relation.schema.field(check.column).type
    for index, value in enumerate(check.values):
        try:
            check_where(relation.schema, _condition(check, (value,)), (value,))
        except InvalidInputError as misfit:
            raise wrong(
                check.spot.at("accepted", index),
                f"{described(value)} does not go with column {check.column!r}, which is {kind}",
            ) from misfit


def _judge(work: CheckWork, check: AcceptedCheck) -> Finding:
    relation = work.relations.now(check.table, check.spot.at("table"))
    return find_failing(work, relation, lambda: _failing(work, check, relation))


def _failing(work: CheckWork, check: AcceptedCheck, relation: CheckedTable) -> DataFrame:
    columns = telling_columns(relation, [check.column])
    return relation.rows(work.spark, columns, _condition(check, check.values), check.values)


def _condition(check: AcceptedCheck, values: Sequence[object]) -> str:
    return f"{quoted(check.column)} NOT IN ({', '.join('?' * len(values))})"


ACCEPTED = CheckKind("accepted", _asked, _plan, _judge)
