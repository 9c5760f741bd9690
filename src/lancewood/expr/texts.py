"""Functions of text: LIKE, concatenation and the table of string functions.

Positions and lengths count characters (code points), from 1. Patterns are constants.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lancewood.errors import InvalidInputError
from lancewood.expr.convert import fit, plain, unify
from lancewood.expr.evaluate import room
from lancewood.expr.nodes import Literal, Node, apply, describe, null
from lancewood.expr.signature import Argument, FunctionSignature, same_type
from lancewood.expr.types import family

MAX_WIDTH = 1_000_000
"""How long lpad and rpad may make a text, and how often repeat repeats it."""

_ANY, _ONE = object(), object()


def concatenate(name: str, values: Sequence[Node], *, skip_nulls: bool) -> Node:
    """``||`` (null if one is null) and CONCAT (nulls are empty), of texts or of bytes."""
    values = [plain(each) for each in values]
    for each in values:
        if family(each.type) not in ("text", "binary", "null"):
            raise InvalidInputError(f"{name} takes text, not {describe(each)}; cast it to VARCHAR")
    values = unify(values)
    if pt.is_null(values[0].type):
        values = [fit(each, pa.string()) for each in values]
    type_ = values[0].type
    empty = pa.scalar(b"" if family(type_) == "binary" else "", type_)
    handling = "replace" if skip_nulls else "emit_null"  # "skip" drops rows (pyarrow 26)

    def build(*values: Any) -> Any:
        rows = _rows_of(values)
        _check_size(name, rows, sum(_bytes_of(each, rows) for each in values))
        return pc.binary_join_element_wise(*values, empty, null_handling=handling)

    return apply(name, values, type_, build)


def like(ignore_case: bool, value: Node, pattern: Node, escape: Node | None = None) -> Node:
    """LIKE and ILIKE with a constant pattern. Without ESCAPE no character escapes another."""
    name = "ilike" if ignore_case else "like"
    value = plain(value)
    if family(value.type) not in ("text", "null"):
        raise InvalidInputError(f"{name} takes text, not {describe(value)}; cast it to VARCHAR")
    texts = [_constant_text(name, each) for each in (pattern, escape) if each is not None]
    if None in texts:
        return null(pa.bool_())
    if len(texts) == 2 and len(texts[1] or "") != 1:
        raise InvalidInputError(f"ESCAPE takes one character, not {texts[1]!r}")
    pieces = _like_pieces(texts[0] or "", texts[1] if len(texts) == 2 else None)
    if pt.is_null(value.type):
        value = fit(value, pa.string())
    prefix = pieces[0] if pieces and isinstance(pieces[0], str) and not ignore_case else None
    members = None if prefix is None else pa.array([prefix], value.type)
    build = _like_build(pieces, ignore_case, value.type)
    return apply(name, [value], pa.bool_(), build, members=members)


def _constant_text(name: str, node: Node) -> str | None:
    node = plain(node)
    if not isinstance(node, Literal) or family(node.type) not in ("text", "null"):
        raise InvalidInputError(f"the pattern of {name} has to be constant text: {describe(node)}")
    text: str | None = node.value.as_py()
    return text


def _like_pieces(pattern: str, escape: str | None) -> list[Any]:
    """The pattern as texts, _ANY and _ONE; neighbouring texts joined."""
    pieces: list[Any] = []
    characters = iter(pattern)
    for each in characters:
        piece: Any = {"%": _ANY, "_": _ONE}.get(each, each)
        if each == escape:
            piece = next(characters, None)
            if piece is None:
                raise InvalidInputError(f"the pattern {pattern!r} ends with its escape character")
        if isinstance(piece, str) and pieces and isinstance(pieces[-1], str):
            pieces[-1] += piece
        else:
            pieces.append(piece)
    return pieces


def _like_build(pieces: list[Any], ignore_case: bool, type_: pa.DataType) -> Callable[[Any], Any]:
    match pieces:
        case [str(text)] if not ignore_case:
            return lambda value: pc.equal(value, pa.scalar(text, type_))
        case []:
            return lambda value: pc.equal(value, pa.scalar("", type_))
        case [str(text), end] if end is _ANY:
            return lambda value: pc.starts_with(value, pattern=text, ignore_case=ignore_case)
        case [start, str(text)] if start is _ANY:
            return lambda value: pc.ends_with(value, pattern=text, ignore_case=ignore_case)
        case [start, str(text), end] if start is _ANY and end is _ANY:
            return lambda value: pc.match_substring(value, pattern=text, ignore_case=ignore_case)
    body = "".join({_ANY: ".*", _ONE: "."}.get(each) or _quote(each) for each in pieces)
    regex = rf"(?s)\A{body}\z"
    return lambda value: pc.match_substring_regex(value, pattern=regex, ignore_case=ignore_case)


def _quote(text: str) -> str:
    """A text for RE2, taken literally."""
    return (
        re.sub(r"([^\w\s])", r"\\\1", text, flags=re.ASCII)
        if text.isascii()
        else "".join(f"\\x{{{ord(each):x}}}" for each in text)
    )


def _substr(value: Any, start: int, length: int | None = None) -> Any:
    """SQL's window on a text: position 0 lies before the first character, -1 is the last."""
    if length is not None and length < 0:
        raise InvalidInputError(f"substr takes no negative length: {length}")
    first = start - 1 if start > 0 else start
    stop = None if length is None else first + length
    if start == 0:
        stop = None if length is None else max(length - 1, 0)
    elif start < 0 and stop is not None and stop >= 0:
        stop = None
    return _slice(value, first, stop)


