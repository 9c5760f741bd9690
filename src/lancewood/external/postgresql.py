"""Manifest stores in PostgreSQL, for writers on many machines.

One table, created on first use. Each process has one connection for each uri, used by one thread at
a time, and replaces a broken one. A query that may run twice is then repeated; a put never is: it
may have been carried out. Never repeats the uri, which may hold a password.
"""

from __future__ import annotations

import atexit
import os
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from lancewood.errors import InvalidInputError, StorageError, UnsupportedError
from lancewood.external.base import ManifestEntry
from lancewood.model.ids import Version
from lancewood.version import how_to_install

T = TypeVar("T")
_MAKE = """
CREATE TABLE IF NOT EXISTS lancewood_manifests (
    base_uri text NOT NULL, version numeric(20) NOT NULL, path text NOT NULL, size bigint,
    PRIMARY KEY (base_uri, version)
)
"""
_ASK = "SELECT version, path, size FROM lancewood_manifests WHERE base_uri = %s"
_DEFAULTS = {
    "application_name": "lancewood",
    "client_encoding": "utf8",  # a database without an encoding would return bytes
    "connect_timeout": 15,
    "keepalives_idle": 30,
    "tcp_user_timeout": 60_000,  # a dead server is noticed after a minute, not two hours
}


@dataclass(frozen=True, repr=False)
class PostgreSQLManifests:
    """The table ``lancewood_manifests`` of a database, in the first schema of the search path."""

    _uri: str
    kind: ClassVar[str] = "postgresql"

    def __post_init__(self) -> None:
        _check_uri(self._uri)

    def __repr__(self) -> str:
        return "PostgreSQLManifests(<uri>)"

    def get(self, base: str, version: Version) -> ManifestEntry | None:
        return self._one(f"{_ASK} AND version = %s", (base, version))

    def latest(self, base: str) -> ManifestEntry | None:
        return self._one(f"{_ASK} ORDER BY version DESC LIMIT 1", (base,))

    def put_if_not_exists(self, base: str, entry: ManifestEntry) -> bool:
        return self._put(
            "INSERT INTO lancewood_manifests (path, size, base_uri, version) "
            "VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING",
            base,
            entry,
        )

    def put_if_exists(self, base: str, entry: ManifestEntry) -> bool:
        return self._put(
            "UPDATE lancewood_manifests SET path = %s, size = %s "
            "WHERE base_uri = %s AND version = %s",
            base,
            entry,
        )

    def forget(self, base: str, gone: Mapping[Version, str] | None = None) -> None:
        every = "DELETE FROM lancewood_manifests WHERE base_uri = %s"
        rows = [(base, version, path) for version, path in (gone or {}).items()]

        def forget(cursor: Any) -> None:
            if gone is None:
                cursor.execute(every, (base,))
            elif rows:
                cursor.executemany(f"{every} AND version = %s AND path = %s", rows)

        self._ask("forget versions in", forget)

    def _one(self, question: str, values: tuple[object, ...]) -> ManifestEntry | None:
        def ask(cursor: Any) -> Any:
            return cursor.execute(question, values).fetchone()

        row = self._ask("ask", ask)
        return None if row is None else ManifestEntry(Version(int(row[0])), str(row[1]), row[2])

    def _put(self, statement: str, base: str, entry: ManifestEntry) -> bool:
        values = (entry.path, entry.size, base, entry.version)

        def put(cursor: Any) -> bool:
            return bool(cursor.execute(statement, values).rowcount > 0)

        try:
            self._ask("reach", _nothing)  # replaces a connection that broke while it was idle
        except StorageError as error:
            raise StorageError(error.message, **{**error.facts, "landed": False}) from None
        return self._session().do("write to", put)

    def _ask(self, verb: str, action: Callable[[Any], T]) -> T:
        """Run an action that may run twice: after a failure it is tried once more, on a new
        connection."""
        try:
            return self._session().do(verb, action)
        except StorageError as error:
            if error.facts.get("final"):
                raise
            return self._session().do(verb, action)

    def _session(self) -> _Session:
        key = (os.getpid(), self._uri)
        found = _sessions.get(key)
        return _sessions.setdefault(key, _Session(self._uri)) if found is None else found


class _Session:
    """One connection of one process."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._connection: Any = None
        self._lock = threading.Lock()

    def do(self, verb: str, action: Callable[[Any], T]) -> T:
        """Run one transaction. Raises StorageError."""
        psycopg = _client()
        failure: str
        final = False
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = self._connect()
                with self._connection.transaction(), self._connection.cursor() as cursor:
                    return action(cursor)
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                self.close()
                failure = _said(error)
            except psycopg.Error as error:
                failure, final = _said(error), True
        # Raised here, so that the client's own exception, which may contain the uri, is not
        # chained.
        facts = {"final": True, "landed": False} if final else {}
        raise StorageError(f"cannot {verb} the manifest store in PostgreSQL: {failure}", **facts)

    def _connect(self) -> Any:
        psycopg = _client()
        said = psycopg.conninfo.conninfo_to_dict(self._uri)
        others = {key: value for key, value in _DEFAULTS.items() if key not in said}
        # No prepared statements: behind a pool each transaction may be on another connection.
        connection = psycopg.connect(self._uri, autocommit=True, prepare_threshold=None, **others)
        try:
            with connection.transaction(), connection.cursor() as cursor:
                there = cursor.execute("SELECT to_regclass('lancewood_manifests')").fetchone()
                if there is None or there[0] is None:
                    # Two processes that create it at once would collide in the catalog; they queue
                    # here.
                    cursor.execute("SELECT pg_advisory_xact_lock(7813466528361)")
                    cursor.execute(_MAKE)
        except BaseException:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        """Close the connection; the next call makes a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


_sessions: dict[tuple[int, str], _Session] = {}


@atexit.register
def _close_all() -> None:
    for (process, _), session in [*_sessions.items()]:
        if process == os.getpid():
            session.close()


def _client() -> Any:
    try:
        import psycopg
    except ImportError as missing:
        raise UnsupportedError(
            f"a manifest store in PostgreSQL needs psycopg: {how_to_install('postgresql')}"
        ) from missing
    return psycopg


def _check_uri(uri: str) -> None:
    """Raise InvalidInputError for an invalid uri, without repeating libpq's message, which may
    contain a password."""
    psycopg = _client()
    try:
        said = psycopg.conninfo.conninfo_to_dict(uri)
        # What follows an @ in a password ends up in one of the two. A host may also begin with an
        # @.
        hosts, port = str(said.get("host", "")).split(","), str(said.get("port", ""))
        if re.fullmatch(r"[0-9,]*", port) and not any("@" in each[1:] for each in hosts):
            return
    except psycopg.ProgrammingError:
        pass
    raise InvalidInputError(
        "the uri of the manifest store cannot be read; it is written as "
        "postgresql://user:password@host:5432/database, with %40 for an @ in a password"
    )


def _nothing(cursor: Any) -> None:
    cursor.execute("SELECT 1")


def _said(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
