"""Packs: many objects in one file, as ``git gc`` leaves them.

``PackDirectory`` reads packs in blocks from a store: the index in version 2, entries, and deltas
within the pack, with SHA-256. The bytes are not trusted: whatever is wrong with them is a
FormatError, and no object becomes larger than ``MOST_BYTES``, whatever an entry or a delta claims.

``Packs`` finds objects in all packs of a repository on a disk and of its alternates, even while
somebody repacks. It writes nothing but the times of pack files. ``QuickPacks`` is a shortcut for
small objects that are stored whole, as commits are, and takes a third of the time. It leaves
everything else, damage included, to the general way, so finding nothing there means nothing. Hashes
are checked where the objects are used.
"""

from __future__ import annotations

import os
import threading
import weakref
import zlib
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from mmap import ACCESS_READ, mmap
from struct import unpack, unpack_from
from traceback import clear_frames
from typing import cast

from dulwich.object_format import SHA256
from dulwich.object_store import BaseObjectStore, DiskObjectStore

from lancewood.errors import FormatError, NotFoundError, StorageError
from lancewood.git.loose import MOST_BYTES, LooseObjects
from lancewood.git.values import Hash, is_hash
from lancewood.store.base import Store
from lancewood.store.disk import DiskStore
from lancewood.store.disk_root import refuse_links

_BLOCK = 1 << 18
_MOST_BLOCKS = 64
_WIDTH = 32
_NAMES = 8 + 256 * 4
_MAGIC = b"\xfftOc\0\0\0\2"
_LARGE = 1 << 31
_KINDS = {1: b"commit", 2: b"tree", 3: b"blob", 4: b"tag"}
_BY_PLACE, _BY_NAME = 6, 7
_MOST_DELTAS = 4096
_MOST_KEPT = 16 << 20
_HEAD = 64
"""More bytes than what stands before the stream of an entry."""


