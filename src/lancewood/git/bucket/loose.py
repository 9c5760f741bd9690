"""The objects of a repository in a bucket: loose ones, and the packs that an upload brought along.

A loose object is one small object of the bucket, named by the hash of its bytes: if it is there
already, nothing has to be written. Nothing here removes any, so what was seen once is remembered.
No packs are written, and alternates are not followed. Requests go out many at once, since a bucket
takes as long for one as for thirty.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from lancewood.errors import FormatError, NotFoundError, StorageError, UnsupportedError
from lancewood.git.loose import unpack_loose
from lancewood.git.packs import PackDirectory
from lancewood.git.syncing import Unsettled
from lancewood.git.values import Hash, is_hash
from lancewood.store.base import Store
from lancewood.store.retry import UNCLEAR_PUTS

T = TypeVar("T")

_AT_ONCE = 32
OBJECTS = "objects"
_MOST_KNOWN = 1 << 16
_PACKS = f"{OBJECTS}/pack"
_BORROWED = f"{OBJECTS}/info/alternates"


def at_once(works: Sequence[Callable[[], T]]) -> list[T]:
    """Run them concurrently; results in order. Raises the first failure when all are done."""
    if len(works) < 2:
        return [work() for work in works]
    with ThreadPoolExecutor(min(_AT_ONCE, len(works)), "lancewood-bucket") as pool:
        futures = [pool.submit(work) for work in works]
    return [each.result() for each in futures]


class BucketLoose:
    """The loose objects below ``objects``. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._known: dict[Hash, None] = {}
        """What is known to be there, most recent last."""

    def key(self, hash: Hash) -> str:
        return f"{OBJECTS}/{hash[:2]}/{hash[2:]}"

    def read(self, hash: Hash) -> bytes | None:
        key = self.key(hash)
        try:
            data = self._store.get(key)
        except NotFoundError:
            return None
        try:
            found = unpack_loose(data)
        except FormatError as cause:
            file = f"{self._store.uri}/{key}"
            raise FormatError(f"{file}: {cause}", file=file) from cause
        self._know(hash)
        return found

    def has(self, hash: Hash) -> bool:
        if hash in self._known:
            return True
        try:
            self._store.head(self.key(hash))
        except NotFoundError:
            return False
        self._know(hash)
        return True

    def freshen(self, hash: Hash) -> bool:
        """Sends no request: writing an object costs no more than asking for it."""
        return hash in self._known

    def write(self, batch: Mapping[Hash, bytes], met: Iterable[Hash] = ()) -> None:
        """Write the objects concurrently; existing ones stay as they are."""
        at_once([partial(self._write, each, data) for each, data in batch.items()])

    def unsettled(self, hashes: Iterable[Hash]) -> Unsettled:
        return Unsettled()

    def _write(self, hash: Hash, data: bytes) -> None:
        """Retries after an unclear answer: an object of this name can only have these bytes."""
        for attempt in UNCLEAR_PUTS:
            try:
                self._store.put_new(self.key(hash), data)
                break
            except StorageError as error:
                if attempt == UNCLEAR_PUTS.last or error.facts.get("final"):
                    raise
        self._know(hash)

    def _know(self, hash: Hash) -> None:
        with self._lock:
            self._known.pop(hash, None)
            self._known[hash] = None
            if len(self._known) > _MOST_KNOWN:
                del self._known[next(iter(self._known))]


class BucketPacks:
    """The packs, listed when an object is first missing among the loose ones. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._packs = PackDirectory(store.at(_PACKS))

    def read(self, hash: Hash) -> tuple[bytes, bytes] | None:
        """Kind and content of an object, or None; raises FormatError, and UnsupportedError if the
        object may be in another repository that this one borrows from."""
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
        """Looks at known packs only; those stay unless one is removed."""
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
