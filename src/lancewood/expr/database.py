"""The confined DuckDB database of this process: nothing outside the rows that it is given.

No file, network, extension, setting or Python variable is within reach of a text, and the session
is in UTC. One database serves a process; every thread has a cursor of its own, since a cursor holds
one open answer and its own registered names. After a fork, the child opens a database anew.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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
_PARSING = "PREPARE parsing AS SELECT json_serialize_sql(CAST($1 AS VARCHAR))"
_CLOSING = {"enable_external_access": "false", "lock_configuration": "true"}
_databases: list[tuple[int, Any]] = []
"""The databases that were opened, each with its process; the last one is in use."""
_opening = threading.Lock()
_threads = threading.local()
_of_parents: list[threading.local] = []
"""What a child of a fork keeps untouched: closing a cursor of its parent would wait for threads
that the child does not have."""


def _begin_anew() -> None:
    """In a child of a fork: another thread of the parent may have held the lock."""
    global _opening, _threads
    _of_parents.append(_threads)
    _opening, _threads = threading.Lock(), threading.local()


os.register_at_fork(after_in_child=_begin_anew)


def connect(settings: Mapping[str, str]) -> Any:
    """A new confined database with further settings; their order is that of the mapping.

    Confining comes last, and locks the settings.
    """
    import duckdb

    connection = duckdb.connect()
    for name, value in {**_BEFORE_CLOSING, **settings, **_CLOSING}.items():
        connection.execute(f"SET {name}={value}")
    return connection


def cursor() -> Any:
    """The cursor of this thread, on the database of this process."""
    with _opening:
        if not _databases or _databases[-1][0] != os.getpid():
            _databases.append((os.getpid(), connect({"threads": "1"})))
        database = _databases[-1]
    if getattr(_threads, "database", None) is not database:
        _threads.cursor, _threads.database = database[1].cursor(), database
        _threads.cursor.execute(_PARSING)
    return _threads.cursor


def parsed(query: str) -> str:
    """DuckDB's syntax tree of a query, as JSON; what is no SELECT gives a tree of an error."""
    quoted = query.replace("'", "''")
    ((tree,),) = cursor().execute(f"EXECUTE parsing('{quoted}')").fetchall()
    return str(tree)


def discard() -> None:
    """Leave the database, which an internal error of DuckDB has made unusable."""
    with _opening:
        _databases.append((0, None))


@contextmanager
def given(name: str, rows: pa.Table) -> Iterator[Any]:
    """The cursor of this thread, with ``rows`` as a table of that name."""
    connection = cursor()
    connection.register(name, rows)
    try:
        yield connection
    finally:
        connection.unregister(name)
