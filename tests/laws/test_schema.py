"""Laws of the schema: what is written down is read back, and nothing else gets through."""

from __future__ import annotations

import contextlib

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from lancewood.errors import FormatError, UnsupportedError
from lancewood.format.logical_type import decode_leaf_type, encode_leaf_type
from lancewood.format.schema import (
    decode_file_schema,
    decode_schema,
    encode_schema,
    schema_from_arrow,
    to_arrow_schema,
)
from lancewood.proto import schema_pb2

UNITS = st.sampled_from(["s", "ms", "us", "ns"])
ZONES = st.sampled_from([None, "UTC", "+05:30", "America/New_York"])
FIXED = st.one_of(
    st.sampled_from(
        [pa.bool_(), pa.int8(), pa.uint64(), pa.float16(), pa.float64(), pa.date32(), pa.date64()]
    ),
    st.builds(pa.timestamp, UNITS, ZONES),
    st.builds(pa.duration, UNITS),
    st.builds(pa.decimal128, st.integers(1, 38), st.integers(-5, 20)),
    st.builds(pa.decimal256, st.integers(1, 76), st.integers(-5, 20)),
    st.builds(pa.binary, st.integers(1, 40)),
)
LEAVES = st.one_of(
    FIXED,
    st.sampled_from([pa.null(), pa.string(), pa.large_string(), pa.binary(), pa.large_binary()]),
    st.recursive(FIXED, lambda inner: st.builds(pa.list_, inner, st.integers(1, 9)), max_leaves=3),
    st.just(pa.dictionary(pa.int16(), pa.string())),
    st.just(pa.json_()),
    st.just(pa.uuid()),
)
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0`_"), min_size=1, max_size=6)
VALUES = st.text(max_size=4).map(str.encode)
METADATA = st.dictionaries(st.text(min_size=1, max_size=4), VALUES, max_size=2)


def fields(kind: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.Field]:
    return st.builds(
        lambda name, kind, nullable, metadata: pa.field(
            name, kind, nullable or pa.types.is_null(kind), metadata
        ),
        NAMES,
        kind,
        st.booleans(),
        METADATA,
    )


def levels(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    field = fields(inner)
    structs = st.lists(field, min_size=1, max_size=3, unique_by=lambda each: each.name).map(
        pa.struct
    )
    keys = fields(st.sampled_from([pa.string(), pa.int32()])).map(
        lambda each: each.with_nullable(False)
    )
    return st.one_of(
        structs,
        field.map(pa.list_),
        field.map(pa.large_list),
        st.tuples(keys, field)
        .filter(lambda pair: pair[0].name != pair[1].name)
        .map(lambda pair: pa.map_(*pair)),
        structs.map(lambda each: pa.list_(each, 2)),
    )


TYPES = st.recursive(LEAVES, levels, max_leaves=8)
SCHEMAS = st.lists(
    fields(TYPES).filter(lambda each: "." not in each.name),
    max_size=4,
    unique_by=lambda each: each.name,
).map(pa.schema)


@given(SCHEMAS, st.integers(0, 1000))
@settings(max_examples=150, deadline=None)
def test_arrow_to_messages_and_back_is_the_same(arrow: pa.Schema, first_id: int) -> None:
    schema = schema_from_arrow(arrow, first_id=first_id)
    messages = encode_schema(schema)
    again = decode_schema(
        [schema_pb2.Field.FromString(each.SerializeToString()) for each in messages], {}
    )
    assert again == schema
    assert encode_schema(again) == messages
    assert to_arrow_schema(again).equals(arrow, check_metadata=True)


@given(FIXED)
def test_a_leaf_type_and_its_word_are_one(kind: pa.DataType) -> None:
    word = encode_leaf_type(kind)
    assert word is not None
    assert decode_leaf_type(word) == kind


@given(st.text() | st.from_regex(r"(fixed_size_list|dict|decimal|timestamp|time32)(:\w*){0,5}"))
@settings(max_examples=300)
def test_any_string_is_a_type_or_a_format_error(text: str) -> None:
    try:
        kind = decode_leaf_type(text)
    except FormatError:
        return
    storage = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    word = encode_leaf_type(storage)
    assert word is not None
    assert text == "json" or decode_leaf_type(word) == kind


FIELD = st.builds(
    schema_pb2.Field,
    name=st.text(max_size=3),
    id=st.integers(-2, 6),
    parent_id=st.integers(-2, 6),
    logical_type=st.sampled_from(["int32", "struct", "list", "list.struct", "map", "x"]),
)


@given(st.lists(FIELD, max_size=8))
@settings(max_examples=300)
def test_any_field_list_is_a_tree_or_a_format_error(messages: list[schema_pb2.Field]) -> None:
    try:
        schema = decode_schema(messages, {})
    except FormatError:
        return
    assert sorted(each.id for each in schema.walk()) == sorted(each.id for each in messages)


@given(st.binary(max_size=60))
@settings(max_examples=300)
def test_any_bytes_are_a_file_schema_or_an_error_of_ours(data: bytes) -> None:
    with contextlib.suppress(FormatError, UnsupportedError):
        decode_file_schema(data)
