from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancewood.errors import InvalidInputError
from lancewood.format.logical_type import EXAMPLES, parse_column, parse_type

LEAVES = [
    pa.bool_(),
    *(getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)),
    pa.float16(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.large_string(),
    pa.binary(),
    pa.large_binary(),
    pa.binary(16),
    pa.date32(),
    pa.date64(),
    pa.time32("s"),
    pa.time32("ms"),
    pa.time64("us"),
    pa.time64("ns"),
    *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
    *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")),
    pa.timestamp("us", "UTC"),
    pa.timestamp("ns", "America/New_York"),
    pa.timestamp("ms", "+05:30"),
    pa.decimal128(38, 10),
    pa.decimal128(5, -2),
    pa.decimal256(76, 2),
    pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.int32(), pa.large_string()),
]
NAMES = st.text("abcxyz_0123", min_size=1, max_size=6)


def nested(below: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    fields = st.lists(
        st.tuples(NAMES, below, st.booleans()), min_size=1, max_size=3, unique_by=lambda e: e[0]
    )
    item = st.tuples(NAMES, below, st.booleans()).map(lambda e: pa.field(*e))
    return st.one_of(
        item.map(pa.list_),
        item.map(pa.large_list),
        st.tuples(item, st.integers(1, 4096)).map(lambda e: pa.list_(*e)),
        fields.map(lambda each: pa.struct([pa.field(*one) for one in each])),
        st.tuples(st.sampled_from([pa.string(), pa.int32()]), below).map(lambda e: pa.map_(*e)),
    )


@given(st.recursive(st.sampled_from(LEAVES), nested, max_leaves=6))
def test_what_arrow_prints_for_a_type_is_read_as_that_type(kind: pa.DataType) -> None:
    assert parse_type(str(kind)) == kind


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("halffloat", pa.float16()),
        ("utf8", pa.string()),
        ("date", pa.date32()),
        ("TIMESTAMP", pa.timestamp("us")),
        ("timestamp:us:UTC", pa.timestamp("us", "UTC")),
        ("decimal:128:10:2", pa.decimal128(10, 2)),
        ("fixed_size_list:float:768", pa.list_(pa.float32(), 768)),
        ("fixed_size_list<float>[768]", pa.list_(pa.float32(), 768)),
        ("list<int8>", pa.list_(pa.int8())),
        ("struct<a:int64,b:list<string>>", pa.struct({"a": pa.int64(), "b": pa.list_(pa.utf8())})),
        (" list < int8 > ", pa.list_(pa.int8())),
        ("json", pa.json_(pa.string())),
    ],
)
def test_short_forms_and_logical_types_are_read(text: str, expected: pa.DataType) -> None:
    assert parse_type(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "integer32",
        "list<",
        "list<int8",
        "list<int8>>",
        "list<int8>[3]",
        "struct<int8>",
        "decimal128(10)",
        "decimal128(999, 2)",
        "timestamp[min]",
        "timestamp[us, zone=UTC]",
        "fixed_size_list<float>[0]",
        "fixed_size_binary[x]",
        "int64 int64",
        "int64; drop",
        "list<" * 5000,
        "list<" * 5000 + "int8" + ">" * 5000,
        "dictionary<int8, string>",
        "extension<arrow.uuid>",
        "map<string>",
    ],
)
def test_other_words_are_refused_with_examples(text: str) -> None:
    with pytest.raises(InvalidInputError, match="is not known"):
        parse_type(text)


def test_a_column_has_a_name_a_type_and_may_forbid_nulls() -> None:
    assert parse_column("id:int64") == pa.field("id", pa.int64())
    assert parse_column("id: int64 NOT NULL") == pa.field("id", pa.int64(), nullable=False)
    nested = parse_column("s:struct<a: int8 not null>")
    assert nested == pa.field("s", pa.struct([pa.field("a", pa.int8(), nullable=False)]))


def test_a_column_of_nulls_cannot_forbid_them() -> None:
    assert parse_column("n:null") == pa.field("n", pa.null())
    with pytest.raises(InvalidInputError, match="non-nullable"):
        parse_column("n:null not null")


@pytest.mark.parametrize("text", ["id", ":int64", "  :int64", ""])
def test_a_column_without_name_or_type_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="NAME:TYPE"):
        parse_column(text)


def test_an_unknown_type_is_told_with_types_that_are_known() -> None:
    with pytest.raises(InvalidInputError, match=r"'txet' is not known: there are bool, .*string"):
        parse_type("txet")
    assert len({parse_type(each) for each in EXAMPLES}) == len(EXAMPLES)
