"""Bending protobuf messages: field by field, so that what comes out still decodes.

Knows the wire format and no schema: what is inside a field is taken for a message if it reads like
one. The same ``Random`` gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from tests.fuzz.bend import EDGES, bend, varint

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_TEXTS = (b"", b"\xff\xfe", b"../../x", b"/", b"a/b", b"\0", b"x" * 300, b"-1", b"struct", b"int32")


@dataclass(frozen=True, slots=True)
class Field:
    """One field on the wire: its number, its wire type, and its value as bytes."""

    number: int
    kind: int
    value: bytes

    def encode(self) -> bytes:
        head = varint(self.number << 3 | self.kind)
        return (
            head + varint(len(self.value)) + self.value
            if self.kind == _BYTES
            else head + self.value
        )


def parse(data: bytes) -> list[Field] | None:
    """The fields of a message; None for what is none."""
    fields, at = [], 0
    while at < len(data):
        key, at = _read_varint(data, at)
        number, kind = key >> 3, key & 7
        if at > len(data) or not 0 < number < 1 << 29:
            return None
        start = at
        if kind == _VARINT:
            _, at = _read_varint(data, at)
        elif kind == _BYTES:
            size, start = _read_varint(data, at)
            at = start + size
        elif kind in (_FIXED32, _FIXED64):
            at += 4 if kind == _FIXED32 else 8
        else:
            return None
        if at > len(data):
            return None
        fields.append(Field(number, kind, data[start:at]))
    return fields


def build(fields: Sequence[Field]) -> bytes:
    """The bytes of a message."""
    return b"".join(each.encode() for each in fields)


def bend_message(rng: Random, data: bytes, others: Sequence[bytes] = ()) -> bytes:
    """The message after one to three random changes to fields at any depth."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        data = _bend_once(rng, data, others, 0)
    return data


def _bend_once(rng: Random, data: bytes, others: Sequence[bytes], depth: int) -> bytes:
    fields = parse(data)
    if not fields:
        return bend(rng, data, others)
    inner = [at for at, each in enumerate(fields) if each.kind == _BYTES and len(each.value) > 1]
    if inner and depth < 8 and rng.random() < 0.75:
        at = rng.choice(inner)
        looks_like_one = parse(fields[at].value) is not None
        if looks_like_one and rng.random() < 0.9:
            value = _bend_once(rng, fields[at].value, others, depth + 1)
        else:
            value = _other_bytes(rng, fields[at].value, data)
        fields[at] = replace(fields[at], value=value)
        return build(fields)
    return build(_change(rng, fields, data, others))


def _change(rng: Random, fields: list[Field], data: bytes, others: Sequence[bytes]) -> list[Field]:
    at = rng.randrange(len(fields))
    what = rng.randrange(8)
    if what <= 2:
        fields[at] = _other_value(rng, fields[at], data)
    elif what == 3:
        del fields[at]
    elif what == 4:
        fields[at:at] = [fields[at]] * rng.choice((1, 1, 2, 50))
    elif what == 5:
        rng.shuffle(fields)
    elif what == 6:
        fields[at] = replace(fields[at], number=rng.choice((fields[at].number + 1, *range(1, 30))))
    else:
        foreign = parse(rng.choice(others)) if others else None
        number = rng.randrange(1, 30)
        new = rng.choice(foreign) if foreign else Field(number, _VARINT, varint(rng.choice(EDGES)))
        fields.insert(at, new)
    return fields


def _other_value(rng: Random, field: Field, whole: bytes) -> Field:
    if field.kind == _VARINT:
        old, _ = _read_varint(field.value, 0)
        number = rng.choice((*EDGES, old + 1, max(0, old - 1), old * 2, rng.randrange(1 << 20)))
        return replace(field, value=varint(number))
    if field.kind == _BYTES:
        return replace(field, value=_other_bytes(rng, field.value, whole))
    return replace(field, value=rng.randbytes(len(field.value)))


def _other_bytes(rng: Random, value: bytes, whole: bytes) -> bytes:
    """Other content of the same field: bent, a telling text, or the message inside itself."""
    what = rng.randrange(5)
    if what == 0:
        return rng.choice(_TEXTS)
    if what == 1:
        return whole
    if what == 2:
        return value * rng.choice((0, 2, 3))
    return bend(rng, value)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number and the position after it, which is beyond the data where it is cut short."""
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
    return 0, len(data) + 1
