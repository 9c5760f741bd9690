"""Blocks of whole CSV records from a stream, for input that comes through a pipe.

A record ends at a line's end outside of quotes, and outside is where an even number of quotes came
before. Does not look at values; a quote that is never closed is an error, not a full memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from lancewood.errors import InvalidInputError

_LARGEST = 256 << 20


def csv_blocks(stream: IO[bytes], name: str, block: int) -> Iterator[bytes]:
    """Pieces of about ``block`` bytes, each of whole records; the header is in the first."""
    left = bytearray()
    while more := stream.read(block):
        left += more
        cut = _end_of_records(left)
        if cut:
            yield bytes(left[:cut])
            del left[:cut]
        elif len(left) > _LARGEST:
            raise InvalidInputError(
                f"{name} has a record of more than {_LARGEST} bytes: is a quote never closed?",
                file=name,
            )
    if left:
        yield bytes(left)


def _end_of_records(data: bytearray) -> int:
    """Where the last whole record ends; 0 if none does."""
    end, quotes = len(data), data.count(b'"')
    while (at := data.rfind(b"\n", 0, end)) >= 0:
        quotes -= data.count(b'"', at, end)
        if quotes % 2 == 0:
            return at + 1
        end = at
    return 0
