"""Packs: many objects in one file, as ``git gc`` leaves them.

Knows how to find an object in whatever packs there are now, also when somebody else repacks
meanwhile, and where a repository borrows from; dulwich tells that, and which hashes begin how.
Writes nothing but the time of a file.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import suppress
from traceback import clear_frames
from typing import cast

from dulwich.object_format import SHA256
from dulwich.object_store import BaseObjectStore, DiskObjectStore
from dulwich.objects import ObjectID

from lancewood.errors import FormatError, StorageError
from lancewood.git.hashes import Hash, is_hash
from lancewood.git.loose import MOST_BYTES, LooseObjects
from lancewood.git.pack import PackDirectory
from lancewood.git.quickpack import QuickPacks
from lancewood.store.disk import DiskStore
from lancewood.store.disk_root import refuse_links


class _Store(DiskObjectStore):
    """dulwich's own, for SHA-256 all the way: it opens the places that a repository borrows from
    as if they were SHA-1. An index over several packs is left out: each pack has its own too."""

    def __init__(self, path: str) -> None:
        super().__init__(path, object_format=SHA256, loose_object_size_limit=MOST_BYTES)
        self._use_midx = False

    @property
    def alternates(self) -> list[BaseObjectStore]:
        if self._alternates is None:
            self._alternates = [_Store(each) for each in self._read_alternate_paths()]
        return self._alternates

    def all_paths(self) -> list[str]:
        """Its own, and after it those of all that it borrows from, also in turn."""
        found, todo = list[str](), [self]
        while todo:
            store = todo.pop(0)
            path = os.path.realpath(store.path)  # or a way in a circle would be a new one each time
            if path not in found:
                found.append(path)
                todo += cast("list[_Store]", store.alternates)
        return found


class Packs:
    """The packs of one repository and of those it borrows from; safe to use from threads."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._store = _Store(path)
        self._places: dict[str, tuple[PackDirectory, LooseObjects]] = {}
        """What there is by directory: here, and where the repository borrows from."""
        self._quick = QuickPacks(f"{path}/pack")
        self._lock = threading.Lock()
        self._closed = weakref.finalize(self, _close, self._store)

    def read(self, hash: Hash) -> tuple[bytes, bytes] | None:
        """Kind and content of an object, or None; looks for new packs before it says so.

        An object that was loose a moment ago, and is not any more, is found as well, and so is one
        that became loose. Raises FormatError.
        """
        with self._lock:
            found = self._quick.read(hash)
            if found is None:
                self._quick.look()
                found = self._quick.read(hash)
            if found is not None:
                return found
            try:
                return self._find(hash)
            except OSError as cause:
                raise StorageError(
                    f"cannot read {hash} in {self._path}: {cause.strerror or cause}", hash=hash
                ) from cause
            except (FormatError, IndexError, ValueError) as cause:
                raise FormatError(
                    f"object {hash} in the packs of {self._path} is damaged: {cause}; "
                    "git fsck says more",
                    hash=hash,
                ) from cause

    def _find(self, hash: Hash) -> tuple[bytes, bytes] | None:
        for path in self._store.all_paths():
            if path not in self._places:
                packs = PackDirectory(DiskStore(f"{path}/pack"))
                self._places[path] = packs, LooseObjects(path, fsync=False)
            packs, loose = self._places[path]
            found = packs.read(hash)
            if found is None and packs.look():
                found = packs.read(hash)
            if found is not None:
                return found
            whole = loose.read(hash)
            if whole is not None:
                header, _, data = whole.partition(b"\0")
                return header.partition(b" ")[0], data
        return None

    def peek(self, hash: Hash) -> tuple[bytes, bytes] | None:
        """The same if it is quickly found; None says nothing."""
        with self._lock:
            return self._quick.read(hash)

    def freshen(self, hash: Hash) -> bool:
        """Whether a pack has the object; the pack then looks new.

        In doubt it is not: what is in a pack and is written once more does no harm.
        """
        with self._lock:
            try:
                self._quick.look()
                file = self._quick.file_of(hash)
                if file is None:
                    return False
                root = os.path.dirname(self._path)
                refuse_links(root, file[len(root) + 1 :])
                os.utime(file, follow_symlinks=False)
            except OSError:  # a pack that cannot be touched keeps nothing for us
                return False
            return True

    def starting_with(self, prefix: str) -> Iterator[Hash]:
        """The objects whose hashes start so, loose ones included."""
        with self._lock:
            try:
                found = {each.decode("ascii") for each in self._store.iter_prefix(prefix.encode())}
            except Exception as cause:  # as above
                clear_frames(cause.__traceback__)
                raise FormatError(
                    f"the packs of {self._path} are damaged, and which hashes start with "
                    f"{prefix!r} is not known: {cause!r}; git fsck says more; a whole hash may "
                    "still be found"
                ) from cause
        yield from sorted(Hash(each) for each in found if is_hash(each))

    def close(self) -> None:
        """Let go of open files; they are opened again when they are asked for."""
        with self._lock:
            self._quick.close()
            self._places.clear()
            _close(self._store)


def _close(store: _Store) -> None:
    """A pack whose damage somebody is just told of is still in use, and goes when that is over."""
    with suppress(BufferError):
        store.close()


def _name(hash: Hash) -> ObjectID:
    return ObjectID(hash.encode("ascii"))
