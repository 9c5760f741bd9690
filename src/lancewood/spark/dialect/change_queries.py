"""Statements in Spark's words as queries: which rows of a table change, and what they become
(``query.statements.queries`` says what the answer is)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lancewood.errors import InvalidInputError
from lancewood.model.schema import ROW_ADDRESS
from lancewood.query.statements.engine import CHANGE, ROW, TARGET, ChangeQuery
from lancewood.query.statements.model import (
    DELETED,
    INSERTED,
    KEPT,
    REFUSED,
    UPDATED,
    Assignment,
    Insert,
    Merge,
    MergeClause,
    Path,
    RowChange,
    Update,
    When,
)
from lancewood.spark.dialect.settings import Settings
from lancewood.spark.dialect.text import parse_query

SOURCE, HERE = "__lancewood_source", "__lancewood_here"
"""The source of a merge without a name of its own; the column that says whether it has a row."""


def change_query(
    statement: RowChange, table: pa.Schema, given: Sequence[str], settings: Settings
) -> ChangeQuery:
    """The rows that a statement changes, and what they become. ``given`` are the columns of the
    source of a merge; for REPLACE WHERE, those of the table that new rows give."""
    if isinstance(statement, Merge):
        return _MergeQuery(statement, table, given, settings).made()
    if isinstance(statement, Insert):
        return _replace_query(statement, given)
    exposed = quoted(statement.alias or statement.target.name)
    change, values = DELETED, dict[str, str]()
    if isinstance(statement, Update):
        change, values = UPDATED, _assigned(statement.assignments, exposed, table, settings)
    listed = "".join(f", {sql} AS {_value(at)}" for at, sql in enumerate(values.values()))
    return ChangeQuery(
        f"SELECT {_address(exposed)} AS {ROW}, {change} AS {CHANGE}{listed} "
        f"FROM {TARGET} AS {exposed}{_where(statement.where)}",
        updated=tuple(values),
    )


def _replace_query(statement: Insert, names: Sequence[str]) -> ChangeQuery:
    """The rows that give way, and those that come instead; ``names`` are the columns of those."""
    exposed = quoted(statement.target.name)
    nothing = "".join(f", NULL AS {_value(at)}" for at in range(len(names)))
    listed = "".join(f", {exposed}.{quoted(each)}" for each in names)
    columns = ", ".join(map(quoted, names))
    return ChangeQuery(
        f"SELECT {_address(exposed)} AS {ROW}, {DELETED} AS {CHANGE}{nothing} "
        f"FROM {TARGET} AS {exposed}{_where(statement.where)} UNION ALL "
        f"SELECT CAST(NULL AS BIGINT), CASE WHEN ({statement.where}\n) THEN {INSERTED} "
        f"ELSE {REFUSED} END{listed} FROM ({statement.query}\n) AS {exposed}({columns})",
        inserted=tuple(names),
    )


def quoted(name: str) -> str:
    """A name in backticks."""
    return "`" + name.replace("`", "``") + "`"


def _address(exposed: str) -> str:
    return f"CAST({exposed}.{ROW_ADDRESS} AS BIGINT)"


def _value(at: int) -> str:
    return f"__lancewood_{at}"


def _where(condition: str | None) -> str:
    # A comment at the end of the condition ends with its line.
    return "" if condition is None else f" WHERE ({condition}\n)"


def _assigned(
    assignments: Sequence[Assignment], exposed: str, table: pa.Schema, settings: Settings
) -> dict[str, str]:
    """The new value of each column that is set; structs of which only fields are set, whole."""
    whole: dict[str, str] = {}
    parts: dict[str, dict[Path, str]] = {}
    for each in assignments:
        path = settings.path(each.path, table)
        name, below = path[0], path[1:]
        if name in whole or below in parts.get(name, {}) or (not below and name in parts):
            raise InvalidInputError(
                f"column {'.'.join(each.path)!r} is set twice", column=".".join(each.path)
            )
        if below:
            parts.setdefault(name, {})[below] = each.value
        else:
            whole[name] = f"({each.value}\n)"
    for name, fields in parts.items():
        old = f"{exposed}.{quoted(name)}"
        whole[name] = _with_fields(old, table.field(name).type, fields)
    return whole


def _with_fields(old: str, kind: pa.StructType, fields: Mapping[Path, str]) -> str:
    """A struct with other values in some of its fields; the others of a null one are null."""
    listed = []
    for each in kind:
        here = {path[1:]: value for path, value in fields.items() if path[0] == each.name}
        value = f"{old}.{quoted(each.name)}"
        if () in here:
            value = f"({here[()]}\n)"
        elif here:
            value = _with_fields(value, each.type, here)
        text = each.name.replace("\\", "\\\\").replace("'", "\\'")
        listed.append(f"'{text}', {value}")
    return f"named_struct({', '.join(listed)})"


@dataclass(frozen=True)
class _Case:
    """A clause of a merge, with the values that it sets."""

    condition: str
    change: int
    values: Mapping[str, str]


class _MergeQuery:
    """The query for one merge."""

    def __init__(
        self, statement: Merge, table: pa.Schema, source: Sequence[str], settings: Settings
    ) -> None:
        self._statement = statement
        self._table = table
        self._source = source
        self._settings = settings
        self._target_name = statement.alias or statement.target.name
        self._source_name = statement.source_alias or SOURCE
        self._target = quoted(self._target_name)
        self._from = quoted(self._source_name)

    def made(self) -> ChangeQuery:
        statement = self._statement
        cases = [self._case(each) for each in statement.clauses]
        updated = _columns(cases, UPDATED)
        inserted = _columns(cases, INSERTED)
        values = tuple(dict.fromkeys((*updated, *inserted)))
        sql = self._sql(cases, values)
        return ChangeQuery(sql, updated, inserted, self._key(cases), self._deletes_repeatedly())

    def _sql(self, cases: Sequence[_Case], values: Sequence[str]) -> str:
        whens = "".join(f" WHEN {each.condition} THEN {each.change}" for each in cases)
        if self._statement.of(When.MATCHED):  # they are looked at, to see that none matches twice
            whens += f" WHEN {self._is_there} AND {self._is_given} THEN {KEPT}"
        listed = "".join(
            f", {self._value(cases, name)} AS {_value(at)}" for at, name in enumerate(values)
        )
        inner = (
            f"SELECT {_address(self._target)} AS {ROW}, "
            f"CASE{whens} END AS {CHANGE}{listed} "
            f"FROM {self._joined()}"
        )
        return f"SELECT * FROM ({inner}) WHERE {CHANGE} IS NOT NULL"

    def _joined(self) -> str:
        statement = self._statement
        given = f"(SELECT *, true AS {HERE} FROM ({statement.source}\n)) AS {self._from}"
        table = f"{TARGET} AS {self._target}"
        on = f"ON ({statement.on}\n)"
        if statement.of(When.NOT_MATCHED_BY_SOURCE):
            how = "FULL OUTER" if statement.of(When.NOT_MATCHED) else "LEFT OUTER"
            return f"{table} {how} JOIN {given} {on}"
        how = "LEFT OUTER" if statement.of(When.NOT_MATCHED) else "INNER"
        return f"{given} {how} JOIN {table} {on}"

    @property
    def _is_there(self) -> str:
        return f"{self._target}.{ROW_ADDRESS} IS NOT NULL"

    @property
    def _is_given(self) -> str:
        return f"{self._from}.{HERE} IS NOT NULL"

    def _case(self, clause: MergeClause) -> _Case:
        condition = {
            When.MATCHED: f"{self._is_there} AND {self._is_given}",
            When.NOT_MATCHED: f"{self._target}.{ROW_ADDRESS} IS NULL",
            When.NOT_MATCHED_BY_SOURCE: f"{self._from}.{HERE} IS NULL",
        }[clause.when]
        if clause.condition is not None:
            condition = f"{condition} AND ({self._alone(clause.condition, clause.when)}\n)"
        action = clause.action
        if action.change == DELETED:
            return _Case(condition, DELETED, {})
        change = action.change
        if action.assignments is None:
            return _Case(condition, change, dict(self._all()))
        given = [
            Assignment(each.path, self._alone(each.value, clause.when))
            for each in action.assignments
        ]
        return _Case(condition, change, _assigned(given, self._target, self._table, self._settings))

    def _alone(self, sql: str, when: When) -> str:
        """An expression in which a bare name means the side that such rows have."""
        if when is When.MATCHED:
            return sql
        table = _Side("target", self._target_name, self._table.names)
        source = _Side("source", self._source_name, self._source)
        own, other = (source, table) if when is When.NOT_MATCHED else (table, source)
        return _qualified(sql, own, other, when, self._settings)

    def _all(self) -> Iterator[tuple[str, str]]:
        """Every column of the table from the one of that name in the source."""
        for name in self._table.names:
            theirs = self._settings.column(name, self._source, "the source of the merge")
            yield name, f"({self._from}.{quoted(theirs)}\n)"

    def _value(self, cases: Sequence[_Case], name: str) -> str:
        """The value of a column, by the clause that acts. Rows that are updated by a clause which
        does not set it keep theirs; that is asked for only if another one does set it."""
        changes = {each.change for each in cases if name in each.values}
        old = f"{self._target}.{quoted(name)}"

        def given(each: _Case) -> str:
            kept = old if each.change == UPDATED and UPDATED in changes else "NULL"
            return each.values.get(name, kept)

        values = {given(each) for each in cases if each.change in changes}
        if len(values) == 1 and self._is_plain(*values):
            return values.pop()
        whens = (f" WHEN {each.condition} THEN {given(each)}" for each in cases)
        return f"CASE{''.join(whens)} END"

    def _is_plain(self, value: str) -> bool:
        """Whether a value is one of the source's columns, which no row fails to give."""
        return any(value == f"({self._from}.{quoted(each)}\n)" for each in self._source)

    def _deletes_repeatedly(self) -> bool:
        matched = self._statement.of(When.MATCHED)
        return (
            len(matched) == 1
            and matched[0].action.change == DELETED
            and matched[0].condition is None
        )

    def _key(self, cases: Sequence[_Case]) -> tuple[str, ...] | None:
        """The columns of the table that ON compares with columns of the source, if new rows get
        just these values, and ON says nothing else."""
        if not any(each.change == INSERTED for each in cases):
            return None
        pairs = self._pairs()
        if pairs is None:
            return None
        for each in cases:
            if each.change == INSERTED and not all(
                self._names_source(each.values.get(name), theirs) for name, theirs in pairs.items()
            ):
                return None
        return tuple(pairs)

    def _pairs(self) -> dict[str, str] | None:
        """Columns of the table and of the source that ON says are equal; None if it is not that."""
        from sqlglot import exp

        condition = parse_query(f"SELECT ({self._statement.on}\n)", self._settings).tree
        condition = condition.expressions[0].unnest()
        found: dict[str, str] = {}
        for each in condition.flatten() if isinstance(condition, exp.And) else [condition]:
            equal = each.unnest()
            if not isinstance(equal, exp.EQ):
                return None
            sides = [self._side(one.unnest()) for one in (equal.this, equal.expression)]
            both = dict(one for one in sides if one is not None)
            if len(sides) != 2 or set(both) != {True, False} or both[True] in found:
                return None
            found[both[True]] = both[False]
        return found

    def _side(self, node: object) -> tuple[bool, str] | None:
        """Whether a column is the table's, and which; None for anything else."""
        from sqlglot import exp

        if not isinstance(node, exp.Column):
            return None
        parts = [str(each.name) for each in node.parts]
        folded = self._settings.folded
        here, there = folded(self._target_name), folded(self._source_name)
        if len(parts) != 2 or here == there or folded(parts[0]) not in (here, there):
            return None
        is_table = folded(parts[0]) == here
        found = self._settings.find(parts[1], self._table.names if is_table else self._source)
        return None if found is None else (is_table, found)

    def _names_source(self, value: str | None, column: str) -> bool:
        """Whether a value is just this column of the source."""
        if value is None:
            return False
        node = parse_query(f"SELECT {value}", self._settings).tree.expressions[0].unnest()
        return self._side(node) == (False, column)


