"""What has to be known of a block of JSON before Arrow may read it.

Arrow's reader crashes on a row that is null and on deep nesting, and rounds whole numbers that
are too long. Looks at the block's brackets and long numbers; whether it is JSON is Arrow's to say.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from lancewood.cli.row_source import is_inexact
from lancewood.errors import InvalidInputError

_DEEPEST = 100
_escapes = re.compile(rb"\\.", re.DOTALL)
_strings = re.compile(rb'"[^"]*+"')
_innermost = re.compile(rb"\{n*+\}|\[n*+\]")
_has_null_between = re.compile(rb"\}[ \t\r]*+n").search
_OPEN, _CLOSE = b"{}"
_NO_MARKS = bytes(each for each in range(256) if each not in b"{}[]n")
_has_long_number = re.compile(rb"[:,\[\s]-?[0-9]{16,}\s*[,}\]]").search
_skip_blanks = re.compile(r"[ \t\r\n]*").match


def check_rows(block: bytes, name: str) -> None:
    """Raise InvalidInputError for a row that is null, and for one that is nested too deep."""
    if _is_simple(block):
        return
    bare = _escapes.sub(b"", block) if b"\\" in block else block
    # What stays are brackets, and the n of each null; then those go that hold nothing more.
    marks = _strings.sub(b"", bare).translate(None, _NO_MARKS)
    for _ in range(_DEEPEST):
        fewer = _innermost.sub(b"", marks)
        if len(fewer) == len(marks):
            break
        marks = fewer
    if marks[:1] == b"n":
        raise InvalidInputError(
            f"{name} cannot be read: a row is null, each must be an object", file=name
        )
    if marks.count(b"{") + marks.count(b"[") > _DEEPEST or _innermost.search(marks):
        raise InvalidInputError(
            f"{name} cannot be read: a row is nested more than {_DEEPEST} deep", file=name
        )


def _is_simple(block: bytes) -> bool:
    """Whether each line is an object with few brackets, as is usual and quickly seen.

    A line that begins with { after one that ended with } begins a row, or JSON has ended before.
    """
    for line in block.split(b"\n"):
        bare = line.strip()
        if bare and not (
            bare[0] == _OPEN
            and bare[-1] == _CLOSE
            and bare.count(b"{") + bare.count(b"[") <= _DEEPEST
        ):
            return False
    return not _has_null_between(block)


def find_inexact(block: bytes, floats: Mapping[str, pa.DataType]) -> tuple[str, str] | None:
    """The first whole number, after its column, that the type guessed for it would round."""
    if not floats or not _has_long_number(block):
        return None
    for row in _rows(block.decode()):
        for name, kind in floats.items():
            found = _inexact_in(row.get(name), kind)
            if found is not None:
                return name, found
    return None


class _Long(str):
    """The digits of a whole number that no float is equal to."""


def _number(text: str) -> object:
    return _Long(text) if len(text) >= 16 and is_inexact(text) else None


_scan = json.JSONDecoder(parse_int=_number).raw_decode


def _rows(text: str) -> Iterator[dict[str, Any]]:
    at = 0
    while True:
        blanks = _skip_blanks(text, at)
        assert blanks is not None
        if blanks.end() == len(text):
            return
        try:
            row, at = _scan(text, blanks.end())
        except ValueError:
            return  # Arrow will say what is wrong there
        yield row if isinstance(row, dict) else {}


def _inexact_in(value: Any, kind: pa.DataType) -> str | None:
    if isinstance(value, _Long):
        return str(value) if pa.types.is_floating(kind) else None
    below: Iterator[tuple[Any, pa.DataType]] = iter(())
    if isinstance(value, dict) and pa.types.is_struct(kind):
        below = ((value.get(each.name), each.type) for each in kind)
    elif isinstance(value, list) and pa.types.is_list(kind):
        below = ((each, kind.value_type) for each in value)
    return next((found for each in below if (found := _inexact_in(*each))), None)
