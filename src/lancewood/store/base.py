"""The ``Store`` protocol: keys, bytes and compare-and-swap; its results, and which keys are
allowed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import NamedTuple, Protocol

from lancewood.errors import InvalidInputError, NotFoundError


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One object, without its bytes. ``modified`` is in UTC; ``etag`` changes with the bytes, and
    on a disk with each write."""

    key: str
    size: int
    modified: datetime
    etag: str


class DirectoryStamp(NamedTuple):
    """A directory, and when its names last changed, by the clock of this machine."""

    device: int
    inode: int
    changed_ns: int


class PutOutcome(Enum):
    """The result of ``put_new``. Losing the race is a value that the caller must check."""

    CREATED = "created"
    EXISTS = "exists"


class ReplaceOutcome(Enum):
    """The result of ``replace``. Losing the race is a value that the caller must check."""

    REPLACED = "replaced"
    CHANGED = "changed"


class Store(Protocol):
    """Objects under one root, by key: a relative path with ``/`` between its segments.

    A verb raises ``InvalidInputError`` for a key that ``check_key`` refuses, ``NotFoundError`` for
    a missing object, ``StorageError`` for anything else. A ``StorageError`` from a write says
    nothing about whether the write happened, unless its facts hold ``landed=False``; ``final=True``
    says that trying again is useless. Stores are synchronous and picklable. One behind a network
    retries what may be carried out twice; ``put_new`` and ``replace`` raise, rather than answer
    about an attempt that may have been their own.
    """

    @property
    def uri(self) -> str:
        """The root, normalised, without a trailing slash."""

    @property
    def lists_in_order(self) -> bool:
        """Whether ``names`` yields names in lexical order."""

    @property
    def is_far(self) -> bool:
        """Whether latency is so high that it pays to send several requests at once."""

    @property
    def probed_as(self) -> str | None:
        """The name under which a proof that ``put_new`` works is remembered, once for all stores of
        that name. None where no proof is needed."""

    def get(self, key: str) -> bytes:
        """The whole object."""

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """``length`` bytes from ``start`` on; fewer, or none, where the object ends earlier."""

    def head(self, key: str) -> ObjectInfo:
        """The metadata of an object. Before a ``replace``, call it before ``get``: then the etag is
        never younger than the bytes."""

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """All objects below a directory, in any order; none if there is no such directory."""

    def names(self, directory: str) -> Iterator[str]:
        """The bare names of the objects directly in a directory, without those deeper down.

        On a disk the name of a subdirectory may be among them: excluding it would double the cost
        of a long listing.
        """

    def directories(self, directory: str) -> Iterator[str]:
        """The bare names of the directories directly in a directory, in any order.

        On a disk one that holds no objects may be among them.
        """

    def stamp(self, directory: str) -> DirectoryStamp | None:
        """A value that differs after an object was created or removed in a directory.

        It changes at most some milliseconds late. None where the store has none, or none cheaper
        than a listing.
        """

    def put(self, key: str, data: bytes) -> None:
        """Write an object, replacing an old one: whole or not at all, and durable."""

    def put_together(self, objects: Mapping[str, bytes]) -> None:
        """Write several objects, each as ``put`` does, in no order: for objects that nobody looks
        for before all are there. A failure may leave some of them."""

    def put_new(self, key: str, data: bytes) -> PutOutcome:
        """Write an object if there is none: whole or not at all, durable, never over another."""

    def replace(self, key: str, data: bytes, expected_etag: str) -> ReplaceOutcome:
        """Replace exactly the object that has this etag; a missing one counts as changed.

        Safe against other ``replace`` calls, not against a concurrent ``put`` to the same key, so
        change such keys with ``replace`` only.
        """

    def put_parts(self, key: str, parts: Iterable[bytes]) -> None:
        """Like ``put``, with bytes that come in parts, few of which are in memory at once.

        If the parts raise, that is raised here and nothing was written.
        """

    def copy(self, source: str, target: str) -> None:
        """Write the bytes of one object under another key, replacing an old one."""

    def copy_from(
        self, source: Store, found: ObjectInfo, target: str, *, may_link: bool = False
    ) -> bool:
        """Copy an object of another store, which ``source.head`` found; returns whether it was
        done. False, with nothing written, where the bytes would have to pass through this process.

        ``may_link`` allows sharing the bytes, for objects that are never overwritten. The old
        object then gets the time of the new one: a cleanup by age must not remove it.
        """

    def delete(self, keys: Iterable[str]) -> None:
        """Remove objects; a missing one is fine. All keys are checked before the first is
        removed."""

    def prune(self, directory: str) -> None:
        """Remove a directory that holds no objects, with the empty ones below it.

        Does nothing where directories do not exist by themselves, or to one that is not empty.
        """

    def sync(self, keys: Sequence[str]) -> None:
        """Make durable what another library wrote at ``location`` of these keys, with the
        directories that name it. Does nothing where writes are durable by nature, or need not be.
        """

    def turn(self, directory: str) -> AbstractContextManager[None]:
        """A courtesy queue for writers on this machine: wait a moment until the others are done.

        Correctness never depends on it: a writer that waited too long, or cannot queue, goes on.
        """

    def at(self, prefix: str) -> Store:
        """The store rooted deeper, below ``prefix``."""

    def location(self, key: str) -> str | None:
        """A path or URI that another library can open, or ``None`` where only this process can."""


