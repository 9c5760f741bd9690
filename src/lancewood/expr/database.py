"""DuckDB in this process: confined databases, which reach nothing but the rows that they are given.

No file, network, extension, setting or Python variable is within reach of a text, and the session
is in UTC. Conditions and expressions have one database; queries have another, whose memory is
bounded, and which spills to a directory of the process's own. Threads borrow cursors, since a
cursor has one open answer, and keeps the statements that it was asked: planning one costs more than
computing some thousands of rows. After a fork, the child opens a database anew.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from typing import Any, TypeVar

import pyarrow as pa

from lancewood.errors import InvalidInputError, UnsupportedError

MAX_DEPTH = 250
"""How deep expressions may nest. DuckDB's own limit, 1,000, crashes threads with small stacks."""

_SETTINGS = {
    "python_enable_replacements": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "max_expression_depth": MAX_DEPTH,
    "TimeZone": "UTC",
    "Calendar": "gregorian",
}
_LAST = {"enable_external_access": False, "lock_configuration": True}
_MOST_KEPT = 8
"""How many statements a cursor keeps."""
_numbers = count()


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
class _Opened:
    process: int
    connection: Any = None
    directory: str = ""
    idle: list[Cursor] = field(default_factory=list)


class Database:
    """A confined database with settings of its own, opened by the first who asks for a cursor.

    With ``spills`` what does not fit into memory goes to a directory that is removed at the end.
    """

    def __init__(self, *, spills: bool = False, **settings: str | int) -> None:
        self._spills = spills
        self._settings = settings
        self._every: list[_Opened] = []
        """All that were opened; the last one is in use. Those of a parent stay untouched in the
        child of a fork: closing one would wait for threads that the child does not have."""
        self._begin_anew()
        os.register_at_fork(after_in_child=self._begin_anew)
        atexit.register(self._close)

    @contextmanager
    def cursor(self) -> Iterator[Any]:
        """A new cursor of DuckDB's; views that it makes are gone when it is closed."""
        made = self._opened().connection.cursor()
        try:
            yield made
        finally:
            made.close()

    @contextmanager
    def lent(self) -> Iterator[Cursor]:
        """A cursor for this block alone; one in which an error was raised is not used again."""
        database = self._opened()
        try:
            cursor = database.idle.pop()
        except IndexError:
            cursor = Cursor(database.connection.cursor())
        yield cursor
        database.idle.append(cursor)

    def discard(self) -> None:
        """Leave the database, which an internal error of DuckDB has made unusable."""
        with self._opening:
            self._every.append(_Opened(0))

    def _opened(self) -> _Opened:
        import duckdb

        with self._opening:
            if not self._every or self._every[-1].process != os.getpid():
                directory = tempfile.mkdtemp(prefix="lancewood-sql-") if self._spills else ""
                connection = duckdb.connect()
                settings = {**_SETTINGS, **self._settings, "temp_directory": directory, **_LAST}
                for name, value in settings.items():
                    text = str(value).replace("'", "''")
                    connection.execute(f"SET GLOBAL {name}='{text}'")  # for cursors, too
                self._every.append(_Opened(os.getpid(), connection, directory))
            return self._every[-1]

    def _begin_anew(self) -> None:
        """In a child of a fork another thread of the parent may have held the lock."""
        self._opening = threading.Lock()

    def _close(self) -> None:
        """Let go of what this process opened, and of nothing that is another's."""
        while self._every and self._every[-1].process in (0, os.getpid()):
            shutil.rmtree(self._every.pop().directory, ignore_errors=True)


EXPRESSIONS = Database(threads=1)
"""Where conditions and expressions are computed, piece by piece in threads of ours."""


def parsed(query: str) -> Any:
    """DuckDB's syntax tree of a query; what is no SELECT gives a tree of an error. Raises
    RecursionError for one that nests too deeply for Python."""
    with EXPRESSIONS.lent() as cursor:
        asked = "SELECT json_serialize_sql(?)"
        ((tree,),) = cursor.connection.execute(asked, [query]).fetchall()
    return json.loads(tree)


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
    text = " ".join(message.partition(": ")[2].split()).split(", or SET", 1)[0] or message
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
