"""Which columns a read needs and returns, from names and SQL that callers give, checked.

A name may be dotted to mean a field inside a struct; the result then keeps the struct with that
field only. A mapping gives each output column an SQL expression. The system columns, which every
row has without being stored, are defined here too. Reads nothing.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

import pyarrow as pa

from lancewood.engine.base import as_list
from lancewood.errors import InvalidInputError
from lancewood.expr import Expression, parse_expression
from lancewood.expr import Parameters as Parameters
from lancewood.format.schema import check_encodable, to_scan_schema
from lancewood.model.schema import ROW_ADDRESS, ROW_ID, SYSTEM_COLUMNS, Field, Schema

Columns: TypeAlias = Sequence[str] | Mapping[str, str] | None
"""Names, or SQL expressions by output name; None means all stored columns."""
Path: TypeAlias = tuple[str, ...]

_MOST_SHOWN = 100


def system_field(name: str) -> pa.Field:
    """The Arrow field of a column that is not stored."""
    return pa.field(name, pa.uint64())


def row_schema(schema: Schema) -> pa.Schema:
    """What SQL text may refer to: the stored columns and the system columns."""
    return pa.schema([*to_scan_schema(schema), *map(system_field, SYSTEM_COLUMNS)])


@dataclass(frozen=True)
class Projection:
    """What a read returns, and the stored columns that it needs."""

    stored: Schema
    names: tuple[str, ...]
    """The output names in order; system columns by their reserved names."""
    computed: Mapping[str, Expression] = field(default_factory=dict)
    """The computed columns, by output name."""
    paths: tuple[Path, ...] = ()
    """The stored columns and fields to read."""

    @cached_property
    def system(self) -> tuple[str, ...]:
        """The system columns that are needed."""
        needed = {each for each in self.names if each not in self.computed}
        needed.update(*(each.columns for each in self.computed.values()))
        return tuple(each for each in SYSTEM_COLUMNS if each in needed)

    def arrow_schema(self) -> pa.Schema:
        """The schema of the batches that the read returns."""
        stored = to_scan_schema(self.stored)
        fields = []
        for name in self.names:
            if name in self.computed:
                fields.append(_computed_field(name, self.computed[name], stored))
            else:
                fields.append(system_field(name) if name in SYSTEM_COLUMNS else stored.field(name))
        return pa.schema(fields, metadata=stored.metadata)


def project(
    schema: Schema,
    columns: Columns,
    *,
    with_row_id: bool = False,
    with_row_address: bool = False,
    parameters: Parameters = None,
    rows: pa.Schema | None = None,
) -> Projection:
    """The projection for the requested columns.

    ``rows`` is the ``row_schema``, if the caller has it. Raises InvalidInputError naming an unknown
    or repeated column, or the expression that is wrong.
    """
    added = [
        name for name, asked in ((ROW_ID, with_row_id), (ROW_ADDRESS, with_row_address)) if asked
    ]
    if isinstance(columns, Mapping):
        rows = row_schema(schema) if rows is None else rows
        return _compute(schema, columns, added, parameters, rows)
    wanted = list(schema.names if columns is None else checked_names(columns))
    wanted += [name for name in added if name not in wanted]
    paths: list[Path] = []
    names: dict[str, None] = {}
    for name in wanted:
        if name not in SYSTEM_COLUMNS:
            paths.append(_path(schema, name))
            name = paths[-1][0]
        names[name] = None
    return Projection(cut_schema(schema, paths), tuple(names), {}, tuple(paths))


def project_path(schema: Schema, path: Path) -> Projection:
    """The projection for one stored column or field, whatever dots its names have."""
    return Projection(cut_schema(schema, [path]), path[:1], {}, (path,))


def cut_schema(schema: Schema, paths: Iterable[Path]) -> Schema:
    """The columns that the paths begin with, each with only the fields that are named below it."""
    picks: dict[str, list[Path]] = {}
    for path in paths:
        picks.setdefault(path[0], []).append(path[1:])
    stored = tuple(_cut(schema.by_name[top], below) for top, below in picks.items())
    return Schema(stored, schema.metadata)


def stored_paths(expression: Expression) -> list[Path]:
    """The stored columns and fields that an expression reads."""
    return [each for each in expression.paths if each[0] not in SYSTEM_COLUMNS]


def unknown_column(schema: Schema, name: str, known: Sequence[str]) -> InvalidInputError:
    """The error for an unknown column; ``known`` are the names that may have been meant."""
    close = difflib.get_close_matches(name, known[:_MOST_SHOWN], n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    shown = ", ".join(schema.names[:_MOST_SHOWN]) + (
        ", …" if len(schema.names) > _MOST_SHOWN else ""
    )
    return InvalidInputError(
        f"column {name!r} not found: the table has {shown or 'no columns'}{hint}", column=name
    )


def _compute(
    schema: Schema,
    columns: Mapping[str, str],
    added: Sequence[str],
    parameters: Parameters,
    rows: pa.Schema,
) -> Projection:
    named = parameters if isinstance(parameters, Mapping) else None
    computed: dict[str, Expression] = {}
    for name, sql in columns.items():
        if not isinstance(name, str) or not name or not isinstance(sql, str):
            raise InvalidInputError(
                f"columns takes names with SQL text as their values, it holds {name!r}: {sql!r}"
            )
        check_encodable(name)
        try:
            found = parse_expression(sql, rows, named)
        except InvalidInputError as cause:
            listed = parameters is not None and named is None
            hint = "; a list of parameters is for where, columns take them by name" * listed
            raise InvalidInputError(
                f"column {name!r}: {cause}{hint}", **{**cause.facts, "column": name}
            ) from cause
        if name in SYSTEM_COLUMNS and found.column != (name,):
            raise InvalidInputError(
                f"a computed column cannot be called {name!r}: every row has a column of that name"
            )
        computed[name] = found
    names = dict.fromkeys((*computed, *added))
    paths = [path for each in computed.values() for path in stored_paths(each)]
    return Projection(cut_schema(schema, paths), tuple(names), computed, tuple(paths))


def _computed_field(name: str, expression: Expression, stored: pa.Schema) -> pa.Field:
    """The field of an expression; a renamed column keeps its field, metadata included."""
    column = expression.column
    if column is not None and len(column) == 1 and column[0] not in SYSTEM_COLUMNS:
        return stored.field(column[0]).with_name(name)
    return pa.field(name, expression.type)


def checked_names(columns: Iterable[str]) -> list[str]:
    """The names as a list; raises InvalidInputError for what is no list of different names."""
    names = as_list("columns", columns)
    for name in names:
        if not isinstance(name, str):
            raise InvalidInputError(f"columns takes a list of names, it holds {name!r}")
    (most, times), *_ = [*Counter(names).most_common(1), ("", 0)]
    if times > 1:
        raise InvalidInputError(f"column {most!r} is asked for twice")
    return names


def _path(schema: Schema, name: str) -> Path:
    if name in schema.by_name:
        return (name,)
    parts = tuple(name.split("."))
    found = schema.by_name.get(parts[0])
    for part in parts[1:]:
        is_struct = found is not None and found.logical_type == "struct" and not found.is_blob
        below = found.children if found is not None and is_struct else ()
        found = next((each for each in below if each.name == part), None)
    if found is None:
        raise unknown_column(schema, name, schema.names)
    return parts


def _cut(field: Field, paths: list[Path]) -> Field:
    """The field with only the children that the paths name; all of them for an empty path."""
    if field.is_blob or any(not path for path in paths):
        return field
    kept = []
    for child in field.children:
        below = [path[1:] for path in paths if path[0] == child.name]
        if below:
            kept.append(_cut(child, below))
    return replace(field, children=tuple(kept))
