"""Field lists ↔ schema trees."""

from __future__ import annotations

import pytest

from lancewood.errors import FormatError, InvalidInputError
from lancewood.format.manifest import _change_head
from lancewood.format.schema import (
    MAX_DEPTH,
    MAX_FIELDS,
    decode_file_schema,
    decode_schema,
    encode_schema,
)
from lancewood.model.ids import FieldId
from lancewood.model.schema import Field, Schema
from lancewood.model.transaction import HeadChanges
from lancewood.proto import schema_pb2, table_pb2, transaction_pb2

Row = tuple[str, int, int, str]


def messages(*rows: Row) -> list[schema_pb2.Field]:
    return [
        schema_pb2.Field(name=name, id=id_, parent_id=parent, logical_type=kind, nullable=True)
        for name, id_, parent, kind in rows
    ]


SEED = messages(
    ("a", 1, 0, "int32"),
    ("b", 2, 0, "struct"),
    ("c", 3, 2, "list"),
    ("item", 4, 3, "int32"),
    ("d", 5, 2, "int32"),
)


def test_the_example_of_the_specification_is_read() -> None:
    schema = decode_schema(SEED, {"k": b"v"})
    assert schema.names == ("a", "b")
    assert [each.name for each in schema.fields[1].children] == ["c", "d"]
    assert schema.by_id[FieldId(4)].logical_type == "int32"
    assert schema.metadata == {"k": b"v"}


def test_a_schema_is_written_with_parent_minus_one_and_true_kinds() -> None:
    kinds = schema_pb2.Field
    written = encode_schema(decode_schema(SEED, {}))
    assert [(each.name, each.id, each.parent_id) for each in written] == [
        ("a", 1, -1),
        ("b", 2, -1),
        ("c", 3, 2),
        ("item", 4, 3),
        ("d", 5, 2),
    ]
    assert [each.type for each in written] == [
        kinds.LEAF,
        kinds.PARENT,
        kinds.REPEATED,
        kinds.LEAF,
        kinds.LEAF,
    ]


def test_what_we_do_not_know_of_a_field_is_written_back() -> None:
    (message,) = messages(("a", 0, -1, "string"))
    unknown = b"\xa2\x06\x03xyz"  # member 100
    message.MergeFromString(unknown)
    renamed = decode_schema([message], {}).fields[0]
    (written,) = encode_schema(Schema((Field(**{**vars(renamed), "name": "b"}),)))
    assert written.name == "b"
    assert unknown in written.SerializeToString()


def test_keys_in_the_metadata_are_mirrored() -> None:
    metadata = {
        "lance-schema:unenforced-primary-key": b"Yes",
        "lance-schema:unenforced-primary-key:position": b"2",
        "lance-schema:unenforced-clustering-key:position": b"7",
        "ARROW:extension:name": b"arrow.uuid",
    }
    field = Field(FieldId(0), "u", "fixed_size_binary:16", False, metadata)
    (written,) = encode_schema(Schema((field,)))
    assert written.unenforced_primary_key
    assert written.unenforced_primary_key_position == 2
    assert written.unenforced_clustering_key_position == 7
    assert written.extension_name == "arrow.uuid"
    read = decode_schema([written], {}).fields[0]
    without = Field(**{**vars(read), "metadata": {}})
    (cleared,) = encode_schema(Schema((without,)))
    assert not cleared.unenforced_primary_key
    assert cleared.unenforced_primary_key_position == 0


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([("a", 0, -1, "int32"), ("b", 0, -1, "int32")], "occurs twice"),
        ([("a", -2, -1, "int32")], "negative"),
        ([("a", 0, 0, "struct")], "before its parent"),
        ([("a", 0, 1, "struct"), ("b", 1, 0, "struct")], "before its parent"),
        ([("x", 1, 0, "int32"), ("s", 0, -1, "struct")], "before its parent"),
        ([("a", 0, -1, "int32"), ("b", 1, 0, "int32")], "no children"),
        ([("a", 0, -1, "list")], "one child"),
        ([("a", 0, -1, "list.struct"), ("item", 1, 0, "int8")], "one struct child"),
        ([("a", 0, -1, "map"), ("entries", 1, 0, "struct")], "key and value"),
        ([("a", 0, -1, "fixed_size_list:struct:2")], "one struct child"),
    ],
)
def test_a_broken_tree_is_refused(rows: list[Row], words: str) -> None:
    with pytest.raises(FormatError, match=words):
        decode_schema(messages(*rows), {})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "int",
        "Int32",
        "int32 ",
        "decimal:128:99",
        "decimal:128:99:0",
        "decimal:64:10:2",
        "decimal:128:-1:2",
        "decimal:128:10:2:2",
        "decimal:128:1e1:2",
        "fixed_size_list:x",
        "fixed_size_list:int32",
        "fixed_size_list:int32:0",
        "fixed_size_list:int32:-1",
        "fixed_size_list:int32:99999999999",
        "fixed_size_list:string:4",
        "fixed_size_list:dict:string:int8:false:4",
        "fixed_size_list:" * 5000 + "float" + ":2" * 5000,
        "fixed_size_binary:",
        "fixed_size_binary:0",
        "fixed_size_binary:\u0663",
        "fixed_size_binary:9999999999999999999999",
        "timestamp:us",
        "timestamp:us:",
        "timestamp:week:-",
        "time32:us",
        "duration:h",
        "date32",
        "dict:string:int8",
        "dict:string:float:false",
        "dict:string:int8:maybe",
        "dict:list:int8:false",
        "interval:month",
        "large_map",
        "fixed_size_list:fixed_size_list:struct:2:3",
    ],
)
def test_a_logical_type_outside_the_grammar_is_refused(text: str) -> None:
    with pytest.raises(FormatError, match=r"logical type|no children"):
        decode_schema(messages(("a", 0, -1, text)), {})


