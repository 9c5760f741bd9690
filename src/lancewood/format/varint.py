"""Numbers as protobuf writes them: seven bits a byte, the lowest first. Pure."""

from __future__ import annotations


def encode_varint(number: int) -> bytes:
    """The bytes of a non-negative number."""
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)