def _slice(value: Any, start: int, stop: int | None) -> Any:
    if stop is not None and 0 <= stop <= start:
        start, stop = 0, 0
    return pc.utf8_slice_codeunits(value, start=start, stop=stop)


def _right(value: Any, count: int) -> Any:
    return _slice(value, 0, 0) if count == 0 else _slice(value, -count, None)


def _rows_of(values: Sequence[Any]) -> int:
    """The rows of a batch; none while an Expression is built, before it has values."""
    if any(isinstance(each, pc.Expression) for each in values):
        return 0
    return max((len(each) for each in values if isinstance(each, pa.Array)), default=1)


def _bytes_of(value: Any, rows: int) -> int:
    """The bytes of the strings in this many rows."""
    if not rows:
        return 0
    if isinstance(value, pa.Scalar):
        value = pa.array([value.as_py()], value.type)
    else:
        rows = 1
    return rows * (pc.sum(pc.binary_length(value)).as_py() or 0)


def _check_size(name: str, rows: int, size: int) -> None:
    """Raise InvalidInputError, before computing it, for a result that would take too much
    memory."""
    most = room()
    if size > most:
        raise InvalidInputError(
            f"{name} would make {size:,} bytes of text of {rows:,} row{'s'[: rows != 1]}, and "
            f"{most:,} are the most here: make shorter texts, or fewer rows at a time"
        )


def _pad(name: str, pad: Callable[..., Any]) -> Callable[..., Any]:
    def build(value: Any, width: int, padding: str = " ") -> Any:
        if len(padding) != 1:
            raise InvalidInputError(f"padding is one character, not {padding!r}")
        width = _check_width(max(width, 0))
        rows = _rows_of([value])
        _check_size(name, rows, _bytes_of(value, rows) + rows * width * len(padding.encode()))
        return _slice(pad(value, width=width, padding=padding), 0, width)

    return build


def _repeat(value: Any, count: int) -> Any:
    count = _check_width(max(count, 0))
    rows = _rows_of([value])
    _check_size("repeat", rows, _bytes_of(value, rows) * count)
    return pc.binary_repeat(value, pa.scalar(count))


def _check_width(width: int) -> int:
    if width > MAX_WIDTH:
        raise InvalidInputError(f"{width:,} is too long, {MAX_WIDTH:,} is the limit")
    return width


