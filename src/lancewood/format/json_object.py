"""JSON from outside, read strictly: one object, unique keys, nothing that cannot be rewritten."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from lancewood.errors import FormatError

_MAX_DEPTH = 64
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def decode_object(data: bytes, *, name: str, most: int) -> dict[str, Any]:
    """The object in the bytes; raises FormatError naming the file.

    Refused are more than ``most`` bytes, a byte order mark, anything that is not UTF-8, unpaired
    surrogates, a duplicate key, NaN and infinite numbers, and deep nesting.
    """
    if len(data) > most:
        raise FormatError(f"{name}: has {len(data):,} bytes, {most:,} are allowed", file=name)
    if data.startswith(_BYTE_ORDER_MARK):
        raise FormatError(f"{name}: starts with a byte order mark", file=name)
    try:
        found = _DECODER.decode(data.decode())
        if b"\\u" in data:
            json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError as cause:
        raise FormatError(f"{name}: holds half a character", file=name) from cause
    except (ValueError, RecursionError) as cause:
        raise FormatError(f"{name}: is not JSON: {cause}", file=name) from cause
    if not isinstance(found, dict):
        raise FormatError(f"{name}: is no JSON object", file=name)
    if data.count(b"{") + data.count(b"[") > _MAX_DEPTH and _is_deep(found):
        raise FormatError(f"{name}: is nested more than {_MAX_DEPTH} deep", file=name)
    return found


def _is_deep(document: dict[str, Any]) -> bool:
    stack: list[tuple[Any, int]] = [(document, 1)]
    while stack:
        value, depth = stack.pop()
        if depth > _MAX_DEPTH:
            return True
        if isinstance(value, dict | list):
            inner = value.values() if isinstance(value, dict) else value
            stack += [(each, depth + 1) for each in inner]
    return False


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key comes twice")
    return found


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is too large")
    return number


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_float=_finite
)
