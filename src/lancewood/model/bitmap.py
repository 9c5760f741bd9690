"""Roaring bitmaps: from bytes, from numbers, and back to numbers.

Bytes are the portable serialisation of 32-bit bitmaps, which deletion files and the coverage of
indices use, and trees of such bitmaps, which indices hold. They are checked in full before the C
code behind a bitmap sees them.
"""

from __future__ import annotations

import struct
from array import array
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyroaring import AbstractBitMap, BitMap

from lancewood.errors import FormatError

_COOKIE_WITHOUT_RUNS = 12346
_COOKIE_WITH_RUNS = 12347
_FEWEST_WITH_POSITIONS = 4  # with run containers, fewer containers than this have no positions
_MOST_IN_ARRAY = 4096
_BITSET_SIZE = 8192
_FEW_RUNS = 16
_BLOCK = 1 << 20


def decode_bitmap(data: bytes, what: str) -> BitMap:
    """The bitmap in the bytes; raises FormatError, which names ``what`` they are."""
    try:
        _check_bitmap(memoryview(data), what)
        return BitMap.deserialize(data)
    except (struct.error, IndexError, ValueError) as cause:
        raise _broken(what, f"{cause} in {len(data)} bytes") from cause


def decode_bitmap_tree(data: bytes, what: str) -> dict[int, BitMap]:
    """Numbers of 64 bits: bitmaps of their lower halves by their upper halves, as indices write
    them. Raises FormatError, which names ``what`` they are."""
    try:
        (count,), position = struct.unpack_from("<I", data, 0), 4
        found: dict[int, BitMap] = {}
        for _ in range(count):
            high, size = struct.unpack_from("<II", data, position)
            position += 8 + size
            if position > len(data):
                raise _ends_early(memoryview(data), position, what)
            if high in found:
                raise _broken(what, f"it has two bitmaps for {high}")
            found[high] = decode_bitmap(data[position - size : position], what)
    except struct.error as cause:
        raise _broken(what, f"{cause} in {len(data)} bytes") from cause
    if position != len(data):
        raise _broken(what, f"{len(data) - position} bytes follow its end")
    return found


def bitmap_of(numbers: NDArray[Any]) -> BitMap:
    """The bitmap of numbers below 2^32; ten times faster than pyroaring's own conversion from
    numpy."""
    return BitMap(array("I", np.ascontiguousarray(numbers, np.uint32).tobytes()))


def numbers_in(bitmap: AbstractBitMap) -> NDArray[np.int64]:
    """All numbers of a bitmap, ascending, each listed; use ``bitmap_runs`` where they are many."""
    return np.frombuffer(bitmap.to_array(), np.uint32).astype(np.int64)


