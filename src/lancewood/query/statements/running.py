"""Running statements that change tables, with the verbs of tables, one commit each.

Which rows change, and what they become, an engine computes (``queries``); who computes, and who
writes, is an ``Engine``: DuckDB and threads in this process, or Spark and its executors. A DELETE
of all rows needs no engine: the verb does it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from lancewood.engine.snapshot import Snapshot
from lancewood.errors import RetryableConflictError
from lancewood.jobs.counts import Counts, RowCounts
from lancewood.jobs.runner import Runner
from lancewood.query.identifiers import Identifiers
from lancewood.query.sources import AddressedSnapshot, Sources
from lancewood.query.statements.model import (
    Column,
    Delete,
    Insert,
    InsertMode,
    Merge,
    Target,
    Update,
    Written,
)
from lancewood.query.statements.queries import TARGET, ChangeQuery, not_as_many
from lancewood.query.statements.workplace import Workplace, commit_message
from lancewood.store.retry import JOBS
from lancewood.table.table import Table

RowChange: TypeAlias = Insert | Delete | Update | Merge
"""What changes the rows of a table."""
Answered: TypeAlias = tuple[ChangeQuery, Any]
"""A query for changes, and its answer by the engine."""
Ask: TypeAlias = Callable[[Snapshot], Answered]
"""Asks for the changes of a version."""


class Planned(Protocol):
    """A query whose tables are found."""

    def sees(self, table: Snapshot) -> bool:
        """Whether it reads any version of the table on this branch."""
        ...

    def explain(self) -> str:
        """What is asked of its tables."""
        ...


class Dialect(Protocol):
    """The SQL of an engine, as far as statements are written in it."""

    @property
    def identifiers(self) -> Identifiers:
        """How names are compared."""
        ...

    def delete_query(self, statement: Delete) -> ChangeQuery: ...

    def update_query(self, statement: Update, table: pa.Schema) -> ChangeQuery: ...

    def merge_query(
        self, statement: Merge, table: pa.Schema, source: Sequence[str]
    ) -> ChangeQuery: ...

    def replace_query(
        self, statement: Insert, names: Sequence[str], table: pa.Schema
    ) -> ChangeQuery: ...

    def insert_query(self, statement: Insert, table: pa.Schema) -> str:
        """The rows of an INSERT, as a query."""
        ...

    def column_query(self, values: Sequence[str], exposed: str) -> ChangeQuery: ...

    def computed(self, value: str, kind: str | None) -> str:
        """An expression in a type of the dialect, if one is given."""
        ...

    def arrow_type(self, sql: str) -> pa.DataType:
        """The type of a column."""
        ...

    def arrow_schema(self, columns: Sequence[Column], primary_key: Sequence[str]) -> pa.Schema:
        """The schema of a new table."""
        ...


class Engine(Protocol):
    """Who answers queries, and writes what they give."""

    @property
    def dialect(self) -> Dialect:
        """The SQL that it answers."""
        ...

    @property
    def runner(self) -> Runner | None:
        """Who runs the tasks of verbs; None for threads of this process."""
        ...

    def moment(self, sql: str) -> datetime:
        """The time that an expression means; raises InvalidInputError."""
        ...

    def planned(self, sql: str, sources: Sources) -> Planned:
        """A query over these tables."""
        ...

    def answer(self, planned: Any) -> Any:
        """The rows of a query, not computed yet."""
        ...

    def passed(self, text: str, sources: Callable[[], Sources]) -> Any:
        """The answer to a statement that is none of ours: to a query over these tables."""
        ...

    def names(self, rows: Any) -> Sequence[str]:
        """The columns of such rows."""
        ...

    def insert(
        self,
        table: Table,
        rows: Any,
        names: Sequence[str],
        *,
        overwrite: bool,
        serializable: bool = False,
        dry_run: bool,
        message: str | None,
    ) -> Table:
        """The table after rows were added to it, or replaced its own; ``names`` are the columns of
        the table that they are for."""
        ...

    def change(self, table: Table, ask: Ask, *, dry_run: bool, message: str | None) -> Table:
        """The table after its rows were changed as asked."""
        ...

    def columns(self, rows: Any) -> pa.Schema:
        """The columns of a new table with these rows."""
        ...

    def create(
        self,
        place: NewPlace,
        rows: Any,
        *,
        there: Table | None,
        serializable: bool,
        message: str | None,
    ) -> Table:
        """A new table with these rows, or in the place of the one that is there."""
        ...

    def add_columns(
        self,
        table: Table,
        values: Mapping[str, str],
        ask: Ask,
        *,
        dry_run: bool,
        message: str | None,
    ) -> Table:
        """The table with more columns, computed by expressions over the others; ``ask`` gives their
        values with the addresses of rows."""
        ...


@dataclass(frozen=True)
class NewPlace:
    """Where a table is made, and how."""

    uri: str | os.PathLike[str]
    storage_options: Mapping[str, str] | None
    schema: pa.Schema
    """Its columns."""
    config: Mapping[str, str]
    file_version: str | None = None
    stable_row_ids: bool | None = None


@dataclass(frozen=True)
class Done:
    """What a statement did."""

    statement: str
    """Its first words: ``insert``, ``merge``, …"""
    table: str | None
    counts: Counts = None
    version: int | None = None
    commit: str | None = None
    """The commit of the repository, if the statement was one by itself."""

    @property
    def rows(self) -> RowCounts | None:
        return self.counts if isinstance(self.counts, RowCounts) else None


class Runs:
    """What all statements share: where tables are, who computes, and how a commit is made."""

    def __init__(self, workplace: Workplace, engine: Engine) -> None:
        self._workplace = workplace
        self._engine = engine

    @property
    def _identifiers(self) -> Identifiers:
        return self._engine.dialect.identifiers

    def planned(self, sql: str, sources: Sources | None = None) -> Planned:
        """A query over the tables as they are now, or over these."""
        return self._engine.planned(sql, sources or self._workplace.sources())

    def _message(self, statement: Written) -> str | None:
        """What the version says of itself: in a transaction, its own message."""
        if self._workplace.transaction is not None:
            return None
        return commit_message(statement.sql) or None

    def _tried(self, run: Callable[[int], Table]) -> Table:
        """What comes of the first attempt that meets no other writer; in a transaction there is
        one, which is tried as a whole."""
        for attempt in JOBS:
            try:
                return run(attempt)
            except RetryableConflictError:
                if self._workplace.transaction is not None or attempt == JOBS.last:
                    raise
        raise AssertionError("there is a last attempt")

    def _done(
        self, word: str, target: Target, sql: str, run: Callable[[], Table], *, dry_run: bool
    ) -> Done:
        """Run a statement in its transaction, and say what it did."""

        def noted() -> Table:
            after = run()
            if not dry_run:
                self._workplace.wrote(target, after)
            return after

        after, commit = self._workplace.alone(target, sql, noted, dry_run=dry_run)
        made = commit.hash if commit is not None and commit.is_new else None
        return Done(
            word,
            target.written,
            after.counts,
            after.version,
            None if made is None else str(made),
        )


class RowStatements(Runs):
    """Runs the statements that change the rows of a table."""

    def run(self, statement: RowChange, *, dry_run: bool = False) -> Done:
        """What a statement did, or would do. Raises what the verbs raise."""
        if isinstance(statement, Insert):
            return self.insert(statement, dry_run=dry_run)
        if isinstance(statement, Delete):
            return self.delete(statement, dry_run=dry_run)
        if isinstance(statement, Update):
            return self.update(statement, dry_run=dry_run)
        return self.merge(statement, dry_run=dry_run)

    def insert(self, statement: Insert, *, dry_run: bool) -> Done:
        if statement.mode is InsertMode.REPLACE_WHERE:
            return self._change(statement, self._replaced(statement), dry_run=dry_run)

        def run() -> Table:
            table = self._workplace.table(statement.target, dry_run=dry_run)
            return self._tried(
                lambda attempt: self._filled(
                    statement, table.latest() if attempt else table, dry_run=dry_run
                )
            )

        return self._done("insert", statement.target, statement.sql, run, dry_run=dry_run)

    def _filled(self, statement: Insert, table: Table, *, dry_run: bool) -> Table:
        """The table with the rows of the query, which sees the version that is built on. Rows that
        others add to it meanwhile are not among them, and an overwrite by what the table has itself
        would lose them: it may only follow the version that it has read."""
        engine = self._engine
        sources = self._workplace.sources()
        sources.put(statement.target.name, statement.target.revision, table._snapshot)
        query = engine.dialect.insert_query(statement, table.schema)
        planned = self.planned(query, sources)
        rows = engine.answer(planned)
        overwrite = statement.mode is InsertMode.OVERWRITE
        return engine.insert(
            table,
            rows,
            self._inserted(statement, table.schema.names, engine.names(rows)),
            overwrite=overwrite,
            serializable=overwrite and planned.sees(table._snapshot),
            dry_run=dry_run,
            message=self._message(statement),
        )

    def delete(self, statement: Delete, *, dry_run: bool) -> Done:
        dialect = self._engine.dialect
        if statement.where is not None or statement.using is not None:
            return self._change(
                statement, lambda *_: dialect.delete_query(statement), dry_run=dry_run
            )

        def run() -> Table:
            return self._workplace.table(statement.target, dry_run=dry_run).delete(
                "true",
                dry_run=dry_run,
                message=self._message(statement),
                runner=self._engine.runner,
            )

        return self._done("delete", statement.target, statement.sql, run, dry_run=dry_run)

    def update(self, statement: Update, *, dry_run: bool) -> Done:
        dialect = self._engine.dialect

        def made(snapshot: Snapshot, _: Sources) -> ChangeQuery:
            return dialect.update_query(statement, snapshot.arrow_schema)

        return self._change(statement, made, dry_run=dry_run)

    def merge(self, statement: Merge, *, dry_run: bool) -> Done:
        def made(snapshot: Snapshot, sources: Sources) -> ChangeQuery:
            planned = self.planned(f"{statement.queries} {statement.source}", sources)
            source = self._engine.names(self._engine.answer(planned))
            return self._engine.dialect.merge_query(statement, snapshot.arrow_schema, source)

        return self._change(statement, made, dry_run=dry_run)

    def _replaced(self, statement: Insert) -> Callable[[Snapshot, Sources], ChangeQuery]:
        def made(snapshot: Snapshot, sources: Sources) -> ChangeQuery:
            given = self._engine.names(self._engine.answer(self.planned(statement.query, sources)))
            names = self._inserted(statement, snapshot.arrow_schema.names, given)
            return self._engine.dialect.replace_query(statement, names, snapshot.arrow_schema)

        return made

    def _change(
        self,
        statement: RowChange,
        query: Callable[[Snapshot, Sources], ChangeQuery],
        *,
        dry_run: bool,
    ) -> Done:
        """Have the engine find what changes."""
        target = statement.target

        def ask(snapshot: Snapshot) -> Answered:
            sources = self._workplace.sources()
            sources.put(target.name, target.revision, snapshot)
            asked = query(snapshot, sources)
            sources.put(TARGET, None, AddressedSnapshot.of(snapshot))
            return asked, self._engine.answer(self.planned(asked.sql, sources))

        def run() -> Table:
            table = self._workplace.table(target, dry_run=dry_run)
            message = self._message(statement)
            return self._engine.change(table, ask, dry_run=dry_run, message=message)

        word = type(statement).__name__.lower()
        return self._done(word, target, statement.sql, run, dry_run=dry_run)

    def _inserted(
        self, statement: Insert, table: Sequence[str], given: Sequence[str]
    ) -> tuple[str, ...]:
        """The columns of the table that the query's are for, in the order of the query."""
        if statement.by_name:
            return tuple(self._identifiers.column(each, table, "the table") for each in given)
        names = tuple(table)
        if statement.columns is not None:
            names = tuple(
                self._identifiers.column(each, table, "the table") for each in statement.columns
            )
        if len(names) != len(given):
            raise not_as_many(statement, len(given), names)
        return names
