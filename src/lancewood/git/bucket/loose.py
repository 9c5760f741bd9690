"""Loose objects in a bucket: one small object each, created if it is not there.

Knows that a name is the hash of its bytes: who finds one there already has written it. Nothing here
removes any, so what was seen once is known from then on. Does not know kinds of objects, or packs.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from functools import partial

from lancewood.errors import FormatError, NotFoundError, StorageError
from lancewood.git.bucket.many import at_once
from lancewood.git.hashes import Hash
from lancewood.git.loose import unpack_loose
from lancewood.git.syncing import Unsettled
from lancewood.store.base import Store

OBJECTS = "objects"
_MOST_KNOWN = 1 << 16
_ATTEMPTS = 4


class BucketLoose:
    """The objects below ``objects``, but for packs. Safe to use from threads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._known: dict[Hash, None] = {}
        """What is there, the last that was met at the end."""

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
        """Asks nobody: to write what may be there costs no more than to ask."""
        return hash in self._known

    def write(self, batch: Mapping[Hash, bytes], met: Iterable[Hash] = ()) -> None:
        """Write the objects, several at a time; those that are there stay as they are."""
        at_once([partial(self._write, each, data) for each, data in batch.items()])

    def unsettled(self, hashes: Iterable[Hash]) -> Unsettled:
        return Unsettled()

    def _write(self, hash: Hash, data: bytes) -> None:
        """After an unclear answer it is put again: whoever created it, its bytes are these."""
        for left in reversed(range(_ATTEMPTS)):
            try:
                self._store.put_new(self.key(hash), data)
                break
            except StorageError as error:
                if not left or error.facts.get("final"):
                    raise
        self._know(hash)

    def _know(self, hash: Hash) -> None:
        with self._lock:
            self._known.pop(hash, None)
            self._known[hash] = None
            if len(self._known) > _MOST_KNOWN:
                del self._known[next(iter(self._known))]
