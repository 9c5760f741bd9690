"""The engine of statements: DuckDB answers the queries that say what changes, and threads of this
process write it.

Rows that are inserted come from DuckDB batch by batch; what a merge changes is held in memory.
``lancewood.spark`` has another engine, of which Spark answers and executors write.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from lancewood.engine.base import Addresses
from lancewood.engine.snapshot import Access, Snapshot
from lancewood.engine.write import WriteRequest, create_table, rows_to_overwrite
from lancewood.errors import InvalidInputError
from lancewood.expr.parameters import Parameters, kept
from lancewood.jobs.job import CommitOptions
from lancewood.jobs.merging.addressed import RowChanges
from lancewood.jobs.runner import Runner
from lancewood.query.answer import answer
from lancewood.query.database import cursor
from lancewood.query.identifiers import Identifiers
from lancewood.query.names import moment
from lancewood.query.sources import Sources
from lancewood.query.statements import parsing, queries
from lancewood.query.statements.model import DELETED, INSERTED, REFUSED, UPDATED
from lancewood.query.statements.queries import CHANGE, ROW, ChangeQuery, matched_twice, not_replaced
from lancewood.query.statements.values import stored_reader, stored_table
from lancewood.table.table import Table

Answered: TypeAlias = tuple[ChangeQuery, Any]
"""A query for changes, and its answer by the engine."""
Ask: TypeAlias = Callable[[Snapshot], Answered]
"""Asks for the changes of a version."""


class Here:
    """Statements in DuckDB's SQL: DuckDB answers, threads of this process write."""

    identifiers = Identifiers()
    runner: Runner | None = None
    """Who runs the tasks of verbs; None for threads of this process."""
    delete_query = staticmethod(queries.delete_query)
    update_query = staticmethod(queries.update_query)
    merge_query = staticmethod(queries.merge_query)
    replace_query = staticmethod(queries.replace_query)
    insert_query = staticmethod(queries.insert_query)
    arrow_schema = staticmethod(parsing.arrow_schema)

    def __init__(self, args: Parameters = None, *, pushdown: bool = True) -> None:
        self._args = kept(args)
        self._pushdown = pushdown

    def arrow_type(self, sql: str) -> pa.DataType:
        """The type of a column."""
        return parsing.arrow_type(sql)

    def moment(self, sql: str) -> datetime:
        """The time that an expression means; raises InvalidInputError."""
        with cursor() as own:
            return moment(sql, own)

    def planned(self, sql: str, sources: Sources) -> Any:
        """A query over these tables: it ``sees`` versions of them, and can ``explain`` itself."""
        return answer(sql, sources, self._args, pushdown=self._pushdown, may_be_unused=True)

    def answer(self, planned: Any) -> Any:
        """The rows of a query, not computed yet."""
        return planned

    def passed(self, text: str, sources: Callable[[], Sources]) -> Any:
        """The answer to a statement that is none of ours: to a query over these tables."""
        return self.planned(text, sources())

    def names(self, rows: Any) -> Sequence[str]:
        """The columns of such rows."""
        return list(rows.schema.names)

    def columns(self, rows: Any) -> pa.Schema:
        """The columns of a new table with these rows."""
        return rows.schema

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
        rows = rows.wrapped(lambda sql: queries.cast_query(sql, names, table.schema))
        given = stored_reader(rows.to_batches(), names, rows.schema, table.schema)
        how: dict[str, Any] = {"serializable": serializable, "dry_run": dry_run, "message": message}
        if overwrite:
            return table.overwrite(given, schema=table.schema, **how)
        return table.append(given, **how)

    def change(self, table: Table, ask: Ask, *, dry_run: bool, message: str | None) -> Table:
        """The table after its rows were changed as asked."""

        def find(snapshot: Snapshot) -> RowChanges:
            query, found = ask(snapshot)
            return row_changes(query, found.to_arrow(), snapshot.arrow_schema)

        return table._change(find, dry_run=dry_run, message=message)

    def create(
        self,
        uri: str | os.PathLike[str],
        options: Mapping[str, str] | None,
        new: NewTable,
        *,
        there: Table | None,
        message: str | None,
    ) -> Table:
        """A new table, or what the one that is there becomes; ``options`` are those of the
        store."""
        data: Any = new.schema
        if new.rows is not None:
            data = stored_reader(
                new.rows.to_batches(), new.schema.names, new.rows.schema, new.schema
            )
        request = new.request(replaces=there is not None)
        if there is not None:
            overwrite = rows_to_overwrite(there._snapshot, data, request)
            commit_options = CommitOptions.of(message, serializable=new.is_own)
            return there._write(overwrite, commit_options, dry_run=False)
        location = Access(uri, storage_options=options).whole("create")
        return Table(create_table(location, data, request, message=message))

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
    """Those of a query, by the engine; None for an empty table."""
    options: Mapping[str, Any]
    """``file_version`` and ``stable_row_ids``, where they are given."""
    config: Mapping[str, str]
    is_own: bool = False
    """Whether they are made of the rows of the table that is replaced."""

    def request(self, *, replaces: bool) -> WriteRequest:
        """How the rows are written; whether they replace those of a table that is there."""
        return WriteRequest(
            mode="overwrite" if replaces else "error",
            schema=self.schema,
            overwrite_schema=replaces,
            config=self.config,
            **self.options,
        )


def row_changes(query: ChangeQuery, rows: pa.Table, table: pa.Schema) -> RowChanges:
    """The answer to a query for changes, as changes. Raises InvalidInputError if a row of the table
    is matched by two of the source, and if new rows do not meet REPLACE WHERE."""
    expected = [ROW, CHANGE, *(f"__lancewood_{at}" for at in range(len(query.values)))]
    if rows.schema.names != expected:
        raise InvalidInputError("a value that is set is one value, and not several")
    rows = rows.combine_chunks()
    change = rows.column(1).to_numpy()
    address = rows.column(0)
    has_address = address.is_valid().to_numpy()
    numbers: Addresses = address.fill_null(0).to_numpy().astype(np.uint64)
    refused = int(np.count_nonzero(change == REFUSED))
    if refused:
        raise not_replaced(refused)
    deleted = numbers[change == DELETED]
    if query.deletes_repeatedly:
        deleted = np.unique(deleted)
    else:
        found = numbers[has_address]
        if len(np.unique(found)) < len(found):
            raise matched_twice("MERGE" if query.inserted or query.on else "UPDATE or MERGE")
    values = {name: rows.column(2 + at) for at, name in enumerate(query.values)}

    def chosen(which: int, names: Sequence[str]) -> pa.Table:
        mask = pa.array(change == which)
        return stored_table(pa.table({each: values[each].filter(mask) for each in names}), table)

    updated = change == UPDATED
    return RowChanges(
        updated=numbers[updated],
        values=chosen(UPDATED, query.updated),
        deleted=deleted,
        new=chosen(INSERTED, query.inserted),
        unchanged=int(np.count_nonzero(change == 0)),
        on=query.on,
    )
