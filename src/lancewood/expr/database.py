"""The confined DuckDB database of this process: nothing outside the rows that it is given.

No file, network, extension, setting or Python variable is within reach of a text, and the session
is in UTC. One database serves a process. Threads borrow its cursors, since a cursor has one open
answer, and keeps the statements that it was asked: planning one costs more than computing some
thousands of rows. After a fork, the child opens a database anew.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pyarrow as pa

MAX_DEPTH = 250
"""How deep expressions may nest. DuckDB's own limit, 1,000, crashes threads with small stacks."""

_BEFORE_CLOSING = {
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "temp_directory": "''",
    "enable_progress_bar": "false",
    "max_expression_depth": str(MAX_DEPTH),
    "TimeZone": "'UTC'",
    "Calendar": "'gregorian'",
}
_CLOSING = {"enable_external_access": "false", "lock_configuration": "true"}
_MOST_KEPT = 8
"""How many statements a cursor keeps."""
_numbers = count()


def connect(settings: Mapping[str, str]) -> Any:
    """A new confined database with further settings; their order is that of the mapping.

    Confining comes last, and locks the settings.
    """
    import duckdb

    connection = duckdb.connect()
    for name, value in {**_BEFORE_CLOSING, **settings, **_CLOSING}.items():
        connection.execute(f"SET {name}={value}")
    return connection


class _Rows:
    """Where a statement reads rows: others each time that it is asked."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows
        self._schema = rows.schema

    def __arrow_c_schema__(self) -> object:
        return self._schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.rows.__arrow_c_stream__(requested_schema)


class Cursor:
    """A cursor of DuckDB's, with the statements that it was asked last."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self._kept = OrderedDict[tuple[str, str, pa.Schema], tuple[str, Any, _Rows]]()

    def column(
        self, select: str, rows: pa.Table, where: str = "", values: Mapping[str, Any] | None = None
    ) -> pa.ChunkedArray:
        """The only column of what is selected from some rows. ``values`` are those of parameters,
        with which a statement is not kept."""
        key = (select, where, rows.schema)
        known = self._kept.pop(key, None)
        if known is None:
            name, place = f"rows{next(_numbers)}", _Rows(rows)
            self.connection.register(name, place)
            query = f'{select} FROM "{name}" {where}'
            known = (name, self.connection.sql(query, params=values or None), place)
        name, statement, place = known
        place.rows = rows
        found: pa.ChunkedArray = statement.to_arrow_table().column(0)
        place.rows = pa.Table.from_batches([], rows.schema)  # a slice would hold on to all rows
        if not values:
            self._kept[key] = known
        if values or len(self._kept) > _MOST_KEPT:
            name = name if values else self._kept.popitem(last=False)[1][0]
            self.connection.unregister(name)
        return found


@dataclass(frozen=True)
class _Database:
    process: int
    connection: Any
    idle: list[Cursor] = field(default_factory=list)


_databases: list[_Database] = []
"""All that were opened; the last one is in use. Those of a parent stay untouched in the child of a
fork: closing one would wait for threads that the child does not have."""
_opening = threading.Lock()


def _begin_anew() -> None:
    """In a child of a fork: another thread of the parent may have held the lock."""
    global _opening
    _opening = threading.Lock()


os.register_at_fork(after_in_child=_begin_anew)


@contextmanager
def lent() -> Iterator[Cursor]:
    """A cursor for this block alone; one in which an error was raised is not used again."""
    with _opening:
        if not _databases or _databases[-1].process != os.getpid():
            _databases.append(_Database(os.getpid(), connect({"threads": "1"})))
        database = _databases[-1]
        cursor = database.idle.pop() if database.idle else None
    if cursor is None:
        cursor = Cursor(database.connection.cursor())
    yield cursor
    database.idle.append(cursor)


def parsed(query: str) -> str:
    """DuckDB's syntax tree of a query, as JSON; what is no SELECT gives a tree of an error."""
    with lent() as cursor:
        found = cursor.column("SELECT json_serialize_sql(query)", pa.table({"query": [query]}))
    return str(found[0].as_py())


@atexit.register
def _close() -> None:
    """Let go of the database at the end of the process that opened it, and of no other's."""
    if _databases and _databases[-1].process == os.getpid():
        _databases.pop()


def discard() -> None:
    """Leave the database, which an internal error of DuckDB has made unusable."""
    with _opening:
        _databases.append(_Database(0, None))
