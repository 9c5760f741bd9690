"""Values for a column: what is stored is what was meant, or it is an error."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest

from lancewood.engine.rows import nameless
from lancewood.errors import InvalidInputError
from lancewood.expr import parse_expression
from lancewood.jobs.rows.fitting import (
    can_become,
    constant_value,
    fitted,
    fitted_value,
    texts_as_moments,
)

BERLIN = pa.timestamp("us", "Europe/Berlin")


@pytest.mark.parametrize(
    ("value", "kind", "stored"),
    [
        (None, pa.int8(), None),
        (3, pa.int8(), 3),
        (3.0, pa.int64(), 3),
        (np.int64(4), pa.int8(), 4),
        (pa.scalar(4), pa.int8(), 4),
        (pa.scalar(None, pa.int64()), pa.int8(), None),
        (1, pa.float32(), 1.0),
        (0.1, pa.float64(), 0.1),
        (0.5, pa.float16(), 0.5),
        (True, pa.bool_(), True),
        (Decimal("1.25"), pa.decimal128(5, 2), Decimal("1.25")),
        (1.25, pa.decimal128(5, 2), Decimal("1.25")),
        (b"abcd", pa.binary(4), b"abcd"),
        (b"x", pa.large_binary(), b"x"),
        (b"x", pa.dictionary(pa.int8(), pa.binary()), b"x"),
        (date(2020, 1, 2), pa.date64(), date(2020, 1, 2)),
        (date(2020, 1, 2), pa.timestamp("s"), datetime(2020, 1, 2)),
        (datetime(2020, 1, 2), pa.date32(), date(2020, 1, 2)),
        (datetime(2020, 1, 2, tzinfo=UTC), pa.timestamp("s", "UTC"), datetime(2020, 1, 2)),
        (time(1, 2), pa.time32("s"), time(1, 2)),
        (timedelta(seconds=1), pa.duration("ms"), timedelta(seconds=1)),
        ([1, 2.5, 3], pa.list_(pa.float32(), 3), [1.0, 2.5, 3.0]),
        (np.array([1, 2], np.float32), pa.list_(pa.float32(), 2), [1.0, 2.0]),
        (pa.scalar([1, 2]), pa.list_(pa.int8()), [1, 2]),
        ([], pa.large_list(pa.string()), []),
        (["a", None], pa.list_(pa.string()), ["a", None]),
        ({"a": 1}, pa.struct([("a", pa.int8()), ("b", pa.string())]), {"a": 1, "b": None}),
        ({"k": 1}, pa.map_(pa.string(), pa.int8()), [("k", 1)]),
        (UUID(int=3).bytes, pa.uuid(), UUID(int=3)),
    ],
)
def test_a_value_is_stored_as_the_column_s_type(value: Any, kind: pa.DataType, stored: Any) -> None:
    made = fitted_value(value, kind)
    assert made.type == kind
    (found,) = made.to_pylist()
    assert (found.replace(tzinfo=None) if isinstance(found, datetime) else found) == stored


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (3.7, pa.int64()),
        (True, pa.int64()),
        (1, pa.bool_()),
        (300, pa.int8()),
        (-1, pa.uint8()),
        (2**70, pa.int64()),
        (float("nan"), pa.int8()),
        (1e300, pa.float32()),
        (1.255, pa.decimal128(5, 2)),
        (b"abc", pa.binary(4)),
        (b"abc", pa.string()),
        (datetime(2020, 1, 1, microsecond=5), pa.timestamp("s")),
        (datetime(2020, 1, 1, 12), pa.date32()),
        (datetime(2020, 1, 1, tzinfo=UTC), pa.timestamp("us")),
        ([1, 2], pa.list_(pa.float32(), 3)),
        ([1, 2.5], pa.list_(pa.int32())),
        ([1e300], pa.list_(pa.float32())),
        ([datetime(2020, 1, 1, microsecond=5)], pa.list_(pa.timestamp("s"))),
        ({"a": 1, "c": 2}, pa.struct([("a", pa.int8())])),
        ({"a": 1.5}, pa.struct([("a", pa.int8())])),
        (5, pa.list_(pa.int8())),
        (object(), pa.int8()),
    ],
)
def test_a_value_that_the_type_does_not_hold_is_refused(value: Any, kind: pa.DataType) -> None:
    with pytest.raises(InvalidInputError):
        fitted_value(value, kind)


def test_a_text_can_be_a_moment() -> None:
    def read(text: str, kind: pa.DataType) -> pa.Array:
        return texts_as_moments(pa.array([text, None]), kind)

    assert read("2020-01-02", pa.date32()).to_pylist() == [date(2020, 1, 2), None]
    assert read("13:45:00", pa.time64("us")).to_pylist() == [time(13, 45), None]
    for text in ("2020-06-01 10:00:00", "2020-06-01 12:00:00+02", "2020-06-01 10:00Z"):
        berlin, _ = read(text, BERLIN)
        assert berlin.value == int(datetime(2020, 6, 1, 10, tzinfo=UTC).timestamp() * 10**6)
    for text, kind in [
        ("yesterday", pa.date32()),
        ("2020-01-02 00:00:00Z", pa.timestamp("s")),
        ("2020-01-02 00:00:00 Europe/Berlin", pa.timestamp("s")),
        ("2020-01-02 00:00:00.5", pa.timestamp("s")),
        ("2020-01-02 00:00:00.1234567", pa.timestamp("us")),
    ]:
        with pytest.raises(InvalidInputError):
            read(text, kind)


def test_an_interval_of_days_and_hours_is_a_duration_and_one_of_months_is_not() -> None:
    def computed(sql: str) -> pa.Array:
        return fitted(parse_expression(sql, pa.schema([])).evaluate(nameless(1)), pa.duration("s"))

    assert computed("INTERVAL 1 DAY + INTERVAL 1 HOUR").to_pylist() == [timedelta(days=1, hours=1)]
    assert computed("CAST(NULL AS INTERVAL)").to_pylist() == [None]
    for sql in ("INTERVAL 1 MONTH", "INTERVAL 1 MICROSECOND"):
        with pytest.raises(InvalidInputError):
            computed(sql)


@pytest.mark.parametrize(
    ("source", "target", "is_possible"),
    [
        (pa.null(), pa.list_(pa.int8()), True),
        (pa.int64(), pa.int8(), True),
        (pa.int64(), pa.float32(), True),
        (pa.float64(), pa.decimal128(9, 2), True),
        (pa.string(), pa.large_string(), True),
        (pa.string(), pa.dictionary(pa.int8(), pa.string()), True),
        (pa.string(), pa.int64(), False),
        (pa.int64(), pa.string(), False),
        (pa.bool_(), pa.int64(), False),
        (pa.string(), pa.binary(), False),
        (pa.date32(), pa.timestamp("us"), True),
        (pa.date32(), BERLIN, False),
        (pa.timestamp("us"), pa.date32(), False),
        (pa.timestamp("us"), BERLIN, False),
        (pa.timestamp("s", "UTC"), BERLIN, True),
        (pa.list_(pa.int64()), pa.list_(pa.float32(), 3), True),
        (pa.list_(pa.string()), pa.list_(pa.int8()), False),
        (pa.struct([("a", pa.int64())]), pa.struct([("a", pa.int8())]), True),
        (pa.struct([("b", pa.int64())]), pa.struct([("a", pa.int8())]), False),
    ],
)
def test_types_are_not_mixed_silently(
    source: pa.DataType, target: pa.DataType, is_possible: bool
) -> None:
    assert can_become(source, target) is is_possible


def test_an_array_gets_the_type_or_an_error() -> None:
    assert fitted(pa.array([1, None]), pa.int8()).to_pylist() == [1, None]
    assert fitted(pa.nulls(2), pa.uuid()).type == pa.uuid()
    coded = fitted(pa.array(["a", "b", "a"]), pa.dictionary(pa.int8(), pa.string()))
    assert coded.to_pylist() == ["a", "b", "a"]
    for values, kind in [
        (pa.array([1000]), pa.int8()),
        (pa.array([1.5]), pa.int8()),
        (pa.array([1e300]), pa.float32()),
        (pa.array([b"abc"]), pa.binary(4)),
    ]:
        with pytest.raises(InvalidInputError):
            fitted(values, kind)
    infinite = fitted(pa.array([float("inf"), None]), pa.float32())
    assert infinite.to_pylist() == [float("inf"), None]


@pytest.mark.parametrize("text", ["1e28", "1e27", "9999999999999999999999999999.99999999995"])
def test_a_constant_that_a_float_does_not_keep_is_no_decimal(text: str) -> None:
    kind = pa.decimal128(38, 10)
    with pytest.raises(InvalidInputError, match="another number; write CAST"):
        constant_value(parse_expression(text, pa.schema([])), kind)
    assert constant_value(parse_expression("1e15", pa.schema([])), kind)[0].as_py() == 10**15
