"""From the text of a query to versions of tables; needs no Spark.

What only a session can answer is asked of its ``Surroundings``: the time that an expression means,
and whether a name that is not ours is one of the session's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from lancewood.engine.snapshot import Snapshot
from lancewood.errors import InvalidInputError
from lancewood.jobs.diff import DiffRequest, DiffRows
from lancewood.query.names import Call, Readable, TableDiff, sees, state_lines
from lancewood.query.sources import Sources
from lancewood.query.tokens import version_number
from lancewood.spark.dialect.names import AsOf, Occurrence, occurrences
from lancewood.spark.dialect.settings import Settings
from lancewood.spark.dialect.text import Query, parse_query
from lancewood.table.diffs import Diff


class Surroundings(Protocol):
    """What a session knows besides our tables."""

    def moment(self, expression: str) -> datetime:
        """The time that an SQL expression means; raises InvalidInputError."""
        ...

    def has_table(self, name: str) -> bool:
        """Whether the session has a table or view of that name."""
        ...


@dataclass(frozen=True)
class QueryPlan:
    """A query, and the versions that it names."""

    query: Query
    settings: Settings
    versions: Mapping[Occurrence, Readable]

    def sees(self, table: Snapshot) -> bool:
        """Whether the query reads any version of the table on this branch, under any name."""
        return sees(self.versions.values(), table)

    def explain(self) -> str:
        """The versions as text: a few lines for each table, in the order of the query."""
        lines = (_lines(occurrence, source) for occurrence, source in self.versions.items())
        return "\n".join(line for each in lines for line in each)


def plan_query(
    text: str, sources: Sources, settings: Settings, surroundings: Surroundings
) -> QueryPlan:
    """Find every table that a query names. Raises NotFoundError and InvalidInputError."""
    query = parse_query(text, settings)
    versions: dict[Occurrence, Readable] = {}
    for each in occurrences(query, settings):
        if each.call is not None:
            versions[each] = _compared(each.call, sources, surroundings)
            continue
        name = sources.known_as(each.name, each.revision)
        if name is not None:
            at = None if each.as_of is None else _at(each.as_of, surroundings)
            versions[each] = sources.version(name, each.revision, at)
        elif not surroundings.has_table(str(each.node.this.this)):
            raise sources.unknown(each.name)
        elif each.as_of is not None:
            raise InvalidInputError(
                f"{each.name!r} is a table or view of the session, which has no versions here"
            )
    return QueryPlan(query, settings, versions)


def _compared(call: Call, sources: Sources, surroundings: Surroundings) -> TableDiff:
    """Both states that a diff names."""
    name = sources.known_as(call.table, *map(str, call.revisions[-1:]))
    if name is None:
        if surroundings.has_table(call.table):
            raise InvalidInputError(
                f"{call.sql}: {call.table!r} is a table or view of the session, which has no "
                "versions here"
            )
        raise sources.unknown(call.table)
    one, *more = (sources.landed(name, each) for each in call.revisions)
    other = more[0] if more else sources.landed(name)
    rows = DiffRows.of(one, other, DiffRequest(on=call.columns))
    return TableDiff(Diff(rows), one, other)


def _at(as_of: AsOf, surroundings: Surroundings) -> int | str | datetime:
    """The value of AS OF: a number, a name, or the time that Spark computes from an expression."""
    if as_of.is_moment:
        return surroundings.moment(as_of.sql)
    node = as_of.node
    if type(node).__name__ == "Literal":
        text = str(node.this)
        if node.args.get("is_string"):
            return text
        number = version_number(text)
        if number is not None:
            return number
    raise InvalidInputError(
        "VERSION AS OF takes the number of a version, of which the first is 1, or a text such as "
        f"'v1.0', got {as_of.sql}"
    )


def _lines(occurrence: Occurrence, source: Readable) -> Iterator[str]:
    alias = "" if occurrence.exposed == occurrence.name else f" as {occurrence.exposed}"
    yield f"{occurrence.written}{alias}"
    yield from state_lines(source)
