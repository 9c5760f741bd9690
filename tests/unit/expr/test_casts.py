"""CAST, TRY_CAST, ``::`` and the SQL names of types."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.errors import InvalidInputError
from lancewood.expr import parse_expression

Compute = Callable[..., list[Any]]


@pytest.mark.parametrize(
    ("name", "type_"),
    [
        ("BOOLEAN", pa.bool_()),
        ("TINYINT", pa.int8()),
        ("SMALLINT", pa.int16()),
        ("INT", pa.int32()),
        ("INTEGER", pa.int32()),
        ("BIGINT", pa.int64()),
        ("UTINYINT", pa.uint8()),
        ("USMALLINT", pa.uint16()),
        ("UINTEGER", pa.uint32()),
        ("UBIGINT", pa.uint64()),
        ("FLOAT", pa.float32()),
        ("REAL", pa.float32()),
        ("DOUBLE", pa.float64()),
        ("DECIMAL(10, 2)", pa.decimal128(10, 2)),
        ("DECIMAL(10)", pa.decimal128(10, 0)),
        ("NUMERIC(50, 2)", pa.decimal256(50, 2)),
        ("VARCHAR", pa.string()),
        ("TEXT", pa.string()),
        ("STRING", pa.string()),
    ],
)
def test_a_number_is_cast_to_each_type(compute: Compute, name: str, type_: pa.DataType) -> None:
    schema = pa.schema({"a": pa.int64()})
    assert parse_expression(f"CAST(a AS {name})", schema).type == type_
    one = pa.scalar(1).cast(type_).as_py() if not pa.types.is_decimal(type_) else Decimal(1)
    assert compute(f"CAST(a AS {name})", a=[1, None]) == [one, None]
    assert compute(f"TRY_CAST(a AS {name})", a=[1, None]) == [one, None]
    assert compute(f"a::{name}", a=[1, None]) == [one, None]


def test_casts_round_floats_to_even_and_decimals_away_from_zero(compute: Compute) -> None:
    assert compute("x::INT", x=[2.5, 3.5, -2.5, 2.6, None]) == [2, 4, -2, 3, None]
    m = pa.array([Decimal("2.5"), Decimal("-2.5"), Decimal("9.9")], pa.decimal128(2, 1))
    assert compute("m::INT", m=m) == [3, -3, 10]
    assert compute("m::DECIMAL(3, 0)", m=m) == [Decimal(3), Decimal(-3), Decimal(10)]
    assert compute("m::DOUBLE", m=m) == [2.5, -2.5, 9.9]


def test_text_becomes_numbers_dates_and_times(compute: Compute) -> None:
    assert compute("s::INT", s=[" 12 ", "-5", None]) == [12, -5, None]
    assert compute("s::DOUBLE", s=["1.5", "1e3"]) == [1.5, 1000.0]
    assert compute("s::DECIMAL(5, 2)", s=["1.25"]) == [Decimal("1.25")]
    assert compute("s::BOOLEAN", s=["true", "FALSE"]) == [True, False]
    assert compute("s::DATE", s=["2024-01-31"]) == [date(2024, 1, 31)]
    assert compute("s::TIMESTAMP", s=["2024-01-31 13:45:00"]) == [datetime(2024, 1, 31, 13, 45)]
    assert compute("s::BLOB", s=["é"]) == ["é".encode()]
    assert compute("b::VARCHAR", b=["é".encode()]) == ["é"]


def test_typed_texts_are_constants(compute: Compute) -> None:
    assert compute("DATE '2024-01-31'") == [date(2024, 1, 31)]
    assert compute("TIMESTAMP '2024-01-31 13:45:00.5'") == [
        datetime(2024, 1, 31, 13, 45, 0, 500000)
    ]
    assert compute("TIME '13:45:00'") == [time(13, 45)]
    assert compute("TIMESTAMPTZ '2024-01-31 02:00:00+02:00' = '2024-01-31 00:00:00Z'") == [True]


def test_timestamps_are_cut_down_not_rounded_to_zero(compute: Compute) -> None:
    t = pa.array([datetime(1969, 12, 31, 23, 59, 59, 500_000)], pa.timestamp("us"))
    assert compute("t::TIMESTAMP_S", t=t) == [datetime(1969, 12, 31, 23, 59, 59)]
    assert compute("t::DATE", t=t) == [date(1969, 12, 31)]
    assert compute("t::TIME", t=t) == [time(23, 59, 59, 500_000)]
    zoned = pa.array([datetime(2024, 1, 1, 23, 30)], pa.timestamp("us", "Europe/Paris"))
    assert compute("z::TIMESTAMP", z=zoned) == [datetime(2024, 1, 2, 0, 30)]
    assert compute("z::DATE", z=zoned) == [date(2024, 1, 2)]


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("CAST(s AS INT)", {"s": ["x"]}),
        ("CAST(a AS TINYINT)", {"a": [300]}),
        ("CAST(x AS INT)", {"x": [math.nan]}),
        ("CAST(x AS INT)", {"x": [1e30]}),
        ("CAST(x AS FLOAT)", {"x": [1e300]}),
        ("CAST(a AS DECIMAL(2, 1))", {"a": [10]}),
        ("CAST(s AS DATE)", {"s": ["2024-02-30"]}),
        ("CAST(b AS VARCHAR)", {"b": [b"\xff"]}),
    ],
)
def test_a_value_that_does_not_fit_fails_and_try_cast_makes_it_null(
    compute: Compute, sql: str, columns: dict[str, list[Any]]
) -> None:
    batch = pa.record_batch(columns)
    with pytest.raises(InvalidInputError, match="TRY_CAST"):
        parse_expression(sql, batch.schema).evaluate(batch)
    assert compute(f"TRY_{sql}", **columns) == [None]


def test_try_cast_keeps_the_values_that_fit(compute: Compute) -> None:
    s = pa.array(["1", "x", None, "3", "x"])
    assert compute("TRY_CAST(s AS INT)", s=s) == [1, None, None, 3, None]
    assert compute("TRY_CAST('x' AS DATE)") == [None]
    assert compute("TRY_CAST(s AS INT)", s=pa.array([], pa.string())) == []


@pytest.mark.parametrize(
    "sql",
    [
        "CAST(a AS HUGEINT)",
        "CAST(a AS INT[])",
        "CAST(a AS STRUCT(k INT))",
        "CAST(a AS nonsense)",
        "CAST(a AS DECIMAL(80, 2))",
        "CAST(a AS DECIMAL(2, 5))",
        "CAST(a AS DATE)",
        "CAST(l AS VARCHAR)",
        "CAST(b AS INT)",
        "DATE 'soon'",
        "CAST('9999-12-31' AS TIMESTAMP_NS)",
    ],
)
def test_casts_that_make_no_sense_are_refused(sql: str) -> None:
    schema = pa.schema({"a": pa.int64(), "l": pa.list_(pa.int64()), "b": pa.binary()})
    with pytest.raises(InvalidInputError):
        parse_expression(sql, schema)


def test_a_scan_that_casts_a_number_to_a_float_that_cannot_hold_it_fails(tmp_path: Path) -> None:
    table = lw.create(tmp_path / "t.lance", pa.table({"x": [1.0, 1e300, None]}))
    assert table.scan(where="TRY_CAST(x AS FLOAT) IS NULL").to_arrow().num_rows == 2
    with pytest.raises(InvalidInputError, match=r"1e\+300 is too large for float"):
        table.scan(where="CAST(x AS FLOAT) > 1").to_arrow()
