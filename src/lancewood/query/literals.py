"""What is written plainly in a query: numbers, texts, bytes, values of ``args`` and types.

Knows how Spark types each, and how DuckDB is told.
"""

from __future__ import annotations

import re
from datetime import date, datetime
from decimal import Decimal
from math import isfinite
from typing import Any

import pyarrow as pa

from lancewood.query.kinds import (
    BIGINT,
    BINARY,
    BOOLEAN,
    CLOCK,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    MOMENT,
    MOST_DIGITS,
    SMALLINT,
    TEXT,
    TINYINT,
    duckdb_type,
)
from lancewood.query.typed import Typed, apart, null, quoted

_TYPES = {
    "BOOLEAN": BOOLEAN,
    "TINYINT": TINYINT,
    "SMALLINT": SMALLINT,
    "INT": INT,
    "BIGINT": BIGINT,
    "FLOAT": FLOAT,
    "DOUBLE": DOUBLE,
    "TEXT": TEXT,
    "BINARY": BINARY,
    "DATE": DATE,
    "TIMESTAMPTZ": MOMENT,
    "TIMESTAMPLTZ": MOMENT,
    "TIMESTAMPNTZ": CLOCK,
}
_whole = re.compile(r"[0-9]+").fullmatch
_decimal = re.compile(r"([0-9]*)\.([0-9]*)").fullmatch
_double = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)[eE][+-]?[0-9]+").fullmatch
_bytes = re.compile(r"([0-9a-fA-F]{2})*").fullmatch


def text_constant(text: str) -> Typed:
    """A text as it is."""
    return Typed(quoted(text), TEXT, text)


def number_constant(text: str) -> Typed:
    """A number as Spark types it: a whole one, a decimal or a double."""
    bare = text.removeprefix("-")
    if _whole(bare):
        value = int(bare) if len(bare) <= MOST_DIGITS else None
        signed = None if value is None else -value if text[0] == "-" else value
        if signed is not None and -(1 << 31) <= signed < 1 << 31:
            return Typed(f"CAST({signed} AS INTEGER)", INT, str(signed))
        if signed is not None and -(1 << 63) <= signed < 1 << 63:
            return Typed(f"CAST({signed} AS BIGINT)", BIGINT, str(signed))
    elif (found := _decimal(bare)) is not None and any(found.groups()):
        whole, scale = found[1].lstrip("0"), len(found[2])
        digits = max(len(whole) + scale, 1)
        if digits <= MOST_DIGITS:
            sql = f"CAST('{text}' AS DECIMAL({digits}, {scale}))"
            return Typed(sql, pa.decimal128(digits, scale), text)
    elif _double(bare) and isfinite(float(bare)):
        return Typed(f"CAST('{text}' AS DOUBLE)", DOUBLE, text)
    raise apart(f"the number {text}")


def value_constant(name: str, value: Any) -> Typed:
    """A value of ``args``."""
    if value is None:
        return null()
    if isinstance(value, bool):
        return Typed(str(value).upper(), BOOLEAN)
    if isinstance(value, str):
        return text_constant(value)
    if isinstance(value, int | Decimal):
        return number_constant(f"{value:f}" if isinstance(value, Decimal) else str(value))
    if isinstance(value, float):
        return Typed(f"CAST('{value!r}' AS DOUBLE)", DOUBLE)
    if isinstance(value, datetime):
        kind = CLOCK if value.tzinfo is None else MOMENT
        return Typed(f"CAST('{value.isoformat(' ')}' AS {duckdb_type(kind)})", kind)
    if isinstance(value, date):
        return Typed(f"CAST('{value.isoformat()}' AS DATE)", DATE)
    if isinstance(value, bytes):
        return Typed(f"from_hex('{value.hex()}')", BINARY)
    raise apart(f"an argument of type {type(value).__name__} for {name!r}")


def written_kind(wanted: Any) -> pa.DataType | None:
    """The type that CAST names; None for one that is not known here."""
    name = str(wanted.this.name)
    if name == "DECIMAL":
        sizes = [int(str(each.this)) for each in wanted.expressions] or [10]
        precision, scale = (*sizes, 0)[:2]
        return pa.decimal128(precision, scale) if 0 < precision <= MOST_DIGITS else None
    return _TYPES.get(name) if not wanted.expressions else None


def bytes_constant(text: str) -> Typed:
    """``X'00ff'``."""
    if not _bytes(text):
        raise apart("such a text of bytes")
    return Typed(f"from_hex('{text}')", BINARY)
