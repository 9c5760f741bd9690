"""Bending bytes at random: flips, cuts, splices, and numbers at the edge of their range.

Knows nothing of any format. The same ``Random`` gives the same bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from random import Random

EDGES = (
    0,
    1,
    2,
    127,
    128,
    255,
    (1 << 15) - 1,
    1 << 15,
    (1 << 16) - 1,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    (1 << 32) + 1,
    1 << 62,
    (1 << 63) - 1,
    1 << 63,
    (1 << 64) - 2,
    (1 << 64) - 1,
)
"""Where widths and signs end; -1 is the last of them."""

BAD_UTF8 = (b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x28", b"\x00")


def bend(rng: Random, data: bytes, others: Sequence[bytes] = ()) -> bytes:
    """The data after one to four random changes; ``others`` are spliced into it."""
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        data = (
            rng.choice(_CHANGES)(rng, data) if rng.random() < 0.85 else _splice(rng, data, others)
        )
    return data


def varint(number: int) -> bytes:
    """A number as protobuf writes it, in at most ten bytes."""
    out = bytearray()
    number &= (1 << 64) - 1
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _span(rng: Random, data: bytes, most: int = 64) -> tuple[int, int]:
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + rng.randrange(1, most + 1))


def _flip_bit(rng: Random, data: bytes) -> bytes:
    if not data:
        return b"\x01"
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def _set_byte(rng: Random, data: bytes) -> bytes:
    at, _ = _span(rng, data)
    return (
        data[:at]
        + bytes([rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))])
        + data[at + 1 :]
    )


def _set_number(rng: Random, data: bytes) -> bytes:
    """A number at the edge over what is there, as a length or an offset would stand."""
    at, _ = _span(rng, data)
    layout = rng.choice(("<H", "<I", "<Q", ">I", ">Q"))
    size = struct.calcsize(layout)
    number = rng.choice((*EDGES, len(data), at, max(0, len(data) - at), rng.randrange(1 << 16)))
    raw = struct.pack(layout, number & (1 << 8 * size) - 1)
    return data[:at] + raw + data[at + size :]


def _set_varint(rng: Random, data: bytes) -> bytes:
    at, end = _span(rng, data, 3)
    return data[:at] + varint(rng.choice(EDGES)) + data[end:]


def _truncate(rng: Random, data: bytes) -> bytes:
    at, _ = _span(rng, data)
    return data[:at] if rng.random() < 0.5 else data[at:]


def _delete(rng: Random, data: bytes) -> bytes:
    start, end = _span(rng, data)
    return data[:start] + data[end:]


def _insert(rng: Random, data: bytes) -> bytes:
    at, _ = _span(rng, data)
    raw = rng.choice((rng.randbytes(rng.randrange(1, 20)), bytes(rng.randrange(1, 20)), *BAD_UTF8))
    return data[:at] + raw + data[at:]


def _zero(rng: Random, data: bytes) -> bytes:
    start, end = _span(rng, data)
    return data[:start] + rng.choice((b"\0", b"\xff")) * (end - start) + data[end:]


def _repeat(rng: Random, data: bytes) -> bytes:
    start, end = _span(rng, data, 512)
    return data[:end] + data[start:end] * rng.randrange(1, 4) + data[end:]


def _swap(rng: Random, data: bytes) -> bytes:
    start, end = _span(rng, data)
    other, until = _span(rng, data)
    if end > other:
        return data[end:] + data[:end]
    return data[:start] + data[other:until] + data[end:other] + data[start:end] + data[until:]


def _splice(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """The head of the data and the tail of another, or a piece of it in the middle."""
    other = rng.choice(others) if others else data
    at, end = _span(rng, data)
    start, until = _span(rng, other, 256)
    if rng.random() < 0.5:
        return data[:at] + other[start:]
    return data[:at] + other[start:until] + data[end:]


_CHANGES: tuple[Callable[[Random, bytes], bytes], ...] = (
    _flip_bit,
    _flip_bit,
    _flip_bit,
    _set_byte,
    _set_byte,
    _set_number,
    _set_number,
    _set_varint,
    _truncate,
    _delete,
    _insert,
    _zero,
    _repeat,
    _swap,
)
