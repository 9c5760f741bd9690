"""Packs: many objects in one file, as ``git gc`` leaves them.

``Packs`` finds objects in all packs of a repository and of its alternates, even while somebody
repacks. It writes nothing but the times of pack files. ``QuickPacks`` is a shortcut for small
objects that are stored whole, as commits are, and takes a third of the time. It leaves everything
else, damage included, to the general way, so finding nothing there means nothing. Hashes are
checked where the objects are used.
"""

from __future__ import annotations

import os
import threading
import weakref
import zlib
from collections.abc import Iterator
from contextlib import suppress
from mmap import ACCESS_READ, mmap
from struct import unpack_from
from traceback import clear_frames
from typing import cast

from dulwich.object_format import SHA256
from dulwich.object_store import BaseObjectStore, DiskObjectStore

from lancewood.errors import FormatError, StorageError
from lancewood.git.loose import MOST_BYTES, LooseObjects
from lancewood.git.pack import PackDirectory
from lancewood.git.values import Hash, is_hash
from lancewood.store.disk import DiskStore
from lancewood.store.disk_root import refuse_links

_MOST_PACKS = 64
_SMALL = 1 << 16
_WIDTH = 32
_NAMES = 8 + 256 * 4
_KINDS = (None, b"commit", b"tree", b"blob", b"tag", None, None, None)


class _Store(DiskObjectStore):
    """dulwich's store for SHA-256 throughout: dulwich would open alternates as SHA-1. Multi-pack
    indexes are not used; each pack has an index of its own as well."""

    def __init__(self, path: str) -> None:
        super().__init__(path, object_format=SHA256, loose_object_size_limit=MOST_BYTES)
        self._use_midx = False

    @property
    def alternates(self) -> list[BaseObjectStore]:
        if self._alternates is None:
            self._alternates = [_Store(each) for each in self._read_alternate_paths()]
        return self._alternates

    def all_paths(self) -> list[str]:
        """The path of this store, and those of all direct and indirect alternates."""
        found, todo = list[str](), [self]
        while todo:
            store = todo.pop(0)
            path = os.path.realpath(store.path)  # else a cycle would give new paths for ever
            if path not in found:
                found.append(path)
                todo += cast("list[_Store]", store.alternates)
        return found


class Packs:
    """The packs of a repository and of its alternates. Thread-safe."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._store = _Store(path)
        self._opened: dict[str, tuple[PackDirectory, LooseObjects]] = {}
        """Packs and loose objects of this repository and its alternates, by directory."""
        self._quick = QuickPacks(f"{path}/pack")
        self._lock = threading.Lock()
        self._closed = weakref.finalize(self, _close, self._store)

    def read(self, hash: Hash) -> tuple[bytes, bytes] | None:
        """Kind and content of an object, or None after looking for new packs.

        Also finds an object that was just packed, or just became loose. Raises FormatError.
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
            if path not in self._opened:
                packs = PackDirectory(DiskStore(f"{path}/pack"))
                self._opened[path] = packs, LooseObjects(path, fsync=False)
            packs, loose = self._opened[path]
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
        """Kind and content of an object that is found quickly; None says nothing."""
        with self._lock:
            return self._quick.read(hash)

    def freshen(self, hash: Hash) -> bool:
        """Whether a pack has the object; if so, the pack gets a new time.

        When in doubt, False: writing an object again does no harm.
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
        """The objects whose hashes start with the prefix, loose ones included."""
        with self._lock:
            try:
                found = {each.decode("ascii") for each in self._store.iter_prefix(prefix.encode())}
            except Exception as cause:  # dulwich raises all kinds of errors for damage
                clear_frames(cause.__traceback__)
                raise FormatError(
                    f"the packs of {self._path} are damaged, and which hashes start with "
                    f"{prefix!r} is not known: {cause!r}; git fsck says more; a whole hash may "
                    "still be found"
                ) from cause
        yield from sorted(Hash(each) for each in found if is_hash(each))

    def close(self) -> None:
        """Close open files; they are opened again when needed."""
        with self._lock:
            self._quick.close()
            self._opened.clear()
            _close(self._store)


def _close(store: _Store) -> None:
    """A damaged pack may still be in use by the error that reports it, and is closed later then."""
    with suppress(BufferError):
        store.close()


class QuickPacks:
    """The packs of a directory. Not thread-safe: the owner holds a lock."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._changed: int | None = None
        self._packs: list[_Pack] = []

    def look(self) -> None:
        """List the packs again if the directory changed since the last look."""
        try:
            changed = os.stat(self._directory).st_mtime_ns
            if changed == self._changed:
                return
            names = {each[:-4] for each in os.listdir(self._directory) if each.endswith(".idx")}
        except OSError:
            return
        known = {each.name: each for each in self._packs}
        for name in known.keys() - names:
            known.pop(name).close()
        for name in sorted(names - known.keys())[: _MOST_PACKS - len(known)]:
            with suppress(OSError, ValueError):
                known[name] = _Pack(self._directory, name)
        self._packs = list(known.values())
        self._changed = changed

    def read(self, hash: Hash) -> tuple[bytes, bytes] | None:
        """Kind and content of an object, or None."""
        digest = bytes.fromhex(hash)
        for at, pack in enumerate(self._packs):
            offset = pack.offset(digest)
            if offset is not None:
                if at:
                    self._packs.insert(0, self._packs.pop(at))
                try:
                    return pack.read(offset)
                except (IndexError, zlib.error):
                    return None
        return None

    def file_of(self, hash: Hash) -> str | None:
        """The pack that holds an object, or None."""
        digest = bytes.fromhex(hash)
        for pack in self._packs:
            if pack.offset(digest) is not None:
                return f"{self._directory}/{pack.name}.pack"
        return None

    def close(self) -> None:
        for each in self._packs:
            each.close()
        self._packs = []
        self._changed = None