def _position(value: Any, needle: str) -> Any:
    """The first position of the needle, 0 if absent; Arrow's own counts bytes."""
    prefix = pc.replace_substring_regex(
        value, pattern=rf"(?s)\A(.*?){_quote(needle)}.*\z", replacement=r"\1"
    )
    there = pc.add(pc.utf8_length(prefix).cast(pa.int64()), pa.scalar(1))
    return pc.if_else(pc.match_substring(value, pattern=needle), there, pa.scalar(0))


def _replace(value: Any, old: str, new: str) -> Any:
    if old == "":
        return value
    rows, longer = _rows_of([value]), len(new.encode()) - len(old.encode())
    if rows and longer > 0:
        found = pc.sum(pc.count_substring(value, pattern=old)).as_py() or 0
        _check_size("replace", rows, _bytes_of(value, rows) + found * longer)
    return pc.replace_substring(value, pattern=old, replacement=new)


def _matches(value: Any, pattern: str) -> Any:
    pc.match_substring_regex(pa.scalar(""), pattern=pattern)  # a bad pattern fails without rows too
    return pc.match_substring_regex(value, pattern=pattern)


def _count(count: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: count(value).cast(pa.int64())


def _trim(trim: Callable[..., Any]) -> Callable[..., Any]:
    return lambda value, characters=" ": trim(value, characters=characters) if characters else value


_TEXT = Argument("text")
_PATTERN = Argument("text", constant=True)
_NUMBER = Argument("integer", constant=True)
_MAYBE_TEXT = Argument("text", constant=True, optional=True)
_MAYBE_NUMBER = Argument("integer", constant=True, optional=True)

_LENGTH = FunctionSignature((_TEXT,), pa.int64(), _count(pc.utf8_length))
_BYTE_LENGTH = FunctionSignature((Argument("bytes"),), pa.int64(), _count(pc.binary_length))


def _text(
    build: Callable[..., Any], *constants: Argument, copies: int = 1
) -> tuple[FunctionSignature]:
    return (FunctionSignature((_TEXT, *constants), same_type, build, copies=copies),)


def _test(build: Callable[..., Any]) -> tuple[FunctionSignature]:
    return (FunctionSignature((_TEXT, _PATTERN), pa.bool_(), build),)


SIGNATURES: dict[str, tuple[FunctionSignature, ...]] = {
    "upper": _text(pc.utf8_upper),
    "lower": _text(pc.utf8_lower),
    "reverse": _text(pc.utf8_reverse),
    "length": (_LENGTH, _BYTE_LENGTH),
    "text_length": (_LENGTH,),
    "octet_length": (
        FunctionSignature((_TEXT,), pa.int64(), _count(pc.binary_length)),
        _BYTE_LENGTH,
    ),
    "trim": _text(_trim(pc.utf8_trim), _MAYBE_TEXT),
    "ltrim": _text(_trim(pc.utf8_ltrim), _MAYBE_TEXT),
    "rtrim": _text(_trim(pc.utf8_rtrim), _MAYBE_TEXT),
    "substr": _text(_substr, _NUMBER, _MAYBE_NUMBER),
    "left": _text(lambda value, count: _slice(value, 0, count), _NUMBER),
    "right": _text(_right, _NUMBER),
    "replace": _text(_replace, _PATTERN, _PATTERN),
    "lpad": _text(_pad("lpad", pc.utf8_lpad), _NUMBER, _MAYBE_TEXT),
    "rpad": _text(_pad("rpad", pc.utf8_rpad), _NUMBER, _MAYBE_TEXT),
    "repeat": _text(_repeat, _NUMBER),
    "starts_with": _test(lambda value, text: pc.starts_with(value, pattern=text)),
    "ends_with": _test(lambda value, text: pc.ends_with(value, pattern=text)),
    "contains": _test(lambda value, text: pc.match_substring(value, pattern=text)),
    "regexp_matches": _test(_matches),
    "strpos": (FunctionSignature((_TEXT, _PATTERN), pa.int64(), _position, copies=2),),
}
