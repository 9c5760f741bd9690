"""The packs of a repository in a bucket, as an upload of a repository left them.

Knows which packs there are. Writes none, and does not follow the places that a repository on a disk
may borrow from.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

from lancewood.errors import FormatError, NotFoundError, UnsupportedError
from lancewood.git.bucket.loose import OBJECTS
from lancewood.git.hashes import Hash, is_hash
from lancewood.git.pack import PackDirectory
from lancewood.store.base import Store

_PACKS = f"{OBJECTS}/pack"
_BORROWED = f"{OBJECTS}/info/alternates"


class BucketPacks:
    """Found when an object is first asked for that is not loose. Safe to use from threads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._packs = PackDirectory(store.at(_PACKS))

    def read(self, hash: Hash) -> tuple[bytes, bytes] | None:
        """Kind and content of an object, or None; raises FormatError, and UnsupportedError where
        the object may be in another repository that this one borrows from."""
        with self._lock:
            found = self._read(hash)
            if found is None and self._packs.look():
                found = self._read(hash)
        if found is None:
            self._check_borrows_nothing()
        return found

    def peek(self, hash: Hash) -> tuple[bytes, bytes] | None:
        with self._lock:
            return self._read(hash)

    def freshen(self, hash: Hash) -> bool:
        """Of the packs that were met: they stay, but for one that somebody removed."""
        with self._lock:
            return self._packs.has(hash)

    def starting_with(self, prefix: str) -> Iterator[Hash]:
        with self._lock:
            self._packs.look()
            found = self._packs.starting_with(prefix)
        names = (prefix[:2] + each for each in self._store.names(f"{OBJECTS}/{prefix[:2]}"))
        found |= {Hash(each) for each in names if each.startswith(prefix) and is_hash(each)}
        yield from sorted(found)

    def close(self) -> None:
        with self._lock:
            self._packs.close()

    def _read(self, hash: Hash) -> tuple[bytes, bytes] | None:
        try:
            return self._packs.read(hash)
        except FormatError as cause:
            raise FormatError(
                f"object {hash} in the packs of {self._store.uri} is damaged: {cause}", hash=hash
            ) from cause

    def _check_borrows_nothing(self) -> None:
        try:
            self._store.head(_BORROWED)
        except NotFoundError:
            return
        raise UnsupportedError(
            f"{self._store.uri} borrows objects from another repository ({_BORROWED}), which is "
            "not followed in a bucket; run git repack -a on the disk, remove that file, and upload "
            "it again"
        )
