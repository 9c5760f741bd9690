"""The engine of statements: DuckDB answers queries that say what changes, and threads of this
process write it.

DuckDB decides conditions and computes values, so that both mean what they mean in a SELECT,
subqueries included; a value is cast to the type of its column, as DuckDB does it. The table stands
in FROM under a name that nobody else has, with the address of each row as one more column. The
answer has the columns ``ROW``, ``CHANGE`` and one for each value.

Rows that are inserted come from DuckDB batch by batch; what a merge changes is held in memory.
``lancewood.spark`` has another engine, of which Spark answers and executors write.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from lancewood.engine.base import Addresses
from lancewood.engine.snapshot import Access, Address, Snapshot
from lancewood.engine.write import WriteRequest, create_table, rows_to_overwrite
from lancewood.errors import InvalidInputError, UnsupportedError
from lancewood.expr.columns import duckdb_type, why_not
from lancewood.expr.database import FAILED, QUERIES
from lancewood.expr.syntax import Parameters, kept
from lancewood.jobs.job import CommitOptions
from lancewood.jobs.merge_into.addressed import RowChanges
from lancewood.jobs.rows.fitting import fitted_rows
from lancewood.jobs.runner import Runner
from lancewood.model.schema import ROW_ADDRESS
from lancewood.query.answer import answer
from lancewood.query.names import moment, parsed_expression
from lancewood.query.sources import Identifiers, Sources
from lancewood.query.statements import model
from lancewood.query.statements.model import DELETED, INSERTED, KEPT, REFUSED, UPDATED
from lancewood.query.statements.reader import arrow_type
from lancewood.query.tokens import literal, quoted
from lancewood.table.table import Table

TARGET = "__lancewood_target"
"""The name under which the table is asked that is changed."""
ROW, CHANGE = "__lancewood_row", "__lancewood_change"
"""The address of a row of the table, null for a new one; what becomes of it."""

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
    serializable: bool = False
    """Whether it reads the table itself beside the rows that it changes."""

    @property
    def values(self) -> tuple[str, ...]:
        """The columns of the table whose values the answer has, after ``ROW`` and ``CHANGE``."""
        return tuple(dict.fromkeys((*self.updated, *self.inserted)))


def change_query(statement: model.RowChange, table: pa.Schema, given: Sequence[str]) -> ChangeQuery:
    """The rows that a statement changes, and what they become. ``given`` are the columns of the
    source of a merge; for REPLACE WHERE, those of the table that new rows give."""
    if isinstance(statement, model.Merge):
        return _MergeQuery(statement, table, given).made()
    if isinstance(statement, model.Insert):
        return _replace_query(statement, table, given)
    change, values = DELETED, dict[str, str]()
    if isinstance(statement, model.Update):
        change, columns = UPDATED, _Columns(table)
        values = {
            name: columns.cast(value, name)
            for name, value in columns.assigned(statement.assignments).items()
        }
    exposed = quoted(statement.alias or statement.target.name)
    others = "" if statement.others is None else f", {statement.others}\n"
    return ChangeQuery(
        f"{statement.queries} SELECT {exposed}.{ROW_ADDRESS} AS {ROW}, {change} AS {CHANGE}"
        f"{_listed(values.values())} FROM {TARGET} AS {exposed}{others}{_where(statement.where)}",
        updated=tuple(values),
        deletes_repeatedly=change == DELETED,
    )


def _replace_query(statement: model.Insert, table: pa.Schema, names: Sequence[str]) -> ChangeQuery:
    """The rows that give way, and those that come instead."""
    exposed, columns = quoted(statement.target.name), _Columns(table)
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


def values_query(rows: Sequence[Sequence[str]], names: Sequence[str], table: pa.Schema) -> str:
    """Rows of VALUES, each value in the type of the column of the table that it is for."""
    columns = _Columns(table)
    listed = [", ".join(map(columns.cast, row, names)) for row in rows]
    return f"VALUES {', '.join(f'({each})' for each in listed)}"


def cast_query(query: str, names: Sequence[str], table: pa.Schema) -> str:
    """The rows of a query, each value in the type of the column of the table that it is for."""
    places = [f"c{at}" for at in range(len(names))]
    values = map(_Columns(table).cast, places, names)
    listed = ", ".join(
        f"{value} AS {quoted(name)}" for value, name in zip(values, names, strict=True)
    )
    return f"SELECT {listed} FROM ({query}\n) AS {_SOURCE}({', '.join(places)})"


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


class _Columns:
    """The columns of the table that is changed, and their types in DuckDB."""

    def __init__(self, table: pa.Schema) -> None:
        self._table = table
        held = [each for each in table if why_not(each, table.names) is None]
        declared = [pa.field(f"c{at}", duckdb_type(each)) for at, each in enumerate(held)]
        types: list[Any] = []
        if held:
            with QUERIES.cursor() as own:
                own.register("__lancewood_types", pa.Table.from_batches([], pa.schema(declared)))
                types = own.sql("SELECT * FROM __lancewood_types").types
        self._types = {each.name: str(kind) for each, kind in zip(held, types, strict=True)}

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

    def assigned(self, assignments: Sequence[model.Assignment]) -> dict[str, str]:
        """The new value of each column that is set, not cast yet."""
        return {
            _NAMES.column(each.path[0], self._table.names, "the table"): each.value
            for each in assignments
        }


@dataclass(frozen=True)
class _Clause:
    """A clause of a merge, its number, and the values that it sets, not cast yet."""

    at: int
    clause: model.MergeClause
    values: Mapping[str, str]

    @property
    def case(self) -> str:
        """When it acts, and its number; or the error with which it fails."""
        clause, result = self.clause, str(self.at)
        condition = "true" if clause.condition is None else f"({clause.condition}\n)"
        if clause.action.failure is not None:
            text = literal(f"{FAILED}{clause.when.value.upper()} … THEN ERROR")
            if clause.action.failure:
                text += f" || ': ' || ({clause.action.failure}\n)"
            result = f"CAST(error({text}) AS INTEGER)"
        return f" WHEN {condition} THEN {result}"


class _MergeQuery:
    """The query for one merge: a SELECT for each kind of rows, in which names mean what they mean
    in the clauses about them. Rows that are not matched have the columns of one side alone."""

    def __init__(self, statement: model.Merge, table: pa.Schema, source: Sequence[str]) -> None:
        self._statement = statement
        self._table = table
        self._source = source
        self._columns = _Columns(table)
        self._target_name = statement.alias or statement.target.name
        self._source_name = statement.source_alias or _SOURCE
        self._target, self._from = quoted(self._target_name), quoted(self._source_name)
        self._clauses = [
            _Clause(at, each, self._values(each)) for at, each in enumerate(statement.clauses)
        ]
        self._updated, self._inserted = self._set(UPDATED), self._set(INSERTED)

    def made(self) -> ChangeQuery:
        queries = self._statement.queries
        head = f"{queries}," if queries else "WITH"
        kinds = [each for each in model.When if self._statement.of(each)]
        selects = " UNION ALL ".join(map(self._select, kinds))
        sql = f"{head} {_ONCE} AS MATERIALIZED ({self._statement.source}\n) {selects}"
        return ChangeQuery(sql, self._updated, self._inserted, self._key())

    def _set(self, change: int) -> tuple[str, ...]:
        """The columns that clauses with such a change set."""
        clauses = [each for each in self._clauses if each.clause.action.change == change]
        return tuple(dict.fromkeys(name for each in clauses for name in each.values))

    def _values(self, clause: model.MergeClause) -> dict[str, str]:
        """The values that a clause sets, by columns of the table."""
        action, names = clause.action, self._table.names
        if action.change in (KEPT, DELETED):
            return {}
        if action.assignments is None:
            return self._values_of_source(clause)
        if action.change == UPDATED or any(each.path for each in action.assignments):
            return self._columns.assigned(action.assignments)
        values = [each.value for each in action.assignments] or ["NULL"] * len(names)
        if len(values) != len(names):
            raise InvalidInputError(
                f"MERGE: INSERT gives {len(values)} values for {len(names)} columns: "
                f"{', '.join(names)}; name the columns that are given"
            )
        return dict(zip(names, values, strict=True))

    def _values_of_source(self, clause: model.MergeClause) -> dict[str, str]:
        names, source = self._table.names, self._source
        if clause.when is model.When.NOT_MATCHED_BY_SOURCE:
            raise InvalidInputError(
                "WHEN NOT MATCHED BY SOURCE: the source has no such row; name columns and values"
            )
        if clause.action.by_name:
            names = [_NAMES.column(each, names, "the table") for each in source]
        elif len(names) != len(source):
            raise InvalidInputError(
                f"MERGE: the source has {len(source)} columns for {len(names)} of the table: "
                f"{', '.join(names)}; write BY NAME, or name columns and values"
            )
        values = [f"{self._from}.{quoted(each)}" for each in source]
        return dict(zip(names, values, strict=True))

    def _select(self, when: model.When) -> str:
        own = [each for each in self._clauses if each.clause.when is when]
        changes = "".join(f" WHEN {each.at} THEN {each.clause.action.change}" for each in own)
        address = "CAST(NULL AS UBIGINT)"
        if when is not model.When.NOT_MATCHED:
            address = f"{self._target}.{ROW_ADDRESS}"
            new = ", ".join(str(each.at) for each in own if each.clause.action.change == INSERTED)
            address = f"CASE WHEN {_CLAUSE} NOT IN ({new}) THEN {address} END" if new else address
        names = dict.fromkeys((*self._updated, *self._inserted))
        listed = _listed(self._value(own, name) for name in names)
        return (
            f"SELECT {address} AS {ROW}, CASE {_CLAUSE}{changes} END AS {CHANGE}{listed} "
            f"FROM {self._joined(when)}, "
            f"LATERAL (SELECT CASE{''.join(each.case for each in own)} END AS {_CLAUSE}) "
            f"AS {_CLAUSE}s WHERE {_CLAUSE} IS NOT NULL AND {CHANGE} <> {KEPT}"
        )

    def _value(self, own: Sequence[_Clause], name: str) -> str:
        """The value of a column by the clause that acts: its own, the old one of a row that is
        updated otherwise, or null."""
        whens = ""
        for each in own:
            if name in each.values:
                whens += f" WHEN {each.at} THEN {self._columns.cast(each.values[name], name)}"
            elif each.clause.action.change == UPDATED and name in self._updated:
                whens += f" WHEN {each.at} THEN {self._target}.{quoted(name)}"
        return f"CASE {_CLAUSE}{whens} END" if whens else self._columns.cast("NULL", name)

    def _joined(self, when: model.When) -> str:
        statement = self._statement
        target, source = f"{TARGET} AS {self._target}", f"{_ONCE} AS {self._from}"
        using = f"USING ({', '.join(map(quoted, statement.using))})"
        how = using if statement.using else f"ON ({statement.on}\n)"
        if when is model.When.MATCHED:
            return f"{target} JOIN {source} {how}"
        if when is model.When.NOT_MATCHED:
            return f"{source} ANTI JOIN {target} {how}"
        return f"{target} ANTI JOIN {source} {how}"

    def _key(self) -> tuple[str, ...] | None:
        """The columns of the table that are compared with columns of the source, if new rows get
        just these values, and nothing else is compared."""
        pairs = self._pairs()
        new = [each.values for each in self._clauses if each.clause.action.change == INSERTED]
        if not pairs or not new:
            return None
        for name, theirs in pairs.items():
            for values in new:
                is_table, given = self._side(parsed_expression(values.get(name, "NULL")))
                if is_table or given != theirs:
                    return None
        return tuple(pairs)

    def _pairs(self) -> dict[str, str]:
        """Columns of the table and of the source that are equal in rows that match; none if they
        match by something else."""
        found: dict[str, str] = {}
        for each in self._statement.using:
            name = _NAMES.column(each, self._table.names, "the table")
            found[name] = _NAMES.column(each, self._source, "the source")
        if found:
            return found
        tree = parsed_expression(self._statement.on)
        is_and = tree.get("type") == "CONJUNCTION_AND"
        for equal in tree["children"] if is_and else [tree]:
            if equal.get("type") != "COMPARE_EQUAL":
                return {}
            sides = [self._side(equal[each]) for each in ("left", "right")]
            both = {is_table: name for is_table, name in sides if name is not None}
            if set(both) != {True, False} or both[True] in found:
                return {}
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


def _listed(values: Iterable[str]) -> str:
    return "".join(f", {sql} AS __lancewood_{at}" for at, sql in enumerate(values))


def _where(condition: str | None) -> str:
    # A comment at the end of the condition ends with its line.
    return "" if condition is None else f" WHERE ({condition}\n)"


Answered: TypeAlias = tuple[ChangeQuery, Any]
"""A query for changes, and its answer by the engine."""
Ask: TypeAlias = Callable[[Snapshot], Answered]
"""Asks for the changes of a version."""


class Engine:
    """Statements in DuckDB's SQL: DuckDB answers, threads of this process write."""

    identifiers = Identifiers()
    runner: Runner | None = None
    """Who runs the tasks of verbs; None for threads of this process."""
    change_query = staticmethod(change_query)
    moment = staticmethod(moment)

    def __init__(self, args: Parameters = None, *, pushdown: bool = True) -> None:
        self._args = kept(args)
        self._pushdown = pushdown

    def arrow_type(self, sql: str) -> pa.DataType:
        """The type of a column of a table; raises InvalidInputError, and UnsupportedError for one
        that tables cannot hold."""
        return arrow_type(sql)

    def planned(self, sql: str, sources: Sources) -> Any:
        """A query over these tables: it ``sees`` versions of them, and can ``explain`` itself."""
        return answer(sql, sources, self._args, pushdown=self._pushdown, may_be_unused=True)

    def answer(self, planned: Any) -> Any:
        """The rows of a query, not computed yet."""
        return planned

    passed = planned
    """The answer to a statement that is none of ours: to a query over these tables."""

    def names(self, rows: Any) -> Sequence[str]:
        """The names of the columns of a query's rows."""
        return list(rows.schema.names)

    def columns(self, rows: Any) -> pa.Schema:
        """The columns of a new table with a query's rows."""
        return rows.schema

    def insert(
        self, table: Table, rows: Any, names: Sequence[str], *, overwrite: bool, **how: Any
    ) -> Table:
        """The table after rows were added to it, or replaced its own. ``names`` are the columns of
        the table that they are for, ``how`` has options of the verbs of tables: ``dry_run``,
        ``message``, ``commit``."""
        rows = rows.wrapped(lambda sql: cast_query(sql, names, table.schema))
        given = fitted_rows(rows.to_batches(), names, rows.schema, table.schema)
        if overwrite:
            return table.overwrite(given, schema=table.schema, **how)
        return table.append(given, **how)

    def change(self, table: Table, ask: Ask, *, dry_run: bool, message: str | None) -> Table:
        """The table after its rows were changed as asked."""

        def find(snapshot: Snapshot) -> RowChanges:
            query, found = ask(snapshot)
            return _row_changes(query, found.to_arrow(), snapshot.arrow_schema)

        return table._change(find, dry_run=dry_run, message=message)

    def create(
        self, uri: str | os.PathLike[str], access: Access | None, new: NewTable, message: str | None
    ) -> Table:
        """A new table, or what the one that is there becomes."""
        data: Any = new.schema
        if new.rows is not None:
            data = pa.RecordBatchReader.from_batches(new.schema, new.rows.to_batches())
        if new.there is not None:
            overwrite = rows_to_overwrite(new.there._snapshot, data, new.request)
            commit_options = CommitOptions(message, serializable=new.is_own)
            return new.there._write(overwrite, commit_options, dry_run=False)
        location = Address(uri, access).whole("create")
        return Table(create_table(location, data, new.request, message=message))

    def add_columns(
        self, table: Table, values: Mapping[str, str], *, dry_run: bool, message: str | None
    ) -> Table:
        """The table with more columns, computed by expressions over the others."""
        return table.add_columns(values, dry_run=dry_run, message=message)


