"""Statements as queries: which rows of a table change, and what they become.

DuckDB decides conditions and computes values, so that both mean what they mean in a SELECT,
subqueries included; a value is cast to the type of its column, as DuckDB does it. The table stands
in FROM under a name that nobody else has, with the address of each row as one more column. The
answer has the columns ``ROW``, ``CHANGE`` and one for each value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lancewood.errors import InvalidInputError, UnsupportedError
from lancewood.model.schema import ROW_ADDRESS
from lancewood.query.database import FAILED
from lancewood.query.identifiers import Identifiers
from lancewood.query.statements.model import (
    Assignment,
    Delete,
    DeleteRow,
    DoNothing,
    Fail,
    Insert,
    InsertAll,
    InsertColumns,
    Merge,
    MergeClause,
    SetAll,
    SetColumns,
    Update,
    When,
)
from lancewood.query.statements.parsing import column_types, parsed_expression
from lancewood.query.tokens import literal, quoted

TARGET = "__lancewood_target"
"""The name under which the table is asked that is changed."""
ROW, CHANGE = "__lancewood_row", "__lancewood_change"
"""The address of a row of the table, null for a new one; what becomes of it."""
KEPT, INSERTED, UPDATED, DELETED, REFUSED = range(5)
"""The values of ``CHANGE``. Kept are rows of the table that match, and that no clause changes;
refused are new rows that do not meet the condition of REPLACE WHERE."""

_SOURCE, _ONCE, _CLAUSE = "__lancewood_source", "__lancewood_once", "__lancewood_clause"
_NAMES = Identifiers()


@dataclass(frozen=True)
class ChangeQuery:
    """A query for changes of a table."""

    sql: str
    updated: tuple[str, ...] = ()
    """The columns that updated rows get, of those in ``values``."""
    inserted: tuple[str, ...] = ()
    """The columns that new rows get, of those in ``values``."""
    on: tuple[str, ...] | None = None
    """The key of the table by which new rows were told from others, if that is all of it."""
    deletes_repeatedly: bool = False
    """Whether a row may be found several times: it is deleted, whatever matches it."""

    @property
    def values(self) -> tuple[str, ...]:
        """The columns of the table whose values the answer has, after ``ROW`` and ``CHANGE``."""
        return tuple(dict.fromkeys((*self.updated, *self.inserted)))


def delete_query(statement: Delete) -> ChangeQuery:
    """The rows that are deleted."""
    exposed = quoted(statement.alias or statement.target.name)
    return ChangeQuery(
        f"{statement.queries} SELECT {exposed}.{ROW_ADDRESS} AS {ROW}, {DELETED} AS {CHANGE} "
        f"FROM {TARGET} AS {exposed}{_others(statement.using)}{_where(statement.where)}",
        deletes_repeatedly=True,
    )


def update_query(statement: Update, table: pa.Schema) -> ChangeQuery:
    """The rows that are updated, with their new values."""
    exposed = quoted(statement.alias or statement.target.name)
    values = _Columns(table).assigned(statement.assignments)
    return ChangeQuery(
        f"{statement.queries} SELECT {exposed}.{ROW_ADDRESS} AS {ROW}, {UPDATED} AS {CHANGE}"
        f"{_listed(values.values())} "
        f"FROM {TARGET} AS {exposed}{_others(statement.source)}{_where(statement.where)}",
        updated=tuple(values),
    )


def column_query(values: Sequence[str], exposed: str) -> ChangeQuery:
    """The values of expressions for every row."""
    name = quoted(exposed)
    return ChangeQuery(
        f"SELECT {name}.{ROW_ADDRESS} AS {ROW}, {UPDATED} AS {CHANGE}{_listed(values)} "
        f"FROM {TARGET} AS {name}"
    )


def replace_query(statement: Insert, names: Sequence[str], table: pa.Schema) -> ChangeQuery:
    """The rows that give way, and those that come instead; ``names`` are the columns of those."""
    exposed = quoted(statement.target.name)
    columns = _Columns(table)
    nothing = _listed("NULL" for _ in names)
    listed = _listed(columns.cast(f"{exposed}.{quoted(each)}", each) for each in names)
    return ChangeQuery(
        f"SELECT {exposed}.{ROW_ADDRESS} AS {ROW}, {DELETED} AS {CHANGE}{nothing} "
        f"FROM {TARGET} AS {exposed}{_where(statement.where)} UNION ALL "
        f"SELECT CAST(NULL AS UBIGINT), CASE WHEN ({statement.where}\n) THEN {INSERTED} "
        f"ELSE {REFUSED} END{listed} "
        f"FROM ({statement.query}\n) AS {exposed}({', '.join(map(quoted, names))})",
        inserted=tuple(names),
    )


def values_query(statement: Insert, table: pa.Schema) -> str:
    """The rows of VALUES, each value in the type of its column."""
    names = statement.columns or tuple(table.names)
    rows = statement.values
    if not rows[0]:  # DEFAULT VALUES
        names, rows = tuple(table.names), ((None,) * len(table.names),)
    if len(names) != len(rows[0]):
        raise not_as_many(statement, len(rows[0]), names)
    found = [_NAMES.column(each, table.names, "the table") for each in names]
    columns = _Columns(table)
    listed = (
        ", ".join(
            columns.cast(value or "NULL", name) for value, name in zip(row, found, strict=True)
        )
        for row in rows
    )
    return f"VALUES {', '.join(f'({each})' for each in listed)}"


def cast_query(query: str, names: Sequence[str], table: pa.Schema) -> str:
    """The rows of a query, each value in the type of the column of the table that it is for."""
    columns = _Columns(table)
    places = [f"c{at}" for at in range(len(names))]
    listed = ", ".join(
        f"{columns.cast(place, name)} AS {quoted(name)}"
        for place, name in zip(places, names, strict=True)
    )
    return f"SELECT {listed} FROM ({query}\n) AS {_SOURCE}({', '.join(places)})"


def merge_query(statement: Merge, table: pa.Schema, source: Sequence[str]) -> ChangeQuery:
    """The rows that a merge changes; ``source`` are the columns of its source."""
    return _MergeQuery(statement, table, source).made()


def matched_twice(word: str) -> InvalidInputError:
    """The error for a row of the table that several rows of the source change."""
    return InvalidInputError(
        f"{word}: several rows of the source match the same row of the table, and it is not known "
        "which of them it should become; narrow the condition, or keep one row of the source for "
        "each"
    )


def not_replaced(rows: int) -> InvalidInputError:
    """The error for new rows that do not meet the condition of REPLACE WHERE."""
    return InvalidInputError(
        f"REPLACE WHERE: {rows} of the new rows do not meet the condition, and would stand beside "
        "what it replaces; narrow the query, or widen the condition"
    )


def not_as_many(statement: Insert, given: int, names: Sequence[str]) -> InvalidInputError:
    """The error for an INSERT with more or fewer values than columns."""
    return InvalidInputError(
        f"INSERT INTO {statement.target.written} gives {given} values for {len(names)} columns: "
        f"{', '.join(names)}; name the columns that are given",
        table=statement.target.name,
    )


class _Columns:
    """The columns of the table that is changed, and their types in DuckDB."""

    def __init__(self, table: pa.Schema) -> None:
        self._table = table
        self._types = column_types(table)

    def cast(self, value: str, name: str) -> str:
        """A value in the type of a column; raises UnsupportedError where DuckDB has no such
        type."""
        kind = self._types.get(name)
        if kind is None:
            raise UnsupportedError(
                f"column {name!r} is {self._table.field(name).type}, whose values cannot be given "
                "in SQL: leave it out, or write it with Table.append, Table.merge or Table.update",
                column=name,
            )
        return f"CAST(({value}\n) AS {kind})"

    def assigned(self, assignments: Sequence[Assignment]) -> dict[str, str]:
        """The new value of each column that is set."""
        found: dict[str, str] = {}
        for each in assignments:
            name = _NAMES.column(each.path[0], self._table.names, "the table")
            found[name] = self.cast(each.value, name)
        return found


@dataclass(frozen=True)
class _Clause:
    """A clause of a merge: when it acts, what it does, the values that it sets."""

    when: When
    condition: str | None
    change: int
    values: Mapping[str, str]
    failure: str | None = None


class _MergeQuery:
    """The query for one merge: a SELECT for each kind of rows, in which names mean what they mean
    in the clauses about them. Rows that are not matched have the columns of one side alone."""

    def __init__(self, statement: Merge, table: pa.Schema, source: Sequence[str]) -> None:
        self._statement = statement
        self._table = table
        self._source = source
        self._columns = _Columns(table)
        self._target_name = statement.alias or statement.target.name
        self._source_name = statement.source_alias or _SOURCE
        self._target, self._from = quoted(self._target_name), quoted(self._source_name)

    def made(self) -> ChangeQuery:
        clauses = [self._clause(each) for each in self._statement.clauses]
        updated = _changed(clauses, UPDATED)
        inserted = _changed(clauses, INSERTED)
        values = tuple(dict.fromkeys((*updated, *inserted)))
        queries = self._statement.queries
        head = f"{queries}," if queries else "WITH"
        kinds = [each for each in When if self._statement.of(each)]
        selects = " UNION ALL ".join(self._select(each, clauses, values) for each in kinds)
        sql = f"{head} {_ONCE} AS MATERIALIZED ({self._statement.source}\n) {selects}"
        return ChangeQuery(sql, updated, inserted, self._key(clauses))

    def _select(self, when: When, clauses: Sequence[_Clause], values: Sequence[str]) -> str:
        own = [(at, each) for at, each in enumerate(clauses) if each.when is when]
        updated = _changed(clauses, UPDATED)
        acts = "".join(
            f" WHEN {'true' if each.condition is None else f'({each.condition}{chr(10)})'} "
            f"THEN {at if each.failure is None else f'CAST(error({each.failure}) AS INTEGER)'}"
            for at, each in own
        )
        changes = "".join(f" WHEN {at} THEN {each.change}" for at, each in own)
        address = (
            f"{self._target}.{ROW_ADDRESS}"
            if when is not When.NOT_MATCHED
            else "CAST(NULL AS UBIGINT)"
        )
        new = [at for at, each in own if each.change == INSERTED]
        if new and when is not When.NOT_MATCHED:
            address = f"CASE WHEN {_CLAUSE} NOT IN ({', '.join(map(str, new))}) THEN {address} END"
        return (
            f"SELECT {address} AS {ROW}, CASE {_CLAUSE}{changes} END AS {CHANGE}"
            f"{_listed(self._value(own, name, updated) for name in values)} "
            f"FROM {self._joined(when)}, "
            f"LATERAL (SELECT CASE{acts} END AS {_CLAUSE}) AS {_CLAUSE}s "
            f"WHERE {_CLAUSE} IS NOT NULL AND {CHANGE} <> {KEPT}"
        )

    def _joined(self, when: When) -> str:
        statement = self._statement
        target, source = f"{TARGET} AS {self._target}", f"{_ONCE} AS {self._from}"
        using = f"USING ({', '.join(map(quoted, statement.using))})"
        how = using if statement.using else f"ON ({statement.on}\n)"
        if when is When.MATCHED:
            return f"{target} JOIN {source} {how}"
        if when is When.NOT_MATCHED:
            return f"{source} ANTI JOIN {target} {how}"
        return f"{target} ANTI JOIN {source} {how}"

    def _clause(self, clause: MergeClause) -> _Clause:
        when, condition, action = clause.when, clause.condition, clause.action
        match action:
            case DeleteRow():
                return _Clause(when, condition, DELETED, {})
            case DoNothing():
                return _Clause(when, condition, KEPT, {})
            case Fail(message):
                text = literal(f"{FAILED}{when.value.upper()} … THEN ERROR")
                if message is not None:
                    text += f" || ': ' || ({message}\n)"
                return _Clause(when, condition, KEPT, {}, text)
            case SetColumns(assignments):
                return _Clause(when, condition, UPDATED, self._columns.assigned(assignments))
            case InsertColumns(assignments):
                return _Clause(when, condition, INSERTED, self._inserted(assignments))
            case SetAll(by_name) | InsertAll(by_name):
                change = UPDATED if isinstance(action, SetAll) else INSERTED
                return _Clause(when, condition, change, dict(self._all(clause, by_name=by_name)))

    def _inserted(self, assignments: Sequence[Assignment]) -> dict[str, str]:
        """The values of a new row, whose columns are the table's where none are named."""
        if not assignments or assignments[0].path:
            return self._columns.assigned(assignments) or {
                name: self._columns.cast("NULL", name) for name in self._table.names
            }
        if len(assignments) != len(self._table.names):
            raise InvalidInputError(
                f"MERGE: INSERT gives {len(assignments)} values for {len(self._table.names)} "
                f"columns: {', '.join(self._table.names)}; name the columns that are given"
            )
        return {
            name: self._columns.cast(each.value, name)
            for name, each in zip(self._table.names, assignments, strict=True)
        }

    def _all(self, clause: MergeClause, *, by_name: bool) -> Iterator[tuple[str, str]]:
        """Columns of the table from those of the source."""
        if clause.when is When.NOT_MATCHED_BY_SOURCE:
            raise InvalidInputError(
                "WHEN NOT MATCHED BY SOURCE: the source has no such row; name columns and values"
            )
        names = self._table.names
        if not by_name and len(names) != len(self._source):
            raise InvalidInputError(
                f"MERGE: the source has {len(self._source)} columns for {len(names)} of the table: "
                f"{', '.join(names)}; write BY NAME, or name columns and values"
            )
        for at, given in enumerate(self._source):
            name = _NAMES.column(given, names, "the table") if by_name else names[at]
            yield name, self._columns.cast(f"{self._from}.{quoted(given)}", name)

    def _value(self, own: Sequence[tuple[int, _Clause]], name: str, updated: Sequence[str]) -> str:
        """The value of a column by the clause that acts: its own, the old one of a row that is
        updated otherwise, or null."""
        old = f"{self._target}.{quoted(name)}"
        whens = ""
        for at, each in own:
            if name in each.values:
                whens += f" WHEN {at} THEN {each.values[name]}"
            elif each.change == UPDATED and name in updated:
                whens += f" WHEN {at} THEN {old}"
        return f"CASE {_CLAUSE}{whens} END" if whens else self._columns.cast("NULL", name)

    def _key(self, clauses: Sequence[_Clause]) -> tuple[str, ...] | None:
        """The columns of the table that are compared with columns of the source, if new rows get
        just these values, and nothing else is compared."""
        new = self._statement.of(When.NOT_MATCHED)
        pairs = self._pairs()
        if pairs is None or not any(each.change == INSERTED for each in clauses):
            return None
        for clause in new:
            action = clause.action
            if isinstance(action, InsertAll):
                given = dict(self._all(clause, by_name=action.by_name))
                if any(
                    given.get(name) != self._columns.cast(f"{self._from}.{quoted(theirs)}", name)
                    for name, theirs in pairs.items()
                ):
                    return None
            elif isinstance(action, InsertColumns):
                names = [each.path[0] if each.path else "" for each in action.assignments]
                names = names if all(names) else list(self._table.names)
                values = {
                    _NAMES.folded(name): each.value
                    for name, each in zip(names, action.assignments, strict=False)
                }
                for name, theirs in pairs.items():
                    value = values.get(_NAMES.folded(name))
                    if value is None or self._side(parsed_expression(value)) not in (
                        (False, theirs),
                        (None, theirs),
                    ):
                        return None
        return tuple(pairs)

    def _pairs(self) -> dict[str, str] | None:
        """Columns of the table and of the source that are equal in rows that match; None if they
        match by something else."""
        found: dict[str, str] = {}
        for each in self._statement.using:
            found[_NAMES.column(each, self._table.names, "the table")] = _NAMES.column(
                each, self._source, "the source"
            )
        if found:
            return found
        tree = parsed_expression(self._statement.on)
        is_and = tree.get("type") == "CONJUNCTION_AND"
        for equal in tree["children"] if is_and else [tree]:
            if equal.get("type") != "COMPARE_EQUAL":
                return None
            sides = [self._side(equal[each]) for each in ("left", "right")]
            both = {is_table: name for is_table, name in sides if name is not None}
            if set(both) != {True, False} or both[True] in found:
                return None
            found[both[True]] = both[False]
        return found

    def _side(self, node: Mapping[str, object]) -> tuple[bool | None, str | None]:
        """Whether a column is the table's (None for a bare name), and which; no name for anything
        else."""
        parts = node.get("column_names")
        if node.get("class") != "COLUMN_REF" or not isinstance(parts, list):
            return None, None
        if len(parts) == 1:
            return None, _NAMES.find(str(parts[0]), self._source)
        here, there = _NAMES.folded(self._target_name), _NAMES.folded(self._source_name)
        qualifier = _NAMES.folded(str(parts[0]))
        if len(parts) != 2 or here == there or qualifier not in (here, there):
            return None, None
        is_table = qualifier == here
        return is_table, _NAMES.find(str(parts[1]), self._table.names if is_table else self._source)


def _changed(clauses: Sequence[_Clause], change: int) -> tuple[str, ...]:
    """The columns that some clauses set."""
    return tuple(
        dict.fromkeys(name for each in clauses if each.change == change for name in each.values)
    )


def _listed(values: Iterable[str]) -> str:
    return "".join(f", {sql} AS __lancewood_{at}" for at, sql in enumerate(values))


def _others(tables: str | None) -> str:
    return "" if tables is None else f", {tables}\n"


def _where(condition: str | None) -> str:
    # A comment at the end of the condition ends with its line.
    return "" if condition is None else f" WHERE ({condition}\n)"
