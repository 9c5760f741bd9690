"""Which tables and functions of tables a query names, at which revisions; and the query as DuckDB
takes it.

DuckDB's own parser says where tables, AT clauses and calls stand. The text is changed there and
nowhere else, so aliases, scopes and what WITH defines are DuckDB's business.

`diff('photos', 'v1', 'v2')` has the rows that differ between two revisions, `blame('photos',
'exp')` the rows of one with the versions that wrote them. All columns are compared or followed,
whichever a query asks for: what differs, and who wrote a row, does not depend on the query.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import pyarrow as pa

from lancewood.engine.snapshot import Snapshot
from lancewood.errors import InvalidInputError, NotFoundError
from lancewood.expr import Predicate
from lancewood.expr.columns import folded, why_not
from lancewood.expr.database import QUERIES, in_our_words, parsed
from lancewood.expr.syntax import ALLOWED, CHANGING, too_deep
from lancewood.model.ids import version_words
from lancewood.model.refs import called
from lancewood.query.sources import AddressedSnapshot, Sources
from lancewood.query.tokens import (
    Edit,
    Token,
    edited,
    literal,
    quoted,
    shown,
    tokens,
    version_number,
    with_revisions_quoted,
)

if TYPE_CHECKING:
    from lancewood.jobs.blame import BlameRows
    from lancewood.table.diffs import Diff


DIFF, BLAME = "diff", "blame"
CHANGE, SIDES = "_change", ("before", "after")
CHANGES = ("deleted", "inserted", "updated")
Revision: TypeAlias = str | int


class Signature(NamedTuple):
    """What a function takes after the name of a table."""

    takes: str
    """What the function takes, as a sentence for errors."""
    revisions: range
    """How many revisions."""
    keyword: str
    """What names columns, in one text with commas between."""


SIGNATURES = {
    DIFF: Signature(
        "diff takes the name of a table and one or two revisions of it, such as "
        "diff('photos', 'v1', 'main'), and perhaps on => 'id', the columns of a key",
        range(1, 3),
        "on",
    ),
    BLAME: Signature(
        "blame takes the name of a table and perhaps a revision of it, such as "
        "blame('photos', 'exp'), and columns => 'price', those whose values count",
        range(2),
        "columns",
    ),
}


@dataclass(frozen=True)
class Call:
    """The arguments of a call."""

    table: str
    revisions: tuple[Revision, ...]
    columns: tuple[str, ...] | None
    """The columns that `on` or `columns` names; None without it."""
    sql: str
    """The call in one spelling, which is also the name of its relation."""


@dataclass(frozen=True, eq=False)
class TableDiff:
    """Two states of a table, and the rows in which they differ."""

    diff: Diff
    one: Snapshot
    other: Snapshot

    @classmethod
    def of(cls, diff: Diff, *states: Snapshot) -> TableDiff:
        """The diff with those columns of both sides that DuckDB can hold; all are compared."""
        shown = [_held(diff.arrow_schema.field(side).type) for side in SIDES]
        return cls(diff._narrowed(CHANGES, *shown), *states)

    @property
    def states(self) -> dict[str, Snapshot]:
        return {"from": self.one, "to": self.other}

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """The columns of the rows that differ."""
        return self.diff.arrow_schema

    def gains(self, columns: Sequence[str]) -> bool:
        """Whether there is less to do if a condition on these columns is applied."""
        return columns == (CHANGE,)

    def read(self, columns: Sequence[str], predicate: Predicate | None) -> Iterator[pa.RecordBatch]:
        """Some columns of the rows that meet a condition about the kinds of changes. A side that is
        not among the columns is compared, but not put together."""
        kinds = pa.record_batch({CHANGE: CHANGES})
        if predicate is not None:
            kinds = kinds.filter(predicate.mask(kinds))
        before, after = (
            [each.name for each in self.arrow_schema.field(side).type] if side in columns else []
            for side in SIDES
        )
        narrowed = self.diff._narrowed(kinds.column(0).to_pylist(), before, after)
        return (batch.select(list(columns) or [CHANGE]) for batch in narrowed.to_batches())


@dataclass(frozen=True, eq=False)
class TableBlame:
    """A state of a table, and who wrote its rows."""

    rows: BlameRows

    @classmethod
    def of(cls, snapshot: Snapshot, columns: Sequence[str] | None) -> TableBlame:
        """The rows with all columns that DuckDB can hold; the values of `columns` count. Raises
        what ``Table.blame`` raises."""
        from lancewood.table.table import Table

        shown = _held(snapshot.arrow_schema)
        return cls(Table(snapshot).blame(columns=columns, show=shown)._rows)

    @property
    def states(self) -> dict[str, Snapshot]:
        return {"version": self.rows.snapshot}

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns of the table, between the row's id and its writers."""
        return self.rows.schema

    def gains(self, columns: Sequence[str]) -> bool:
        """Whether a condition on these columns leaves out rows before they are followed."""
        return set(columns) <= set(self.rows.shown)

    def read(self, columns: Sequence[str], predicate: Predicate | None) -> Iterator[pa.RecordBatch]:
        """Some columns of the rows that meet a condition about columns of the table."""
        shown = tuple(each for each in self.rows.shown if each in columns)
        found = replace(self.rows, shown=shown, predicate=predicate)
        return (batch.select(list(columns)) for batch in found.batches())


