"""Stores around another store that fail, lose an answer, die, pause, or ignore conditions.

They never retry, sleep or choose: the test says at which call the fault happens.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Literal, Self, TypeVar

from lancewood.errors import StorageError
from lancewood.store.base import (
    DirectoryStamp,
    ObjectInfo,
    PutOutcome,
    ReplaceOutcome,
    Store,
    check_directory,
)

T = TypeVar("T")
Mode = Literal["before", "after", "kill", "kill-after"]


class Killed(BaseException):
    """The process died here. No ``except Exception`` can catch it."""


class WatchedStore:
    """A store around another: every verb goes through ``_call``, which subclasses override.

    Lists are read whole when they are requested, so that one call is one step. ``turn``, ``at`` and
    ``location`` are not steps. Keys are always relative to the outermost store, also after ``at``.
    """

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self._prefix = ""

    def _call(self, verb: str, key: str, action: Callable[[], T]) -> T:
        return action()

    @property
    def uri(self) -> str:
        return self._inner.uri

    @property
    def lists_in_order(self) -> bool:
        return self._inner.lists_in_order

    @property
    def is_far(self) -> bool:
        return self._inner.is_far

    @property
    def probed_as(self) -> str | None:
        return self._inner.probed_as

    def get(self, key: str) -> bytes:
        return self._call("get", self._prefix + key, lambda: self._inner.get(key))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        full = self._prefix + key
        return self._call("get_range", full, lambda: self._inner.get_range(key, start, length))

    def head(self, key: str) -> ObjectInfo:
        return self._call("head", self._prefix + key, lambda: self._inner.head(key))

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        return iter(self._call("list", self._prefix + prefix, lambda: [*self._inner.list(prefix)]))

    def names(self, directory: str) -> Iterator[str]:
        full = self._prefix + directory
        return iter(self._call("names", full, lambda: [*self._inner.names(directory)]))

    def directories(self, directory: str) -> Iterator[str]:
        full = self._prefix + directory
        return iter(self._call("directories", full, lambda: [*self._inner.directories(directory)]))

    def stamp(self, directory: str) -> DirectoryStamp | None:
        full = self._prefix + directory
        return self._call("stamp", full, lambda: self._inner.stamp(directory))

    def put(self, key: str, data: bytes) -> None:
        self._call("put", self._prefix + key, lambda: self._inner.put(key, data))

    def put_together(self, objects: Mapping[str, bytes]) -> None:
        for key, data in objects.items():
            self.put(key, data)

    def put_parts(self, key: str, parts: Iterable[bytes]) -> None:
        self._call("put_parts", self._prefix + key, lambda: self._inner.put_parts(key, parts))

    def put_new(self, key: str, data: bytes) -> PutOutcome:
        return self._call("put_new", self._prefix + key, lambda: self._inner.put_new(key, data))

    def replace(self, key: str, data: bytes, expected_etag: str) -> ReplaceOutcome:
        full = self._prefix + key
        return self._call("replace", full, lambda: self._inner.replace(key, data, expected_etag))

    def copy(self, source: str, target: str) -> None:
        """Reported under the target key."""
        self._call("copy", self._prefix + target, lambda: self._inner.copy(source, target))

    def copy_from(
        self, source: Store, found: ObjectInfo, target: str, *, may_link: bool = False
    ) -> bool:
        """Reported under the target key."""
        bare = source
        while isinstance(bare, WatchedStore):
            bare = bare._inner
        return self._call(
            "copy_from",
            self._prefix + target,
            lambda: self._inner.copy_from(bare, found, target, may_link=may_link),
        )

    def delete(self, keys: Iterable[str]) -> None:
        """One call for all keys, which are joined by spaces."""
        targets = [*keys]
        joined = " ".join(self._prefix + key for key in targets)
        self._call("delete", joined, lambda: self._inner.delete(targets))

    def prune(self, directory: str) -> None:
        full = self._prefix + directory
        self._call("prune", full, lambda: self._inner.prune(directory))

    def sync(self, keys: Sequence[str]) -> None:
        """One call for all keys, which are joined by spaces."""
        joined = " ".join(self._prefix + key for key in keys)
        self._call("sync", joined, lambda: self._inner.sync(keys))

    def turn(self, directory: str) -> AbstractContextManager[None]:
        return self._inner.turn(directory)

    def at(self, prefix: str) -> Self:
        prefix = check_directory(prefix)
        deeper = type(self).__new__(type(self))
        deeper.__dict__.update(self.__dict__)
        deeper._inner = self._inner.at(prefix)
        deeper._prefix = f"{self._prefix}{prefix}/" if prefix else self._prefix
        return deeper

    def location(self, key: str) -> str | None:
        return self._inner.location(key)


class _Script:
    """What happens at which call; shared by a store and all that ``at`` makes of it."""

    def __init__(self, at: int, mode: Mode) -> None:
        self.at = at
        self.mode = mode
        self.dead = False
        self.calls: list[tuple[str, str]] = []
        self.lock = threading.Lock()

    def __getstate__(self) -> tuple[int, Mode, bool, list[tuple[str, str]]]:
        return self.at, self.mode, self.dead, self.calls

    def __setstate__(self, state: tuple[int, Mode, bool, list[tuple[str, str]]]) -> None:
        self.at, self.mode, self.dead, self.calls = state
        self.lock = threading.Lock()

    def check_alive(self) -> None:
        if self.dead:
            raise Killed("the process of this store is dead")

    def next(self, verb: str, key: str) -> bool:
        """Count a call and return whether it is the one that fails."""
        with self.lock:
            self.check_alive()
            self.calls.append((verb, key))
            hurts = len(self.calls) == self.at
            if hurts and self.mode == "kill":
                self.dead = True
                raise Killed(f"died before call {self.at}: {verb} {key!r}")
            return hurts


class FaultyStore(WatchedStore):
    """Fails once, at call number ``at`` (the first is 1; 0 never fails and only counts).

    ``before`` raises ``StorageError`` and does nothing; ``after`` acts, then raises: the answer is
    lost. ``kill`` does nothing and raises ``Killed``; ``kill-after`` acts first. From then on every
    call raises ``Killed`` and is not counted, since a dead process makes none.
    """

    def __init__(self, inner: Store, at: int = 0, mode: Mode = "before") -> None:
        super().__init__(inner)
        self._script = _Script(at, mode)

    @property
    def calls(self) -> Sequence[tuple[str, str]]:
        """Each call so far as (verb, key), including the one that failed."""
        return self._script.calls

    @property
    def is_dead(self) -> bool:
        return self._script.dead

    def _call(self, verb: str, key: str, action: Callable[[], T]) -> T:
        script = self._script
        if not script.next(verb, key):
            return action()
        if script.mode == "before":
            raise StorageError(f"fault before call {script.at}: {verb} {key!r} was not done")
        answer = action()
        if script.mode == "after":
            raise StorageError(
                f"fault after call {script.at}: the answer of {verb} {key!r} is lost"
            )
        if script.mode == "kill-after":
            script.dead = True
            raise Killed(f"died after call {script.at}: {verb} {key!r}")
        return answer

    def turn(self, directory: str) -> AbstractContextManager[None]:
        return self._turn(check_directory(directory))

    @contextmanager
    def _turn(self, directory: str) -> Iterator[None]:
        self._script.check_alive()
        with self._inner.turn(directory):
            yield

    def location(self, key: str) -> str | None:
        self._script.check_alive()
        return self._inner.location(key)


class HeldStore(WatchedStore):
    """Pauses its writer once, right before call number ``at`` (the first is 1; 0 only counts).

    ``meanwhile`` is what others do until the writer goes on. ``turn`` lets everyone in at once,
    because nobody waits for a paused writer.
    """

    def __init__(
        self, inner: Store, at: int = 0, meanwhile: Callable[[], object] = lambda: None
    ) -> None:
        super().__init__(inner)
        self._meanwhile = meanwhile
        self._script = _Script(at, "before")

    @property
    def calls(self) -> Sequence[tuple[str, str]]:
        """Each call so far as (verb, key), including the one that was held."""
        return self._script.calls

    def _call(self, verb: str, key: str, action: Callable[[], T]) -> T:
        if self._script.next(verb, key):
            self._meanwhile()
        return action()

    def turn(self, directory: str) -> AbstractContextManager[None]:
        check_directory(directory)
        return nullcontext()
