"""The objects at the keys of refs in a bucket, compare-and-swap of what they say, and their logs.

Instead of the value of a ref there may be a *marker*: a ref is just being made there, or was
deleted. A bucket has no conditional delete. So a deletion first replaces the ref by a marker,
which is the deletion, and then removes the marker. Nobody else writes there before that is done, or
before its maker is certainly gone; else the removal would take what came after. Whoever makes a ref
puts a marker first, looks whether other names are in its way, and then gives it its value. Readers
take markers for nothing.

Nothing can be appended to a log in a bucket. So each line is a small object of its own, in
``lancewood/moves/``, put before the move it records. Some later, lines of moves that came about are
*folded* into git's own file in ``logs/``, in the order in which the ref took its values, and
removed. So a move costs one small put, whatever the length of the log, and git reads what was
folded. A line in both places is one line.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from time import time_ns
from urllib.parse import quote, unquote
from uuid import uuid4

from lancewood.errors import (
    CommitUnknownError,
    FormatError,
    LancewoodError,
    NotFoundError,
    StorageError,
)
from lancewood.git.bucket.loose import at_once
from lancewood.git.names import HEAD, is_ref
from lancewood.git.ref_store import MARKER, LogEntry, decode_entry, is_marker, whole_lines_backwards
from lancewood.git.values import ZERO, Hash
from lancewood.store.base import ObjectInfo, PutOutcome, ReplaceOutcome, Store
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


MOVES = "lancewood/moves"
LOGS = "logs"
_NEVER_CAME = timedelta(days=1)
"""A line of which no move is known by then is folded all the same: its mover died, or is stuck."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line that was not folded yet."""

    key: str
    raw: bytes
    """The bytes of the line, without its newline."""
    entry: LogEntry
    modified: datetime


@dataclass(frozen=True, slots=True)
class LogLines:
    """Lines that were put, and can be removed again: no other process has their keys."""

    store: Store
    keys: tuple[str, ...]

    def take_back(self) -> None:
        """Remove the lines of a move that did not come about."""
        with suppress(StorageError):
            self.store.delete(self.keys)


class Moves:
    """The logs of one repository. Safe to use from threads."""

    def __init__(self, objects: RefObjects) -> None:
        self._objects = objects
        self._store = objects.store

    def write(self, names: Sequence[str], line: bytes) -> LogLines:
        """Put a line into several logs. Raises StorageError, with none of them left behind as far
        as the store lets us."""
        stamp = f"{time_ns():020d}-{uuid4().hex[:12]}"
        written = LogLines(self._store, tuple(f"{_directory(each)}/{stamp}" for each in names))
        try:
            at_once([partial(self._store.put, each, line) for each in written.keys])
        except LancewoodError:
            written.take_back()
            raise
        return written

    def read(self, name: str, value: Hash | None) -> Iterator[LogEntry]:
        """The moves of a ref that is at ``value``, newest first, as they are asked for."""
        lines = self._lines(name)
        done, rest = _sorted(lines, value)
        yield from (each.entry for each in reversed([*rest, *done]))
        known = {each.raw for each in lines}
        yield from self.folded(_file(name), known)

    def folded(self, key: str, known: Iterable[bytes] = ()) -> Iterator[LogEntry]:
        """The moves in a file of git's, newest first, but for those that are known. There are no
        moves where there is no file; raises FormatError that names it."""
        told, file = {*known}, f"{self._store.uri}/{key}"
        try:
            size = self._store.head(key).size
            read = lambda length, start: self._store.get_range(key, start, length)  # noqa: E731
            for raw in whole_lines_backwards(size, read):
                if raw not in told:
                    yield decode_entry(raw)
        except NotFoundError:
            return
        except FormatError as cause:
            raise FormatError(f"{file}: {cause}", file=file) from cause

    def names(self) -> list[str]:
        """The full names of the refs that have logs, in order."""
        loose = {_name(each.key) for each in self._store.list(MOVES)}
        files = {each.key.removeprefix(f"{LOGS}/") for each in self._store.list(f"{LOGS}/refs")}
        return sorted(each for each in loose | files if is_ref(each))

    def unfolded(self) -> list[str]:
        """Refs, and HEAD, whose log has lines that were not brought into git's file yet."""
        names = {_name(each.key) for each in self._store.list(MOVES)}
        return sorted(each for each in names if is_ref(each) or each == HEAD)

    def clear(self, name: str) -> None:
        """Remove the log of a ref that no process makes again meanwhile."""
        keys = [each.key for each in self._store.list(_directory(name))]
        self._store.delete([*keys, _file(name)])

    def fold(self, name: str, value: Hash | None) -> int:
        """Bring the lines of moves that came about into git's file; how many. ``value`` is where
        the ref is, or was a moment ago: whatever line leads there has come about."""
        done, rest = _sorted(self._lines(name), value)
        old = [each for each in rest if datetime.now(UTC) - each.modified > _NEVER_CAME]
        lines = [*old, *done]
        if not lines:
            return 0
        seen = self._file(name)
        before = seen.data or b""
        if before and not before.endswith(b"\n"):  # what an upload cut short
            before = before[: before.rfind(b"\n") + 1]
        new = [each.raw for each in lines if b"\n" + each.raw + b"\n" not in b"\n" + before]
        after = before + b"".join(each + b"\n" for each in new)
        if after != seen.data and not self._objects.swap(_file(name), seen, after):
            return 0  # another one folds
        self._store.delete([each.key for each in lines])
        return len(lines)

    def _file(self, name: str) -> Seen:
        key = _file(name)
        try:
            etag = self._store.head(key).etag
            return Seen(self._store.get(key), etag)
        except NotFoundError:
            return Seen()

    def _lines(self, name: str) -> list[Line]:
        """The lines that are not folded, the oldest first by the clocks of their movers."""
        infos = sorted(self._store.list(_directory(name)), key=lambda each: each.key)
        found = at_once([partial(self._line, each) for each in infos])
        return [each for each in found if each is not None]

    def _line(self, info: ObjectInfo) -> Line | None:
        try:
            raw = self._store.get(info.key).removesuffix(b"\n")
        except NotFoundError:  # taken back, or folded
            return None
        file = f"{self._store.uri}/{info.key}"
        try:
            return Line(info.key, raw, decode_entry(raw), info.modified)
        except FormatError as cause:
            raise FormatError(f"{file}: {cause}", file=file) from cause


def _sorted(lines: Sequence[Line], value: Hash | None) -> tuple[list[Line], list[Line]]:
    """The lines that led to a value, each to the next, and the others; both the oldest first.

    Clocks of two movers may differ, but what one found the other left.
    """
    by_new = defaultdict[Hash, list[Line]](list)
    for each in lines:
        by_new[each.entry.new].append(each)
    done: list[Line] = []
    at = value or ZERO
    while by_new[at]:
        done.append(by_new[at].pop())
        at = done[-1].entry.old
        if at == ZERO:
            break
    told = {each.key for each in done}
    return done[::-1], [each for each in lines if each.key not in told]


def _directory(name: str) -> str:
    """A ref as one directory: the logs of ``a`` and of ``a/b`` do not lie in each other."""
    return f"{MOVES}/{quote(name, safe='', errors='surrogateescape')}"


def _name(key: str) -> str:
    part = key.removeprefix(f"{MOVES}/").partition("/")[0]
    return unquote(part, errors="surrogateescape")


def _file(name: str) -> str:
    return f"{LOGS}/{name}"
