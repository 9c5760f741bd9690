"""Conditions and values that mean the same to a scan as to an engine: the verbs of a table take
them as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from lancewood.errors import InvalidInputError
from lancewood.jobs.rows.assignments import fitted_value
from lancewood.query.kinds import cast_to
from lancewood.query.predicates import Condition, Conditions, Constants
from lancewood.query.settings import Settings
from lancewood.query.statements.model import Assignment, Path
from lancewood.query.statements.queries import path_in
from lancewood.query.text import parse_query


@dataclass(frozen=True)
class PlainValues:
    """What ``Table.update`` takes."""

    set: Mapping[str, str]
    parameters: Mapping[str, Any]

    @property
    def structs(self) -> frozenset[str]:
        """The columns of which only fields are set."""
        return frozenset(each.partition(".")[0] for each in self.set if "." in each)


def plain_condition(
    where: str | None, exposed: str, table: pa.Schema, settings: Settings
) -> Condition | None:
    """The condition for a scan; None where it may mean something else there."""
    if where is None:
        return Condition("true")
    query = parse_query(f"SELECT 1 WHERE ({where}\n)", settings)
    if query.is_piped or query.has_long_comment:
        return None

    def field_of(node: Any) -> pa.Field | None:
        if type(node).__name__ != "Column" or node.is_star:
            return None
        parts = [str(each.name) for each in node.parts]
        if len(parts) == 2 and settings.folded(parts[0]) != settings.folded(exposed):
            return None
        name = settings.find(parts[-1], table.names) if len(parts) <= 2 else None
        return None if name is None else table.field(name)

    constants = Constants(settings, query.unsure)
    return Conditions(field_of, constants).translate(query.tree.args["where"].this)


def plain_values(
    assignments: Sequence[Assignment], table: pa.Schema, settings: Settings
) -> PlainValues | None:
    """The constants that columns are set to; None where one is no constant of the column's type.
    Raises InvalidInputError for a column that is not there, and for a constant that it cannot hold
    as it is."""
    found: dict[str, str] = {}
    parameters: dict[str, Any] = {}
    for each in assignments:
        path = path_in(each.path, table, settings)
        name, field = ".".join(path), _at(path, table)
        if name in found or any("." in part for part in path):
            return None
        query = parse_query(f"SELECT {each.value}", settings)
        node = query.tree.expressions[0].unalias().unnest()
        if type(node).__name__ == "Null":
            found[name] = "NULL"
            continue
        value = Constants(settings, query.unsure).for_type(node, field.type)
        if value is None:
            return None
        _check_fits(name, value, each.value, field.type)
        found[name] = f":v{len(parameters)}"
        parameters[f"v{len(parameters)}"] = value
    return PlainValues(found, parameters)


def _check_fits(name: str, value: Any, written: str, kind: pa.DataType) -> None:
    """Raise InvalidInputError for an exact constant that would be another one in the column."""
    if isinstance(value, pa.Scalar):
        return  # a float, and the nearest one is meant
    try:
        fitted_value(value, kind)
    except InvalidInputError as cause:
        instead = "write one that fits, or change the type of the column with ALTER TABLE"
        if isinstance(value, Decimal):
            instead = f"write {cast_to(kind, written)}, to say what it should become"
        raise InvalidInputError(
            f"column {name!r} is {kind}, and {written} is no value of it: {instead}", column=name
        ) from cause


def _at(path: Path, table: pa.Schema) -> pa.Field:
    """The column, or the field of a struct, at a path."""
    field = table.field(path[0])
    for part in path[1:]:
        field = field.type.field(part)
    return field