def test_absurd_depth_is_refused_and_great_width_is_read() -> None:
    deep = messages(*[("s", each, each - 1, "struct") for each in range(MAX_DEPTH + 1)])
    assert len(list(decode_schema(deep[:-1], {}).walk())) == MAX_DEPTH
    with pytest.raises(FormatError, match="levels deep"):
        decode_schema(deep, {})
    very_deep = messages(*[("s", each, each - 1, "struct") for each in range(50_000)])
    wide = messages(*[(f"c{each}", each, -1, "int32") for each in range(50_000)])
    with pytest.raises(FormatError, match="levels deep"):
        decode_schema(very_deep, {})
    assert len(decode_schema(wide, {}).fields) == 50_000


def descriptor(fields: list[schema_pb2.Field]) -> bytes:
    inner = transaction_pb2.Transaction.Project(schema=fields).SerializeToString()
    length = len(inner)
    prefix = b"\x0a"
    while length >= 0x80:
        prefix += bytes([length & 0x7F | 0x80])
        length >>= 7
    return prefix + bytes([length]) + inner + b"\x10\x05"


def test_the_schema_inside_a_data_file_is_read() -> None:
    assert decode_file_schema(descriptor(SEED)).names == ("a", "b")
    assert decode_file_schema(b"\x10\x05").fields == ()


@pytest.mark.parametrize("cut", [1, 2, 5, 40])
def test_a_truncated_file_schema_is_refused(cut: int) -> None:
    with pytest.raises(FormatError):
        decode_file_schema(descriptor(SEED)[:cut])


def test_the_parts_of_a_blob_v2_column_are_left_out() -> None:
    blob = schema_pb2.Field(
        name="picture",
        id=0,
        parent_id=-1,
        logical_type="struct",
        metadata={"lance-encoding:blob": b"true"},
    )
    parts = [
        schema_pb2.Field(name=name, id=-1, parent_id=-1, logical_type="uint64")
        for name in ("kind", "position")
    ]
    after = schema_pb2.Field(name="after", id=6, parent_id=-1, logical_type="int32")
    found = decode_file_schema(descriptor([blob, *parts, after]))
    assert found.names == ("picture", "after")
    assert found.fields[0].is_blob_v2
    assert found.fields[0].is_column_leaf


def test_a_field_without_an_id_that_is_no_part_of_a_blob_is_refused() -> None:
    stray = schema_pb2.Field(name="x", id=-1, parent_id=-1, logical_type="uint64")
    with pytest.raises(FormatError, match="negative"):
        decode_file_schema(descriptor([stray]))


def test_more_fields_than_any_table_has_are_neither_read_nor_written() -> None:
    message = schema_pb2.Field(name="c", parent_id=-1, logical_type="int32")
    with pytest.raises(FormatError, match="100,001 fields, at most 100,000 are read"):
        decode_schema([message] * (MAX_FIELDS + 1), {})
    field = decode_schema([message], {}).fields[0]
    with pytest.raises(InvalidInputError, match="of 100,001 fields cannot be made"):
        encode_schema(Schema((field,) * (MAX_FIELDS + 1), {}))
    with pytest.raises(InvalidInputError, match="in several tables"):
        _change_head(table_pb2.Manifest(), HeadChanges(fields=(message,) * (MAX_FIELDS + 1)))
