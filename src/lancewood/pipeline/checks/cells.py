"""Values of failing rows as short texts, and as cells that are not too large to be kept.

Runs on executors, on Arrow values: a picture of many megabytes is told by its size.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancewood.pipeline.checks.value_kinds import is_binary

MOST_BYTES = 64 * 1024
"""Of a cell that is kept."""
_MOST_CHARACTERS = 80
_MOST_VALUES = 5
_MOST_DEPTH = 3
_BYTES_OF_A_CHARACTER = 4


def cell_text(value: Any) -> str:
    """An Arrow scalar in a few words."""
    return shortened(_text(value, 0))


def shortened(text: str) -> str:
    """In one line, cut at the end if it is long."""
    line = "".join(each if each.isprintable() else " " for each in text[: _MOST_CHARACTERS + 1])
    return line if len(line) <= _MOST_CHARACTERS else f"{line[: _MOST_CHARACTERS - 1]}…"


def _text(value: Any, depth: int) -> str:
    if not value.is_valid:
        return "null"
    kind = value.type
    if isinstance(value, pa.ExtensionScalar):
        return _text(value.value, depth)
    if isinstance(value, pa.DictionaryScalar):
        return _text(value.value, depth)
    if is_binary(kind):
        size = value.as_buffer().size
        return "1 byte" if size == 1 else f"{size:,} bytes"
    if depth >= _MOST_DEPTH and pa.types.is_nested(kind):
        return "…"
    if pa.types.is_struct(kind):
        fields = [f"{name}: {_text(each, depth + 1)}" for name, each in _fields(value)]
        return f"{{{_listed(fields, len(kind))}}}"
    if pa.types.is_map(kind):
        # Key and value of an entry are a struct.
        pairs = [[_text(each[at], depth + 1) for at in (0, 1)] for each in _first(value)]
        return f"{{{_listed([': '.join(each) for each in pairs], len(value))}}}"
    if pa.types.is_nested(kind):
        return f"[{_listed([_text(each, depth + 1) for each in _first(value)], len(value))}]"
    return plain_text(value.as_py())


def plain_text(value: object) -> str:
    """A plain Python value in words."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dt.datetime):
        return value.isoformat(" ")
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    return str(value)


def _fields(value: Any) -> Iterable[tuple[str, Any]]:
    return [(value.type.field(at).name, value[at]) for at in range(min(len(value), _MOST_VALUES))]


def _first(value: Any) -> Any:
    return value.values.slice(0, _MOST_VALUES)


def _listed(shown: list[str], total: int) -> str:
    more = [f"… {total:,} in all"] if total > len(shown) else []
    return ", ".join(shown + more)


def cut_cells(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows with no cell above ``MOST_BYTES``: of a longer text or binary there is the
    beginning, a larger list, struct or map is null. Every column may be null then."""
    arrays = [_cut(each) for each in batch.columns]
    fields = [
        pa.field(each.name, array.type, metadata=each.metadata)
        for each, array in zip(batch.schema, arrays, strict=True)
    ]
    return pa.record_batch(arrays, schema=pa.schema(fields))


def _cut(array: pa.Array) -> pa.Array:
    kind = array.type
    if pa.types.is_nested(kind):
        return _without_large(array)
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if not is_text and not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        return array
    longest = pc.max(pc.binary_length(array)).as_py() or 0
    if longest <= MOST_BYTES:
        return array
    if is_text:
        is_long = pc.greater(pc.binary_length(array), MOST_BYTES)
        cut = pc.utf8_slice_codeunits(array, 0, MOST_BYTES // _BYTES_OF_A_CHARACTER)
        return pc.if_else(is_long, cut, array)
    return pc.binary_slice(array, 0, MOST_BYTES)


def _without_large(array: pa.Array) -> pa.Array:
    if array.nbytes <= MOST_BYTES:
        return array
    large = [array.slice(at, 1).nbytes > MOST_BYTES for at in range(len(array))]
    if not any(large):
        return array
    chosen = np.where(large, -1, np.arange(len(array)))
    return array.take(pa.array(chosen, pa.int64(), mask=chosen < 0))
