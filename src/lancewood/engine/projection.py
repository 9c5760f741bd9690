"""Which columns a read needs: names that people give, turned into fields of the schema.

Column names may be dotted to name a field inside a struct; the result then keeps the struct with
that field only. The columns that every row has without being stored are known here too.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lancewood.errors import InvalidInputError
from lancewood.format.arrow import to_arrow_schema
from lancewood.model.schema import ROW_ADDRESS, ROW_ID, SYSTEM_COLUMNS, Field, Schema


def system_field(name: str) -> pa.Field:
    """The Arrow field of a column that is not stored."""
    return pa.field(name, pa.uint64())


@dataclass(frozen=True)
class Projection:
    """What a read gives back: stored columns, system columns, and their order."""

    stored: Schema
    names: tuple[str, ...]
    """Output order; system columns by their reserved names."""

    @property
    def system(self) -> tuple[str, ...]:
        return tuple(each for each in self.names if each in SYSTEM_COLUMNS)

    def arrow_schema(self) -> pa.Schema:
        """The schema of the batches that the read gives."""
        stored = to_arrow_schema(self.stored)
        fields = [
            system_field(each) if each in SYSTEM_COLUMNS else stored.field(each)
            for each in self.names
        ]
        return pa.schema(fields, metadata=stored.metadata)


def project(
    schema: Schema,
    columns: Sequence[str] | None,
    *,
    with_row_id: bool = False,
    with_row_address: bool = False,
) -> Projection:
    """The projection for the columns asked for (None: all stored ones).

    Raises InvalidInputError naming an unknown or repeated column.
    """
    wanted = list(schema.names if columns is None else _checked(columns))
    for name, asked in ((ROW_ID, with_row_id), (ROW_ADDRESS, with_row_address)):
        if asked and name not in wanted:
            wanted.append(name)
    picks: dict[str, list[tuple[str, ...]]] = {}
    order: list[str] = []
    for name in wanted:
        if name in SYSTEM_COLUMNS:
            order.append(name)
            continue
        path = _path(schema, name)
        if path[0] not in picks:
            order.append(path[0])
        picks.setdefault(path[0], []).append(path[1:])
    tops = {each.name: each for each in schema.fields}
    stored = tuple(_cut(tops[top], paths) for top, paths in picks.items())
    return Projection(Schema(stored, schema.metadata), tuple(order))


def _checked(columns: Sequence[str]) -> Sequence[str]:
    if isinstance(columns, str):
        raise InvalidInputError(f"columns takes a list of names, the text {columns!r} was given")
    for name in columns:
        if not isinstance(name, str):
            raise InvalidInputError(f"columns takes a list of names, it holds {name!r}")
    repeated = sorted({each for each in columns if list(columns).count(each) > 1})
    if repeated:
        raise InvalidInputError(f"column {repeated[0]!r} is asked for twice")
    return columns


def _path(schema: Schema, name: str) -> tuple[str, ...]:
    if name in schema.names:
        return (name,)
    parts = tuple(name.split("."))
    fields: Sequence[Field] = schema.fields
    for part in parts:
        found = next((each for each in fields if each.name == part), None)
        if found is None:
            close = difflib.get_close_matches(name, schema.names, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise InvalidInputError(
                f"column {name!r} not found: the table has {', '.join(schema.names)}{hint}",
                column=name,
            )
        fields = found.children if found.logical_type == "struct" else ()
    return parts


def _cut(field: Field, paths: list[tuple[str, ...]]) -> Field:
    """The field with only the children that the paths name; all of them for an empty path."""
    if any(not path for path in paths):
        return field
    kept = []
    for child in field.children:
        below = [path[1:] for path in paths if path[0] == child.name]
        if below:
            kept.append(_cut(child, below))
    return replace(field, children=tuple(kept))
