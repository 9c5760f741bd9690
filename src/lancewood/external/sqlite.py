"""Manifest stores in one SQLite file, for the processes of one machine, or of a network file system
with reliable locks.

The file has a rollback journal: the write-ahead log of SQLite needs memory that machines do not
share. A connection lives for one call, so nothing stays open over a fork, and nobody holds a lock
while doing something else. Writes are durable when they return.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from lancewood.errors import FormatError, StorageError
from lancewood.external.base import ManifestEntry
from lancewood.model.ids import Version

if TYPE_CHECKING:
    import sqlite3

_PATIENCE = 60.0
"""Seconds to wait for other writers; each of them takes milliseconds."""
_MAKE = """
CREATE TABLE IF NOT EXISTS lancewood_manifests (
    base_uri TEXT NOT NULL, version TEXT NOT NULL, path TEXT NOT NULL, size INTEGER,
    PRIMARY KEY (base_uri, version)
) WITHOUT ROWID
"""


@dataclass(frozen=True, repr=False)
class SQLiteManifests:
    """A file, which the first write creates. Several processes may use it at once."""

    _path: str
    kind: ClassVar[str] = "sqlite"

    def __repr__(self) -> str:
        return f"SQLiteManifests({self._path!r})"

    def get(self, base: str, version: Version) -> ManifestEntry | None:
        return self._one("AND version = ?", base, _text(version))

    def latest(self, base: str) -> ManifestEntry | None:
        return self._one("ORDER BY version DESC LIMIT 1", base)

    def put_if_not_exists(self, base: str, entry: ManifestEntry) -> bool:
        return self._put(
            "INSERT INTO lancewood_manifests (path, size, base_uri, version) VALUES (?, ?, ?, ?) "
            "ON CONFLICT DO NOTHING",
            base,
            entry,
        )

    def put_if_exists(self, base: str, entry: ManifestEntry) -> bool:
        return self._put(
            "UPDATE lancewood_manifests SET path = ?, size = ? WHERE base_uri = ? AND version = ?",
            base,
            entry,
        )

    def forget(self, base: str, gone: Mapping[Version, str] | None = None) -> None:
        if not os.path.exists(self._path):
            return
        rows = [(base, _text(each), path) for each, path in (gone or {}).items()]
        with self._writing("forget versions") as connection:
            if gone is None:
                connection.execute("DELETE FROM lancewood_manifests WHERE base_uri = ?", (base,))
            else:
                connection.executemany(
                    "DELETE FROM lancewood_manifests "
                    "WHERE base_uri = ? AND version = ? AND path = ?",
                    rows,
                )

    def _one(self, condition: str, *values: str) -> ManifestEntry | None:
        if not os.path.exists(self._path):
            return None
        question = (
            f"SELECT version, path, size FROM lancewood_manifests WHERE base_uri = ? {condition}"
        )
        with self._connected("ask", missing_is_empty=True) as connection:
            row = connection.execute(question, values).fetchone()
            return None if row is None else self._entry(*row)
        return None

    def _entry(self, version: object, path: object, size: object) -> ManifestEntry:
        """The entry in a row; raises FormatError for invalid values, since SQLite takes any value
        in any column."""
        is_number = isinstance(version, str) and version.isdecimal()
        if is_number and isinstance(path, str) and isinstance(size, int | None):
            return ManifestEntry(Version(int(str(version))), path, size)
        raise FormatError(
            f"a row of lancewood_manifests in {self._path} is no entry of a manifest store: found "
            f"version {version!r}, path {path!r} and size {size!r}, expected digits, a text and a "
            "number; correct that row, or remove it",
            file=self._path,
        )

    def _put(self, statement: str, base: str, entry: ManifestEntry) -> bool:
        values = (entry.path, entry.size, base, _text(entry.version))
        with self._writing("write to") as connection:
            return connection.execute(statement, values).rowcount > 0

    @contextmanager
    def _writing(self, verb: str) -> Iterator[sqlite3.Connection]:
        """An exclusive transaction, durable when it ends."""
        with self._connected(verb) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                connection.execute(_MAKE)
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _connected(
        self, verb: str, *, missing_is_empty: bool = False
    ) -> Iterator[sqlite3.Connection]:
        import sqlite3

        settings: dict[str, Any] = {"timeout": _PATIENCE, "isolation_level": None}
        # Without a connection nothing can have been written, and trying again is useless.
        facts: dict[str, Any] = {"final": True, "landed": False}
        try:
            with closing(sqlite3.connect(self._path, **settings)) as connection:
                connection.execute("PRAGMA synchronous = EXTRA")
                facts = {}
                yield connection
        except sqlite3.Error as error:
            if missing_is_empty and str(error).startswith("no such table"):
                return
            raise StorageError(
                f"cannot {verb} the manifest store in {self._path}: {error}; {_way_out(error)}",
                file=self._path,
                **facts,
            ) from error


def _way_out(error: Exception) -> str:
    said = str(error)
    if "locked" in said:
        return f"somebody has been writing to it for more than {_PATIENCE:.0f} seconds; try again"
    if "malformed" in said or "not a database" in said:
        return (
            "bring it back from a copy; or remove it while nobody writes: all versions but one in "
            "its last steps are in the object store, and are registered anew"
        )
    if "no such column" in said or "no column named" in said:
        return "its table lancewood_manifests is somebody else's: choose another file"
    return "check that its directory is there and may be written to"


def _text(version: Version) -> str:
    """A version as a text that sorts like the number: SQLite's own integers have 63 bits."""
    return f"{version:020d}"
