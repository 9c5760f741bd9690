"""Blocks of JSON lines from a stream that holds JSON lines, or one array of objects.

An array is cut into its elements as it comes, so that neither form is ever in memory whole. Does
not look into the objects.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import IO

from lancewood.errors import InvalidInputError

_LARGEST = 256 << 20
_MARK = b"\xef\xbb\xbf"
_skip_blanks = re.compile(r"[ \t\r\n]*").match
_scan = json.JSONDecoder(parse_int=str).raw_decode  # nobody needs the numbers here


def json_blocks(stream: IO[bytes], name: str, block: int) -> Iterator[bytes]:
    """Pieces of about ``block`` bytes, each of whole lines."""
    head = stream.read(block).removeprefix(_MARK)
    if head.lstrip()[:1] == b"[":
        yield from _Array(head, stream, name, block).blocks()
    else:
        yield from _from_lines(head, stream, name, block)


def _from_lines(head: bytes, stream: IO[bytes], name: str, block: int) -> Iterator[bytes]:
    left = bytearray(head)
    while True:
        more = stream.read(block)
        cut = left.rfind(b"\n") + 1 if more else len(left)
        if left[:cut].strip():
            yield bytes(left[:cut])
        del left[:cut]
        if not more:
            return
        left += more
        if len(left) > _LARGEST:
            raise InvalidInputError(f"{name} has a line of more than {_LARGEST} bytes", file=name)


class _Array:
    """An array that is read element by element."""

    def __init__(self, head: bytes, stream: IO[bytes], name: str, block: int) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._stream, self._name, self._block = stream, name, block
        self._text = self._decoder.decode(head)
        self._at = self._text.index("[") + 1

    def blocks(self) -> Iterator[bytes]:
        lines: list[str] = []
        size = 0
        for element in self._elements():
            lines.append(element.replace("\n", " ").replace("\r", " "))
            size += len(element)
            if size >= self._block:
                yield "\n".join([*lines, ""]).encode()
                lines, size = [], 0
        if lines:
            yield "\n".join([*lines, ""]).encode()

    def _elements(self) -> Iterator[str]:
        if self._next_mark() == "]":
            self._check_end()
            return
        while True:
            yield self._element()
            mark = self._next_mark()
            if mark not in ("]", ","):
                raise self._wrong(f"{mark!r} stands between two rows")
            if mark == "]":
                self._check_end()
                return
            self._at += 1

    def _element(self) -> str:
        while True:
            self._next_mark()
            start = self._at
            try:
                value, end = _scan(self._text, start)
            except json.JSONDecodeError:
                self._read_more()
                continue
            except RecursionError:
                raise self._wrong("a row is nested too deep") from None
            if end == len(self._text) and self._read_more(may_end=True):
                continue  # it touches the end, and may go on: 12 could be the start of 123
            if not isinstance(value, dict):
                raise self._wrong("it is an array of other things than objects")
            self._at = end
            return self._text[start:end]

    def _next_mark(self) -> str:
        """The next character that is not blank."""
        while True:
            found = _skip_blanks(self._text, self._at)
            assert found is not None
            self._at = found.end()
            if self._at < len(self._text):
                return self._text[self._at]
            self._read_more()

    def _read_more(self, *, may_end: bool = False) -> bool:
        """Drop what is done and read on: twice as much each time, so that a long element is not
        scanned again and again."""
        left = len(self._text) - self._at
        if left > _LARGEST:
            raise self._wrong(f"it has a row of more than {_LARGEST} bytes")
        data = self._stream.read(max(self._block, left))
        if not data:
            if may_end:
                return False
            raise self._wrong("the array breaks off, or is wrong there")
        self._text = self._text[self._at :] + self._decoder.decode(data)
        self._at = 0
        return True

    def _check_end(self) -> None:
        rest = self._text[self._at + 1 :].encode() + self._stream.read(self._block)
        if rest.strip():
            self._at += 1
            raise self._wrong("something follows the array")

    def _wrong(self, what: str) -> InvalidInputError:
        near = self._text[self._at : self._at + 40]
        return InvalidInputError(
            f"{self._name} cannot be read: {what}, at {near!r}", file=self._name
        )
