"""Wrappers around a store, and one that commits under a lock of the user's.

A wrapper puts manifests in place in its own way, so the inner store need not have conditional puts.
Branches and tags, the few other objects that use them, do without there.

A commit lock is called with the version and returns a context manager, like pylance's
``commit_lock``: only the holder commits that version.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Self, TypeAlias

from lancewood.errors import CommitUnknownError, InvalidInputError, NotFoundError, UnsupportedError
from lancewood.external.base import manifest_key_parts
from lancewood.model.ids import Version
from lancewood.store.base import (
    DirectoryStamp,
    ObjectInfo,
    PutOutcome,
    ReplaceOutcome,
    Store,
    bare,
    check_directory,
)

CommitLock: TypeAlias = Callable[[int], AbstractContextManager[Any]]


class StoreAround:
    """Passes every verb on to ``inner``; subclasses override those that differ."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.inner!r})"

    @property
    def uri(self) -> str:
        return self.inner.uri

    @property
    def lists_in_order(self) -> bool:
        return self.inner.lists_in_order

    @property
    def is_far(self) -> bool:
        return self.inner.is_far

    @property
    def probed_as(self) -> str | None:
        return self.inner.probed_as

    def get(self, key: str) -> bytes:
        return self.inner.get(key)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self.inner.get_range(key, start, length)

    def head(self, key: str) -> ObjectInfo:
        return self.inner.head(key)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        return self.inner.list(prefix)

    def names(self, directory: str) -> Iterator[str]:
        return self.inner.names(directory)

    def directories(self, directory: str) -> Iterator[str]:
        return self.inner.directories(directory)

    def stamp(self, directory: str) -> DirectoryStamp | None:
        return self.inner.stamp(directory)

    def put(self, key: str, data: bytes) -> None:
        self.inner.put(key, data)

    def put_together(self, objects: Mapping[str, bytes]) -> None:
        self.inner.put_together(objects)

    def put_new(self, key: str, data: bytes) -> PutOutcome:
        """Look, then put, where the store has no conditional puts: that is not safe against another
        writer at the same moment."""
        try:
            return self.inner.put_new(key, data)
        except UnsupportedError:
            if self._etag(key) is not None:
                return PutOutcome.EXISTS
        self.inner.put(key, data)
        return PutOutcome.CREATED

    def replace(self, key: str, data: bytes, expected_etag: str) -> ReplaceOutcome:
        """Look, then put, where the store has no conditional puts: as unsafe as ``put_new``."""
        try:
            return self.inner.replace(key, data, expected_etag)
        except UnsupportedError:
            if self._etag(key) != expected_etag:
                return ReplaceOutcome.CHANGED
        self.inner.put(key, data)
        return ReplaceOutcome.REPLACED

    def put_parts(self, key: str, parts: Iterable[bytes]) -> None:
        self.inner.put_parts(key, parts)

    def copy(self, source: str, target: str) -> None:
        self.inner.copy(source, target)

    def copy_from(
        self, source: Store, found: ObjectInfo, target: str, *, may_link: bool = False
    ) -> bool:
        return self.inner.copy_from(bare(source), found, target, may_link=may_link)

    def delete(self, keys: Iterable[str]) -> None:
        self.inner.delete(keys)

    def prune(self, directory: str) -> None:
        self.inner.prune(directory)

    def sync(self, keys: Sequence[str]) -> None:
        self.inner.sync(keys)

    def turn(self, directory: str) -> AbstractContextManager[None]:
        return self.inner.turn(directory)

    def at(self, prefix: str) -> Self:
        return self.around(self.inner.at(check_directory(prefix)), check_directory(prefix))

    def around(self, inner: Store, prefix: str) -> Self:
        """This wrapper around another root, deeper by ``prefix``."""
        deeper = type(self).__new__(type(self))
        deeper.__dict__.update(self.__dict__)
        deeper.inner = inner
        return deeper

    def location(self, key: str) -> str | None:
        return self.inner.location(key)

    def _etag(self, key: str) -> str | None:
        try:
            return self.inner.head(key).etag
        except NotFoundError:
            return None


class LockedStore(StoreAround):
    """Puts new manifests into ``inner`` under a lock.

    A lock that cannot be pickled stays in its process: elsewhere the store can only read.
    """

    probed_as = None

    def __init__(self, inner: Store, lock: CommitLock) -> None:
        if not callable(lock):
            raise InvalidInputError(
                "commit_lock takes a function that is called with the version and gives a context "
                f"manager, got a {type(lock).__name__}"
            )
        super().__init__(inner)
        self._lock: CommitLock | None = lock

    def __getstate__(self) -> dict[str, Any]:
        return {"inner": self.inner, "_lock": self._lock if _travels(self._lock) else None}

    def put_new(self, key: str, data: bytes) -> PutOutcome:
        found = manifest_key_parts(key)
        if found is None:
            return super().put_new(key, data)
        if self._lock is None:
            raise UnsupportedError(
                f"cannot commit to {self.uri} in this process: its commit_lock could not be "
                "pickled, and stayed where the table was opened. Commit there, or give a lock "
                "that is a function of a module"
            )
        outcome: PutOutcome | None = None
        failure: BaseException | None = None
        is_inside = False
        try:
            with self._held(found.version):
                is_inside = True
                try:
                    outcome = self._put_unless_there(key, data)
                except BaseException as error:
                    failure = error
                    raise
        except Exception as error:
            if error is failure or not is_inside or outcome is PutOutcome.EXISTS:
                raise
            raise CommitUnknownError(
                f"whether version {found.version} of {self.uri} is committed is unknown: its "
                f"commit_lock failed when it was released: {type(error).__name__}: {error}. "
                "Nothing was deleted; look whether it is there before trying again",
                key=key,
                uri=self.uri,
            ) from error
        if failure is not None:  # even if the lock swallowed the error
            raise failure
        assert outcome is not None
        return outcome

    def _held(self, version: Version) -> AbstractContextManager[Any]:
        assert self._lock is not None
        lock = self._lock(int(version))
        if not isinstance(lock, AbstractContextManager):
            raise InvalidInputError(
                f"commit_lock gave a {type(lock).__name__} for version {version}, not a context "
                "manager: nothing is committed. Write it with contextlib.contextmanager, for "
                "example"
            )
        return lock

    def _put_unless_there(self, key: str, data: bytes) -> PutOutcome:
        try:
            self.inner.head(key)
        except NotFoundError:
            self.inner.put(key, data)
            return PutOutcome.CREATED
        return PutOutcome.EXISTS


def _travels(lock: CommitLock | None) -> bool:
    try:
        pickle.dumps(lock)
    except Exception:
        return False
    return True
