"""What was written, as a small tree without sqlglot's classes.

Operators, functions and special forms are all a ``Call`` by name. Nothing here is checked: names
may not exist and types may not fit; ``check`` finds out. ``start`` is the position in the text,
None where sqlglot did not keep it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa


class NamePart(NamedTuple):
    """One word of a dotted name, and whether it was quoted."""

    name: str
    quoted: bool


@dataclass(frozen=True, slots=True)
class Name:
    """A column, or a field inside one: ``a.b.c``."""

    parts: tuple[NamePart, ...]
    start: int | None


@dataclass(frozen=True, slots=True)
class Constant:
    """A value in the text: None, bool, int, Decimal, float, str, bytes or timedelta."""

    value: Any


@dataclass(frozen=True, slots=True)
class Months:
    """An interval of calendar months, which has no fixed length."""

    count: int


@dataclass(frozen=True, slots=True)
class Parameter:
    """``:name``, ``$name``, ``$1`` or ``?``; positions count from 0."""

    key: str | int
    start: int | None


@dataclass(frozen=True, slots=True)
class Call:
    """An operator or function by its lower-case name."""

    name: str
    args: tuple[Syntax, ...]
    start: int | None


@dataclass(frozen=True, slots=True)
class Member:
    """``value.field``, where the value is not a plain name."""

    value: Syntax
    part: NamePart
    start: int | None


@dataclass(frozen=True, slots=True)
class CaseWhen:
    """CASE with conditions; the form with an operand has become equalities."""

    branches: tuple[tuple[Syntax, Syntax], ...]
    otherwise: Syntax
    start: int | None


@dataclass(frozen=True, slots=True)
class CastTo:
    """CAST, TRY_CAST, or a typed text such as DATE '2024-01-31'."""

    value: Syntax
    type: pa.DataType
    strict: bool
    start: int | None


Syntax = Name | Constant | Months | Parameter | Call | Member | CaseWhen | CastTo


def place(sql: str, start: int | None) -> tuple[str, dict[str, Any]]:
    """A position in a text, for a message and as facts for an error."""
    if start is None:
        return "", {"sql": sql}
    line = sql.count("\n", 0, start) + 1
    column = start - sql.rfind("\n", 0, start)
    return f" at line {line}, column {column}", {"sql": sql, "line": line, "column": column}
