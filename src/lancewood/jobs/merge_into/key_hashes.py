"""Keys as 64-bit hashes, the way pylance hashes the keys that its own upserts insert.

xxHash64 (seed 0) of a key's bytes: text and bytes as they are, whole numbers as 64 bits, little
endian; of a key of several columns each part, followed by a zero byte. pylance leaves keys of other
types out of its filter; here they are hashed by the bytes that Arrow keeps them in. Knows no
filters (``rules.overlaps``), and no table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lancewood.rules.overlaps import Hashes

_Bytes: TypeAlias = npt.NDArray[np.uint8]

_PRIME_1 = np.uint64(0x9E3779B185EBCA87)
_PRIME_2 = np.uint64(0xC2B2AE3D27D4EB4F)
_PRIME_3 = np.uint64(0x165667B19E3779F9)
_PRIME_4 = np.uint64(0x85EBCA77C2B2AE63)
_PRIME_5 = np.uint64(0x27D4EB2F165667C5)
_STRIPE = 32
_LANES = (0, 8, 16, 24)


def is_hashed_by_pylance(kind: pa.DataType) -> bool:
    """Whether pylance puts keys of this type into its own filters."""
    whole = (pa.int32(), pa.int64(), pa.uint32(), pa.uint64())
    texts = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
    return kind in whole or kind in texts


def whole_keys(columns: Sequence[pa.Array]) -> list[pa.Array]:
    """The keys without a null; those with one match nothing."""
    whole = [each.is_valid().to_numpy(zero_copy_only=False) for each in columns]
    mask = pa.array(np.logical_and.reduce(whole))
    return [each.filter(mask) for each in columns]


def hash_keys(columns: Sequence[pa.Array]) -> Hashes:
    """The hash of each key; the columns are as long as each other, and none holds a null."""
    parts = [_as_bytes(each) for each in columns]
    keys = parts[0]
    if len(parts) > 1:
        last, between = (pa.scalar(each, pa.large_binary()) for each in (b"", b"\0"))
        keys = pc.binary_join_element_wise(*parts, last, between)
    return hash_bytes(keys)


def hash_bytes(keys: pa.LargeBinaryArray) -> Hashes:
    """xxHash64 of each value."""
    _, bounds, data = keys.buffers()
    offsets = np.frombuffer(bounds, np.int64, count=keys.offset + len(keys) + 1)[keys.offset :]
    stored = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    starts, lengths = offsets[:-1], np.diff(offsets)
    hashes = np.empty(len(keys), np.uint64)
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        hashes[rows] = _hash_rows(stored[starts[rows][:, None] + np.arange(length)])
    return hashes


def _as_bytes(column: pa.Array) -> pa.Array:
    kind = column.type
    if pt.is_boolean(kind):
        column = column.cast(pa.uint8())
    elif pt.is_date32(kind) or pt.is_time32(kind):
        column = column.view(pa.int32())
    elif pt.is_date64(kind) or pt.is_time64(kind) or pt.is_timestamp(kind) or pt.is_duration(kind):
        column = column.view(pa.int64())
    if pt.is_integer(column.type):
        wide = pa.int64() if pt.is_signed_integer(column.type) else pa.uint64()
        column = column.cast(wide).view(pa.binary(8))
    elif pt.is_decimal(column.type):
        column = column.view(pa.binary(column.type.byte_width))
    return column.cast(pa.large_binary())


def _hash_rows(rows: _Bytes) -> Hashes:
    """Hashes of values of one length, one in each row."""
    count, length = rows.shape
    at = 0
    if length >= _STRIPE:
        lanes = _first_lanes(count)
        while at + _STRIPE <= length:
            lanes = [
                _round(lane, _number(rows, at + step, 8))
                for lane, step in zip(lanes, _LANES, strict=True)
            ]
            at += _STRIPE
        found = np.zeros(count, np.uint64)
        for lane, by in zip(lanes, (1, 7, 12, 18), strict=True):
            found = found + _turn(lane, by)
        for lane in lanes:
            found = (found ^ _round(np.zeros(count, np.uint64), lane)) * _PRIME_1 + _PRIME_4
    else:
        found = np.full(count, _PRIME_5)
    found = found + np.uint64(length)
    while at + 8 <= length:
        part = _round(np.zeros(count, np.uint64), _number(rows, at, 8))
        found = _turn(found ^ part, 27) * _PRIME_1 + _PRIME_4
        at += 8
    if at + 4 <= length:
        found = _turn(found ^ (_number(rows, at, 4) * _PRIME_1), 23) * _PRIME_2 + _PRIME_3
        at += 4
    while at < length:
        found = _turn(found ^ (rows[:, at].astype(np.uint64) * _PRIME_5), 11) * _PRIME_1
        at += 1
    found = (found ^ (found >> np.uint64(33))) * _PRIME_2
    found = (found ^ (found >> np.uint64(29))) * _PRIME_3
    return found ^ (found >> np.uint64(32))


def _first_lanes(count: int) -> list[Hashes]:
    nothing = np.zeros(count, np.uint64)
    return [nothing + _PRIME_1 + _PRIME_2, nothing + _PRIME_2, nothing, nothing - _PRIME_1]


def _round(lane: Hashes, number: Hashes) -> Hashes:
    return _turn(lane + number * _PRIME_2, 31) * _PRIME_1


def _turn(numbers: Hashes, by: int) -> Hashes:
    return (numbers << np.uint64(by)) | (numbers >> np.uint64(64 - by))


def _number(rows: _Bytes, at: int, size: int) -> Hashes:
    part = np.ascontiguousarray(rows[:, at : at + size])
    return part.view(f"<u{size}").reshape(-1).astype(np.uint64)
