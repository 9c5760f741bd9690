"""Keys as Spark joins them: whole numbers and bytes that are equal where the keys are.

Both sides of a merge have the table's types, so values of one type are compared: whatever Arrow
keeps as a whole number becomes a bigint, everything else its bytes. So neither collations nor time
zones nor roundings of Spark's have a say. A null stays one. Knows no files.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

from lancewood.jobs.merging.keys import Key

NUMBER, BYTES = "bigint", "binary"
_ARROW = {NUMBER: pa.int64(), BYTES: pa.binary()}


def code_names(key: Key) -> list[str]:
    """What the columns of a coded key are called."""
    return [f"k{number}" for number in range(len(key.types))]


def code_types(key: Key) -> list[str]:
    """The Spark types of the columns of a coded key."""
    return [NUMBER if _is_number(each) else BYTES for each in key.types]


def encode_key(key: Key, rows: pa.RecordBatch | pa.Table) -> list[pa.Array]:
    """The columns of the key out of rows that hold them, coded."""
    return [
        _number(each) if kind == NUMBER else _bytes(each)
        for each, kind in zip(key.values(rows), code_types(key), strict=True)
    ]


def coded_schema(key: Key, address: str) -> pa.Schema:
    """Coded keys, each with the address of its row."""
    columns = [
        (name, _ARROW[kind]) for name, kind in zip(code_names(key), code_types(key), strict=True)
    ]
    return pa.schema([*columns, (address, pa.int64())])


def coded_ddl(key: Key, address: str) -> str:
    """The same in Spark's words."""
    pairs = zip(code_names(key), code_types(key), strict=True)
    return ", ".join([*(f"{name} {kind}" for name, kind in pairs), f"{address} bigint"])


def _is_number(kind: pa.DataType) -> bool:
    return bool(pt.is_boolean(kind) or pt.is_integer(kind) or pt.is_temporal(kind))


def _number(column: pa.Array) -> pa.Array:
    kind = column.type
    if pt.is_uint64(kind):
        return column.view(pa.int64())
    if pt.is_temporal(kind):
        column = column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    return column.cast(pa.int64())


def _bytes(column: pa.Array) -> pa.Array:
    if pt.is_decimal(column.type):
        column = column.view(pa.binary(column.type.byte_width))
    return column.cast(pa.large_binary()).cast(pa.binary())
