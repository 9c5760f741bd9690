"""``lancewood.sql``: a script answered and run in this process, by DuckDB and threads.

Rows that are inserted come from DuckDB batch by batch; what a merge changes is held in memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from lancewood.engine.base import Addresses
from lancewood.engine.snapshot import Access, Snapshot
from lancewood.engine.write import WriteRequest, create_table, rows_to_overwrite
from lancewood.errors import InvalidInputError
from lancewood.jobs.job import CommitOptions
from lancewood.jobs.merging.addressed import RowChanges
from lancewood.query.answer import Answer, Args, answer, checked_args
from lancewood.query.database import cursor
from lancewood.query.identifiers import Identifiers
from lancewood.query.names import moment
from lancewood.query.sources import Source, Sources
from lancewood.query.statements import parsing, queries
from lancewood.query.statements.model import Column, Delete, Insert, Merge, Update
from lancewood.query.statements.queries import (
    CHANGE,
    DELETED,
    INSERTED,
    REFUSED,
    ROW,
    UPDATED,
    ChangeQuery,
    matched_twice,
    not_replaced,
)
from lancewood.query.statements.running import Ask, NewPlace
from lancewood.query.statements.script import is_query, parse_script
from lancewood.query.statements.sequence import run_script
from lancewood.query.statements.values import stored_reader, stored_table
from lancewood.query.statements.workplace import Workplace
from lancewood.repo.repository import Repository
from lancewood.table.table import Table


def sql(
    query: str,
    *,
    tables: Mapping[str, Source] | None = None,
    repository: Repository | str | os.PathLike[str] | None = None,
    revision: str | None = None,
    args: Args = None,
    storage_options: Mapping[str, str] | None = None,
    pushdown: bool = True,
) -> Answer:
    """The answer to a query in DuckDB's SQL, whose tables may be named with revisions; computed by
    DuckDB in this process. Statements that change tables are run, too.

    ``tables`` maps names to uris and handles, ``repository`` has the tables of a commit, HEAD's or
    that of ``revision``. Where neither is given, a quoted name may be a uri: ``SELECT * FROM
    'photos.lance@v1.0'``. A name in the query may carry its own revision: ``photos@exp``,
    ``photos@v1.0``, ``photos@:12``, ``photos AT (VERSION => 12)``, ``photos AT (TIMESTAMP =>
    '2026-11-15')``; others go in double quotes. ``FROM diff('photos', 'v1.0', 'exp')`` has the rows
    that differ between two revisions, as ``Table.diff`` gives them. ``args`` are values for
    ``$name`` (a mapping), or for ``$1`` and ``?`` (a list).

    Every version is resolved now, and once for the same name and revision; rows are read and
    computed on demand, with bounded memory. ``pushdown=False`` reads all of every table, for the
    same answer. Raises NotFoundError, and InvalidInputError for what DuckDB refuses.

    INSERT, UPDATE, DELETE, MERGE INTO, CREATE TABLE and the like are done before this returns, each
    by the verb of ``Table`` and as one commit, on ``photos@exp`` as well. In a repository, what
    stands between BEGIN and COMMIT 'message' is one commit over many tables. Several statements
    are separated by semicolons; the answer is that of the last one if it is a query, else a row for
    each statement, with the columns statement, table, inserted, updated, deleted, version, commit.
    """
    engine = Here(args, pushdown=pushdown)
    script = parse_script(query)
    if is_query(script):
        sources = Sources(tables, repository, revision, storage_options, Identifiers())
        return answer(query, sources, args, pushdown=pushdown)
    if args is not None and not isinstance(args, Mapping):
        raise InvalidInputError("statements take values for $name, not a list for $1 and ?")
    workplace = Workplace(tables, repository, revision, storage_options, Identifiers())
    found = run_script(script, workplace, engine)
    return Report(found.report) if found.rows is None else found.rows


class Report(Answer):
    """What statements did, as rows."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows
        self._schema = rows.schema

    def explain(self) -> str:
        """Nothing is read for it any more."""
        return ""

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        yield from self._rows.to_batches()

    def __repr__(self) -> str:
        return f"<Report {self._rows.to_pylist()}>"


