"""JSON columns as the codec stores them: JSONB bytes → JSON text.

Knows the reading direction only: the codec itself turns text into JSONB when it writes. Number
kinds that the codec never writes (decimals, dates) are refused, not guessed.
"""

from __future__ import annotations

import json
import math
import struct

import pyarrow as pa

from lancewood.errors import FormatError

_MAX_DEPTH = 256
_ARRAY, _OBJECT, _SCALAR = 0x80000000, 0x40000000, 0x20000000
_NULL, _STRING, _NUMBER, _FALSE, _TRUE, _CONTAINER = range(6)


def decode_jsonb(column: pa.Array) -> pa.Array:
    """A column of JSONB bytes as strings of JSON text, nulls kept; raises FormatError."""
    try:
        texts = [None if each is None else jsonb_to_text(each) for each in column.to_pylist()]
    except (struct.error, IndexError, UnicodeDecodeError) as cause:
        raise FormatError("a JSON value is cut short or malformed") from cause
    return pa.array(texts, pa.string())


def jsonb_to_text(value: bytes) -> str:
    """One JSONB value as compact JSON text; object keys keep their stored order."""
    return json.dumps(
        _value(memoryview(value), 0), separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def _value(data: memoryview, depth: int) -> object:
    """The value that these bytes hold. They are a container's own: it cannot reach beyond them."""
    if depth > _MAX_DEPTH:
        raise FormatError(f"a JSON value is nested more than {_MAX_DEPTH} deep")
    (header,) = struct.unpack_from(">I", data)
    count, kind = header & 0x1FFFFFFF, header & 0xE0000000
    total = {_SCALAR: 1, _ARRAY: count, _OBJECT: 2 * count}.get(kind)
    if total is None or 4 * total > len(data):
        raise FormatError(f"a JSON value begins with the unknown header {header:#x}")
    entries = struct.unpack_from(f">{total}I", data, 4)
    items: list[object] = []
    at = 4 + 4 * total
    for entry in entries:
        end = at + (entry & 0x0FFFFFFF)
        if end > len(data):
            raise FormatError("a JSON value is cut short")
        items.append(_item(data[at:end], entry >> 28 & 0x7, depth))
        at = end
    if kind == _SCALAR:
        return items[0]
    if kind == _ARRAY:
        return items
    keys = [each for each in items[:count] if isinstance(each, str)]
    if len(keys) != count:
        raise FormatError("a JSON object has a key that is no text")
    return dict(zip(keys, items[count:], strict=True))


def _item(data: memoryview, kind: int, depth: int) -> object:
    if kind == _NULL:
        return None
    if kind == _STRING:
        return str(data, "utf-8")
    if kind == _NUMBER:
        return _number(bytes(data))
    if kind in (_FALSE, _TRUE):
        return kind == _TRUE
    if kind == _CONTAINER:
        return _value(data, depth + 1)
    raise FormatError(f"a JSON value has an entry of the unknown kind {kind}")


def _number(data: bytes) -> int | float | None:
    """The number; None, as pylance has it, for what JSON has no text for."""
    kind, rest = data[0] >> 4, data[1:]
    if kind == 0:
        return 0
    if kind in (1, 2, 3):  # not a number, and the infinite ones
        return None
    if kind in (4, 5) and len(rest) in (1, 2, 4, 8):
        return int.from_bytes(rest, "big", signed=kind == 4)
    if kind == 6 and len(rest) == 8:
        number = float(struct.unpack(">d", rest)[0])
        return number if math.isfinite(number) else None
    raise FormatError(f"a JSON number has the unknown kind {data[0]:#x}")
