"""The engine of statements: DuckDB answers the queries that say what changes, and threads of this
process write it.

Rows that are inserted come from DuckDB batch by batch; what a merge changes is held in memory.
``lancewood.spark`` has another engine, of which Spark answers and executors write.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from lancewood.engine.base import Addresses
from lancewood.engine.snapshot import Access, Snapshot
from lancewood.engine.write import WriteRequest, create_table, rows_to_overwrite
from lancewood.errors import InvalidInputError
from lancewood.expr.syntax import Parameters, kept
from lancewood.jobs.job import CommitOptions
from lancewood.jobs.merging.addressed import RowChanges
from lancewood.jobs.rows.fitting import can_become, fitted
from lancewood.jobs.runner import Runner
from lancewood.query.answer import answer
from lancewood.query.names import moment
from lancewood.query.sources import Identifiers, Sources
from lancewood.query.statements import queries
from lancewood.query.statements.model import DELETED, INSERTED, REFUSED, UPDATED
from lancewood.query.statements.queries import CHANGE, ROW, ChangeQuery, matched_twice, not_replaced
from lancewood.query.statements.reader import arrow_type
from lancewood.table.table import Table

Answered: TypeAlias = tuple[ChangeQuery, Any]
"""A query for changes, and its answer by the engine."""
Ask: TypeAlias = Callable[[Snapshot], Answered]
"""Asks for the changes of a version."""


class Engine:
    """Statements in DuckDB's SQL: DuckDB answers, threads of this process write."""

    identifiers = Identifiers()
    runner: Runner | None = None
    """Who runs the tasks of verbs; None for threads of this process."""
    change_query = staticmethod(queries.change_query)
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

    def passed(self, text: str, sources: Sources) -> Any:
        """The answer to a statement that is none of ours: to a query over these tables."""
        return self.planned(text, sources)

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
        ``message``, ``serializable``."""
        rows = rows.wrapped(lambda sql: queries.cast_query(sql, names, table.schema))
        given = _stored(rows.to_batches(), names, rows.schema, table.schema)
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
        self,
        uri: str | os.PathLike[str],
        storage_options: Mapping[str, str] | None,
        new: NewTable,
        message: str | None,
    ) -> Table:
        """A new table, or what the one that is there becomes."""
        data: Any = new.schema
        if new.rows is not None:
            data = _stored(new.rows.to_batches(), new.schema.names, new.rows.schema, new.schema)
        if new.there is not None:
            overwrite = rows_to_overwrite(new.there._snapshot, data, new.request)
            commit_options = CommitOptions.of(message, serializable=new.is_own)
            return new.there._write(overwrite, commit_options, dry_run=False)
        location = Access(uri, storage_options=storage_options).whole("create")
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
    """Those of a query, by the engine; None for an empty table."""
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
        return _stored(iter(found.to_batches()), names, found.schema, table).read_all()

    return RowChanges(
        updated=numbers[change == UPDATED],
        values=chosen(UPDATED, query.updated),
        deleted=deleted,
        new=chosen(INSERTED, query.inserted),
        unchanged=int(np.count_nonzero(change == 0)),
        on=query.on,
        serializable=query.serializable,
    )


def _stored(
    batches: Iterator[pa.RecordBatch], names: Sequence[str], given: pa.Schema, table: pa.Schema
) -> pa.RecordBatchReader:
    """The rows of a query in the types in which a table stores its columns of these names.

    Raises InvalidInputError for a value that would be another one there; about a type that is none
    for the column, the write complains.
    """
    known = {each.name: each.type for each in table}
    fields = []
    for name, kind in zip(names, given.types, strict=True):
        wanted = known.get(name, kind)
        is_cast = can_become(kind, wanted) and not pt.is_null(kind)
        fields.append(pa.field(name, wanted if is_cast else kind))
    schema = pa.schema(fields)

    def stored(array: pa.Array, column: pa.Field) -> pa.Array:
        try:
            return fitted(array, column.type)
        except InvalidInputError as cause:
            raise InvalidInputError(
                f"column {column.name!r} is {column.type}, and a value of {array.type} does not "
                f"fit: {cause.message}; write one that fits, or change the type of the column with "
                "ALTER TABLE",
                column=column.name,
            ) from cause

    def made() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            arrays = list(map(stored, batch.columns, schema))
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, made())
