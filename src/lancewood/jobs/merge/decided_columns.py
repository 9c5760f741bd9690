"""Which columns of decisions give values to the merged table, and which only show the conflicts.

Decisions may carry along all that a list of conflicts shows: ``_kind``, ``_rowid``, ``_columns``,
``key`` and the three sides, which are structs, or in CSV a column for each field, as
``ours.label``. A column of the table may have one of these names. What is in the column then tells
the two apart, and what could be either is refused. ``merged.base`` always is a value for ``base``:
no column of a table has a dot in its name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lancewood.errors import InvalidInputError
from lancewood.jobs.merge.conflicts import COLUMNS, CONFLICT, KEY, KIND, KINDS, SIDES
from lancewood.model.schema import ROW_ID

TAKE = "take"
_VALUE = "merged"
_WHOLE = (KEY, *SIDES)
"""Shown as structs, or field by field."""
_SHOWN = (KIND, ROW_ID, COLUMNS, *_WHOLE)


def named_value(column: str) -> str:
    """The name of a column of decisions that certainly gives values to ``column``."""
    return f"{_VALUE}.{column}" if column in (CONFLICT, TAKE, *_SHOWN) else column


def value_columns(decisions: pa.Table) -> dict[str, str]:
    """The columns of decisions that certainly give values, by the table's columns that they are
    for."""
    found: dict[str, str] = {}
    for name in decisions.schema.names:
        if name in (CONFLICT, TAKE, *_SHOWN):
            continue
        column = name.removeprefix(f"{_VALUE}.")
        if column in found:
            raise InvalidInputError(
                f"decisions give values for {column!r} twice, as {found[column]!r} and {name!r}",
                column=column,
            )
        found[column] = name
    return found


def without_listing(decisions: pa.Table) -> pa.Table:
    """Decisions without the columns that show conflicts for certain, whatever the table is called:
    ``ours.label`` and the like, and, where a whole list of conflicts came along, its columns."""
    fields = [each.partition(".") for each in decisions.schema.names]
    flat = [f"{whole}.{field}" for whole, dot, field in fields if dot and whole in _WHOLE]
    listed = _listed_columns(decisions)
    whole = [
        name
        for name in (() if listed is None else _present(decisions))
        if _looks_shown(name, decisions.column(name), listed) <= {True}
    ]
    return decisions.drop_columns([*flat, *whole])


def told_apart(decisions: pa.Table, columns: pa.Schema) -> pa.Table:
    """Decisions in which all columns but ``_conflict`` and ``take`` give values; ``columns`` are
    those of the merged table.

    Raises InvalidInputError for a column that may show the conflicts as well as give values.
    """
    for name in _present(decisions):
        at = decisions.schema.get_field_index(name)
        if name in columns.names and _gives_values(name, decisions.column(name), columns):
            names = decisions.schema.names
            decisions = decisions.rename_columns([*names[:at], named_value(name), *names[at + 1 :]])
        else:
            decisions = decisions.remove_column(at)
    return that_decide(decisions)


def that_decide(decisions: pa.Table) -> pa.Table:
    """The rows with a side or a value."""
    return decisions.filter(_any_valid(decisions, decisions.schema.names, len(decisions)))


def names_decided(decisions: pa.Table) -> frozenset[str]:
    """The conflicts that are decided, before it is known which columns the table has."""
    certain = [
        name
        for name in _present(decisions)
        if _looks_shown(name, decisions.column(name), None) == {False}
    ]
    certain += [TAKE] if TAKE in decisions.schema.names else []
    names = [*certain, *value_columns(decisions).values()]
    found = decisions.filter(_any_valid(decisions, names, len(decisions)))
    return frozenset(found.column(CONFLICT).to_pylist())


def _any_valid(decisions: pa.Table, names: Iterable[str], rows: int) -> Any:
    valid = [decisions.column(name).is_valid() for name in names if name != CONFLICT]
    return reduce(pc.or_, valid) if valid else pa.repeat(False, rows)


def _present(decisions: pa.Table) -> list[str]:
    return [name for name in _SHOWN if name in decisions.schema.names]


def _listed_columns(decisions: pa.Table) -> set[str] | None:
    """The columns of the table as a whole list of conflicts has them, alike on all sides; None if
    it did not come along."""
    names = decisions.schema.names
    if KIND not in names or COLUMNS not in names:
        return None
    found = set[str]()
    for side in SIDES:
        flat = {each.removeprefix(f"{side}.") for each in names if each.startswith(f"{side}.")}
        if not flat and side in names:
            kind = decisions.schema.field(side).type
            if pt.is_null(kind):  # no row has this side
                continue
            flat = {each.name for each in kind} if pt.is_struct(kind) else set()
        if not flat or flat != (found or flat):
            return None
        found = flat
    return found


def _gives_values(name: str, column: Any, columns: pa.Schema) -> bool:
    """Whether values are given to the table's column of that name; raises InvalidInputError if the
    conflicts may be shown as well."""
    looks = _looks_shown(name, column, columns.names)
    if True not in looks:
        return True
    if looks == {True} and not _may_hold(columns.field(name).type, column.type):
        return False
    raise InvalidInputError(
        f"column {name!r} of the decisions may be what conflicts are shown with, or values for the "
        f"column {name!r} of the table: write values as {named_value(name)!r}, and leave "
        f"{name!r} out, or as it was shown",
        column=name,
    )


def _may_hold(target: pa.DataType, given: pa.DataType) -> bool:
    """Whether a column may get values of a type that conflicts are shown with."""
    target, given = _plain(target), _plain(given)
    is_nested = pt.is_nested(target)
    if pt.is_struct(given):
        return bool(pt.is_struct(target))
    if _is_text(given):  # a nested value may be written as JSON
        return bool(is_nested or _is_text(target))
    return bool(is_nested and pt.is_nested(given))


def _looks_shown(name: str, column: Any, columns: Collection[str] | None) -> set[bool]:
    """Whether the values in a column are as conflicts are shown with: for some, for others, or
    both. ``columns`` are those of the table; None stands for any."""
    if pt.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    column = column.drop_null()
    if not len(column):
        return set()
    if name == ROW_ID:
        return {True}
    if name in _WHOLE and pt.is_struct(kind):
        return {_are_columns((each.name for each in kind), columns)}
    if name == COLUMNS and pt.is_list(kind):
        parts = pc.list_flatten(column)
        return {_are_columns(parts.to_pylist(), columns) if _is_text(parts.type) else False}
    if not _is_text(kind):
        return {False}
    return {_is_shown_text(name, text, columns) for text in pc.unique(column).to_pylist()}


def _is_shown_text(name: str, text: str, columns: Collection[str] | None) -> bool:
    if name == KIND:
        return text in KINDS
    if name == COLUMNS:
        return _are_columns(text.split(", ") if text else (), columns)
    is_object = text.startswith("{") and text.endswith("}")
    return is_object and (columns is None or any(each in text for each in columns))


def _are_columns(names: Iterable[str | None], columns: Collection[str] | None) -> bool:
    """Whether these are columns of the table, or fields in them as a key may have them."""
    if columns is None:
        return True
    return all(each is not None and each.partition(".")[0] in columns for each in names)


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pt.is_dictionary(kind) else kind


def _is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind))