@dataclass(frozen=True)
class NewTable:
    """A table that is to be made."""

    schema: pa.Schema
    rows: Any
    """The rows of a query, by the engine; None for an empty table."""
    options: Mapping[str, Any]
    """``file_version`` and ``stable_row_ids``, where they are given."""
    config: Mapping[str, str]
    there: Table | None = None
    """The table that is replaced."""
    is_own: bool = False
    """Whether the rows are made of those of that table."""

    @property
    def request(self) -> WriteRequest:
        """How the rows are written."""
        replaces = self.there is not None
        return WriteRequest(
            mode="overwrite" if replaces else "error",
            schema=self.schema,
            overwrite_schema=replaces,
            config=self.config,
            **self.options,
        )


def _row_changes(query: ChangeQuery, rows: pa.Table, table: pa.Schema) -> RowChanges:
    """The answer to a query for changes, as changes. Raises InvalidInputError if a row of the table
    is matched by two of the source, and if new rows do not meet REPLACE WHERE."""
    expected = [ROW, CHANGE, *(f"__lancewood_{at}" for at in range(len(query.values)))]
    if rows.schema.names != expected:
        raise InvalidInputError("a value that is set is one value, and not several")
    rows = rows.combine_chunks()
    change = rows.column(1).to_numpy()
    address = rows.column(0)
    numbers: Addresses = address.fill_null(0).to_numpy().astype(np.uint64)
    refused = int(np.count_nonzero(change == REFUSED))
    if refused:
        raise not_replaced(refused)
    deleted = numbers[change == DELETED]
    if query.deletes_repeatedly:
        deleted = np.unique(deleted)
    else:
        found = numbers[address.is_valid().to_numpy()]
        if len(np.unique(found)) < len(found):
            raise matched_twice("MERGE" if query.inserted or query.on else "UPDATE or MERGE")
    values = {name: rows.column(2 + at) for at, name in enumerate(query.values)}

    def chosen(which: int, names: Sequence[str]) -> pa.Table:
        mask = pa.array(change == which)
        found = pa.table({each: values[each].filter(mask) for each in names})
        return fitted_rows(iter(found.to_batches()), names, found.schema, table).read_all()

    return RowChanges(
        updated=numbers[change == UPDATED],
        values=chosen(UPDATED, query.updated),
        deleted=deleted,
        new=chosen(INSERTED, query.inserted),
        on=query.on,
        serializable=query.serializable,
    )