class _Pack:
    """One pack and its index of version 2; raises ValueError for other versions."""

    def __init__(self, directory: str, name: str) -> None:
        self.name = name
        self._index = _mapped(f"{directory}/{name}.idx")
        try:
            if len(self._index) < _NAMES or self._index[:8] != b"\xfftOc\0\0\0\2":
                raise ValueError(f"{name}.idx is not of version 2")
            self._counts = (0, *unpack_from(">256I", self._index, 8))
            count = self._counts[-1]
            self._offsets = _NAMES + count * (_WIDTH + 4)
            if list(self._counts) != sorted(self._counts) or (
                len(self._index) < self._offsets + count * 4
            ):
                raise ValueError(f"{name}.idx is cut short")
            self._data = _mapped(f"{directory}/{name}.pack")
        except BaseException:
            self._index.close()
            raise

    def offset(self, digest: bytes) -> int | None:
        """Where the object is in the pack."""
        index = self._index
        low, high = self._counts[digest[0]], self._counts[digest[0] + 1]
        while low < high:
            middle = (low + high) >> 1
            at = _NAMES + middle * _WIDTH
            name = index[at : at + _WIDTH]
            if name < digest:
                low = middle + 1
            elif name > digest:
                high = middle
            else:
                at = self._offsets + middle * 4
                offset = int.from_bytes(index[at : at + 4], "big")
                return offset if offset < 1 << 31 else None
        return None

    def read(self, offset: int) -> tuple[bytes, bytes] | None:
        """Kind and content of an object; None if it is large or a delta."""
        data = self._data
        byte = data[offset]
        kind = _KINDS[byte >> 4 & 7]
        size = byte & 15
        shift = 4
        while byte & 128:
            offset += 1
            byte = data[offset]
            size |= (byte & 127) << shift
            shift += 7
            if shift > 32:
                return None
        if kind is None or size > _SMALL:
            return None
        start = offset + 1
        most = size + 128 + (size >> 8)
        content = zlib.decompressobj().decompress(data[start : start + most], size + 1)
        return (kind, content) if len(content) == size else None

    def close(self) -> None:
        self._index.close()
        self._data.close()


def _mapped(file: str) -> mmap:
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return mmap(descriptor, 0, access=ACCESS_READ)
    finally:
        os.close(descriptor)
