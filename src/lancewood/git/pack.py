"""Packs, read in blocks from a store: where an object is, and what it holds.

Knows the index in version 2, entries, and deltas within the pack, with SHA-256. The bytes are not
trusted: whatever is wrong with them is a FormatError, and no object becomes larger than
``MOST_BYTES``, whatever an entry or a delta claims or makes. Writes nothing, and holds no lock.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from struct import unpack, unpack_from

from lancewood.errors import FormatError, NotFoundError
from lancewood.git.loose import MOST_BYTES
from lancewood.git.values import Hash
from lancewood.store.base import Store

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
