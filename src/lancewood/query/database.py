"""DuckDB in this process: one database that reaches nothing, and a cursor of it for each answer.

The database has no tables. A text that it is given can open no file and no connection, load no
extension, see no variable of Python and change no setting; memory is bounded, and what does not fit
goes to a directory of the process's own.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from lancewood.errors import InvalidInputError, UnsupportedError
from lancewood.expr.database import connect
from lancewood.query.tokens import literal

MEMORY = "60%"
FAILED = "MERGE: a row meets WHEN "
"""How the message begins of a statement that fails because it says so."""
_lock = threading.Lock()


@contextmanager
def cursor() -> Iterator[Any]:
    """A cursor of the database of this process; views that it makes are gone when it is closed."""
    with _lock:
        made = _database(os.getpid()).cursor()
    try:
        yield made
    finally:
        made.close()


@cache
def _database(process: int) -> Any:
    """The database of a process: one that was forked has its own."""
    directory = tempfile.mkdtemp(prefix="lancewood-sql-")
    found = connect({"memory_limit": literal(MEMORY), "temp_directory": literal(directory)})
    atexit.register(_close, process, directory)
    return found


def _close(process: int, directory: str) -> None:
    """Close the database at the end of the process that opened it."""
    if process == os.getpid():
        _database(process).close()
        shutil.rmtree(directory, ignore_errors=True)
        _database.cache_clear()


def in_our_words(error: Exception) -> Exception:
    """Our error for one of DuckDB's."""
    import duckdb

    message = str(error).strip().partition("\n\nLINE ")[0].strip()
    text = " ".join(message.partition(": ")[2].split()) or message
    if FAILED in text:
        return InvalidInputError(text[text.index(FAILED) :])
    if isinstance(error, duckdb.OutOfMemoryException):
        return UnsupportedError(
            f"the query needs more memory than it may take here: {text}; ask for less, or with "
            "lw sql --spark"
        )
    if isinstance(error, duckdb.PermissionException):
        return InvalidInputError(f"a query reads tables and nothing else: {text}")
    if isinstance(error, duckdb.DataError):
        return InvalidInputError(f"the query fails on a value: {text}")
    if isinstance(error, duckdb.ProgrammingError | duckdb.NotSupportedError):
        return InvalidInputError(f"DuckDB does not take the query: {text}")
    return UnsupportedError(f"DuckDB does not answer the query: {text}")