@dataclass(frozen=True)
class _Side:
    """The target or the source of a merge: its name in the statement, and its columns."""

    word: str
    name: str
    columns: Sequence[str]


def _qualified(sql: str, own: _Side, other: _Side, when: When, settings: Settings) -> str:
    """An expression with a qualifier before each bare name of a column; subqueries stay. Raises
    InvalidInputError for a column of the side that has no such rows."""
    from sqlglot import exp

    known, unknown = (set(map(settings.folded, each.columns)) for each in (own, other))
    start = len("SELECT ")
    query = parse_query(f"SELECT {sql}", settings)
    found = []
    for each in query.tree.find_all(exp.Column):
        first = None if each.is_star else each.parts[0]
        if first is None or each.find_ancestor(exp.Select) is not query.tree:
            continue
        name = settings.folded(str(first.name))
        if name == settings.folded(own.name):
            continue
        if name in known and "start" in first.meta:
            found.append(first.meta["start"] - start)
        elif name in unknown or name == settings.folded(other.name):
            raise InvalidInputError(
                f"WHEN {when.value.upper()}: {each.sql('spark')} is of the {other.word}, which has "
                f"no such row; name columns of {own.name!r}, the {own.word}"
            )
    for at in sorted(found, reverse=True):
        sql = f"{sql[:at]}{quoted(own.name)}.{sql[at:]}"
    return sql


def _columns(cases: Sequence[_Case], change: int) -> tuple[str, ...]:
    """The columns that some clauses set."""
    return tuple(
        dict.fromkeys(name for each in cases if each.change == change for name in each.values)
    )
