"""Arithmetic: result types, overflow, division, decimals, dates and durations."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lancewood.errors import InvalidInputError
from lancewood.expr import parse_expression

Compute = Callable[..., list[Any]]


def type_of(sql: str, **types: pa.DataType) -> pa.DataType:
    return parse_expression(sql, pa.schema(types)).type


def test_integers_are_computed_as_int64_and_do_not_wrap(compute: Compute) -> None:
    small = pa.array([100, -100, None], pa.int8())
    assert compute("a + a", a=small) == [200, -200, None]
    assert compute("a * 1000 - 1", a=small) == [99_999, -100_001, None]
    assert compute("-a", a=pa.array([-128], pa.int8())) == [128]
    assert compute("a - 4", a=pa.array([3], pa.uint8())) == [-1]
    assert type_of("a + 1", a=pa.int8()) == pa.int64()


@pytest.mark.parametrize("sql", ["a + 1", "a * 2", "-b", "b - 1", "abs(b)", "u + 1", "u - u - 1"])
def test_an_overflow_is_an_error_not_a_wrong_number(sql: str) -> None:
    batch = pa.record_batch(
        {
            "a": pa.array([2**63 - 1]),
            "b": pa.array([-(2**63)]),
            "u": pa.array([2**64 - 1], pa.uint64()),
        }
    )
    with pytest.raises(InvalidInputError, match="overflow"):
        parse_expression(sql, batch.schema).evaluate(batch)


def test_unsigned_64_bit_numbers_meet_signed_ones_exactly(compute: Compute) -> None:
    u = pa.array([2**64 - 1, 0], pa.uint64())
    assert compute("u - 1 + 1", u=pa.array([2**64 - 1, 1], pa.uint64())) == [2**64 - 1, 1]
    assert compute("u + a", u=u, a=[-1, -1]) == [Decimal(2**64 - 2), Decimal(-1)]
    assert compute("-u", u=u) == [Decimal(-(2**64) + 1), Decimal(0)]
    assert compute("u % 10", u=u) == [5, 0]


def test_a_slash_divides_into_floats_and_two_slashes_into_integers(compute: Compute) -> None:
    assert compute("a / 2", a=[5, -7, None]) == [2.5, -3.5, None]
    assert compute("a // 2", a=[5, -7, None]) == [2, -3, None]
    assert compute("a % 3", a=[5, -7, None]) == [2, -1, None]
    assert compute("x % 2", x=[5.5, -5.5, math.inf])[:2] == [1.5, -1.5]
    assert compute("a % -1", a=[-(2**63)]) == [0]


def test_division_by_zero_is_null(compute: Compute) -> None:
    for operator in ("/", "//", "%"):
        assert compute(f"a {operator} b", a=[1, 0, 4], b=[0, 0, 4])[:2] == [None, None]
        assert compute(f"a {operator} 0", a=[1]) == [None]
    assert compute("x / y", x=[1.0, 1.0], y=[0.0, -0.0]) == [None, None]
    assert compute("x % y", x=[1.0], y=[0.0]) == [None]
    assert compute("1 / 0") == [None]


def test_a_plain_fraction_takes_the_type_it_meets(compute: Compute) -> None:
    assert type_of("a * 0.5", a=pa.int32()) == pa.float64()
    assert type_of("x * 0.5", x=pa.float32()) == pa.float32()
    assert type_of("x + 1", x=pa.float32()) == pa.float32()
    assert type_of("x + a", x=pa.float32(), a=pa.int32()) == pa.float64()
    assert type_of("0.5") == pa.float64()
    assert type_of("1e3 + 0") == pa.float64()
    assert compute("a * 0.1", a=[3]) == [pytest.approx(0.3)]
    assert compute("0.1 + 0.2 = 0.3") == [True]


def test_decimals_stay_exact(compute: Compute) -> None:
    m = pa.array([Decimal("1.25"), Decimal("-0.01"), None], pa.decimal128(10, 2))
    assert compute("m + 1", m=m) == [Decimal("2.25"), Decimal("0.99"), None]
    assert compute("m * 0.1", m=m) == [Decimal("0.125"), Decimal("-0.001"), None]
    assert compute("m - a", m=m, a=[1, 1, 1]) == [Decimal("0.25"), Decimal("-1.01"), None]
    assert compute("-m", m=m) == [Decimal("-1.25"), Decimal("0.01"), None]
    assert compute("m / 4", m=m)[0] == pytest.approx(0.3125)
    wide = pa.array([Decimal(10) ** 30], pa.decimal128(35, 2))
    assert compute("w * w", w=wide) == [Decimal(10) ** 60]


def test_decimals_that_would_not_fit_are_refused_early() -> None:
    with pytest.raises(InvalidInputError, match="101 digits"):
        type_of("m * m", m=pa.decimal256(50, 2))
    with pytest.raises(InvalidInputError, match="% needs integers or floats"):
        type_of("m % 2", m=pa.decimal128(5, 2))


def test_days_and_dates_add_and_subtract(compute: Compute) -> None:
    d = pa.array([date(2024, 2, 28), None])
    assert compute("d + 2", d=d) == [date(2024, 3, 1), None]
    assert compute("2 + d", d=d) == [date(2024, 3, 1), None]
    assert compute("d - 28", d=d) == [date(2024, 1, 31), None]
    assert compute("d - DATE '2024-01-01'", d=d) == [58, None]
    assert compute("d + INTERVAL 36 HOURS", d=d) == [datetime(2024, 2, 29, 12), None]


def test_timestamps_and_durations_add_and_subtract(compute: Compute) -> None:
    t = pa.array([datetime(2024, 1, 1), None], pa.timestamp("s"))
    assert compute("t + INTERVAL '1' DAY", t=t) == [datetime(2024, 1, 2), None]
    assert compute("INTERVAL 1 WEEK + t", t=t) == [datetime(2024, 1, 8), None]
    assert compute("t - INTERVAL '1.5 seconds'", t=t) == [
        datetime(2023, 12, 31, 23, 59, 58, 500_000),
        None,
    ]
    assert compute("t - DATE '2023-12-31'", t=t) == [timedelta(days=1), None]
    assert compute("(t - t) + 2 * INTERVAL 1 HOUR", t=t) == [timedelta(hours=2), None]
    assert compute("-l", l=[timedelta(hours=1)]) == [timedelta(hours=-1)]
    zoned = pa.array([datetime(2024, 1, 1)], pa.timestamp("us", "Asia/Tokyo"))
    assert compute("z + INTERVAL 1 HOUR - z", z=zoned) == [timedelta(hours=1)]


def test_months_are_added_to_constant_dates_only(compute: Compute) -> None:
    assert compute("DATE '2024-01-31' + INTERVAL 1 MONTH") == [datetime(2024, 2, 29)]
    assert compute("DATE '2024-02-29' - INTERVAL 1 YEAR") == [datetime(2023, 2, 28)]
    assert compute("d >= DATE '2024-03-01' - INTERVAL 1 MONTH", d=[date(2024, 2, 1)]) == [True]
    for sql in ("d + INTERVAL 1 MONTH", "INTERVAL 1 MONTH", "DATE '9999-12-01' + INTERVAL 1 MONTH"):
        with pytest.raises(InvalidInputError):
            type_of(sql, d=pa.date32())


@pytest.mark.parametrize(
    "sql", ["s + 1", "s * s", "-s", "d * 2", "d + d", "t - z", "b + 1", "l / 2", "x // 2", "u // i"]
)
def test_what_cannot_be_computed_with_is_refused(sql: str) -> None:
    types = {
        "s": pa.string(),
        "d": pa.date32(),
        "t": pa.timestamp("us"),
        "z": pa.timestamp("us", "UTC"),
        "b": pa.bool_(),
        "l": pa.duration("s"),
        "x": pa.float64(),
        "u": pa.uint64(),
        "i": pa.int64(),
    }
    with pytest.raises(InvalidInputError):
        type_of(sql, **types)


def test_null_makes_arithmetic_null(compute: Compute) -> None:
    assert compute("a + NULL", a=[1]) == [None]
    assert compute("NULL / a", a=[1]) == [None]
    assert compute("d + NULL", d=[date(2024, 1, 1)]) == [None]