def is_there(store: Store, key: str) -> bool:
    """Whether there is an object at a key."""
    try:
        store.head(key)
    except NotFoundError:
        return False
    return True


def bare(store: Store) -> Store:
    """The innermost store: wrappers hold the wrapped one as ``inner``; most stores wrap none."""
    while (inner := getattr(store, "inner", None)) is not None:
        store = inner
    return store


_IN_THE_MAKING = r"\.tmp[0-9a-f]{16}"
_REFUSED = re.compile(
    rf"""
    (?P<empty> \A\Z )
    | (?P<absolute> \A/ )
    | (?P<hole> // | /\Z )
    | (?P<dots> (?:\A|/) \.\.? (?:/|\Z) )
    | (?P<backslash> \\ )
    | (?P<nul> \0 )
    | (?P<reserved> (?:\A|/) {_IN_THE_MAKING} \Z )
    | (?P<text> [\ud800-\udc7f\udd00-\udfff] )
    """,
    re.VERBOSE,
)
_REASONS = {
    "empty": "it is empty",
    "absolute": "it begins with '/'",
    "hole": "it has an empty segment",
    "dots": "it has a segment '.' or '..'",
    "backslash": "it contains a backslash",
    "nul": "it contains a NUL character",
    "reserved": "its name is reserved for files in the making",
    "text": "it contains half a surrogate pair",
}
_is_in_the_making = re.compile(_IN_THE_MAKING + r"\Z").match


_ORDINARY = re.compile(r"[A-Za-z0-9_%-][A-Za-z0-9_%.-]*(?:/[A-Za-z0-9_%-][A-Za-z0-9_%.-]*)*")


def check_key(key: str) -> None:
    """Raise ``InvalidInputError`` for an invalid key; it could leave the root."""
    if _ORDINARY.fullmatch(key):
        return
    found = _REFUSED.search(key)
    if found:
        reason = _REASONS[str(found.lastgroup)]
        raise InvalidInputError(f"key {key!r} is not allowed: {reason}", key=key)


def check_directory(directory: str) -> str:
    """A directory's name without a trailing slash; ``''`` is the root. Raises like ``check_key``.

    >>> check_directory("tree/x/") 'tree/x'
    """
    if directory.endswith("/"):
        directory = directory[:-1] or "/"
    if directory:
        check_key(directory)
    return directory


def check_range(key: str, start: int, length: int) -> None:
    """Raise ``InvalidInputError`` for a range that no object can have."""
    if start < 0 or length < 0:
        raise InvalidInputError(
            f"{length} bytes from {start} of {key!r} are not a range: neither may be negative",
            key=key,
            start=start,
            length=length,
        )


def is_in_the_making(name: str) -> bool:
    """Whether a bare name is that of an unfinished file of a store; never an object."""
    return name.startswith(".tmp") and _is_in_the_making(name) is not None