def _held(rows: Iterable[pa.Field]) -> list[str]:
    """The columns of some rows that DuckDB can hold."""
    fields = list(rows)
    names = [each.name for each in fields]
    return [each.name for each in fields if why_not(each, names) is None]


Readable: TypeAlias = Snapshot | TableDiff | TableBlame
"""What stands in FROM: a version of a table, or what a function makes of one or two."""


def states_of(source: Readable) -> dict[str, Snapshot]:
    """The versions of a table that are read, by what they are called in a plan."""
    return {"version": source} if isinstance(source, Snapshot) else source.states


def state_lines(source: Readable) -> Iterator[str]:
    """The versions of a table that are read, in lines of a plan."""
    for word, state in states_of(source).items():
        number = version_words(state.manifest.version)
        number = number.removeprefix("version ") if word == "version" else number
        yield f"  {word:8} {number} of {called(state.manifest.branch)}, {state.location.uri}"


def sees(sources: Iterable[Readable], table: Snapshot) -> bool:
    """Whether any of them, a statement's target aside, is a version of the table's branch."""
    states = (state for each in sources for state in states_of(each).values())
    return any(
        state.location.uri == table.location.uri and not isinstance(state, AddressedSnapshot)
        for state in states
    )


_OF_NO_TABLE = frozenset(
    ("generate_series", "json_each", "json_tree", "range", "repeat", "repeat_row", "unnest")
)
"""What else may stand in FROM: all other functions of DuckDB's reach files, settings, other queries
or what a text says; its directory for spilling is one that DuckDB lets them read."""
_OF_SETTINGS = frozenset(("current_setting", "getvariable"))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_bare_path = re.compile(r"\b(?:from|join)\s+([\w.~:-]*/[^\s,;()'\"]*)", re.IGNORECASE).search


@dataclass(frozen=True)
class NamedTables:
    """A query whose tables are found."""

    sql: str
    """The query for DuckDB."""
    tables: Mapping[str, Readable]
    """What is meant by each name in `sql`."""
    parameters: frozenset[str] = frozenset()
    """The names of the values that it takes."""


def name_tables(query: str, sources: Sources, cursor: Any) -> NamedTables:
    """Find every table that a query names, each version once.

    Raises NotFoundError for an unknown table or revision, InvalidInputError for what is no query.
    """
    text = with_revisions_quoted(query)
    kind = kind_of_query(query, text, cursor)
    naming = _Naming(text, tokens(text), sources)
    if kind == "MULTI":  # a PIVOT that reads its columns from values has no tree
        naming.name_words()
    else:
        naming.name_nodes(parsed_query(text))
    parameters = {two.text for one, two in pairwise(naming.tokens) if one.word == "$"}
    return NamedTables(edited(text, naming.edits), naming.tables, frozenset(parameters))


