"""The checks of values in columns: not null, unique, one of a list, found in another table.

Executors compare while they read, so that only failing rows go any further, and only the columns
that are needed are read. As in SQL, a null passes everywhere but in ``not_null``: a row with a null
in its key equals no other, is in every list, and refers to nothing. Of a key that several rows
have, the key is kept, and how many rows have it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.types as pt

from lancewood.errors import InvalidInputError
from lancewood.pipeline.checks.kind import (
    CheckKind,
    CheckWork,
    Finding,
    find_failing,
    in_table,
)
from lancewood.pipeline.checks.tables import (
    CheckedTable,
    check_column,
    check_columns,
    identifying_columns,
    key_columns,
    plain_text,
    quoted,
    shortened,
)
from lancewood.pipeline.definition.model import (
    AcceptedCheck,
    NotNullCheck,
    ReferenceCheck,
    UniqueCheck,
)
from lancewood.pipeline.definition.names import described, wrong
from lancewood.pipeline.frames.refusals import refused_at
from lancewood.table import check_where

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_HOW_OFTEN = "rows"
_MOST_VALUES = 10


Failing: TypeAlias = "Callable[[CheckWork, Any, CheckedTable], DataFrame]"
"""The frame of the rows that fail a check of a table."""


def _judge(failing: Failing) -> Callable[[CheckWork, Any], Finding]:
    def judge(work: CheckWork, check: Any) -> Finding:
        relation = work.now(check.table, check.spot)
        weight = _how_often(check) if isinstance(check, UniqueCheck) else None
        return find_failing(work, relation, lambda: failing(work, check, relation), weight)

    return judge


def _plan(failing: Failing, key: str) -> Callable[[CheckWork, Any], None]:
    """Plan a check of a table whose columns are under a key."""

    def plan(work: CheckWork, check: Any) -> None:
        relation, spot = work.now(check.table, check.spot), check.spot.at(key)
        check_columns(relation, check.columns, spot)
        with refused_at(spot, work.pipeline):
            _ = failing(work, check, relation).schema

    return plan


def _not_null_asked(check: NotNullCheck) -> str:
    are = "is" if len(check.columns) == 1 else "are"
    return f"{in_table(check.table, check.columns)} {are} never null"


def _not_null_failing(work: CheckWork, check: NotNullCheck, relation: CheckedTable) -> DataFrame:
    where = " OR ".join(f"{quoted(each)} IS NULL" for each in check.columns)
    return relation.rows(work.spark, identifying_columns(relation, check.columns), where)


NOT_NULL = CheckKind(
    "not null", _not_null_asked, _plan(_not_null_failing, "not_null"), _judge(_not_null_failing)
)


def _unique_asked(check: UniqueCheck) -> str:
    return f"{in_table(check.table, check.columns)} is unique; nulls do not count"


def _unique_failing(work: CheckWork, check: UniqueCheck, relation: CheckedTable) -> DataFrame:
    from pyspark.sql import functions

    rows = relation.rows(work.spark, check.columns, _have_values(check.columns))
    how_often = _how_often(check)
    keys = rows.groupBy(*rows.columns).agg(functions.count("*").alias(how_often))
    return keys.where(functions.col(how_often) > 1)


def _how_often(check: UniqueCheck) -> str:
    """A name that no column of the key has, in either case of letters."""
    name, taken = _HOW_OFTEN, {each.casefold() for each in check.columns}
    while name in taken:
        name = f"{name}_"
    return name


UNIQUE = CheckKind(
    "unique", _unique_asked, _plan(_unique_failing, "unique"), _judge(_unique_failing)
)


def _accepted_asked(check: AcceptedCheck) -> str:
    values = [shortened(plain_text(each)) for each in check.values[:_MOST_VALUES]]
    if len(check.values) > _MOST_VALUES:
        values.append(f"… {len(check.values):,} values in all")
    return f"{check.table}.{check.column} is one of {', '.join(values)}; null passes"


def _plan_accepted(work: CheckWork, check: AcceptedCheck) -> None:
    relation = work.now(check.table, check.spot)
    check_column(relation, check.column, check.spot.at("column"))
    try:
        check_where(relation.schema, _none_of(check, check.values), check.values)
    except InvalidInputError:
        _refuse_value(relation, check)
        raise
    with refused_at(check.spot.at("column"), work.pipeline):
        _ = _accepted_failing(work, check, relation).schema


def _refuse_value(relation: CheckedTable, check: AcceptedCheck) -> None:
    """Raise InvalidInputError for the first value that does not go with the column."""
    kind = relation.schema.field(check.column).type
    for index, value in enumerate(check.values):
        try:
            _check_kind(value, kind)
            check_where(relation.schema, _none_of(check, (value,)), (value,))
        except InvalidInputError as misfit:
            raise wrong(
                check.spot.at("accepted", index),
                f"{described(value)} does not go with column {check.column!r}, which is {kind}",
            ) from misfit


def _check_kind(value: object, kind: pa.DataType) -> None:
    """Raise InvalidInputError for a number beside texts and the like, which SQL would convert."""
    kind = kind.value_type if pt.is_dictionary(kind) else kind
    is_number = pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind)
    if isinstance(value, bool):
        fits = pt.is_boolean(kind)
    else:
        fits = is_number if isinstance(value, int | float) else not pt.is_boolean(kind)
    if not fits:
        raise InvalidInputError(f"{value!r} is no value of {kind}")


def _accepted_failing(work: CheckWork, check: AcceptedCheck, relation: CheckedTable) -> DataFrame:
    columns = identifying_columns(relation, [check.column])
    return relation.rows(work.spark, columns, _none_of(check, check.values), check.values)


def _none_of(check: AcceptedCheck, values: Sequence[object]) -> str:
    return f"{quoted(check.column)} NOT IN ({', '.join('?' * len(values))})"


ACCEPTED = CheckKind("accepted", _accepted_asked, _plan_accepted, _judge(_accepted_failing))


def _reference_asked(check: ReferenceCheck) -> str:
    own = in_table(check.table, check.columns)
    return f"{own} is in {in_table(check.other, check.other_columns)}, or null"


def _plan_reference(work: CheckWork, check: ReferenceCheck) -> None:
    relation, other = work.now(check.table, check.spot), _other_table(work, check)
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
        _ = _reference_failing(work, check, relation).schema


def _other_table(work: CheckWork, check: ReferenceCheck) -> CheckedTable:
    return work.relations.now(check.other, check.spot.at("references", "table"))


def _reference_failing(work: CheckWork, check: ReferenceCheck, relation: CheckedTable) -> DataFrame:
    other = _other_table(work, check)
    columns = key_columns(relation, check.columns, work.pipeline)
    rows = relation.rows(work.spark, columns, _have_values(check.columns))
    referred = other.rows(work.spark, check.other_columns, _have_values(check.other_columns))
    named = zip(check.columns, check.other_columns, strict=True)
    pairs = [rows[f"`{own}`"] == referred[f"`{theirs}`"] for own, theirs in named]
    return rows.join(referred, reduce(lambda one, two: one & two, pairs), "left_anti")


def _have_values(columns: tuple[str, ...]) -> str:
    return " AND ".join(f"{quoted(each)} IS NOT NULL" for each in columns)


def _family(kind: Any) -> str:
    """What a Spark type can be compared with, without guesses."""
    from pyspark.sql.types import NumericType

    return "number" if isinstance(kind, NumericType) else str(kind.simpleString())


REFERENCES = CheckKind("references", _reference_asked, _plan_reference, _judge(_reference_failing))
