"""Comparisons, IN, BETWEEN, LIKE, IS and the three-valued AND, OR and NOT."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lancewood.errors import InvalidInputError
from lancewood.expr import parse_predicate

Compute = Callable[..., list[Any]]
T, F, N = True, False, None


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ("=", [F, T, F, N]),
        ("==", [F, T, F, N]),
        ("<>", [T, F, T, N]),
        ("!=", [T, F, T, N]),
        ("<", [T, F, F, N]),
        ("<=", [T, T, F, N]),
        (">", [F, F, T, N]),
        (">=", [F, T, T, N]),
        ("IS DISTINCT FROM", [T, F, T, T]),
        ("IS NOT DISTINCT FROM", [F, T, F, F]),
        ("<=>", [F, T, F, F]),
    ],
)
def test_each_operator_compares_numbers(
    compute: Compute, operator: str, expected: list[bool | None]
) -> None:
    assert compute(f"a {operator} 2", a=[1, 2, 3, None]) == expected
    flipped = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(operator, operator)
    assert compute(f"2 {flipped} a", a=[1, 2, 3, None]) == expected
    twos = pa.array([2, 2, 2, 2], pa.int16())
    assert compute(f"a {operator} b", a=[1, 2, 3, None], b=twos) == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("a < 1000", [T, N]),
        ("a > 1000", [F, N]),
        ("a = 1000", [F, N]),
        ("a <> 1000", [T, N]),
        ("a > -1000", [T, N]),
        ("a <= -1000", [F, N]),
        ("a < 9223372036854775808", [T, N]),
        ("a > -99999999999999999999999999", [T, N]),
        ("a < 5.5", [T, N]),
        ("a >= 4.5", [T, N]),
        ("a = 5.0", [T, N]),
        ("a = 5.5", [F, N]),
        ("a IS DISTINCT FROM 1000", [T, T]),
    ],
)
def test_a_constant_that_the_column_cannot_hold_compares_right(
    compute: Compute, condition: str, expected: list[bool | None]
) -> None:
    assert compute(condition, a=pa.array([5, None], pa.int8())) == expected


def test_unsigned_64_bit_numbers_compare_with_negative_ones(compute: Compute) -> None:
    u = pa.array([0, 2**64 - 1, None], pa.uint64())
    assert compute("u > -1", u=u) == [T, T, N]
    assert compute("u = 18446744073709551615", u=u) == [F, T, N]
    assert compute("u > a", u=u, a=[-1, 2**63 - 1, 1]) == [T, T, N]


def test_nan_equals_itself_and_is_larger_than_every_number(compute: Compute) -> None:
    x = [math.nan, math.inf, 1.0, None]
    assert compute("x > 1", x=x) == [T, T, F, N]
    assert compute("x >= 2", x=x) == [T, T, F, N]
    assert compute("x < 2", x=x) == [F, F, T, N]
    assert compute("x = y", x=x, y=[math.nan, math.nan, 1.0, math.nan]) == [T, F, T, N]
    assert compute("x < y", x=x, y=[math.nan, math.nan, 1.0, math.nan]) == [F, T, F, N]
    assert compute("x = :nan", {"nan": math.nan}, x=x) == [T, F, F, N]
    assert compute("x IN (:nan, 1)", {"nan": math.nan}, x=x) == [T, F, T, N]
    odd = [-math.nan, math.nan, 2.0]  # the sign of a NaN says nothing
    assert compute("x IN (:nan, 1)", {"nan": math.nan}, x=odd) == [T, T, F]
    assert compute("x NOT IN (:nan, 1)", {"nan": -math.nan}, x=odd) == [F, F, T]


def test_minus_zero_equals_zero_in_a_list_too(compute: Compute) -> None:
    assert compute("x IN (0, 7)", x=[-0.0, 0.0, 1.0]) == [T, T, F]


def test_a_float32_column_equals_the_constant_it_was_written_from(compute: Compute) -> None:
    x = pa.array([0.1, None], pa.float32())
    assert compute("x = 0.1", x=x) == [T, N]
    assert compute("x = ?", [0.1], x=x) == [T, N]
    assert compute("x < 1e39", x=x) == [T, N]
    assert compute("x IN (0.1, 1e39)", x=x) == [T, N]


def test_float16_and_decimals_compare_by_value(compute: Compute) -> None:
    assert compute("h = 1.5", h=pa.array([1.5, None], pa.float16())) == [T, N]
    money = pa.array([Decimal("1.50"), None], pa.decimal128(5, 2))
    assert compute("m = 1.5", m=money) == [T, N]
    assert compute("m > 1.499", m=money) == [T, N]
    assert compute("m < 99999999", m=money) == [T, N]
    assert compute("m < a", m=money, a=[2, 2]) == [T, N]


@pytest.mark.parametrize(
    "type_",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.int32(), pa.large_string()),
    ],
)
def test_every_kind_of_text_compares_with_text(compute: Compute, type_: pa.DataType) -> None:
    s = pa.array(["x", "y", None], pa.string())
    s = s.dictionary_encode().cast(type_) if pa.types.is_dictionary(type_) else s.cast(type_)
    assert compute("s = 'x'", s=s) == [T, F, N]
    assert compute("s IN ('x', 'z')", s=s) == [T, F, N]
    assert compute("s < r", s=s, r=["y", "y", "y"]) == [T, F, N]


@pytest.mark.parametrize("type_", [pa.binary(), pa.large_binary(), pa.binary(2), pa.binary_view()])
def test_every_kind_of_bytes_compares_with_hex_text(compute: Compute, type_: pa.DataType) -> None:
    b = pa.array([b"\x00\xff", b"ab", None], type_)
    assert compute("b = x'00ff'", b=b) == [T, F, N]
    assert compute("b = X'00FF'", b=b) == [T, F, N]


@pytest.mark.parametrize("type_", [pa.date32(), pa.date64()])
def test_dates_compare_with_text_dates_and_moments(compute: Compute, type_: pa.DataType) -> None:
    d = pa.array([date(2024, 1, 31), date(1960, 1, 1), None], type_)
    assert compute("d >= '2024-01-31'", d=d) == [T, F, N]
    assert compute("d = DATE '2024-01-31'", d=d) == [T, F, N]
    assert compute("d < '2024-01-31 12:00:00'", d=d) == [T, T, N]
    assert compute("d = '2024-01-31 12:00:00'", d=d) == [F, F, N]
    assert compute("d BETWEEN '2024-01-01' AND '2024-12-31'", d=d) == [T, F, N]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_of_every_unit_compare_with_text(compute: Compute, unit: str) -> None:
    t = pa.array([datetime(2024, 1, 1, 12), None], pa.timestamp(unit))
    assert compute("t = '2024-01-01 12:00:00'", t=t) == [T, N]
    assert compute("t = '2024-01-01T12:00'", t=t) == [T, N]
    assert compute("t < '2024-01-01 12:00:00.000000001'", t=t) == [T, N]
    assert compute("t > '2024-01-01 11:59:59.999999999'", t=t) == [T, N]
    assert compute("t < '9999-12-31'", t=t) == [T, N]
    assert compute("t > TIMESTAMP '0001-01-01 00:00:00'", t=t) == [T, N]
    assert compute("t > d", t=t, d=[date(2024, 1, 1), None]) == [T, N]


def test_wall_time_is_read_in_the_zone_of_the_column(compute: Compute) -> None:
    moment = datetime(2024, 6, 30, 22, 0)
    t = pa.array([moment, None], pa.timestamp("us", "Europe/Paris"))
    assert compute("t = '2024-07-01'", t=t) == [T, N]
    assert compute("t = DATE '2024-07-01'", t=t) == [T, N]
    assert compute("t = '2024-07-01 00:00:00'", t=t) == [T, N]
    assert compute("t = '2024-06-30 22:00:00Z'", t=t) == [T, N]
    assert compute("t = '2024-07-01 02:00:00+04:00'", t=t) == [T, N]
    assert compute("t = ?", [datetime(2024, 7, 1)], t=t) == [T, N]
    utc = pa.array([moment, moment], pa.timestamp("s", "UTC"))
    assert compute("t = u", t=t, u=utc) == [T, N]


def test_times_and_durations_compare(compute: Compute) -> None:
    assert compute("c > '12:30:00'", c=[time(13), time(12), None]) == [T, F, N]
    assert compute("c > '12:30'", c=pa.array([50_000, 3], pa.time32("s"))) == [T, F]
    lengths = [timedelta(hours=2), timedelta(minutes=1), None]
    assert compute("l >= INTERVAL 1 HOUR", l=lengths) == [T, F, N]
    assert compute("l >= INTERVAL '90' MINUTES", l=lengths) == [T, F, N]


def test_text_that_is_no_date_is_refused() -> None:
    schema = pa.schema({"d": pa.date32(), "t": pa.timestamp("us"), "c": pa.time64("us")})
    bad = ["d = 'soon'", "d = '2024-02-30'", "t > '2024-01-01 25:00:00'", "c < '12'"]
    for sql in [*bad, "t = '2024-01-01 00:00:00Z'"]:
        with pytest.raises(InvalidInputError):
            parse_predicate(sql, schema)


@pytest.mark.parametrize(
    "sql",
    ["a = 'x'", "s = 1", "b = 1", "s < d2", "d = 5", "st = 1", "l = l", "t = z", "bin = 'x'"],
)
def test_types_that_do_not_fit_are_refused(sql: str) -> None:
    schema = pa.schema(
        {
            "a": pa.int64(),
            "s": pa.string(),
            "b": pa.bool_(),
            "d": pa.date32(),
            "d2": pa.date32(),
            "st": pa.struct([("x", pa.int64())]),
            "l": pa.list_(pa.int64()),
            "t": pa.timestamp("us"),
            "z": pa.timestamp("us", "UTC"),
            "bin": pa.binary(),
        }
    )
    with pytest.raises(InvalidInputError, match="cannot compare"):
        parse_predicate(sql, schema)


def test_in_follows_sql_where_nulls_are_about(compute: Compute) -> None:
    a = [1, 2, None]
    assert compute("a IN (1, 3)", a=a) == [T, F, N]
    assert compute("a IN (1, NULL)", a=a) == [T, N, N]
    assert compute("a NOT IN (1, 3)", a=a) == [F, T, N]
    assert compute("a NOT IN (1, NULL)", a=a) == [F, N, N]
    assert compute("a IN (NULL)", a=a) == [N, N, N]
    assert compute("a IN (b, 1)", a=a, b=[5, 2, 2]) == [T, T, N]
    assert compute("a IN (1.0, 2.5, 1000000000000)", a=pa.array(a, pa.int8())) == [T, F, N]


def test_between_includes_both_ends(compute: Compute) -> None:
    assert compute("a BETWEEN 2 AND 3", a=[1, 2, 3, 4, None]) == [F, T, T, F, N]
    assert compute("a NOT BETWEEN 2 AND 3", a=[1, 2, 3, 4, None]) == [T, F, F, T, N]
    assert compute("a BETWEEN NULL AND 3", a=[1, 4]) == [N, F]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("'abc'", [T, F, F, F, F]),
        ("'ab%'", [T, F, T, F, F]),
        ("'%bc'", [T, T, F, F, F]),
        ("'%b%'", [T, T, T, F, F]),
        ("'a_c'", [T, F, F, F, F]),
        ("'%'", [T, T, T, T, T]),
        ("'___'", [T, T, F, T, F]),
        ("''", [F, F, F, F, T]),
        ("'a!%%' ESCAPE '!'", [F, F, F, F, F]),
        ("'é.\\'", [F, F, F, T, F]),
        ("'%!_%' ESCAPE '!'", [F, F, T, F, F]),
    ],
)
def test_like_takes_percent_and_underscore(
    compute: Compute, pattern: str, expected: list[bool]
) -> None:
    s = ["abc", "Xbc", "ab\n_", "é.\\", ""]
    assert compute(f"s LIKE {pattern}", s=s) == expected
    assert compute(f"s NOT LIKE {pattern}", s=s) == [not each for each in expected]


def test_ilike_ignores_case_and_like_does_not(compute: Compute) -> None:
    s = ["ABC", "abd", "xABC", None]
    assert compute("s LIKE 'ab%'", s=s) == [F, T, F, N]
    for pattern, expected in {
        "ab%": [T, T, F, N],
        "%aBc": [T, F, T, N],
        "%bC%": [T, F, T, N],
        "aBc": [T, F, F, N],
        "a_c": [T, F, F, N],
    }.items():
        assert compute(f"s ILIKE '{pattern}'", s=s) == expected
    assert compute("s NOT ILIKE 'ab%'", s=s) == [F, F, T, N]


def test_null_is_found_and_nothing_else(compute: Compute) -> None:
    assert compute("x IS NULL", x=[1.0, math.nan, None]) == [F, F, T]
    assert compute("x IS NOT NULL", x=[1.0, math.nan, None]) == [T, T, F]
    assert compute("o IS NULL", o=[{"k": 1}, None]) == [F, T]
    assert compute("o.k IS NULL", o=[{"k": 1}, None]) == [F, T]


def test_is_true_and_its_like_are_never_null(compute: Compute) -> None:
    b = [T, F, N]
    assert compute("b IS TRUE", b=b) == [T, F, F]
    assert compute("b IS NOT TRUE", b=b) == [F, T, T]
    assert compute("b IS FALSE", b=b) == [F, T, F]
    assert compute("b IS NOT FALSE", b=b) == [T, F, T]
    assert compute("b IS UNKNOWN", b=b) == [F, F, T]
    assert compute("b IS NOT UNKNOWN", b=b) == [T, T, F]


def test_and_or_not_have_three_values(compute: Compute) -> None:
    p = [T, T, T, F, F, F, N, N, N]
    q = [T, F, N, T, F, N, T, F, N]
    assert compute("p AND q", p=p, q=q) == [T, F, N, F, F, F, N, F, N]
    assert compute("p OR q", p=p, q=q) == [T, T, T, T, F, N, T, N, N]
    assert compute("NOT p", p=p, q=q) == [F, F, F, T, T, T, N, N, N]
    assert compute("p AND NULL", p=[T, F, N]) == [N, F, N]
    assert compute("p OR q AND NOT p", p=[F, T], q=[T, F]) == [T, T]


def test_a_column_of_nothing_but_nulls_compares_as_null(compute: Compute) -> None:
    n = pa.nulls(2)
    assert compute("n = 1", n=n) == [N, N]
    assert compute("n IS NULL", n=n) == [T, T]
    assert compute("n IN (1, 2) OR n > 'x'", n=n) == [N, N]
    assert compute("n AND TRUE", n=n) == [N, N]