def kind_of_query(query: str, text: str, cursor: Any) -> str:
    """DuckDB's kind of a query, of which `text` has the revisions in quotes; raises
    InvalidInputError for what is none."""
    import duckdb

    try:
        found = cursor.extract_statements(text)
    except duckdb.Error as error:
        path = _bare_path(query)
        reason = str(in_our_words(error)).partition(": ")[2]
        if path is not None:
            reason = f"a path stands in quotes: FROM '{path[1]}'"
        raise InvalidInputError(f"cannot read {shown(query)} as SQL: {reason}", sql=query) from None
    if len(found) != 1:
        what = "no statement" if not found else f"{len(found)} statements"
        raise InvalidInputError(f"{shown(query)} holds {what}, where one query is expected")
    kind = str(found[0].type.name)
    if kind not in ("SELECT", "MULTI"):
        raise InvalidInputError(
            f"{shown(query)} is no query, but a statement {kind.replace('_', ' ')}: only SELECT, "
            "FROM, WITH, VALUES, PIVOT, DESCRIBE and SUMMARIZE are queries; the statements that "
            "change tables are in docs/sql.md",
            found=kind,
        )
    return kind


def parsed_query(sql: str) -> Any:
    """DuckDB's tree of one query that changes nothing; raises InvalidInputError with a
    ``reason``."""
    text = with_revisions_quoted(sql)
    try:
        found, reason = parsed(text), ""
    except RecursionError:
        raise too_deep(sql) from None
    if found["error"]:
        reason = str(found["error_message"])
        if found["error_type"] == "not implemented":
            reason = "a PIVOT without the values of its columns, or no query, stands here"
    elif len(found["statements"]) != 1:
        reason = "a semicolon ends the statement before its end"
    if reason:
        raise InvalidInputError(f"cannot read {shown(sql)} as SQL: {reason}", reason=reason)
    return found["statements"][0]["node"]


def parsed_expression(sql: str) -> Any:
    """The tree of an expression."""
    selected = parsed_query(f"SELECT ({sql}\n)")["select_list"]
    if len(selected) != 1:
        raise InvalidInputError(f"{shown(sql)} is not one expression")
    return selected[0]