def bitmap_runs(bitmap: AbstractBitMap) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where runs of consecutive numbers begin, and where they end (exclusive), ascending.

    A few bytes can encode four billion numbers: no more than a block of them is expanded at a time.
    """
    begins, ends = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    first, last = (bitmap.min(), bitmap.max()) if bitmap else (0, -1)
    for start in range(first // _BLOCK * _BLOCK, last + 1, _BLOCK):
        stop = start + _BLOCK
        block = bitmap if last - first < _BLOCK else bitmap & BitMap(range(start, stop))
        if len(block) == _BLOCK and block.min() == start:
            begins.append(np.array([start]))
            ends.append(np.array([stop]))
        elif block:
            values = numbers_in(block)
            breaks = np.flatnonzero(np.diff(values) != 1)
            begins.append(values[np.concatenate(([0], breaks + 1))])
            ends.append(values[np.concatenate((breaks, [-1]))] + 1)
        if block is bitmap:
            break
    starts, stops = np.concatenate(begins), np.concatenate(ends)
    apart = np.flatnonzero(starts[1:] != stops[:-1])  # a block boundary may cut a run in two
    if not len(starts):
        return starts, stops
    return starts[np.concatenate(([0], apart + 1))], stops[np.concatenate((apart, [-1]))]


def _check_bitmap(data: memoryview, what: str) -> None:
    (cookie,) = struct.unpack_from("<I", data, 0)
    if cookie == _COOKIE_WITHOUT_RUNS:
        (count,) = struct.unpack_from("<I", data, 4)
        position, is_run = 8, np.zeros(min(count, 1 << 16), dtype=np.uint8)
    elif cookie & 0xFFFF == _COOKIE_WITH_RUNS:
        count = (cookie >> 16) + 1
        position = 4 + (count + 7) // 8
        is_run = np.unpackbits(_numbers(data, 4, (count + 7) // 8, "u1", what), bitorder="little")
    else:
        raise _broken(what, f"it starts with {cookie:#x}, which is no roaring bitmap")
    if count > 1 << 16:
        raise _broken(what, f"it claims {count} containers")
    header = _numbers(data, position, 2 * count, "<u2", what)
    keys, sizes = header[::2], header[1::2].astype(np.int64) + 1
    if not _ascends(keys):
        raise _broken(what, "its containers are out of order")
    position += 4 * count
    positions = None
    if cookie == _COOKIE_WITHOUT_RUNS or count >= _FEWEST_WITH_POSITIONS:
        positions = _numbers(data, position, count, "<u4", what).tolist()
        position += 4 * count
    for each, size in enumerate(sizes.tolist()):
        if positions is not None and positions[each] != position:
            raise _broken(what, f"container {each} is at {position}, not at {positions[each]}")
        check = _check_run if is_run[each] else _check_plain
        position = check(data, position, size, what)
    if position != len(data):
        raise _broken(what, f"{len(data) - position} bytes follow its end")


def _check_plain(data: memoryview, position: int, size: int, what: str) -> int:
    """Check an array or bitset container of ``size`` values; returns the position after it."""
    if size <= _MOST_IN_ARRAY:
        if not _ascends(_numbers(data, position, size, "<u2", what)):
            raise _broken(what, f"the array at {position} is out of order")
        return position + 2 * size
    bits = np.unpackbits(_numbers(data, position, _BITSET_SIZE, "u1", what))
    if int(bits.sum(dtype=np.int64)) != size:
        raise _broken(what, f"the bitset at {position} does not hold {size} values")
    return position + _BITSET_SIZE


def _check_run(data: memoryview, position: int, size: int, what: str) -> int:
    """Check a run container of ``size`` values; returns the position after it."""
    count = int(_numbers(data, position, 1, "<u2", what)[0])
    end = position + 2 + 4 * count
    if end > len(data):
        raise _ends_early(data, end, what)
    if count <= _FEW_RUNS:  # the usual case, tens of thousands of times: numpy would cost more
        if not _are_few_runs(struct.unpack_from(f"<{2 * count}H", data, position + 2), size):
            raise _broken(what, f"the runs at {position} do not make up {size} values")
        return end
    runs = _numbers(data, position + 2, 2 * count, "<u2", what).astype(np.int64)
    firsts, lasts = runs[::2], runs[::2] + runs[1::2]
    apart = bool((firsts[1:] > lasts[:-1] + 1).all())
    if not apart or int((lasts - firsts + 1).sum()) != size or lasts.max(initial=0) > 0xFFFF:
        raise _broken(what, f"the runs at {position} do not make up {size} values")
    return end


def _are_few_runs(numbers: tuple[int, ...], size: int) -> bool:
    """Whether pairs of (first value, length - 1) ascend without touching and hold ``size``
    values."""
    total, free = 0, 0
    for first, more in zip(numbers[::2], numbers[1::2], strict=True):
        if first < free:
            return False
        total += more + 1
        free = first + more + 2
    return total == size and free <= 0x10001


def _numbers(data: memoryview, position: int, count: int, kind: str, what: str) -> NDArray[Any]:
    """``count`` numbers of the data; raises FormatError where it ends before them."""
    end = position + count * np.dtype(kind).itemsize
    if end > len(data):
        raise _ends_early(data, end, what)
    return np.frombuffer(data[position:end], dtype=kind)


def _ends_early(data: memoryview, end: int, what: str) -> FormatError:
    return _broken(what, f"it ends at {len(data)}, but has something up to {end}")


def _ascends(values: NDArray[Any]) -> bool:
    return bool((values[1:] > values[:-1]).all())


def _broken(what: str, why: str) -> FormatError:
    return FormatError(f"{what} is broken: {why}", what=what)
