from __future__ import annotations

import datetime as dt
import decimal
import json
import math
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.json as pj
import pytest

from lancewood.errors import InvalidInputError
from lancewood.files.json_text import json_text
from lancewood.files.text_forms import (
    csv_batch,
    csv_read_type,
    from_read,
    json_read_type,
    plain_batch,
)

MOMENT = dt.datetime(2026, 5, 1, 12, 30, 0, 250000)
CASES: list[tuple[pa.DataType, Any]] = [
    (pa.bool_(), True),
    (pa.int8(), -5),
    (pa.uint64(), 2**64 - 1),
    (pa.int64(), -(2**63)),
    (pa.float16(), 1.5),
    (pa.float32(), 0.25),
    (pa.float64(), 0.1),
    (pa.string(), 'a "quoted"\nline, ü'),
    (pa.large_string(), ""),
    (pa.binary(), b"\x00\xff\n"),
    (pa.large_binary(), b""),
    (pa.binary(3), b"\x01\x02\xff"),
    (pa.date32(), dt.date(2026, 5, 1)),
    (pa.date64(), dt.date(2026, 5, 1)),
    (pa.time32("ms"), dt.time(1, 2, 3, 4000)),
    (pa.time64("us"), dt.time(1, 2, 3, 4)),
    (pa.timestamp("s"), MOMENT.replace(microsecond=0)),
    (pa.timestamp("us"), MOMENT),
    (pa.timestamp("ns"), MOMENT),
    (pa.timestamp("us", "UTC"), MOMENT.replace(tzinfo=dt.UTC)),
    (pa.timestamp("us", "Europe/Berlin"), MOMENT.replace(tzinfo=dt.UTC)),
    (pa.timestamp("us", "+02:00"), MOMENT.replace(tzinfo=dt.UTC)),
    (pa.duration("ms"), dt.timedelta(milliseconds=1500)),
    (pa.decimal128(10, 2), decimal.Decimal("-12.30")),
    (pa.decimal256(40, 3), decimal.Decimal("12.345")),
    (pa.dictionary(pa.int8(), pa.string()), "b"),
    (pa.dictionary(pa.int16(), pa.int64()), 7),
    (pa.struct({"d": pa.dictionary(pa.int8(), pa.int32())}), {"d": 3}),
    (pa.list_(pa.int32()), [1, None, 3]),
    (pa.large_list(pa.string()), ["a", ""]),
    (pa.list_(pa.float32(), 3), [1.0, 2.0, 0.5]),
    (pa.list_(pa.timestamp("us")), [MOMENT, None]),
    (pa.list_(pa.binary()), [b"\xff", None]),
    (pa.struct({"t": pa.time64("us"), "n": pa.int8()}), {"t": dt.time(1, 2), "n": None}),
    (pa.struct({"a": pa.int64(), "b": pa.string()}), {"a": 1, "b": None}),
    (pa.struct({"d": pa.date32(), "x": pa.binary()}), {"d": dt.date(2026, 5, 1), "x": b"\xfe"}),
    (pa.map_(pa.string(), pa.int64()), [("k", 1), ("l", None)]),
    (pa.map_(pa.int32(), pa.list_(pa.string())), [(1, ["a"])]),
]
IDS = [str(kind) for kind, _ in CASES]


def batch(kind: pa.DataType, value: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([value, None, value], kind)], ["c"])


@pytest.mark.parametrize(("kind", "value"), CASES, ids=IDS)
def test_a_value_that_goes_out_as_json_comes_back(kind: pa.DataType, value: Any) -> None:
    rows = batch(kind, value)
    text = "".join(json_text(each) + "\n" for each in plain_batch(rows).to_pylist())
    assert all(json.loads(line) for line in text.splitlines())
    schema = pa.schema([("c", json_read_type(kind))])
    read = pj.read_json(
        pa.BufferReader(text.encode()), parse_options=pj.ParseOptions(explicit_schema=schema)
    )
    assert from_read(read.column(0).combine_chunks(), kind).equals(rows.column(0))


@pytest.mark.parametrize(("kind", "value"), CASES, ids=IDS)
def test_a_value_that_goes_out_as_csv_comes_back(kind: pa.DataType, value: Any) -> None:
    rows = batch(kind, value)
    assert through_csv(rows, kind).equals(rows.column(0))