class DuckDBDialect:
    """Statements in DuckDB's SQL."""

    identifiers = Identifiers()

    def delete_query(self, statement: Delete) -> ChangeQuery:
        return queries.delete_query(statement)

    def update_query(self, statement: Update, table: pa.Schema) -> ChangeQuery:
        return queries.update_query(statement, table)

    def merge_query(self, statement: Merge, table: pa.Schema, source: Sequence[str]) -> ChangeQuery:
        return queries.merge_query(statement, table, source)

    def replace_query(
        self, statement: Insert, names: Sequence[str], table: pa.Schema
    ) -> ChangeQuery:
        return queries.replace_query(statement, names, table)

    def insert_query(self, statement: Insert, table: pa.Schema) -> str:
        return queries.values_query(statement, table) if statement.values else statement.query

    def column_query(self, values: Sequence[str], exposed: str) -> ChangeQuery:
        return queries.column_query(values, exposed)

    def computed(self, value: str, kind: str | None) -> str:
        return f"({value}\n)" if kind is None else f"CAST(({value}\n) AS {kind})"

    def arrow_type(self, sql: str) -> pa.DataType:
        return parsing.arrow_type(sql)

    def arrow_schema(self, columns: Sequence[Column], primary_key: Sequence[str]) -> pa.Schema:
        return parsing.arrow_schema(columns, primary_key)


class Here:
    """DuckDB answers, threads of this process write."""

    dialect = DuckDBDialect()
    runner = None

    def __init__(self, args: Args = None, *, pushdown: bool = True) -> None:
        self._args = checked_args(args)
        self._pushdown = pushdown

    def moment(self, sql: str) -> datetime:
        with cursor() as own:
            return moment(sql, own)

    def planned(self, sql: str, sources: Sources) -> Answer:
        return answer(sql, sources, self._args, pushdown=self._pushdown, may_be_unused=True)

    def answer(self, planned: Answer) -> Answer:
        return planned

    def passed(self, text: str, sources: Callable[[], Sources]) -> Answer:
        return self.planned(text, sources())

    def names(self, rows: Answer) -> Sequence[str]:
        return list(rows.schema.names)

    def insert(
        self,
        table: Table,
        rows: Answer,
        names: Sequence[str],
        *,
        overwrite: bool,
        serializable: bool = False,
        dry_run: bool,
        message: str | None,
    ) -> Table:
        rows = rows.wrapped(lambda sql: queries.cast_query(sql, names, table.schema))
        given = stored_reader(rows.to_batches(), names, rows.schema, table.schema)
        how: dict[str, Any] = {"serializable": serializable, "dry_run": dry_run, "message": message}
        if overwrite:
            return table.overwrite(given, schema=table.schema, **how)
        return table.append(given, **how)

    def change(self, table: Table, ask: Ask, *, dry_run: bool, message: str | None) -> Table:
        def find(snapshot: Snapshot) -> RowChanges:
            query, found = ask(snapshot)
            return row_changes(query, found.to_arrow(), snapshot.arrow_schema)

        return table._change(find, dry_run=dry_run, message=message)

    def columns(self, rows: Answer) -> pa.Schema:
        return rows.schema

    def create(
        self,
        place: NewPlace,
        rows: Answer | None,
        *,
        there: Table | None,
        serializable: bool,
        message: str | None,
    ) -> Table:
        schema, options = place.schema, place.storage_options
        data: Any = schema
        if rows is not None:
            data = stored_reader(rows.to_batches(), schema.names, rows.schema, schema)
        request = WriteRequest(
            mode="error" if there is None else "overwrite",
            schema=schema,
            overwrite_schema=there is not None,
            stable_row_ids=place.stable_row_ids,
            file_version=place.file_version,
            config=place.config,
        )
        if there is not None:
            new = rows_to_overwrite(there._snapshot, data, request)
            commit_options = CommitOptions.of(message, serializable=serializable)
            return there._write(new, commit_options, dry_run=False)
        location = Access(place.uri, storage_options=options).whole("create")
        return Table(create_table(location, data, request, message=message))

    def add_columns(
        self,
        table: Table,
        values: Mapping[str, str],
        ask: Ask,
        *,
        dry_run: bool,
        message: str | None,
    ) -> Table:
        _, found = ask(table._snapshot)
        rows = found.to_arrow()
        order = pa.array(_scan_order(table._snapshot, rows.column(0).to_numpy()))
        columns = {name: rows.column(2 + at).take(order) for at, name in enumerate(values)}
        return table.add_columns(pa.table(columns), dry_run=dry_run, message=message)


def _scan_order(snapshot: Snapshot, addresses: Any) -> Any:
    """The places of rows in the order of a scan: that of the fragments, then that in each."""
    ranks = {int(each.id): at for at, each in enumerate(snapshot.manifest.fragments)}
    owners, back = np.unique(addresses >> 32, return_inverse=True)
    ranked = np.array([ranks[int(each)] for each in owners], np.int64)[back]
    return np.lexsort((addresses, ranked))


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
