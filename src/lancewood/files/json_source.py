"""Reading one file of JSON, which holds JSON lines or one array of objects.

The columns come first, with guessed types, then the rows. An array is cut into its elements while
it is read, so that neither form is ever in memory whole.

Arrow reads the blocks. Its reader crashes on a null row and on deep nesting, so that each block is
looked at before; and it rounds long integers, so that numbers are checked here. Whether a block is
JSON at all is left to Arrow.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc

from lancewood.errors import InvalidInputError
from lancewood.files.formats import (
    BLOCK_BYTES,
    FLOAT_ENDS,
    GUESSED,
    STDIN,
    bytes_of,
    in_utf_8,
    inexact,
    is_beyond,
    is_inexact,
    overflowing,
    reading,
    stdin_bytes,
)
from lancewood.files.text_forms import is_list, json_read_type

DEEPEST = 100
"""How many brackets may be open in a row at once."""
_OPEN, _CLOSE = b"{}"
_NO_MARKS = bytes(each for each in range(256) if each not in b"{}[]n")
_escapes = re.compile(rb"\\.", re.DOTALL)
_strings = re.compile(rb'"[^"]*+"')
_innermost = re.compile(rb"\{n*+\}|\[n*+\]")
_has_null_between = re.compile(rb"\}[ \t\r]*+n").search


def check_rows(block: bytes, name: str) -> None:
    """Raise InvalidInputError for a null row, and for one that is nested too deeply."""
    if is_simple(block):
        return
    bare = _escapes.sub(b"", block) if b"\\" in block else block
    # Keep the brackets and the n of each null, then remove the innermost brackets again and again.
    marks = _strings.sub(b"", bare).translate(None, _NO_MARKS)
    for _ in range(DEEPEST):
        fewer = _innermost.sub(b"", marks)
        if len(fewer) == len(marks):
            break
        marks = fewer
    if marks[:1] == b"n":
        raise InvalidInputError(
            f"{name} cannot be read: a row is null, each must be an object", file=name
        )
    if marks.count(b"{") + marks.count(b"[") > DEEPEST or _innermost.search(marks):
        raise InvalidInputError(
            f"{name} cannot be read: a row is nested more than {DEEPEST} deep", file=name
        )


def is_simple(block: bytes) -> bool:
    """Whether each line is an object with few brackets, which is the usual case and quick to check.

    A line that begins with { after one that ended with } begins a row, unless the JSON is broken.
    """
    for line in block.split(b"\n"):
        bare = line.strip()
        if bare and not (
            bare[0] == _OPEN
            and bare[-1] == _CLOSE
            and bare.count(b"{") + bare.count(b"[") <= DEEPEST
        ):
            return False
    return not _has_null_between(block)


_LARGEST = 256 << 20
_MARK = b"\xef\xbb\xbf"
_ZONED = "^.{11}.*[Z+-]"
"""A timestamp whose time of day is followed by a zone."""
_blanks = re.compile(r"[ \t\r\n]*").match
_has_long_number = re.compile(rb"[:,\[\s]-?[0-9]{16,}\s*[,}\]]").search
_scan_element = json.JSONDecoder(parse_int=str).raw_decode  # the numbers are not needed


class Numeral(str):
    """The text of a number in JSON, where a point stands before the places in every language."""


def skip_blanks(text: str, at: int) -> int:
    """Where the next character of a text stands that is not blank; its length if there is none."""
    found = _blanks(text, at)
    assert found is not None
    return found.end()


class JsonSource:
    """A file of JSON lines, or of one array of objects."""

    is_text = may_lack_columns = True
    total_rows: int | None = None

    def __init__(self, path: str, name: str, encoding: str | None = None) -> None:
        self.name, self._path, self._encoding = name, path, encoding
        blocks = self._blocks()
        first = next(blocks, b"")
        if not first:
            raise InvalidInputError(f"{name} holds no row", file=name)
        self.schema = _guess(first)
        self._stdin = chain([first], blocks) if path == STDIN else None

    def batches(self, wanted: pa.Schema, guessed: frozenset[str]) -> Iterator[pa.RecordBatch]:
        types = pa.schema([pa.field(each.name, json_read_type(each.type)) for each in wanted])
        floats = {
            each.name: each.type for each in wanted if _holds(each.type, pa.types.is_floating)
        }
        guesses = {name: kind for name, kind in floats.items() if name in guessed}
        with reading(self.name, GUESSED, self._encoding):
            for block in self._stdin or self._blocks():
                found = find_inexact(block, guesses)
                if found is not None:
                    raise inexact(self.name, *found)
                rows = _read(block, types, "error")
                found = find_overflow(block, rows, floats)
                if found is not None:
                    raise overflowing(self.name, *found, floats[found[0]])
                yield from rows.to_batches()

    def _blocks(self) -> Iterator[bytes]:
        opened: AbstractContextManager[IO[bytes]] = (
            nullcontext(stdin_bytes()) if self._path == STDIN else bytes_of(self._path)
        )
        with opened as stream:
            for block in json_blocks(in_utf_8(stream, self._encoding), self.name, BLOCK_BYTES):
                block.decode()  # Arrow takes bytes in texts for UTF-8, whatever they are
                check_rows(block, self.name)
                yield block


def _read(block: bytes, types: pa.Schema | None, unexpected: str) -> pa.Table:
    import pyarrow.json as json

    return json.read_json(
        pa.BufferReader(block),
        read_options=json.ReadOptions(use_threads=False, block_size=len(block)),
        parse_options=json.ParseOptions(
            explicit_schema=types, unexpected_field_behavior=unexpected
        ),
    )


def _guess(block: bytes) -> pa.Schema:
    """The types that the values look like. Arrow alone would drop the zones of timestamps."""
    found = _read(block, None, "infer").schema
    moments = [each for each in found if _holds(each.type, pa.types.is_timestamp)]
    if not moments:
        return found
    types = pa.schema([pa.field(each.name, json_read_type(each.type)) for each in moments])
    texts = _read(block, types, "ignore")
    for each in moments:
        if found.names.count(each.name) == 1:
            kind = _zoned(texts.column(each.name).combine_chunks(), each.type)
            found = found.set(found.get_field_index(each.name), each.with_type(kind))
    return found


def _zoned(texts: Any, kind: pa.DataType) -> pa.DataType:
    """The type with UTC if all timestamps have a zone, and text if only some have one."""
    if pa.types.is_timestamp(kind):
        has_zone = set(pc.match_substring_regex(texts, _ZONED).drop_null().to_pylist())
        if len(has_zone) > 1:
            return pa.string()
        return pa.timestamp(kind.unit, "UTC") if True in has_zone else kind
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_zoned(texts.flatten(), kind.value_type)))
    if pa.types.is_struct(kind):
        parts = zip(texts.flatten(), kind, strict=True)
        return pa.struct([each.with_type(_zoned(part, each.type)) for part, each in parts])
    return kind


def _holds(kind: pa.DataType, test: Any) -> bool:
    """Whether a type, or one that is nested in it, passes the test."""
    below = (kind.field(at).type for at in range(kind.num_fields))
    return bool(test(kind)) or any(_holds(each, test) for each in below)


def json_blocks(stream: IO[bytes], name: str, block: int) -> Iterator[bytes]:
    """Pieces of about ``block`` bytes, each of whole lines; an array becomes lines."""
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
                value, end = _scan_element(self._text, start)
            except json.JSONDecodeError:
                self._read_more()
                continue
            except RecursionError:
                raise self._wrong("a row is nested too deep") from None
            if end == len(self._text) and self._read_more(may_end=True):
                continue  # it touches the end, and may continue: 12 could be the start of 123
            if not isinstance(value, dict):
                raise self._wrong("it is an array of other things than objects")
            self._at = end
            return self._text[start:end]

    def _next_mark(self) -> str:
        """The next character that is not blank."""
        while True:
            self._at = skip_blanks(self._text, self._at)
            if self._at < len(self._text):
                return self._text[self._at]
            self._read_more()

    def _read_more(self, *, may_end: bool = False) -> bool:
        """Drop what is done and read on, twice as much each time: a long element is scanned only a
        few times."""
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


def find_inexact(block: bytes, floats: Mapping[str, pa.DataType]) -> tuple[str, str] | None:
    """The column and the digits of the first integer that its guessed type would round."""
    if not floats or not _has_long_number(block):
        return None
    return _find_marked(block, floats, _scan_row)


def find_overflow(
    block: bytes, rows: pa.Table, floats: Mapping[str, pa.DataType]
) -> tuple[str, str] | None:
    """The column and the text of the first number that its type holds as infinity alone.

    ``rows`` are what Arrow has read from the block, which says fast that there is most likely none.
    """
    beyond = {
        name: kind
        for name, kind in floats.items()
        if _holds_beyond(rows.column(name).combine_chunks(), kind)
    }
    return _find_marked(block, beyond, _scan_numbers) if beyond else None


def _holds_beyond(values: Any, kind: pa.DataType) -> bool:
    """Whether numbers that were read are infinite, or would be as the wanted type."""
    if pa.types.is_floating(kind):
        beyond = pc.greater_equal(pc.abs(values), FLOAT_ENDS[kind.bit_width])
        return bool(pc.any(beyond).as_py())
    if pa.types.is_struct(kind):
        fields = zip(values.flatten(), kind, strict=True)
        return any(_holds_beyond(field, each.type) for field, each in fields)
    if pa.types.is_map(kind):
        return _holds_beyond(values.flatten(), kind.field(0).type)
    return is_list(kind) and _holds_beyond(values.flatten(), kind.value_type)


def _find_marked(
    block: bytes, floats: Mapping[str, pa.DataType], scan: Callable[[str, int], tuple[Any, int]]
) -> tuple[str, str] | None:
    for row in _rows(block.decode(), scan):
        for name, kind in floats.items():
            found = _marked_in(row.get(name), kind)
            if found is not None:
                return name, found
    return None


class _Marked(str):
    """The text of an integer that no float can hold exactly."""


def _number(text: str) -> object:
    return _Marked(text) if len(text) >= 16 and is_inexact(text) else None


_scan_row = json.JSONDecoder(parse_int=_number).raw_decode
_scan_numbers = json.JSONDecoder(parse_int=Numeral, parse_float=Numeral).raw_decode


def _rows(text: str, scan: Callable[[str, int], tuple[Any, int]]) -> Iterator[dict[str, Any]]:
    at = 0
    while True:
        begin = skip_blanks(text, at)
        if begin == len(text):
            return
        try:
            row, at = scan(text, begin)
        except ValueError:
            return  # Arrow will say what is wrong there
        yield row if isinstance(row, dict) else {}


def _marked_in(value: Any, kind: pa.DataType) -> str | None:
    if isinstance(value, _Marked | Numeral):
        is_lost = pa.types.is_floating(kind) and (
            isinstance(value, _Marked) or is_beyond(float(value), kind)
        )
        return str(value) if is_lost else None
    below: Iterator[tuple[Any, pa.DataType]] = iter(())
    if isinstance(value, dict) and pa.types.is_struct(kind):
        below = ((value.get(each.name), each.type) for each in kind)
    elif isinstance(value, list) and pa.types.is_map(kind):
        entry = pa.struct({"key": kind.key_type, "value": kind.item_type})
        below = ((each, entry) for each in value)
    elif isinstance(value, list) and is_list(kind):
        below = ((each, kind.value_type) for each in value)
    return next((found for each in below if (found := _marked_in(*each))), None)