def through_csv(rows: pa.RecordBatch, kind: pa.DataType) -> Any:
    """The column of the rows, written as CSV and read again."""
    import pyarrow.csv as csv

    buffer = pa.BufferOutputStream()
    csv.write_csv(csv_batch(rows), buffer)
    read = csv.read_csv(
        pa.BufferReader(buffer.getvalue()),
        parse_options=csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        convert_options=csv.ConvertOptions(
            column_types={"c": csv_read_type(kind)},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return from_read(read.column(0).combine_chunks(), kind)


NOT_FINITE = [1.5, math.nan, math.inf, -math.inf, None]


@pytest.mark.parametrize("number", [pa.float16(), pa.float32(), pa.float64()], ids=str)
@pytest.mark.parametrize(
    ("nested", "value"),
    [
        (pa.list_, NOT_FINITE),
        (pa.large_list, NOT_FINITE),
        (lambda number: pa.list_(number, 5), NOT_FINITE),
        (lambda number: pa.struct({"a": number, "b": pa.list_(number)}), {"a": math.nan, "b": []}),
        (lambda number: pa.map_(pa.string(), number), [("k", math.nan), ("l", -math.inf)]),
    ],
    ids=["list", "large list", "fixed-size list", "struct", "map"],
)
def test_number_that_is_not_finite_comes_back_from_a_nested_value_in_csv(
    number: pa.DataType, nested: Callable[[pa.DataType], pa.DataType], value: Any
) -> None:
    kind = nested(number)
    rows = batch(kind, value)
    # Texts are compared because NaN equals nothing.
    assert str(through_csv(rows, kind)) == str(rows.column(0))


def test_json_text_that_is_stored_is_text() -> None:
    stored = pa.array(['{"a": 1}', None], pa.json_(pa.string()))
    rows = pa.RecordBatch.from_arrays([stored], ["c"])
    assert plain_batch(rows).to_pylist() == [{"c": '{"a": 1}'}, {"c": None}]
    assert from_read(pa.array(['{"a": 1}', None]), stored.type).equals(stored)


def test_a_sliced_batch_goes_out_as_its_rows() -> None:
    rows = pa.RecordBatch.from_arrays(
        [pa.array([[1], [2], None, [4, 5]], pa.list_(pa.duration("s")))], ["c"]
    ).slice(1, 3)
    assert plain_batch(rows).to_pylist() == [{"c": [2]}, {"c": None}, {"c": [4, 5]}]
    assert csv_batch(rows).to_pylist() == [{"c": "[2]"}, {"c": None}, {"c": "[4, 5]"}]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("not base64!", pa.binary()),
        ("[1", pa.list_(pa.int64())),
        ('["x"]', pa.list_(pa.int64())),
        ("5", pa.list_(pa.int64())),
        ('[{"k": 1}]', pa.map_(pa.string(), pa.int64())),
        ("[1, 2]", pa.list_(pa.float32(), 3)),
        ("x", pa.date32()),
        ("1.5.2", pa.decimal256(40, 2)),
        ("[1.5, 2.9]", pa.list_(pa.int64())),
        ("[2.0]", pa.list_(pa.int64())),
        ("[true]", pa.list_(pa.int64())),
        ("[true]", pa.list_(pa.float64())),
        ("[1]", pa.list_(pa.bool_())),
        ("[1]", pa.list_(pa.string())),
        ('["1"]', pa.list_(pa.float32())),
        ("[1.5]", pa.list_(pa.decimal128(5, 2))),
        ("[1.5]", pa.list_(pa.timestamp("s"))),
        ("[1.5]", pa.list_(pa.duration("s"))),
        ("[5]", pa.list_(pa.binary())),
        ('{"x": 2.7}', pa.struct({"x": pa.int32()})),
        ('{"x": 1, "y": 2}', pa.struct({"x": pa.int32()})),
        ("[1]", pa.struct({"x": pa.int32()})),
        ('{"a": 1}', pa.list_(pa.int64())),
        ('[{"key": "k", "value": 1, "more": 2}]', pa.map_(pa.string(), pa.int64())),
        ("[" * 5000, pa.list_(pa.int64())),
        ("[" + "9" * 5000 + "]", pa.list_(pa.int64())),
        ("x", pa.dictionary(pa.int8(), pa.int64())),
    ],
)
def test_a_text_that_is_no_such_value_is_refused(text: str, kind: pa.DataType) -> None:
    with pytest.raises(InvalidInputError, match="cannot be"):
        from_read(pa.array([text]), kind)


@pytest.mark.parametrize(
    ("text", "kind", "told"),
    [
        ("[1e400]", pa.list_(pa.float64()), "1e400 is larger than any double but infinity"),
        ("[-1e400]", pa.list_(pa.float32()), "-1e400 is larger than any double but infinity"),
        ("[1e39]", pa.list_(pa.float32()), r"1e\+39 is larger than any float but infinity"),
        ("[1" + "0" * 39 + "]", pa.list_(pa.float32()), "larger than any float but infinity"),
        ("[65520]", pa.list_(pa.float16(), 1), "65520 is larger than any halffloat but infinity"),
        ('{"x": [1e39]}', pa.struct({"x": pa.list_(pa.float32())}), "larger than any float but"),
        ('[{"key": "k", "value": 1e39}]', pa.map_(pa.string(), pa.float32()), "larger than any"),
        ('{"a": 1, "a": 2}', pa.struct({"a": pa.int64()}), "it has 'a' twice"),
        ('[{"a": 1, "a": 1}]', pa.list_(pa.struct({"a": pa.int64()})), "it has 'a' twice"),
        ('[{"key": 1, "key": 2, "value": 3}]', pa.map_(pa.int8(), pa.int8()), "'key' twice"),
    ],
)
def test_nested_value_that_would_not_be_kept_as_it_is_written_is_refused(
    text: str, kind: pa.DataType, told: str
) -> None:
    with pytest.raises(InvalidInputError, match=told):
        from_read(pa.array([text]), kind)


def test_largest_number_of_a_type_is_read_in_a_nested_value() -> None:
    kind = pa.struct({"h": pa.float16(), "f": pa.float32(), "d": pa.float64()})
    largest = {"h": 65504.0, "f": float(2**128 - 2**104), "d": sys.float_info.max}
    rows = batch(kind, largest)
    assert through_csv(rows, kind).equals(rows.column(0))
