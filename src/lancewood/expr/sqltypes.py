"""SQL's names of types and the Arrow types they mean."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

_TYPES: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "UTINYINT": pa.uint8(),
    "USMALLINT": pa.uint16(),
    "UINT": pa.uint32(),
    "UINTEGER": pa.uint32(),
    "UBIGINT": pa.uint64(),
    "FLOAT": pa.float32(),
    "REAL": pa.float32(),
    "DOUBLE": pa.float64(),
    "VARCHAR": pa.string(),
    "TEXT": pa.string(),
    "VARBINARY": pa.binary(),
    "BINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIME": pa.time64("us"),
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMPNTZ": pa.timestamp("us"),
    "DATETIME": pa.timestamp("us"),
    "TIMESTAMP_S": pa.timestamp("s"),
    "TIMESTAMP_MS": pa.timestamp("ms"),
    "TIMESTAMP_NS": pa.timestamp("ns"),
    "TIMESTAMPTZ": pa.timestamp("us", "UTC"),
}


def type_from_name(name: str, sizes: Sequence[str]) -> pa.DataType | None:
    """The Arrow type for a SQL type name and its sizes in parentheses; None where there is none."""
    if name.upper() in ("DECIMAL", "NUMERIC"):
        return _decimal(sizes)
    return None if sizes else _TYPES.get(name.upper())


def _decimal(sizes: Sequence[str]) -> pa.DataType | None:
    if len(sizes) > 2 or not all(each.isdecimal() and len(each) < 4 for each in sizes):
        return None
    precision = int(sizes[0]) if sizes else 18
    scale = int(sizes[1]) if len(sizes) == 2 else (0 if sizes else 3)
    if not 1 <= precision <= 76 or scale > precision:
        return None
    return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)
