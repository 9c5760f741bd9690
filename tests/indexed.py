"""A table with a column of every type that has a scalar index, and conditions on them.

pylance makes the indices, with small pages and zones, so that a few rows have many of them.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from lance.indices import IndexConfig
from tests.pylance import lance

KINDS = ("BTREE", "BITMAP", "ZONEMAP")
SMALL: Mapping[str, dict[str, int]] = {
    "BTREE": {"zone_size": 16},
    "BITMAP": {},
    "ZONEMAP": {"rows_per_zone": 16},
}
EPOCH = dt.datetime(1970, 1, 1)
LONG = "a long text, longer than what statistics keep of one " * 8
MINUS_NAN = np.array([0xFFF8_0000_0000_0000], np.uint64).view(np.float64)[0]
ODD = (math.nan, MINUS_NAN, -0.0, 0.0, math.inf, -math.inf)


@dataclass(frozen=True)
class Column:
    type: pa.DataType
    make: Callable[[int], Any]
    """The n-th value."""


COLUMNS: Mapping[str, Column] = {
    "i": Column(pa.int64(), lambda n: n * 37 % 101 - 50),
    "u": Column(pa.uint64(), lambda n: 2**63 + n * 37 % 101),
    "small": Column(pa.int8(), lambda n: n * 37 % 101 - 50),
    "f": Column(pa.float64(), lambda n: ODD[n // 3 % 6] if n % 3 == 0 else n * 37 % 101 / 8),
    "g": Column(pa.float32(), lambda n: ODD[n // 3 % 6] if n % 3 == 0 else n * 37 % 101 / 8),
    "s": Column(pa.string(), lambda n: f"text {n * 37 % 101}"),
    "large": Column(pa.large_string(), lambda n: f"{'é' * (n % 3)}{n * 37 % 101}"),
    "long": Column(pa.string(), lambda n: f"{LONG}{n * 37 % 101}"),
    "y": Column(pa.binary(), lambda n: bytes([n * 37 % 101, 255])),
    "b": Column(pa.bool_(), lambda n: n % 2 == 0),
    "d": Column(pa.date32(), lambda n: EPOCH.date() + dt.timedelta(days=n * 37 % 101 - 50)),
    "ts": Column(pa.timestamp("us"), lambda n: EPOCH + dt.timedelta(milliseconds=n * 37 % 101)),
    "tz": Column(
        pa.timestamp("ms", "UTC"),
        lambda n: (EPOCH + dt.timedelta(milliseconds=n * 37 % 101)).replace(tzinfo=dt.UTC),
    ),
    "t": Column(pa.time64("us"), lambda n: dt.time(1, 0, n * 37 % 60, n % 1000)),
    "dec": Column(pa.decimal128(12, 3), lambda n: Decimal(n * 37 % 101 - 50) / 8),
}
NESTED = "p.x"
NAMES = (*COLUMNS, NESTED)


def rows(first: int, count: int) -> pa.Table:
    """Rows with a key ``k``; of every other column some values are null."""
    numbers = range(first, first + count)
    columns: dict[str, pa.Array] = {"k": pa.array(numbers, pa.int64())}
    columns["other"] = pa.array([0] * count, pa.int64())
    for at, (name, each) in enumerate(COLUMNS.items()):
        values = [None if (n + at) % 9 == 0 else each.make(n) for n in numbers]
        columns[name] = pa.array(values, each.type)
    inner = pa.array([n * 37 % 101 for n in numbers], pa.int32())
    is_null = pa.array([n % 10 == 0 for n in numbers])
    columns["p"] = pa.StructArray.from_arrays([inner, inner], ["x", "z"], mask=is_null)
    return pa.table(columns)


def make_indexed(
    uri: str,
    kind: str,
    names: Sequence[str],
    *,
    stable: bool = True,
    count: int = 240,
    per_file: int = 80,
) -> None:
    """A table with an index of one kind on those columns."""
    data = rows(0, count)
    dataset = lance.write_dataset(
        data, uri, enable_stable_row_ids=stable, max_rows_per_file=per_file
    )
    for name in names:
        config = IndexConfig(index_type=kind.lower(), parameters=SMALL[kind])
        dataset.create_scalar_index(name, config, name=f"{name.replace('.', '_')}_idx")


@dataclass
class Condition:
    """SQL that we and DuckDB read alike, with its parameters."""

    sql: str
    parameters: dict[str, Any] = field(default_factory=dict)


def condition(rng: Random, names: Sequence[str]) -> Condition:
    """A random condition on some of the columns."""
    made = Condition("")
    made.sql = _draw(rng, names, 2, made.parameters)
    return made


def simple(rng: Random, name: str, op: str) -> Condition:
    """A random condition on one column."""
    made = Condition("")
    made.sql = _compared(rng, name, op, made.parameters)
    return made


OPS = ("=", "<", "<=", ">", ">=", "<>", "IN", "BETWEEN", "LIKE", "IS NULL", "IS NOT NULL", "OR")


def _draw(rng: Random, names: Sequence[str], depth: int, parameters: dict[str, Any]) -> str:
    if depth and rng.random() < 0.4:
        left, right = (_draw(rng, names, depth - 1, parameters) for _ in range(2))
        word = rng.choice(("AND", "AND", "AND", "OR"))
        return f"({left} {word} {right})"
    if depth and rng.random() < 0.1:
        return f"NOT {_draw(rng, names, depth - 1, parameters)}"
    return _compared(rng, rng.choice(names), rng.choice(OPS), parameters)


def _compared(rng: Random, name: str, op: str, parameters: dict[str, Any]) -> str:
    def value() -> str:
        key = f"p{len(parameters)}"
        made = COLUMNS[name].make if name in COLUMNS else lambda n: n * 37 % 101
        parameters[key] = made(rng.randrange(400))
        # A float is a DOUBLE, and a float32 beside it would become one, which no index has.
        return f"CAST(${key} AS FLOAT)" if name == "g" else f"${key}"

    if op == "LIKE":
        if name not in ("s", "large", "long"):
            return f"{name} = {value()}"
        text = COLUMNS[name].make(rng.randrange(400))
        return f"{name} LIKE '{text[: rng.randint(0, len(text))]}{rng.choice(('%', '_%', ''))}'"
    if op == "OR":
        sides = (_compared(rng, name, rng.choice(("=", "=", "IN")), parameters) for _ in range(3))
        return f"({' OR '.join(sides)})"
    if op == "IN":
        return f"{name} IN ({', '.join(value() for _ in range(rng.randint(1, 4)))})"
    if op == "BETWEEN":
        return f"{name} BETWEEN {value()} AND {value()}"
    return f"{name} {op}" if op.startswith("IS") else f"{name} {op} {value()}"
