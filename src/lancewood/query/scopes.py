"""What a column's name means at a position of a query, as Spark looks it up.

Every relation gets a generated name in DuckDB's SQL, and its columns are ``c0``, ``c1`` and so on,
so that DuckDB resolves no names itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import Enum, auto
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from lancewood.errors import InvalidInputError
from lancewood.query.typed import Typed, only_spark, quoted

_MOST_LISTED = 20


@dataclass(frozen=True)
class ScopeColumn:
    """A column of a relation: its name, and its expression in DuckDB's SQL."""

    name: str
    sql: str | None
    """None for a column that is not read."""
    kind: pa.DataType | None
    """None for a type that DuckDB cannot take."""

    def value(self) -> Typed:
        """The column as a value; raises UnsupportedError where DuckDB cannot take it,
        NotReadError."""
        if self.kind is None:
            raise only_spark(f"column {self.name!r}", "DuckDB does not have its type")
        if self.sql is None:
            raise NotReadError(self.name)
        return Typed(self.sql, self.kind)

    def of(self, relation: str) -> ScopeColumn:
        """The same column, of a relation under a generated name."""
        return ScopeColumn(
            self.name, None if self.sql is None else f"{relation}.{self.sql}", self.kind
        )


class NotReadError(Exception):
    """A query needs a column that is not read; the query is then run over whole tables."""


@dataclass(frozen=True)
class FromSource:
    """A relation in FROM, under the name that may qualify its columns."""

    name: str | None
    columns: Sequence[ScopeColumn]


class Aliases(Enum):
    """Whether a name may be that of an expression in SELECT."""

    NEVER = auto()
    LAST = auto()
    FIRST = auto()


@dataclass
class Scope:
    """The relations of one SELECT, and those around it."""

    sources: list[FromSource] = field(default_factory=list)
    merged: list[ScopeColumn] = field(default_factory=list)
    """Columns of USING and NATURAL, one for both sides."""
    outer: Scope | None = None
    aliases: dict[str, Typed | None] = field(default_factory=dict)
    """Expressions of SELECT by name; None where two have the same."""

    def star(self, name: str | None = None) -> list[ScopeColumn]:
        """The columns that a star means."""
        if name is not None:
            found = [each for each in self.sources if _same(each.name, name)]
            if not found:
                raise InvalidInputError(f"{name}.* names no table of this FROM")
            return [column for each in found for column in each.columns]
        once = {each.name.lower() for each in self.merged}
        rest = (column for each in self.sources for column in each.columns)
        return [*self.merged, *(each for each in rest if each.name.lower() not in once)]

    def has(self, parts: Sequence[str]) -> bool:
        """Whether a relation of this SELECT has such a column."""
        return self._local(parts) is not None

    def find(self, parts: Sequence[str], aliases: Aliases) -> tuple[Typed, bool]:
        """What a dotted name means, and whether it is a column of this SELECT's relations.

        Raises InvalidInputError for a name that is unknown or ambiguous.
        """
        wanted = parts[0].lower()
        alias = self.aliases.get(wanted) if aliases is not Aliases.NEVER else None
        if aliases is Aliases.FIRST and wanted in self.aliases:
            if alias is None:
                raise InvalidInputError(f"two columns of SELECT are called {parts[0]!r}")
            if len(parts) == 1 or not any(_same(each.name, parts[0]) for each in self.sources):
                return _below(alias, parts[1:]), False
        scope: Scope | None = self
        while scope is not None:
            found = scope._local(parts)
            if found is not None:
                return found, scope is self
            if scope is self and alias is not None:
                return _below(alias, parts[1:]), False
            scope = scope.outer
        raise self._unknown(parts)

    def check_having(self, having: Any, keys: Mapping[str, str]) -> None:
        """Raise UnsupportedError for a name that is both a grouping key and an alias."""
        for node in having.walk():
            is_name = type(node).__name__ == "Column" and len(node.parts) == 1
            name = str(node.name) if is_name else ""
            alias = self.aliases.get(name.lower())
            if alias is None or not self.has([name]):
                continue
            column, _ = self.find([name], Aliases.NEVER)
            if keys.get(column.sql, alias.sql) != alias.sql:
                raise only_spark(
                    f"HAVING with {name!r}", "it names two columns; rename one of them"
                )

    def _local(self, parts: Sequence[str]) -> Typed | None:
        if len(parts) > 1:
            named = [each for each in self.sources if _same(each.name, parts[0])]
            found = [c for each in named for c in each.columns if _same(c.name, parts[1])]
            if found:
                return _below(_only(found, parts).value(), parts[2:])
        merged = [each for each in self.merged if _same(each.name, parts[0])]
        found = merged or [
            c for each in self.sources for c in each.columns if _same(c.name, parts[0])
        ]
        return _below(_only(found, parts).value(), parts[1:]) if found else None

    def _unknown(self, parts: Sequence[str]) -> InvalidInputError:
        known = list(dict.fromkeys(self._known()))
        near = get_close_matches(parts[-1], known, n=1)
        more = f" and {len(known) - _MOST_LISTED} more" if len(known) > _MOST_LISTED else ""
        listed = ", ".join(known[:_MOST_LISTED]) or "no columns"
        hint = f"; did you mean {near[0]!r}?" if near else ""
        name = ".".join(parts)
        return InvalidInputError(
            f"column {name!r} not found: there are {listed}{more}{hint}", column=name
        )

    def _known(self) -> Iterator[str]:
        scope: Scope | None = self
        while scope is not None:
            yield from (column.name for each in scope.sources for column in each.columns)
            scope = scope.outer


def _same(one: str | None, two: str) -> bool:
    return one is not None and one.lower() == two.lower()


def _only(found: Sequence[ScopeColumn], parts: Sequence[str]) -> ScopeColumn:
    if len(found) > 1:
        name = ".".join(parts)
        raise InvalidInputError(
            f"column {name!r} is ambiguous: {len(found)} columns here have that name; write the "
            "table's name before it",
            column=name,
        )
    return found[0]


def _below(value: Typed, names: Sequence[str]) -> Typed:
    """A field inside a struct."""
    for name in names:
        fields = value.kind if pt.is_struct(value.kind) else ()
        found = [each for each in fields if _same(each.name, name)]
        if len(found) != 1:
            raise InvalidInputError(f"{name!r} is no field of {value.kind}", column=name)
        value = Typed(f"struct_extract({value.sql}, {quoted(found[0].name)})", found[0].type)
    return value
