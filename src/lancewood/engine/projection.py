"""Which columns a read needs: names that people give, turned into fields of the schema.

Column names may be dotted to name a field inside a struct; the result then keeps the struct with
that field only. The columns that every row has without being stored are known here too.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lancewood.engine.limits import as_list
from lancewood.errors import InvalidInputError
from lancewood.format.arrow import to_arrow_schema
from lancewood.model.schema import ROW_ADDRESS, ROW_ID, SYSTEM_COLUMNS, Field, Schema

_MOST_SHOWN = 100


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
    stored = tuple(_cut(schema.by_name[top], paths) for top, paths in picks.items())
    return Projection(Schema(stored, schema.metadata), tuple(order))


def _checked(columns: Sequence[str]) -> list[str]:
    names = as_list("columns", columns)
    for name in names:
        if not isinstance(name, str):
            raise InvalidInputError(f"columns takes a list of names, it holds {name!r}")
    (most, times), *_ = [*Counter(names).most_common(1), ("", 0)]
    if times > 1:
        raise InvalidInputError(f"column {most!r} is asked for twice")
    return names


def _path(schema: Schema, name: str) -> tuple[str, ...]:
    if name in schema.by_name:
        return (name,)
    parts = tuple(name.split("."))
    found = schema.by_name.get(parts[0])
    for part in parts[1:]:
        below = found.children if found is not None and found.logical_type == "struct" else ()
        found = next((each for each in below if each.name == part), None)
    if found is None:
        close = difflib.get_close_matches(name, schema.names[:_MOST_SHOWN], n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        shown = ", ".join(schema.names[:_MOST_SHOWN]) + (
            ", …" if len(schema.names) > _MOST_SHOWN else ""
        )
        raise InvalidInputError(
            f"column {name!r} not found: the table has {shown or 'no columns'}{hint}", column=name
        )
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
