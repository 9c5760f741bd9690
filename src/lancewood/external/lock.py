"""Committing under a lock of the user's: for a store that has nothing else.

The lock is called with the version and gives a context manager, as pylance's ``commit_lock``: who
is inside is the only one to commit that version. Knows nothing of how it locks.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

from lancewood.errors import (
    CommitUnknownError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
)
from lancewood.external.around import StoreAround
from lancewood.external.names import manifest_key_parts
from lancewood.model.ids import Version
from lancewood.store.base import PutOutcome, Store

CommitLock: TypeAlias = Callable[[int], AbstractContextManager[Any]]


class LockedStore(StoreAround):
    """``inner``, where a manifest is put under a lock, if it is not there.

    A lock that cannot be pickled stays in its process; elsewhere the store reads, and refuses to
    commit.
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
        if failure is not None:  # a lock that swallows what is raised inside does not undo it
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
