"""Fragments as another root sees them: their files stay where they are, under a base path.

A manifest may have a million fragments, and nearly all of them have one of a few shapes: the same
fields in the same order, the same lengths. So one fragment of each shape is parsed, and the others
of that shape are written all at once, column by column of their bytes. Any other is decoded one by
one. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from lancewood.errors import UnsupportedError
from lancewood.format.container import encode_varint
from lancewood.model.ids import BaseId
from lancewood.model.manifest import Manifest
from lancewood.proto import table_pb2

_Bytes = npt.NDArray[np.uint8]
_Numbers = npt.NDArray[np.int64]

_FRAGMENT = b"\x12"
"""The tag of a fragment in a manifest: field 2, a message."""
_DATA_FILE, _DELETION_FILE = 0x12, 0x1A
_BASE_ID = 0x38
"""The tag of field 7, which is the base id in data files and in deletion files."""
_UNCOMMON = frozenset({0x32, 0x42, 0x52, 0x5A})
"""Lineage outside the manifest, and overlays."""
_MANY = 32
"""Fewer fragments are decoded one by one: that is faster than looking for shapes."""
_MOST_SHAPES = 256
_FEW = 4
"""A shape of fewer fragments is not worth handling."""


def inherited_fragments(source: Manifest, base_id: BaseId) -> bytes:
    """The fragments in the bytes of a manifest, with this base path for each file that has none.

    Raises UnsupportedError for a fragment with parts outside data and deletion files, to which no
    base path applies; FormatError for one that cannot be decoded.
    """
    raw = list(source.message.fragments)
    if len(raw) < _MANY:
        return b"".join(map(_entry, refer_one_by_one(raw, base_id, source.name)))
    joined = np.frombuffer(b"".join(raw), np.uint8)
    lengths = np.fromiter(map(len, raw), np.int64, len(raw))
    parts = _Parts(joined, lengths, base_id)
    left = parts.shaped()
    if len(left):
        some = [raw[each] for each in left.tolist()]
        changed = refer_one_by_one(some, base_id, source.name)
        parts.add_each(left, [_entry(each) for each in changed])
    return parts.join()


def _entry(fragment: bytes) -> bytes:
    """A fragment as a manifest holds it."""
    return _FRAGMENT + encode_varint(len(fragment)) + fragment


def refer_one_by_one(raw: Sequence[bytes], base_id: BaseId, name: str) -> Iterator[bytes]:
    """Decode and encode fragments, with this base path for each of their files that has none."""
    for each in Manifest(table_pb2.Manifest(fragments=raw), name=name).fragments:
        fragment = each.message
        if any(
            field.name.startswith("external_") and field.message_type is not None
            for field, _ in fragment.ListFields()
        ):
            raise UnsupportedError(
                f"{name}: fragment {fragment.id} keeps the ids or versions of its rows in a "
                "file outside the manifest, which a branch or a clone cannot refer to; compact the "
                "table first",
                fragment=fragment.id,
            )
        for file in (*fragment.files, *(overlay.data_file for overlay in fragment.overlays)):
            if not file.HasField("base_id"):
                file.base_id = base_id
        if fragment.HasField("deletion_file") and not fragment.deletion_file.HasField("base_id"):
            fragment.deletion_file.base_id = base_id
        yield fragment.SerializeToString()


class _Parts:
    """The new bytes of all fragments, collected in any order and joined in theirs."""

    def __init__(self, joined: _Bytes, lengths: _Numbers, base_id: BaseId) -> None:
        self._joined, self._lengths = joined, lengths
        self._starts = np.cumsum(lengths) - lengths
        self._mark = bytes([_BASE_ID]) + encode_varint(base_id)
        self._sizes = np.zeros(len(lengths), np.int64)
        self._blocks: list[tuple[_Numbers, _Bytes]] = []
        self._single: list[tuple[int, bytes]] = []

    def shaped(self) -> _Numbers:
        """Write the fragments that have a common shape; returns the positions of the others."""
        left: list[_Numbers] = []
        shapes = 0
        order = np.argsort(self._lengths, kind="stable")
        borders = np.flatnonzero(np.diff(self._lengths[order])) + 1
        for same_length in np.split(order, borders):
            waiting = same_length
            while len(waiting) >= _FEW and shapes < _MOST_SHAPES:
                shapes += 1
                shape = _shape(self._rows(waiting[:1]).tobytes())
                if shape is None:
                    left.append(waiting[:1])
                    waiting = waiting[1:]
                    continue
                rows = self._rows(waiting)
                fits = shape.fits(rows)
                if fits.all():
                    self._add(waiting, shape.write(rows, self._mark))
                    waiting = waiting[:0]
                else:
                    self._add(waiting[fits], shape.write(rows[fits], self._mark))
                    waiting = waiting[~fits]
            left.append(waiting)
        return np.sort(np.concatenate(left)) if left else np.empty(0, np.int64)

    def _rows(self, positions: _Numbers) -> _Bytes:
        """Fragments of the same length as the rows of a matrix."""
        length = int(self._lengths[positions[0]])
        first, count = int(positions[0]), len(positions)
        if int(positions[-1]) - first == count - 1:
            start = int(self._starts[first])
            return self._joined[start : start + count * length].reshape(count, length)
        windows = np.lib.stride_tricks.sliding_window_view(self._joined, length)
        rows: _Bytes = windows[self._starts[positions]]
        return rows

    def _add(self, positions: _Numbers, rows: _Bytes) -> None:
        self._sizes[positions] = rows.shape[1]
        self._blocks.append((positions, rows))

    def add_each(self, positions: _Numbers, new: Sequence[bytes]) -> None:
        self._sizes[positions] = [len(each) for each in new]
        self._single += zip(positions.tolist(), new, strict=True)

    def join(self) -> bytes:
        if len(self._blocks) == 1 and not self._single:
            return self._blocks[0][1].tobytes()
        starts = np.cumsum(self._sizes) - self._sizes
        whole = np.empty(int(self._sizes.sum()), np.uint8)
        for positions, rows in self._blocks:
            width = rows.shape[1]
            windows = np.lib.stride_tricks.sliding_window_view(whole, width, writeable=True)
            windows[starts[positions]] = rows
        for position, new in self._single:
            start = int(starts[position])
            whole[start : start + len(new)] = np.frombuffer(new, np.uint8)
        return whole.tobytes()


@dataclass
class _Shape:
    """Where the fields of a fragment begin and end, and which of its bytes say so."""

    sample: bytes
    fixed: list[int] = field(default_factory=list)
    """Tags and lengths: the same bytes in every fragment of the shape."""
    numbers: list[int] = field(default_factory=list)
    """Bytes of numbers: the same in their highest bit, which says whether the number continues."""
    files: list[tuple[int, int, int]] = field(default_factory=list)
    """Files without a base path: where the length begins, where the file begins and ends."""

    def fits(self, rows: _Bytes) -> npt.NDArray[np.bool_]:
        sample = np.frombuffer(self.sample, np.uint8)
        fits: npt.NDArray[np.bool_] = (rows[:, self.fixed] == sample[self.fixed]).all(axis=1)
        if self.numbers:
            fits &= ((rows[:, self.numbers] ^ sample[self.numbers]) < 0x80).all(axis=1)
        return fits

    def write(self, rows: _Bytes, mark: bytes) -> _Bytes:
        """The rows as fragments of a manifest, with a base id at the end of each file."""
        pieces: list[bytes | slice] = []
        done = size = 0
        for at, start, end in self.files:
            length = encode_varint(end - start + len(mark))
            pieces += (slice(done, at), length, slice(start, end), mark)
            size += at - done + len(length) + end - start + len(mark)
            done = end
        pieces.append(slice(done, len(self.sample)))
        size += len(self.sample) - done
        head = _FRAGMENT + encode_varint(size)
        new = np.empty((len(rows), len(head) + size), np.uint8)
        column = 0
        for piece in (head, *pieces):
            block = rows[:, piece] if isinstance(piece, slice) else np.frombuffer(piece, np.uint8)
            width = block.shape[-1]
            new[:, column : column + width] = block
            column += width
        return new


class _UnusualShape(Exception):
    """Raised for bytes without a common shape."""


def _shape(sample: bytes) -> _Shape | None:
    """The shape of a fragment; None if it is not a common one."""
    shape = _Shape(sample)
    try:
        _parse_fragment(shape)
    except (_UnusualShape, IndexError):
        return None
    return shape


def _parse_fragment(shape: _Shape) -> None:
    at, end = 0, len(shape.sample)
    has_deletions = False
    while at < end:
        tag = shape.sample[at]
        if tag in _UNCOMMON or (tag == _DELETION_FILE and has_deletions):
            raise _UnusualShape
        has_deletions |= tag == _DELETION_FILE
        if tag in (_DATA_FILE, _DELETION_FILE):
            shape.fixed.append(at)
            start, stop = _length(shape, at + 1, end)
            if not _has_base_id(shape, start, stop):
                shape.files.append((at + 1, start, stop))
            at = stop
        else:
            at = _skip(shape, at, end)


def _has_base_id(shape: _Shape, at: int, end: int) -> bool:
    found = False
    while at < end:
        found |= shape.sample[at] == _BASE_ID
        at = _skip(shape, at, end)
    return found


def _skip(shape: _Shape, at: int, end: int) -> int:
    """The end of the field that begins here."""
    tag = shape.sample[at]
    if tag >= 0x80 or tag < 8:
        raise _UnusualShape
    shape.fixed.append(at)
    kind = tag & 7
    if kind == 0:
        stop = _number(shape, at + 1)
        shape.numbers += range(at + 1, stop)
    elif kind == 2:
        _, stop = _length(shape, at + 1, end)
    elif kind in (1, 5):
        stop = at + 1 + (8 if kind == 1 else 4)
    else:
        raise _UnusualShape
    if stop > end:
        raise _UnusualShape
    return stop


def _length(shape: _Shape, at: int, end: int) -> tuple[int, int]:
    """Where length-prefixed content begins and ends, if its prefix begins here."""
    start = _number(shape, at)
    shape.fixed += range(at, start)
    length = 0
    for position in reversed(range(at, start)):
        length = length << 7 | shape.sample[position] & 0x7F
    if start + length > end or shape.sample[at:start] != encode_varint(length):
        raise _UnusualShape
    return start, start + length


def _number(shape: _Shape, at: int) -> int:
    """The end of the number that begins here."""
    for stop in range(at + 1, at + 11):
        if shape.sample[stop - 1] < 0x80:
            return stop
    raise _UnusualShape
