"""How columns changed: in words, and whether they only became wider."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lancewood.pipeline.checks.manifest_checks import is_wider, schema_changes

WIDER = [
    (pa.int8(), pa.int64()),
    (pa.uint8(), pa.int16()),
    (pa.uint32(), pa.uint64()),
    (pa.int16(), pa.float32()),
    (pa.int32(), pa.float64()),
    (pa.int64(), pa.decimal128(20, 0)),
    (pa.float32(), pa.float64()),
    (pa.decimal128(5, 2), pa.decimal128(7, 3)),
    (pa.string(), pa.large_string()),
    (pa.binary(8), pa.binary()),
    (pa.timestamp("s"), pa.timestamp("us")),
    (pa.time32("s"), pa.time64("ns")),
    (pa.date32(), pa.date64()),
    (pa.null(), pa.string()),
    (pa.dictionary(pa.int8(), pa.string()), pa.string()),
]
OTHER = [
    (pa.int8(), pa.uint64()),
    (pa.int64(), pa.float64()),
    (pa.uint64(), pa.int64()),
    (pa.int64(), pa.string()),
    (pa.decimal128(5, 2), pa.decimal128(6, 4)),
    (pa.timestamp("us"), pa.timestamp("ns")),
    (pa.timestamp("us"), pa.timestamp("us", "UTC")),
    (pa.date32(), pa.timestamp("us")),
    (pa.bool_(), pa.int8()),
    (pa.string(), pa.binary()),
]


@pytest.mark.parametrize(("before", "now"), WIDER)
def test_type_that_holds_all_values_is_wider(before: pa.DataType, now: pa.DataType) -> None:
    assert is_wider(before, now)
    assert not is_wider(now, before) or pa.types.is_dictionary(before)


@pytest.mark.parametrize(("before", "now"), OTHER)
def test_type_that_may_lose_a_value_is_not_wider(before: pa.DataType, now: pa.DataType) -> None:
    assert not is_wider(before, now)


def told(before: pa.Schema, now: pa.Schema) -> list[tuple[str, bool]]:
    return [(each.text, each.is_wider) for each in schema_changes(before, now)]


def test_same_columns_have_no_changes_whatever_their_metadata() -> None:
    before = pa.schema([pa.field("id", pa.int64()), pa.field("v", pa.list_(pa.float32(), 4))])
    now = pa.schema([each.with_metadata({"note": "x"}) for each in before])
    assert told(before, now) == []


def test_columns_that_come_and_go_and_change_are_named() -> None:
    before = pa.schema([("id", pa.int32()), ("old", pa.string()), ("n", pa.int64())])
    now = pa.schema([("id", pa.int64()), ("n", pa.int32()), ("new", pa.string())])
    assert told(before, now) == [
        ("id was int32 and is int64", True),
        ("old (string) is gone", False),
        ("n was int64 and is int32", False),
        ("new (string) is new", True),
    ]


def test_fields_inside_of_columns_are_compared() -> None:
    before = pa.schema(
        {
            "meta": pa.struct({"w": pa.int32(), "h": pa.int32()}),
            "tags": pa.list_(pa.struct({"t": pa.string()})),
            "by": pa.map_(pa.string(), pa.float32()),
            "v": pa.list_(pa.float32(), 4),
        }
    )
    now = pa.schema(
        {
            "meta": pa.struct({"w": pa.int64()}),
            "tags": pa.list_(pa.struct({"t": pa.string(), "p": pa.float32()})),
            "by": pa.map_(pa.string(), pa.float64()),
            "v": pa.list_(pa.float32(), 8),
        }
    )
    assert told(before, now) == [
        ("meta.w was int32 and is int64", True),
        ("meta.h (int32) is gone", False),
        ("tags.item.p (float) is new", True),
        ("by.value was float and is double", True),
        (
            "v was fixed_size_list<item: float>[4] and is fixed_size_list<item: float>[8]",
            False,
        ),
    ]


def test_nulls_extensions_and_order_count() -> None:
    before = pa.schema([pa.field("a", pa.int8(), False), pa.field("b", pa.int8())])
    extension = {"ARROW:extension:name": "zoo.leg"}
    now = pa.schema([pa.field("b", pa.int8(), False), pa.field("a", pa.int8(), metadata=extension)])
    assert told(before, now) == [
        ("a may be null now", True),
        ("a was no extension type and is zoo.leg", False),
        ("b may not be null any more", False),
        ("the columns are in another order", True),
    ]


def test_new_column_that_may_not_be_null_is_not_wider() -> None:
    now = pa.schema([pa.field("a", pa.int8(), False)])
    assert told(pa.schema([]), now) == [("a (int8) is new", False)]
