"""Columns of the tables that checks read: which ones to show, and their values as short text.

The functions on values run on executors, on Arrow values. A large value is shown by its size, and
cells that are kept are cut to ``MOST_BYTES``.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancewood.errors import UnsupportedError
from lancewood.pipeline.checks.relations import CheckedTable
from lancewood.pipeline.definition.model import Mode, Pipeline, Spot
from lancewood.pipeline.definition.names import near, wrong
from lancewood.spark.types import spark_schema

_MOST_FIXED_BYTES = 64
_MOST_COLUMNS = 32
"""The most columns kept of a failing row, besides those that the check is about."""
MOST_BYTES = 64 * 1024
"""The largest cell that is kept."""
_MOST_CHARACTERS = 80
_MOST_VALUES = 5
_MOST_DEPTH = 3
_BYTES_OF_A_CHARACTER = 4


def check_columns(relation: CheckedTable, columns: Iterable[str], spot: Spot) -> None:
    """Raise InvalidInputError for a name that no column has; ``spot`` is that of the list."""
    for index, each in enumerate(columns):
        check_column(relation, each, spot.at(index))


def check_column(relation: CheckedTable, column: str, spot: Spot) -> None:
    """Raise InvalidInputError for a name that no column has."""
    if column not in relation.schema.names:
        raise wrong(
            spot,
            f"table {relation.name!r} has no column {column!r}: "
            f"{near(column, relation.schema.names)}",
        )


def identifying_columns(relation: CheckedTable, checked: Iterable[str]) -> list[str]:
    """The checked columns and the small ones, in table order, if Spark can read them: a value that
    is only shown must not make the check fail."""
    asked = set(checked)
    wanted = {each.name for each in relation.schema if each.name in asked and is_safe(each)}
    small = [each.name for each in relation.schema if each.name not in asked and is_shown(each)]
    wanted.update(small[:_MOST_COLUMNS])
    return [each for each in relation.schema.names if each in (wanted or asked)]


def key_columns(relation: CheckedTable, checked: Iterable[str], pipeline: Pipeline) -> list[str]:
    """The checked columns and the merge keys, in table order. A table without merge keys
    contributes its first small column instead."""
    wanted = set(checked)
    keys = [
        name
        for target in pipeline.targets
        if target.table == relation.name and target.mode is Mode.MERGE
        for name in target.on
        if name in relation.schema.names
    ]
    if not keys:
        keys = [each.name for each in relation.schema if is_shown(each)][:1]
    wanted.update(keys)
    return [each for each in relation.schema.names if each in wanted]


def is_shown(field: pa.Field) -> bool:
    """Whether to show a column that nobody asked for: it is small and safe to read."""
    return is_small(field.type) and is_safe(field)


def is_safe(field: pa.Field) -> bool:
    """Whether Spark has the type of a column and, as far as we know, can hold all its values."""
    return is_readable(field) and not may_not_fit(field.type)


def is_readable(field: pa.Field) -> bool:
    """Whether Spark has the type of a column."""
    try:
        spark_schema(pa.schema([field]))
    except UnsupportedError:
        return False
    return True


def is_small(kind: pa.DataType) -> bool:
    """Whether values are numbers, times, text or structs of those: no binaries, lists or maps."""
    if isinstance(kind, pa.BaseExtensionType):
        return is_small(kind.storage_type)
    if pa.types.is_struct(kind):
        return all(is_small(each.type) for each in kind)
    if pa.types.is_dictionary(kind):
        return is_small(kind.value_type)
    if pa.types.is_fixed_size_binary(kind):
        return bool(kind.byte_width <= _MOST_FIXED_BYTES)
    return not (pa.types.is_nested(kind) or is_binary(kind))


def is_binary(kind: pa.DataType) -> bool:
    """Whether values are bytes, of any length."""
    types = pa.types
    return bool(
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_binary_view(kind)
        or types.is_fixed_size_binary(kind)
    )


def may_not_fit(kind: pa.DataType) -> bool:
    """Whether values may be finer than Spark's: nanoseconds, or dates with a time of day."""
    if isinstance(kind, pa.BaseExtensionType):
        return may_not_fit(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return may_not_fit(kind.value_type)
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return bool(kind.unit == "ns")
    if pa.types.is_nested(kind):
        return any(may_not_fit(kind.field(at).type) for at in range(kind.num_fields))
    return bool(pa.types.is_date64(kind))


def quoted(column: str) -> str:
    """A column name, quoted for the engine's dialect."""
    return '"' + column.replace('"', '""') + '"'


def cell_text(value: Any) -> str:
    """An Arrow scalar as a short text."""
    return shortened(_text(value, 0))


def shortened(text: str) -> str:
    """The text on one line, cut if it is long."""
    line = "".join(each if each.isprintable() else " " for each in text[: _MOST_CHARACTERS + 1])
    return line if len(line) <= _MOST_CHARACTERS else f"{line[: _MOST_CHARACTERS - 1]}…"


def _text(value: Any, depth: int) -> str:
    if not value.is_valid:
        return "null"
    kind = value.type
    if isinstance(value, pa.ExtensionScalar | pa.DictionaryScalar):
        return _text(value.value, depth)
    if is_binary(kind):
        size = value.as_buffer().size
        return "1 byte" if size == 1 else f"{size:,} bytes"
    if depth >= _MOST_DEPTH and pa.types.is_nested(kind):
        return "…"
    if pa.types.is_struct(kind):
        shown = range(min(len(value), _MOST_VALUES))
        fields = [f"{kind.field(at).name}: {_text(value[at], depth + 1)}" for at in shown]
        return f"{{{_listed(fields, len(kind))}}}"
    if pa.types.is_map(kind):
        # Each entry is a struct of key and value.
        pairs = [[_text(each[at], depth + 1) for at in (0, 1)] for each in _first(value)]
        return f"{{{_listed([': '.join(each) for each in pairs], len(value))}}}"
    if pa.types.is_nested(kind):
        return f"[{_listed([_text(each, depth + 1) for each in _first(value)], len(value))}]"
    return plain_text(value.as_py())


def plain_text(value: object) -> str:
    """A plain Python value as text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dt.datetime):
        return value.isoformat(" ")
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    return str(value)


def _first(value: Any) -> Any:
    return value.values.slice(0, _MOST_VALUES)


def _listed(shown: list[str], total: int) -> str:
    more = [f"… {total:,} in all"] if total > len(shown) else []
    return ", ".join(shown + more)


def cut_cells(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Keep cells to ``MOST_BYTES``: longer text and binaries are cut, larger lists, structs and
    maps become null. Every column is nullable in the result."""
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
