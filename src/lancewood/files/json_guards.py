"""Guards before Arrow's reader of JSON, which crashes on a null row and on deep nesting.

Whether a block is JSON at all is left to Arrow.
"""

from __future__ import annotations

import re

from lancewood.errors import InvalidInputError

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
