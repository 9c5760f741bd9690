"""Which rows of two arrays hold other values: as DuckDB's IS DISTINCT FROM says."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancewood.data.differing import differing

_NAN = float("nan")


def said(one: pa.Array, other: pa.Array) -> list[bool]:
    found: list[bool] = differing(one, other).tolist()
    return found


def numbers_of(*kinds: pa.DataType) -> dict[pa.DataType, list[Any]]:
    return {kind: [0, 1, 100, None] for kind in kinds}


def moments_of(*kinds: pa.DataType) -> dict[pa.DataType, list[Any]]:
    return {kind: [datetime(2026, 1, 1), datetime(1969, 12, 31, 23), None] for kind in kinds}


KINDS: dict[pa.DataType, list[Any]] = {
    pa.null(): [None],
    pa.bool_(): [True, False, None],
    **numbers_of(pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32()),
    pa.int64(): [0, 1, -1, 2**53, 2**53 + 1, None],
    pa.uint64(): [0, 2**64 - 1, 2**64 - 2, None],
    pa.float32(): [0.0, -0.0, 1.5, _NAN, None],
    pa.float64(): [0.0, -0.0, 1e300, float("inf"), -float("inf"), _NAN, None],
    pa.string(): ["", "a", "ab", "\x00", "é", "e\u0301", None],
    pa.large_string(): ["", "a", "ab", None],
    pa.string_view(): ["", "a", "a string that is longer than twelve bytes", None],
    pa.binary(): [b"", b"\x00", b"a", None],
    pa.large_binary(): [b"", b"\x00", b"a", None],
    pa.binary(2): [b"ab", b"ac", b"\x00\x00", None],
    pa.decimal128(10, 2): [Decimal("1.10"), Decimal("1.20"), None],
    pa.decimal128(38, 0): [Decimal(10**37), Decimal(10**37 + 1), None],
    pa.date32(): [date(2026, 1, 1), date(1969, 12, 31), None],
    pa.date64(): [date(2026, 1, 1), date(1969, 12, 31), None],
    pa.time32("s"): [time(0), time(23, 59, 59), None],
    pa.time32("ms"): [time(0), time(0, 0, 0, 1_000), None],
    pa.time64("us"): [time(0), time(0, 0, 0, 1), None],
    **moments_of(pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("ns")),
    **moments_of(pa.timestamp("us", "UTC"), pa.timestamp("us", "Europe/Berlin")),
    pa.duration("us"): [timedelta(0), timedelta(days=1), timedelta(days=-1), None],
    pa.dictionary(pa.int8(), pa.string()): ["a", "b", "", None],
    pa.list_(pa.int32()): [[], [1], [1, 2], [1, None], [None, 1], None],
    pa.large_list(pa.string()): [[], ["a"], ["b"], [None], None],
    pa.list_(pa.float64(), 2): [[1.0, 2.0], [1.0, _NAN], [None, 2.0], None],
    pa.list_(pa.list_(pa.int8())): [[[1], []], [[1], None], [[]], None],
    pa.list_(pa.struct({"x": pa.int64()})): [[], [{"x": 1}], [{"x": None}], [None], None],
    pa.struct({"x": pa.int64(), "y": pa.list_(pa.string())}): [
        {"x": 1, "y": ["a"]},
        {"x": 1, "y": ["b"]},
        {"x": None, "y": None},
        {"x": 2, "y": []},
        None,
    ],
    pa.struct({"v": pa.list_(pa.float32(), 2)}): [
        {"v": [1.0, 2.0]},
        {"v": [1.0, _NAN]},
        {"v": None},
        None,
    ],
    pa.map_(pa.string(), pa.int64()): [[], [("a", 1)], [("a", 2)], [("a", None)], None],
}


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_rows_differ_as_duckdb_says(kind: pa.DataType) -> None:
    values = KINDS[kind]
    lefts = [left for left in values for _ in values]
    rights = [right for _ in values for right in values]
    # Slices: nothing may be taken from before the first row.
    one = pa.array([*values, *lefts], kind).slice(len(values))
    other = pa.array([*values, *rights], kind).slice(len(values))
    judge = duckdb.connect().from_arrow(pa.table({"one": one, "other": other}))
    told = judge.project("one is distinct from other").fetchall()
    assert said(one, other) == [each for (each,) in told]
    assert not differing(one, one).any()


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (pa.array([np.float16(1), None]), pa.array([np.float16(2), None]), [True, False]),
        (
            pa.array([(1, 2, 3), None], pa.month_day_nano_interval()),
            pa.array([(1, 2, 4), None], pa.month_day_nano_interval()),
            [True, False],
        ),
        (
            pa.array([1, 2, None], pa.time64("ns")),
            pa.array([1, 3, None], pa.time64("ns")),
            [False, True, False],
        ),
        (
            pa.array([Decimal(1), None], pa.decimal256(60)),
            pa.array([Decimal(2), None], pa.decimal256(60)),
            [True, False],
        ),
        (
            pa.array([1, None, None], pa.bool8()),
            pa.array([0, 1, None], pa.bool8()),
            [True, True, False],
        ),
    ],
    ids=["half floats", "intervals", "nanoseconds of a day", "long decimals", "extensions"],
)
def test_rows_of_types_that_duckdb_does_not_have(
    one: pa.Array, other: pa.Array, expected: list[bool]
) -> None:
    assert said(one, other) == expected


def test_what_lies_below_a_null_does_not_count() -> None:
    child = pa.array([1, 2])
    hidden = pa.StructArray.from_arrays([child], ["x"], mask=pa.array([True, False]))
    other = pa.StructArray.from_arrays([pa.array([7, 2])], ["x"], mask=pa.array([True, False]))
    assert said(hidden, other) == [False, False]


numbers = st.none() | st.integers(-2, 2)
lists = st.lists(st.none() | st.lists(numbers, max_size=3), max_size=8)


@given(lists, lists)
def test_lists_differ_as_python_says(one: list[Any], other: list[Any]) -> None:
    size = min(len(one), len(other))
    kind = pa.list_(pa.int64())
    told = said(pa.array(one[:size], kind), pa.array(other[:size], kind))
    assert told == [left != right for left, right in zip(one[:size], other[:size], strict=True)]