class PackDirectory:
    """The packs in a directory, as they were at the last look: at first none is known."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._packs: dict[str, Pack] = {}

    def look(self) -> bool:
        """Find the packs that there are; whether others than before. Raises FormatError."""
        names = {each[:-4] for each in self._store.names("") if each.endswith(".idx")}
        before = self._packs.keys()
        if names == before:
            return False
        kept = {name: pack for name, pack in self._packs.items() if name in names}
        for name in sorted(names - before):
            try:
                kept[name] = Pack(self._store, name)
            except NotFoundError:
                continue
        self._packs = kept
        return True

    def read(self, hash: Hash) -> tuple[bytes, bytes] | None:
        """Kind and content of an object, or None; raises FormatError."""
        for pack in self._packs.values():
            try:
                offset = pack.offset(hash)
                if offset is not None:
                    return pack.read(offset)
            except NotFoundError:  # a pack that was removed
                continue
        return None

    def has(self, hash: Hash) -> bool:
        for pack in self._packs.values():
            with suppress(NotFoundError):
                if pack.offset(hash) is not None:
                    return True
        return False

    def starting_with(self, prefix: str) -> set[Hash]:
        """The objects whose hashes start so; two digits or more."""
        return {each for pack in self._packs.values() for each in pack.starting_with(prefix)}

    def close(self) -> None:
        self._packs = {}


class Pack:
    """``name`` is without its ending. Raises FormatError for an index that is none."""

    def __init__(self, store: Store, name: str) -> None:
        self.name = name
        self._index = _Blocks(store, f"{name}.idx")
        self._data = _Blocks(store, f"{name}.pack")
        head = self._index.read(0, _NAMES)
        if len(head) < _NAMES or head[:8] != _MAGIC:
            raise FormatError(f"{self._index.file} is not an index of version 2")
        self._counts = (0, *unpack_from(">256I", head, 8))
        if list(self._counts) != sorted(self._counts):
            raise FormatError(f"{self._index.file} is damaged: its counts go down")
        self._kept: OrderedDict[int, tuple[bytes, bytes]] = OrderedDict()
        """What deltas rest on and make, by its place."""
        self._bytes_kept = 0
        self._offsets = _NAMES + self._counts[-1] * (_WIDTH + 4)
        self._large = self._offsets + self._counts[-1] * 4

    def offset(self, hash: Hash) -> int | None:
        """Where the entry of an object begins, or None."""
        digest = bytes.fromhex(hash)
        at, end = self._counts[digest[0]], self._counts[digest[0] + 1]
        names = _Names(self._index, at, end)
        found = bisect_left(names, digest)
        if found == len(names) or names[found] != digest:
            return None
        (offset,) = unpack(">I", self._index.whole(self._offsets + 4 * (at + found), 4))
        if offset >= _LARGE:
            (offset,) = unpack(">Q", self._index.whole(self._large + 8 * (offset - _LARGE), 8))
        return int(offset)

    def starting_with(self, prefix: str) -> Iterator[Hash]:
        """The objects whose hashes start so; two digits or more."""
        first = int(prefix[:2], 16)
        names = _Names(self._index, self._counts[first], self._counts[first + 1])
        low = bytes.fromhex(prefix.ljust(64, "0"))
        for at in range(bisect_left(names, low), len(names)):
            found = names[at].hex()
            if not found.startswith(prefix):
                return
            yield Hash(found)

    def read(self, offset: int) -> tuple[bytes, bytes]:
        """Kind and content of the object whose entry begins there."""
        deltas: list[tuple[int, bytes]] = []
        while (found := self._kept.get(offset)) is None:
            number, size, start = self._header(offset)
            if number in _KINDS:
                found = _KINDS[number], self._inflated(start, size)
                break
            if len(deltas) == _MOST_DELTAS:
                raise FormatError(f"{self._data.file}: more than {_MOST_DELTAS} deltas in a row")
            if number == _BY_PLACE:
                back, start = self._distance(start)
                base: int | None = offset - back
            elif number == _BY_NAME:
                base = self.offset(Hash(self._data.whole(start, _WIDTH).hex()))
                start += _WIDTH
            else:
                raise FormatError(f"{self._data.file}: {number} is no kind of entry")
            if base is None or not 0 < base != offset:
                raise FormatError(f"{self._data.file}: what a delta rests on is not there")
            deltas.append((offset, self._inflated(start, size)))
            offset = base
        kind, data = found
        for at, delta in reversed(deltas):
            self._keep(offset, kind, data)
            offset, data = at, self._applied(data, delta)
        if deltas:
            self._keep(offset, kind, data)
        return kind, data

    def _keep(self, offset: int, kind: bytes, data: bytes) -> None:
        """The next one that is asked for often rests on it."""
        if offset in self._kept or len(data) > _MOST_KEPT:
            return
        self._kept[offset] = kind, data
        self._bytes_kept += len(data)
        while self._bytes_kept > _MOST_KEPT:
            _, (_, dropped) = self._kept.popitem(last=False)
            self._bytes_kept -= len(dropped)

    def _header(self, offset: int) -> tuple[int, int, int]:
        """Kind and size of an entry, and where its content begins."""
        head = self._data.read(offset, _HEAD)
        size, shift = (head[0] & 15 if head else 0), 4
        for at, byte in enumerate(head[:10]):
            if at:
                size |= (byte & 127) << shift
                shift += 7
            if not byte & 128:
                if size > MOST_BYTES:
                    raise FormatError(f"{self._data.file}: an object of {size} bytes")
                return head[0] >> 4 & 7, size, offset + at + 1
        raise FormatError(f"{self._data.file}: no entry begins at {offset}")

    def _distance(self, start: int) -> tuple[int, int]:
        back = -1
        for at, byte in enumerate(self._data.read(start, 10)):
            back = (back + 1) << 7 | (byte & 127)
            if not byte & 128:
                return back, start + at + 1
        raise FormatError(f"{self._data.file}: a delta rests on nothing at {start}")

    def _inflated(self, start: int, size: int) -> bytes:
        stream, parts, left = zlib.decompressobj(), list[bytes](), size
        try:
            while not stream.eof:
                data = stream.unconsumed_tail or self._data.read(start, _BLOCK)
                if not data:
                    break
                if not stream.unconsumed_tail:
                    start += len(data)
                parts.append(stream.decompress(data, left + 1))
                left -= len(parts[-1])
                if left < 0:
                    break
        except zlib.error as cause:
            raise FormatError(f"{self._data.file}: it does not inflate: {cause}") from cause
        if left or not stream.eof:
            raise FormatError(f"{self._data.file}: an entry has another size than it says")
        return b"".join(parts)

    def _applied(self, data: bytes, delta: bytes) -> bytes:
        try:
            return apply_delta(data, delta)
        except FormatError as cause:
            raise FormatError(f"{self._data.file}: a delta does not apply: {cause}") from cause


class _Blocks:
    """An object of the store in blocks, of which the last few are kept."""

    def __init__(self, store: Store, key: str) -> None:
        self.file = f"{store.uri}/{key}"
        self._store, self._key = store, key
        self._kept: OrderedDict[int, bytes] = OrderedDict()

    def read(self, start: int, length: int) -> bytes:
        """The bytes; fewer where the object ends before."""
        parts = []
        while length > 0:
            number, inside = divmod(start, _BLOCK)
            part = self._block(number)[inside : inside + length]
            parts.append(part)
            start, length = start + len(part), length - len(part)
            if not part or (length and inside + len(part) < _BLOCK):
                break
        return b"".join(parts)

    def whole(self, start: int, length: int) -> bytes:
        """All of these bytes; raises FormatError if the object ends before."""
        found = self.read(start, length)
        if len(found) != length:
            raise FormatError(f"{self.file} is cut short", file=self.file)
        return found

    def _block(self, number: int) -> bytes:
        found = self._kept.get(number)
        if found is None:
            found = self._store.get_range(self._key, number * _BLOCK, _BLOCK)
            self._kept[number] = found
            if len(self._kept) > _MOST_BLOCKS:
                self._kept.popitem(last=False)
        self._kept.move_to_end(number)
        return found


class _Names:
    """The names of an index from one number to another, in order, read as they are asked for."""

    def __init__(self, index: _Blocks, start: int, end: int) -> None:
        self._index, self._start, self._count = index, start, end - start

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, at: int) -> bytes:
        return self._index.whole(_NAMES + _WIDTH * (self._start + at), _WIDTH)


def apply_delta(data: bytes, delta: bytes) -> bytes:
    """What a delta makes of an object: pieces of that, and pieces of its own.

    It says beforehand how large the result is, and is not believed to keep to that. Raises
    FormatError.
    """
    try:
        return _apply_delta(data, delta)
    except IndexError as cause:
        raise FormatError(f"it is cut short at {len(delta)} bytes") from cause


def _apply_delta(data: bytes, delta: bytes) -> bytes:
    size, at = _delta_number(delta, 0)
    most, at = _delta_number(delta, at)
    if size != len(data):
        raise FormatError(f"it is one of {size} bytes, and not of {len(data)}")
    if most > MOST_BYTES:
        raise FormatError(f"it makes {most} bytes, {MOST_BYTES} are the most")
    made, parts = 0, list[bytes]()
    while at < len(delta):
        order = delta[at]
        at += 1
        if order & 128:
            start, length = 0, 0
            for bit in range(4):
                if order >> bit & 1:
                    start |= delta[at] << 8 * bit
                    at += 1
            for bit in range(3):
                if order >> 4 + bit & 1:
                    length |= delta[at] << 8 * bit
                    at += 1
            source, length = data, length or 1 << 16
        elif order:
            source, start, length = delta, at, order
            at += order
        else:
            raise FormatError("it has an order that nobody knows")
        made += length
        if made > most or start + length > len(source):
            raise FormatError("it makes more than it says, or takes what is not there")
        parts.append(source[start : start + length])
    if made != most:
        raise FormatError(f"it makes {made} bytes, and says {most}")
    return b"".join(parts)


def _delta_number(delta: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, and where it ends."""
    number, shift = 0, 0
    while True:
        byte = delta[at]
        number |= (byte & 127) << shift
        shift += 7
        at += 1
        if not byte & 128:
            return number, at
        if shift > 63:
            raise FormatError("it has a number that is too large")


_MOST_PACKS = 64
_SMALL = 1 << 16


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
            if len(self._index) < _NAMES or self._index[:8] != _MAGIC:
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
        kind = _KINDS.get(byte >> 4 & 7)
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