def nodes(tree: Any, closed: str = "") -> Iterator[dict[str, Any]]:
    """All objects of a tree, the outer ones first; without what is in those of the class
    `closed`."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            yield node
            if not closed or node.get("class") != closed:
                pending.extend(node.values())
        elif isinstance(node, list):
            pending.extend(node)


@dataclass
class _Naming:
    text: str
    tokens: Sequence[Token]
    sources: Sources
    edits: list[Edit] = field(default_factory=list)
    tables: dict[str, Readable] = field(default_factory=dict)

    def name_nodes(self, tree: Any) -> None:
        every = list(nodes(tree))
        defined: set[str] = set()
        for node in every:
            kind, _, rest = str(node.get("type", "")).partition("_")
            if rest.endswith("QUERY_NODE"):
                raise InvalidInputError(
                    f"a query changes nothing, and WITH holds {kind}: write it as a statement of "
                    "its own"
                )
            entries = (node.get("cte_map") or {}).get("map", ())
            defined.update(folded(str(entry["key"])) for entry in entries)
        if revisions := [each for each in defined if "@" in each]:
            what = f"WITH cannot define {revisions[0]!r}, which is a table's state"
            raise InvalidInputError(f"{what}: give the query a name without @")
        for node in every:
            if node.get("type") == "BASE_TABLE":
                self._name_table(node, defined)
            elif node.get("type") == "SHOW_REF" and node["qualified_name"]["path"]:
                self._name_table({**node, "at_clause": None}, defined)
            elif node.get("type") == "TABLE_FUNCTION":
                function = str(node["function"]["function_name"]).lower()
                if function in SIGNATURES:
                    self._name_call(node)
                elif function not in _OF_NO_TABLE:
                    raise _reaches_out(function)
            elif str(node.get("function_name", "")).lower() in _OF_SETTINGS:
                raise _reaches_out(str(node["function_name"]))

    def name_words(self) -> None:
        """Every word that may be a table of ours; one that is a column as well does no harm."""
        for token, after in zip_longest(self.tokens, self.tokens[1:]):
            function = token.text.lower() if after is not None and after.text == "(" else ""
            if token.word and function in SIGNATURES:
                raise InvalidInputError(
                    f"PIVOT without the values of its columns takes no {function}(…): name the "
                    "values, PIVOT … ON _change IN ('inserted', 'updated')"
                )
            if function in (functions("table") | _OF_SETTINGS) - _OF_NO_TABLE:
                raise _reaches_out(function)
            if token.kind in ("word", "name", "text"):
                name, _, revision = token.text.partition("@")
                known = self.sources.known_as(name, revision or None) if name else None
                if known is not None:
                    self._put(token.text, self.sources.version(known, revision or None))

    def _name_table(self, node: dict[str, Any], defined: set[str]) -> None:
        *above, written = (str(part) for part in node["qualified_name"]["path"])
        if above:
            if above[0].lower() == "information_schema" and "@" not in written:
                return
            whole = ".".join((*above, written))
            if "lance" in whole.partition("@")[0].split("."):
                raise InvalidInputError(
                    f"{whole} is no name: a path stands in quotes, FROM '{whole}'"
                )
            raise NotFoundError(
                f"table {whole!r} not found: tables have one name without a dot; give it one in "
                f"tables=, or in a repository write {written}@{above[-1]} for a revision",
                name=whole,
            )
        name, sign, revision = written.partition("@")
        if sign and not (name and revision):
            raise InvalidInputError(f"{written!r} is no table: write photos@exp, as photos@v1.0")
        known = self.sources.known_as(name, revision or None)
        clause = node.get("at_clause")
        if known is None:
            if folded(written) not in defined:
                raise self.sources.unknown(name)
            if clause is not None:
                raise InvalidInputError(
                    f"{written!r} is defined by WITH in this query, and has no versions"
                )
            return
        if clause is None:
            self._put(written, self.sources.version(known, revision or None))
            return
        span = self._span(node)
        key = self._written(span)
        at = self._at(clause, span)
        self._replace(node, span, key, name, self.sources.version(known, revision or None, at))

    def _span(self, node: dict[str, Any]) -> tuple[int, int]:
        """Where a table or call stands, with its AT clause or alias; DuckDB counts bytes, and
        TABLESAMPLE in."""
        at = node["query_location"]
        before = self.text.encode()[: at + node["query_location_length"]]
        start, end = len(before[:at].decode()), len(before.decode())
        for token in self.tokens:
            if start <= token.start < end and token.word == "TABLESAMPLE":
                end = token.start
        return start, end

    def _written(self, span: tuple[int, int]) -> str:
        """A piece of the text in one line."""
        return " ".join(self.text[slice(*span)].split())

    def _replace(
        self, node: dict[str, Any], span: tuple[int, int], key: str, name: str, found: Readable
    ) -> None:
        """Have a table or call, with what follows it, be the table `key` under the same alias."""
        self._put(key, found)
        columns = ", ".join(map(quoted, node.get("column_name_alias") or ()))
        alias = quoted(str(node["alias"] or name)) + (f"({columns})" if columns else "")
        self.edits.append((*span, f"{quoted(key)} AS {alias}"))

    def _at(self, clause: dict[str, Any], span: tuple[int, int]) -> int | str | datetime:
        """The value of the AT clause of a table that stands there."""
        found = [each for each in self.tokens if span[0] <= each.start < span[1]]
        arrow = min(at for at, each in enumerate(found) if each.text == "=>")
        sql = self.text[found[arrow].end : found[-1].start].strip()
        if clause["unit"] == "TIMESTAMP":
            return moment(sql)
        value = _constant(clause["expr"])
        if value is None:
            raise InvalidInputError(
                "AT (VERSION => …) takes the number of a version, of which the first is 1, or a "
                f"text such as 'v1.0', got {sql}"
            )
        return value

    def _name_call(self, node: dict[str, Any]) -> None:
        span, name = self._span(node), str(node["function"]["function_name"]).lower()
        call = _call(node, name, self._written(span))
        known = self.sources.known_as(call.table, *map(str, call.revisions[-1:]))
        if known is None:
            raise self.sources.unknown(call.table)
        states = [self.sources.landed(known, each) for each in call.revisions]
        if len(states) < SIGNATURES[name].revisions[-1]:
            states.append(self.sources.landed(known))
        found: Readable
        if name == DIFF:
            from lancewood.jobs.diff import DiffRequest, DiffRows
            from lancewood.table.diffs import Diff

            rows = DiffRows.of(states[0], states[1], DiffRequest(on=call.columns))
            found = TableDiff.of(Diff(rows), *states)
        else:
            found = TableBlame.of(states[0], call.columns)
        self._replace(node, span, call.sql, name, found)

    def _put(self, name: str, found: Readable) -> None:
        for other, before in self.tables.items():
            if folded(other) == folded(name):
                if other != name and before is not found:
                    raise InvalidInputError(
                        f"{other!r} and {name!r} differ only in upper and lower case, which are "
                        "the same in SQL: make a tag with another name for one of them"
                    )
                return
        self.tables[name] = found


@cache
def functions(kind: str) -> frozenset[str]:
    """DuckDB's functions of a kind: those called ``table`` stand in FROM."""
    asked = "SELECT function_name FROM duckdb_functions() WHERE starts_with(function_type, ?)"
    with QUERIES.cursor() as cursor:
        return frozenset(str(name) for (name,) in cursor.execute(asked, [kind]).fetchall())


