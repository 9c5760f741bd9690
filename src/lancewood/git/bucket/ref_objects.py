"""The objects at the keys of refs: what they say, and compare-and-swap of it.

Instead of the value of a ref there may be a *marker*: a ref is just being made there, or was
deleted. A bucket has no conditional delete. So a deletion first replaces the ref by a marker,
which is the deletion, and then removes the marker. Nobody else writes there before that is done, or
before its maker is certainly gone; else the removal would take what came after. Whoever makes a ref
puts a marker first, looks whether other names are in its way, and then gives it its value. Readers
take markers for nothing. Knows keys and bytes; does not know logs.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from lancewood.errors import CommitUnknownError, NotFoundError, StorageError
from lancewood.git.ref_files import MARKER, is_marker
from lancewood.store.base import PutOutcome, ReplaceOutcome, Store
from lancewood.store.retry import UNCLEAR_PUTS, Retry

ABANDONED = timedelta(minutes=30)
"""After so long no process is at work on what a marker says: the clock of a client of S3
may be wrong by 15 minutes, and a deletion gives up after some."""
REMOVED_WITHIN = 60.0
"""Seconds after which a marker is not removed any more by the one who put it there."""
_MOST_BYTES = 4096
_MADE, _DELETED = MARKER + b"making ", MARKER + b"gone   "
MARKER_SIZE = len(_MADE) + 32 + 1


@dataclass(frozen=True, slots=True)
class Seen:
    """What was at a key, and by which etag it is replaced; no etag: there was nothing."""

    data: bytes | None = None
    etag: str | None = None
    modified: datetime | None = None

    @property
    def is_marker(self) -> bool:
        return self.data is not None and is_marker(self.data)

    @property
    def is_deleted(self) -> bool:
        """Whether a ref was deleted there, and the object may be about to be removed."""
        return self.data is not None and self.data.startswith(_DELETED)

    @property
    def is_abandoned(self) -> bool:
        return self.modified is not None and datetime.now(UTC) - self.modified > ABANDONED


@dataclass
class RefObjects:
    """Below ``store``, by the full names of refs."""

    store: Store
    retry: Retry = UNCLEAR_PUTS

    def read(self, name: str) -> bytes | None:
        """The bytes at a key; a marker too."""
        try:
            return self.store.get_range(name, 0, _MOST_BYTES)
        except NotFoundError:
            return None

    def look(self, name: str) -> Seen:
        """What is at a key, to be replaced. The etag is never younger than the bytes."""
        try:
            found = self.store.head(name)
            return Seen(self.store.get_range(name, 0, _MOST_BYTES), found.etag, found.modified)
        except NotFoundError:
            return Seen()

    def swap(self, name: str, seen: Seen, data: bytes) -> bool:
        """Write where still is what was seen; False: it is not.

        After an unclear answer the key is read: what we wrote has landed. Raises CommitUnknownError
        where that is not known, and StorageError where nothing can have landed.
        """
        unclear = False
        failure: StorageError | None = None
        for _ in self.retry:
            try:
                done = self._put(name, seen.etag, data)
            except StorageError as error:
                failure = error
                unclear = unclear or error.facts.get("landed") is not False
                if error.facts.get("final") and not unclear:
                    raise
            else:
                if done or not unclear:
                    return done
            found = self._read_back(name)
            if found == data:
                return True
            if found != seen.data:
                if unclear:
                    raise self._unknown(name, "it has a third value by now") from failure
                return False
        if failure is not None and not unclear:
            raise failure
        raise self._unknown(
            name, f"{self.retry.attempts} attempts had no clear answer"
        ) from failure

    def remove(self, name: str, since: float) -> None:
        """Remove a marker that this process put at ``since`` of ``time.monotonic``."""
        if time.monotonic() - since < REMOVED_WITHIN:
            self.store.delete([name])

    def pause(self, attempt: int) -> None:
        self.retry.pause(attempt)

    def _put(self, name: str, etag: str | None, data: bytes) -> bool:
        if etag is None:
            return self.store.put_new(name, data) is PutOutcome.CREATED
        return self.store.replace(name, data, etag) is ReplaceOutcome.REPLACED

    def _read_back(self, name: str) -> bytes | None:
        for _ in self.retry:
            try:
                return self.read(name)
            except StorageError as error:
                failure = error
        raise self._unknown(name, "it cannot be read back") from failure

    def _unknown(self, name: str, found: str) -> CommitUnknownError:
        return CommitUnknownError(
            f"whether {name} of {self.store.uri} was moved is unknown: {found}; nothing was "
            "deleted, look where it is before trying again",
            ref=name,
        )


def is_making(data: bytes) -> bool:
    """Whether the bytes at a key say that a ref is being made."""
    return data.startswith(_MADE)


def making() -> bytes:
    """The marker of a process that makes a ref, unlike any other."""
    return _MADE + uuid4().hex.encode() + b"\n"


def deleted() -> bytes:
    """The marker of a process that deletes a ref, unlike any other."""
    return _DELETED + uuid4().hex.encode() + b"\n"
