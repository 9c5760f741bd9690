"""Keys of a merge: which columns, where the source has them, and how they are hashed."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancewood.errors import InvalidInputError
from lancewood.format.schema import decode_schema, encode_schema, schema_from_arrow
from lancewood.jobs.merge_into.key_hashes import hash_bytes, hash_keys, is_hashed_by_pylance
from lancewood.jobs.merge_into.keys import KeyIndex, check_distinct, resolve_key
from lancewood.model.schema import Schema

PRIMARY = {b"lance-schema:unenforced-primary-key": b"true"}


def position(number: int) -> dict[bytes, bytes]:
    name = b"lance-schema:unenforced-primary-key:position"
    return PRIMARY | {name: str(number).encode()}


def table(*fields: pa.Field) -> Schema:
    made = schema_from_arrow(pa.schema(fields))
    return decode_schema(tuple(encode_schema(made)), made.metadata)


PLAIN = table(
    pa.field("a", pa.int64()),
    pa.field("p", pa.struct([pa.field("x", pa.string()), pa.field("y", pa.int32())])),
    pa.field("f", pa.float64()),
    pa.field("l", pa.list_(pa.int64())),
)


def test_a_key_names_columns_and_fields_of_structs() -> None:
    key = resolve_key(PLAIN, ["p.x", "a"])
    assert key.names == ("a", "p.x")
    assert key.field_ids == (0, 2)
    assert key.whole_columns == {"a"}


def test_no_name_takes_the_primary_key_in_its_order() -> None:
    schema = table(
        pa.field("b", pa.int64(), nullable=False, metadata=position(2)),
        pa.field("v", pa.string()),
        pa.field("a", pa.string(), nullable=False, metadata=position(1)),
    )
    assert resolve_key(schema, None).names == ("a", "b")
    assert resolve_key(schema, ["b", "a"]).names == ("a", "b")
    assert resolve_key(schema, ["v", "a"]).names == ("v", "a")


@pytest.mark.parametrize(
    ("on", "words"),
    [
        (None, "no (unenforced) primary key"),
        ([], "names no column"),
        ("z", "'z' not found"),
        (["a", "a"], "twice"),
        ("_rowid", "no stored column"),
        ("f", "cannot be a key"),
        ("l", "cannot be a key"),
        ("p", "cannot be a key"),
        (7, "takes a list"),
    ],
)
def test_what_is_no_key_is_refused(on: Any, words: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        resolve_key(PLAIN, on)
    assert words in str(caught.value)


VALUES = st.one_of(st.none(), st.sampled_from(["a", "b", "c", "d"]))
KEYS = st.integers(1, 3).flatmap(
    lambda width: st.tuples(
        st.lists(st.tuples(*[VALUES] * width), max_size=25),
        st.lists(st.tuples(*[VALUES] * width), max_size=25),
        st.just(width),
    )
)


def columns(rows: list[tuple[str | None, ...]], width: int) -> list[pa.Array]:
    return [pa.array([each[n] for each in rows], pa.large_string()) for n in range(width)]


@given(KEYS)
def test_an_index_finds_what_a_dictionary_finds(
    case: tuple[list[tuple[str | None, ...]], list[tuple[str | None, ...]], int],
) -> None:
    source, asked, width = case
    known: dict[tuple[str | None, ...], int] = {}
    twice = None
    for at, each in enumerate(source):
        if None not in each:
            if each in known and twice is None:
                twice = known[each], at
            known.setdefault(each, at)
    index = KeyIndex(columns(source, width))
    assert index.duplicate() == twice
    assert index.find(columns(asked, width)).tolist() == [known.get(each, -1) for each in asked]


def test_a_key_that_occurs_twice_is_named() -> None:
    key = resolve_key(PLAIN, ["a", "p.x"])
    found = [pa.array([1, 2, 1], pa.int64()), pa.array(["u", "v", "u"], pa.large_string())]
    with pytest.raises(InvalidInputError) as caught:
        check_distinct(key, KeyIndex(found), found)
    assert "rows 0 and 2" in str(caught.value)
    assert "a = 1, p.x = 'u'" in str(caught.value)
    assert caught.value.facts["key"] == {"a": 1, "p.x": "u"}


def test_a_null_struct_has_no_key_inside() -> None:
    key = resolve_key(PLAIN, "p.x")
    kind = pa.struct([pa.field("x", pa.string()), pa.field("y", pa.int32())])
    rows = pa.table({"p": pa.array([{"x": "u", "y": 1}, None, {"x": None, "y": 2}], kind)})
    assert key.values(rows)[0].to_pylist() == ["u", None, None]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", 0xEF46DB3751D8E999),
        (b"a", 0xD24EC4F1A98C6E5B),
        (b"abc", 0x44BC2CF5AD770999),
        (b"Nobody inspects the spammish repetition", 0xFBCEA83C8A378BF1),
    ],
)
def test_bytes_are_hashed_as_published(text: bytes, expected: int) -> None:
    keys = pa.array([b"other", text], pa.large_binary()).slice(1)
    assert hash_bytes(keys).tolist() == [expected]


def test_numbers_are_hashed_as_64_bits_whatever_their_width() -> None:
    for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64()):
        assert hash_keys([pa.array([-5], kind)]) == hash_keys([pa.array([-5], pa.int64())])
    as_bytes = pa.array([(-5).to_bytes(8, "little", signed=True)], pa.large_binary())
    assert hash_keys([pa.array([-5])]) == hash_bytes(as_bytes)


def test_parts_of_a_key_are_told_apart() -> None:
    together = hash_keys([pa.array(["a"]), pa.array(["bc"])])
    assert together != hash_keys([pa.array(["ab"]), pa.array(["c"])])
    assert together == hash_bytes(pa.array([b"a\0bc\0"], pa.large_binary()))


@pytest.mark.parametrize(
    "values",
    [
        pa.array([True, False]),
        pa.array([dt.date(2020, 1, 1), dt.date(2021, 1, 1)]),
        pa.array([dt.date(2020, 1, 1), dt.date(2021, 1, 1)], pa.date64()),
        pa.array([dt.datetime(2020, 1, 1), dt.datetime(2021, 1, 1)]),
        pa.array([dt.time(1), dt.time(2)]),
        pa.array([1, 2], pa.time32("s")),
        pa.array([1, 2], pa.duration("s")),
        pa.array([Decimal("1.5"), Decimal("2.5")]),
        pa.array([b"ab", b"cd"], pa.binary(2)),
        pa.array([1, 2], pa.uint8()),
    ],
)
def test_every_type_of_key_is_hashed(values: pa.Array) -> None:
    first, second = hash_keys([values]).tolist()
    assert first != second
    assert hash_keys([values.slice(1)]).tolist() == [second]


def test_types_that_pylance_leaves_out_are_known() -> None:
    assert is_hashed_by_pylance(pa.int32())
    assert is_hashed_by_pylance(pa.large_string())
    assert not is_hashed_by_pylance(pa.int16())
    assert not is_hashed_by_pylance(pa.date32())
