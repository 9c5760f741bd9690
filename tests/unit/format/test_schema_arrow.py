"""Arrow schemas ↔ schema trees."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

from lancewood.errors import FormatError, InvalidInputError, UnsupportedError
from lancewood.format.schema import (
    decode_schema,
    encode_schema,
    schema_from_arrow,
    to_arrow_field,
    to_arrow_schema,
)
from lancewood.model.ids import FieldId
from lancewood.model.schema import Field

POINT = pa.struct([pa.field("x", pa.int32(), nullable=False), pa.field("y", pa.float64())])

TYPES: dict[str, pa.DataType] = {
    "null": pa.null(),
    "bool": pa.bool_(),
    "uint64": pa.uint64(),
    "halffloat": pa.float16(),
    "large_string": pa.large_string(),
    "binary": pa.binary(),
    "fixed_size_binary:7": pa.binary(7),
    "date32:day": pa.date32(),
    "date64:ms": pa.date64(),
    "time32:ms": pa.time32("ms"),
    "time64:ns": pa.time64("ns"),
    "timestamp:us:-": pa.timestamp("us"),
    "timestamp:ns:+05:30": pa.timestamp("ns", "+05:30"),
    "timestamp:ms:America/New_York": pa.timestamp("ms", "America/New_York"),
    "duration:s": pa.duration("s"),
    "decimal:128:10:-2": pa.decimal128(10, -2),
    "decimal:256:76:3": pa.decimal256(76, 3),
    "struct": POINT,
    "list": pa.list_(pa.field("element", pa.int8(), nullable=False)),
    "large_list": pa.large_list(pa.list_(pa.string())),
    "list.struct": pa.list_(POINT),
    "large_list.struct": pa.large_list(POINT),
    "fixed_size_list:float:16": pa.list_(pa.float32(), 16),
    "fixed_size_list:fixed_size_list:float:2:3": pa.list_(pa.list_(pa.float32(), 2), 3),
    "fixed_size_list:timestamp:us:+05:30:2": pa.list_(pa.timestamp("us", "+05:30"), 2),
    "fixed_size_list:struct:2": pa.list_(POINT, 2),
    "map": pa.map_(pa.string(), pa.list_(POINT)),
    "dict:large_string:uint16:false": pa.dictionary(pa.uint16(), pa.large_string()),
    "json": pa.json_(),
}


@pytest.mark.parametrize("logical_type", TYPES)
def test_a_type_has_its_word_and_comes_back(logical_type: str) -> None:
    arrow = pa.schema(
        [pa.field("before", pa.int8()), pa.field("c", TYPES[logical_type], metadata={"k": "v"})],
        {"schema": "metadata"},
    )
    schema = schema_from_arrow(arrow, first_id=3)
    assert schema.fields[1].logical_type == logical_type
    assert [each.id for each in schema.walk()] == list(range(3, 3 + len(list(schema.walk()))))
    again = decode_schema(encode_schema(schema), schema.metadata)
    assert again == schema
    assert to_arrow_schema(again).equals(arrow, check_metadata=True)


def test_extension_types_are_kept_by_name() -> None:
    tensor = pa.fixed_shape_tensor(pa.float32(), [2])
    arrow = pa.schema(
        [pa.field("u", pa.uuid(), metadata={"k": "v"}), ("t", tensor), ("l", pa.list_(pa.uuid()))]
    )
    schema = schema_from_arrow(arrow)
    assert schema.fields[0].logical_type == "fixed_size_binary:16"
    assert schema.fields[0].metadata["ARROW:extension:name"] == b"arrow.uuid"
    assert schema.fields[1].metadata["ARROW:extension:metadata"] == b'{"shape":[2]}'
    assert to_arrow_schema(schema).equals(arrow, check_metadata=True)


def test_extensions_of_pylance_stay_their_storage() -> None:
    field = pa.field("b", pa.binary(2), metadata={"ARROW:extension:name": "lance.bfloat16"})
    vector = pa.field("v", pa.list_(field.with_name("item"), 4))
    schema = schema_from_arrow(pa.schema([field, vector]))
    assert schema.fields[1].logical_type == "fixed_size_list:lance.bfloat16:4"
    assert to_arrow_schema(schema).field("b").type == pa.binary(2)
    assert to_arrow_schema(schema).field("v").type == pa.list_(pa.binary(2), 4)


def test_views_become_plain() -> None:
    schema = schema_from_arrow(pa.schema([("s", pa.string_view()), ("b", pa.binary_view())]))
    assert to_arrow_schema(schema).types == [pa.string(), pa.binary()]


@pytest.mark.parametrize(
    "kind",
    [
        pa.month_day_nano_interval(),
        pa.decimal32(5, 1),
        pa.decimal64(10, 1),
        pa.map_(pa.string(), pa.int8(), keys_sorted=True),
        pa.list_(pa.string(), 2),
        pa.list_(pa.list_(pa.string(), 2), 2),
        pa.list_(pa.uuid(), 2),
        pa.dense_union([pa.field("a", pa.int8())]),
        pa.run_end_encoded(pa.int32(), pa.int64()),
        pa.list_view(pa.int8()),
        pa.large_list_view(pa.int8()),
        pa.dictionary(pa.int8(), pa.timestamp("us")),
        pa.dictionary(pa.int8(), pa.list_(pa.int8())),
        pa.struct([]),
    ],
    ids=str,
)
def test_an_unsupported_type_is_named_with_its_column(kind: pa.DataType) -> None:
    with pytest.raises(UnsupportedError, match=r"'s\.deep'") as caught:
        schema_from_arrow(pa.schema([("s", pa.struct([("deep", kind)]))]))
    assert caught.value.facts["type"] == str(kind)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["a.b"], "contains '.'"),
        (["_rowid"], "reserved"),
        (["_rowaddr"], "reserved"),
        (["_row_created_at_version"], "reserved"),
        (["_row_last_updated_at_version"], "reserved"),
        (["a", "a"], "occurs twice"),
        ([""], "no name"),
    ],
)
def test_a_forbidden_column_name_is_refused(names: list[str], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        schema_from_arrow(pa.schema([(each, pa.int8()) for each in names]))


def test_names_differ_by_case_and_may_hold_dots_below_the_top() -> None:
    schema_from_arrow(pa.schema([("x", pa.int8()), ("X", pa.struct([("a.b", pa.int8())]))]))
    with pytest.raises(InvalidInputError, match=r"'s\.a' occurs twice"):
        schema_from_arrow(pa.schema([("s", pa.struct([("a", pa.int8()), ("a", pa.int8())]))]))


def test_a_metadata_key_must_be_text() -> None:
    with pytest.raises(InvalidInputError, match="UTF-8"):
        schema_from_arrow(pa.schema([pa.field("a", pa.int8(), metadata={b"\xff": b""})]))


def test_absurd_depth_is_unsupported() -> None:
    kind = pa.int8()
    for _ in range(200):
        kind = pa.list_(kind)
    with pytest.raises(UnsupportedError, match="levels deep"):
        schema_from_arrow(pa.schema([("a", kind)]))


def test_a_map_without_its_value_has_no_arrow_type() -> None:
    key = Field(FieldId(2), "key", "string", False)
    entries = Field(FieldId(1), "entries", "struct", False, {}, (key,))
    with pytest.raises(FormatError, match="key and value"):
        to_arrow_field(Field(FieldId(0), "m", "map", True, {}, (entries,)))


def test_the_schema_room_and_the_data_room_load_without_pylance() -> None:
    code = (
        "import sys, lancewood.format.schema, lancewood.data.reader, lancewood.data.writer, "
        "lancewood.data.index_engine; sys.exit('lance' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
