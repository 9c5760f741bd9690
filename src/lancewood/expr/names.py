"""From names in SQL text to columns and fields of an Arrow schema.

A name is taken exactly as written; an unquoted one that has no exact match may differ in case, if
only one name does.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.types as pt

from lancewood.errors import InvalidInputError
from lancewood.expr.nodes import Column
from lancewood.expr.syntax import NamePart


def resolve_column(parts: Sequence[NamePart], schema: pa.Schema) -> Column:
    """The column or field that a dotted name means; raises InvalidInputError naming what there
    is."""
    first, *rest = parts
    index = _find(first, schema.names, "column", "the table")
    field = schema.field(index)
    column = Column((field.name,), field.type)
    for part in rest:
        column = resolve_field(column, part)
    return column


def resolve_field(column: Column, part: NamePart) -> Column:
    """The field of a struct column."""
    name, index = find_field(column.type, part, f"column {'.'.join(column.path)!r}")
    return Column((*column.path, name), column.type.field(index).type)


def find_field(type_: pa.DataType, part: NamePart, owner: str) -> tuple[str, int]:
    """Name and index of a struct's field; raises InvalidInputError if it is no struct or has
    none."""
    if not pt.is_struct(type_):
        raise InvalidInputError(
            f"{owner} is of type {type_}, not a struct: it has no field {part.name!r}"
        )
    names = [field.name for field in type_]
    index = _find(part, names, "field", owner)
    return names[index], index


def _find(part: NamePart, names: Sequence[str], kind: str, owner: str) -> int:
    matches = [index for index, name in enumerate(names) if name == part.name]
    if not matches and not part.quoted:
        folded = part.name.casefold()
        matches = [index for index, name in enumerate(names) if name.casefold() == folded]
    if len(matches) == 1:
        return matches[0]
    if matches:
        found = ", ".join(repr(names[index]) for index in matches)
        raise InvalidInputError(
            f"{kind} {part.name!r} of {owner} is ambiguous: it could be {found}; "
            "write it in double quotes exactly as it is"
        )
    raise InvalidInputError(
        f"{owner} has no {kind} {part.name!r}{_way_out(part.name, names, kind)} "
        f"{_list(kind, names)}",
        name=part.name,
        names=list(names),
    )


def _way_out(name: str, names: Sequence[str], kind: str) -> str:
    folded = {each.casefold(): each for each in names}
    near = difflib.get_close_matches(name.casefold(), folded, n=1)
    if near:
        return f", did you mean {folded[near[0]]!r}?"
    return "; a text stands in single quotes." if kind == "column" else "."


def _list(kind: str, names: Sequence[str]) -> str:
    own = [each for each in names if not each.startswith("_row")]
    if not own:
        return f"It has no {kind}s"
    more = f" and {len(own) - 30} more" if len(own) > 30 else ""
    return f"Its {kind}s are {', '.join(map(repr, own[:30]))}{more}"
