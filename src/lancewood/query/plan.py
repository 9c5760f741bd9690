"""From the text of a query to versions of tables and what is read of them; needs no Spark.

What only a session can answer is asked of its ``Surroundings``: the time that an expression means,
and whether a name that is not ours is one of the session's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Protocol

from lancewood.engine.rows import plan_scan
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import InvalidInputError
from lancewood.model.ids import version_words
from lancewood.model.refs import called
from lancewood.query.diffs import SIDES, DiffCall, TableDiff
from lancewood.query.names import AsOf, Occurrence, occurrences
from lancewood.query.reads import Read, Readable, planned_reads, whole_reads, why_whole
from lancewood.query.settings import Settings
from lancewood.query.sources import Sources
from lancewood.query.text import Query, parse_query

_MOST_DIGITS = 19
_MOST_COLUMNS = 20


class Surroundings(Protocol):
    """What a session knows besides our tables."""

    def moment(self, expression: str) -> datetime:
        """The time that an SQL expression means; raises InvalidInputError."""
        ...

    def has_table(self, name: str) -> bool:
        """Whether it has a table or view of that name."""
        ...


@dataclass(frozen=True)
class QueryPlan:
    """A query, the versions that it names, and what is read of them."""

    query: Query
    settings: Settings
    versions: Mapping[Occurrence, Readable]

    @cached_property
    def reads(self) -> dict[Occurrence, Read]:
        """The smallest reads that suffice for the answer."""
        return planned_reads(self.query, self.versions, self.settings)

    @cached_property
    def whole_reads(self) -> dict[Occurrence, Read]:
        """Everything of every table."""
        return whole_reads(self.versions)

    def sees(self, table: Snapshot) -> bool:
        """Whether any version of the table on this branch is asked, under any name."""
        states = (
            state
            for each in self.versions.values()
            for state in ((each.one, each.other) if isinstance(each, TableDiff) else (each,))
        )
        return any(each.location.uri == table.location.uri for each in states)

    def explain(self) -> str:
        """The plan as text: a few lines for each table, in the order of the query."""
        why = why_whole(self.query, self.settings)
        lines = (_lines(occurrence, read, why) for occurrence, read in self.reads.items())
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
        name = sources.known_as(each.name)
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


def _compared(call: DiffCall, sources: Sources, surroundings: Surroundings) -> TableDiff:
    """Both states that a diff names."""
    name = sources.known_as(call.table)
    if name is None:
        if surroundings.has_table(call.table):
            raise InvalidInputError(
                f"{call.sql}: {call.table!r} is a table or view of the session, which has no "
                "versions here"
            )
        raise sources.unknown(call.table)
    one, *more = (
        sources.landed(name, None, each) if isinstance(each, int) else sources.landed(name, each)
        for each in call.revisions
    )
    other = more[0] if more else sources.landed(name, None)
    return TableDiff.of(one, other, call.on)


def _at(as_of: AsOf, surroundings: Surroundings) -> int | str | datetime:
    """The value of AS OF: a number, a name, or the time that Spark computes from an expression."""
    if as_of.is_moment:
        return surroundings.moment(as_of.sql)
    node = as_of.node
    if type(node).__name__ == "Literal":
        text = str(node.this)
        if node.args.get("is_string"):
            return text
        if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS and int(text):
            return int(text)
    raise InvalidInputError(
        "VERSION AS OF takes the number of a version, of which the first is 1, or a text such as "
        f"'v1.0', got {as_of.sql}"
    )


def _lines(occurrence: Occurrence, read: Read, why_whole: str | None) -> Iterator[str]:
    alias = "" if occurrence.exposed == occurrence.name else f" as {occurrence.exposed}"
    yield f"{occurrence.written}{alias}"
    if isinstance(read.source, TableDiff):
        yield f"  from     version {_version(read.source.one)}"
        yield f"  to       version {_version(read.source.other)}"
    else:
        yield f"  version  {_version(read.source)}"
    if read.known_rows is not None:
        yield f"  rows     {read.known_rows}, from the manifest; no data file is read"
        return
    yield f"  columns  {_columns(read)}"
    yield f"  where    {' AND '.join(read.as_written) or 'all rows'}"
    yield from (f"  index    {each}" for each in _indices(read))
    if read.limit is not None:
        yield f"  limit    {read.limit}"
    if why_whole is not None:
        yield f"  because  {why_whole}"


def _indices(read: Read) -> Iterator[str]:
    """Which indices are asked, and why others are not."""
    if read.where is not None and not isinstance(read.source, TableDiff):
        parameters = dict(read.parameters) or None
        plan = plan_scan(read.source, where=read.where, parameters=parameters)
        yield from plan.explain_indices()


def _version(snapshot: Snapshot) -> str:
    manifest = snapshot.manifest
    words = version_words(manifest.version).removeprefix("version ")
    return f"{words} of {called(manifest.branch)}, {snapshot.location.uri}"


def _columns(read: Read) -> str:
    names = read.source.arrow_schema.names
    if read.columns is None:
        return f"all {len(names)}"
    shown = read.columns
    if isinstance(read.source, TableDiff):
        shown = tuple(_with_fields(read.source, read.columns))
    more = f" and {len(shown) - _MOST_COLUMNS} more" * (len(shown) > _MOST_COLUMNS)
    listed = ", ".join(shown[:_MOST_COLUMNS]) + more
    return f"{listed or 'none'} ({len(read.columns)} of {len(names)})"


def _with_fields(compared: TableDiff, columns: Sequence[str]) -> Iterator[str]:
    """The columns of a diff; of both states the fields that are read."""
    for each in columns:
        if each in SIDES:
            yield from (f"{each}.{one.name}" for one in compared.arrow_schema.field(each).type)
        else:
            yield each