def _reaches_out(function: str) -> InvalidInputError:
    return InvalidInputError(
        f"{function}(…) cannot be asked: a query reads tables and nothing else; of functions in "
        f"FROM there are {', '.join(sorted(_OF_NO_TABLE | SIGNATURES.keys()))}"
    )


def moment(sql: str) -> datetime:
    """The time that an expression without columns means; raises InvalidInputError."""
    import duckdb

    takes = "AT (TIMESTAMP => …) takes a moment, such as '2026-11-15 12:00:00'"
    for node in nodes(parsed_expression(sql)):
        function = str(node.get("function_name", "")).lower()
        if node.get("class") == "SUBQUERY" or function not in {"", *ALLOWED, *CHANGING}:
            raise InvalidInputError(f"{takes}, got {sql}, which asks for {function or 'a query'}")
    try:
        with QUERIES.cursor() as cursor:
            asked = f"SELECT epoch_us(CAST(({sql}\n) AS TIMESTAMPTZ))"
            found = cursor.execute(asked).fetchone()[0]
    except duckdb.Error as error:
        raise InvalidInputError(f"{takes}, got {sql}: {in_our_words(error)}") from None
    if found is None:
        raise InvalidInputError(f"{takes}, and {sql} is NULL")
    try:
        return _EPOCH + timedelta(microseconds=found)
    except OverflowError:
        raise InvalidInputError(f"{takes}, and {sql} is beyond all calendars") from None


def _constant(node: dict[str, Any]) -> int | str | None:
    """A text, or a number from 1 on; None for anything else."""
    literal = node.get("literal") or {}
    kind, text = literal.get("kind"), str(literal.get("text", ""))
    if kind == "STRING":
        return text
    return version_number(text) if kind == "INTEGER" else None


def _call(node: dict[str, Any], function: str, sql: str) -> Call:
    """The arguments of a function; raises InvalidInputError for any that it does not take."""
    takes, revisions, keyword = SIGNATURES[function]
    given: list[int | str] = []
    columns: tuple[str, ...] | None = None

    def wrong(why: str = takes) -> InvalidInputError:
        return InvalidInputError(f"{sql}: {why}")

    for argument in node["function"]["arguments"]:
        value, name = _constant(argument["expression"]), str(argument["name"]).lower()
        if value is None or name not in ("", keyword) or (name and columns is not None):
            raise wrong()
        if name:
            columns = tuple(each.strip() for each in str(value).split(","))
            if not all(columns):
                raise wrong(f"{keyword} takes names of columns, such as {keyword} => 'id'")
        elif columns is not None:
            raise wrong(f"{takes}; {keyword} comes last")
        else:
            given.append(value)
    if len(given) - 1 not in revisions or not isinstance(given[0], str):
        raise wrong()
    if not given[0] or "@" in given[0]:
        alone = "is not the name of a table alone; revisions are the arguments after it"
        raise wrong(f"{given[0]!r} {alone}")
    if node.get("with_ordinality", "WITHOUT_ORDINALITY") != "WITHOUT_ORDINALITY":
        raise wrong(f"rows of {function} have no numbers, as WITH ORDINALITY asks")
    written = [literal(each) if isinstance(each, str) else str(each) for each in given]
    written += [] if columns is None else [f"{keyword} => {literal(', '.join(columns))}"]
    return Call(given[0], tuple(given[1:]), columns, f"{function}({', '.join(written)})")
