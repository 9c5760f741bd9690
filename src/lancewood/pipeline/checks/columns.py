"""Which Arrow types have small values, which are bytes, and which Spark may have no room for.

Pure; executors use it, too.

Columns of a table that checks name, and those that tell people which row is meant.

Pure: looks at schemas.

Values of failing rows as short texts, and as cells that are not too large to be kept.

Runs on executors, on Arrow values: a picture of many megabytes is told by its size.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancewood.errors import UnsupportedError
from lancewood.pipeline.checks.relations import Relation
from lancewood.pipeline.definition.model import Mode, Pipeline, Spot
from lancewood.pipeline.definition.refusal import near, wrong
from lancewood.spark.types import spark_schema

_MOST_FIXED_BYTES = 64


def is_small(kind: pa.DataType) -> bool:
    """Whether values are numbers, moments, texts or structs of those: no binaries, lists, maps."""
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
    """Whether values may be finer than Spark's: nanoseconds, and times of day in dates."""
    if isinstance(kind, pa.BaseExtensionType):
        return may_not_fit(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return may_not_fit(kind.value_type)
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return bool(kind.unit == "ns")
    if pa.types.is_nested(kind):
        return any(may_not_fit(kind.field(at).type) for at in range(kind.num_fields))
    return bool(pa.types.is_date64(kind))


_MOST_COLUMNS = 32
"""So many columns of a failing row are kept besides those that the check is about."""


def check_columns(relation: Relation, columns: Iterable[str], spot: Spot) -> None:
    """Raise InvalidInputError for a name that no column has; ``spot`` is that of their list."""
    for index, each in enumerate(columns):
        check_column(relation, each, spot.at(index))


def check_column(relation: Relation, column: str, spot: Spot) -> None:
    """Raise InvalidInputError for a name that no column has."""
    if column not in relation.schema.names:
        raise wrong(
            spot,
            f"table {relation.name!r} has no column {column!r}: "
            f"{near(column, relation.schema.names)}",
        )


def telling_columns(relation: Relation, checked: Iterable[str]) -> list[str]:
    """The checked columns and the small ones of the table, in its order, as far as Spark can have
    them: a value that is only shown must not keep a check from being made."""
    asked = set(checked)
    wanted = {each.name for each in relation.schema if each.name in asked and is_safe(each)}
    small = [each.name for each in relation.schema if each.name not in asked and is_told(each)]
    wanted.update(small[:_MOST_COLUMNS])
    return [each for each in relation.schema.names if each in (wanted or asked)]


def key_columns(relation: Relation, checked: Iterable[str], pipeline: Pipeline) -> list[str]:
    """The checked columns and the keys of the table, in its order: what merges go by, and where
    there are none the first small column."""
    wanted = set(checked)
    keys = [
        name
        for target in pipeline.targets
        if target.table == relation.name and target.mode is Mode.MERGE
        for name in target.on
        if name in relation.schema.names
    ]
    if not keys:
        keys = [each.name for each in relation.schema if is_told(each)][:1]
    wanted.update(keys)
    return [each for each in relation.schema.names if each in wanted]


def is_told(field: pa.Field) -> bool:
    """Whether a column is shown although nobody asks for it: small, and safe to be read."""
    return is_small(field.type) and is_safe(field)


def is_safe(field: pa.Field) -> bool:
    """Whether Spark has the type of a column and, for all we know, room for each of its values."""
    return is_readable(field) and not may_not_fit(field.type)


def is_readable(field: pa.Field) -> bool:
    """Whether Spark has the type of a column."""
    try:
        spark_schema(pa.schema([field]))
    except UnsupportedError:
        return False
    return True


def quoted(column: str) -> str:
    """A name in the engine's dialect."""
    return '"' + column.replace('"', '""') + '"'


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
