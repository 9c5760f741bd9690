"""Columns of a table that checks name, and those that tell people which row is meant.

Pure: looks at schemas.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from lancewood.errors import UnsupportedError
from lancewood.pipeline.checks.relations import Relation
from lancewood.pipeline.checks.value_kinds import is_small, may_not_fit
from lancewood.pipeline.definition.model import Mode, Pipeline, Spot
from lancewood.pipeline.definition.refusal import near, wrong
from lancewood.spark.types import spark_schema

_MOST_COLUMNS = 32
"""So many columns of a failing row are kept besides those that the check is about."""


def check_columns(relation: Relation, columns: Iterable[str], spot: Spot) -> None:
    """Raise InvalidInputError for a name that no column has; ``spot`` is that of their list."""
    for index, each in enumerate(columns):
        check_column(relation, each, spot.at(index))


def check_column(relation: Relation, column: str, spot: Spot) -> None:
    """Raise InvalidInputError for a name that no column has."""
    if column not in relation.schema.names:
        raise wrong(
            spot,
            f"table {relation.name!r} has no column {column!r}: "
            f"{near(column, relation.schema.names)}",
        )


def telling_columns(relation: Relation, checked: Iterable[str]) -> list[str]:
    """The checked columns and the small ones of the table, in its order, as far as Spark can have
    them: a value that is only shown must not keep a check from being made."""
    asked = set(checked)
    wanted = {each.name for each in relation.schema if each.name in asked and is_safe(each)}
    small = [each.name for each in relation.schema if each.name not in asked and is_told(each)]
    wanted.update(small[:_MOST_COLUMNS])
    return [each for each in relation.schema.names if each in (wanted or asked)]


def key_columns(relation: Relation, checked: Iterable[str], pipeline: Pipeline) -> list[str]:
    """The checked columns and the keys of the table, in its order: what merges go by, and where
    there are none the first small column."""
    wanted = set(checked)
    keys = [
        name
        for target in pipeline.targets
        if target.table == relation.name and target.mode is Mode.MERGE
        for name in target.on
        if name in relation.schema.names
    ]
    if not keys:
        keys = [each.name for each in relation.schema if is_told(each)][:1]
    wanted.update(keys)
    return [each for each in relation.schema.names if each in wanted]


def is_told(field: pa.Field) -> bool:
    """Whether a column is shown although nobody asks for it: small, and safe to be read."""
    return is_small(field.type) and is_safe(field)


def is_safe(field: pa.Field) -> bool:
    """Whether Spark has the type of a column and, for all we know, room for each of its values."""
    return is_readable(field) and not may_not_fit(field.type)


def is_readable(field: pa.Field) -> bool:
    """Whether Spark has the type of a column."""
    try:
        spark_schema(pa.schema([field]))
    except UnsupportedError:
        return False
    return True


def quoted(column: str) -> str:
    """A name in the engine's dialect."""
    return '"' + column.replace('"', '""') + '"'
