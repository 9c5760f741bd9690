"""The confined database of queries, and what DuckDB says of them.

It has no tables: views of a cursor give them names. Memory is bounded, and what does not fit goes
to a directory of the process's own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from functools import cache
from typing import Any, TypeVar

from lancewood.errors import InvalidInputError, UnsupportedError
from lancewood.expr.database import Database

T = TypeVar("T")
QUERIES = Database(spills=True, memory_limit="60%")
FAILED = "MERGE: a row meets WHEN "
"""How the message begins of a statement that fails because it says so."""


def interruptible(cursor: Any, run: Callable[[], T]) -> T:
    """What `run` makes of a cursor. Ctrl-C ends it: in the main thread, which alone gets signals,
    DuckDB may compute for hours without looking for one, so that another thread asks it."""
    if threading.current_thread() is not threading.main_thread():
        return run()
    try:
        found = _asking(os.getpid()).submit(run)
    except RuntimeError:  # at the end of the process
        return run()
    try:
        return found.result()
    except BaseException:
        while not found.done():  # it may begin only now, and would forget an earlier interrupt
            with suppress(KeyboardInterrupt):
                cursor.interrupt()
                wait([found], timeout=0.1)
        raise


@cache
def _asking(process: int) -> ThreadPoolExecutor:
    """The one thread that asks for the main thread; a process that was forked has its own."""
    return ThreadPoolExecutor(1, f"lancewood-sql-{process}")


def in_our_words(error: Exception) -> Exception:
    """Our error for one of DuckDB's."""
    import duckdb

    if isinstance(error, duckdb.InternalError | duckdb.FatalException):
        QUERIES.discard()
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
