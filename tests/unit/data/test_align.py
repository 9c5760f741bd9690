"""Rows that fit a table, and rows that do not."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.data.align import align_schema
from lancewood.errors import InvalidInputError
from lancewood.format.schema import schema_from_arrow

TABLE = schema_from_arrow(
    pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("name", pa.string(), metadata={"k": "v"}),
            pa.field(
                "s",
                pa.struct(
                    [
                        pa.field("x", pa.int32(), nullable=False),
                        pa.field("l", pa.list_(pa.large_string())),
                    ]
                ),
            ),
            pa.field("v", pa.list_(pa.float32(), 2)),
            pa.field("d", pa.dictionary(pa.int8(), pa.string())),
            pa.field("u", pa.uuid()),
            pa.field("j", pa.json_()),
            pa.field("m", pa.map_(pa.string(), pa.struct([("a", pa.int8()), ("b", pa.int8())]))),
        ],
        {"schema": "metadata"},
    )
)


def cast(table: pa.Table) -> pa.Table:
    alignment = align_schema(TABLE, table.schema)
    found = pa.Table.from_batches(
        [alignment.cast(each) for each in table.to_batches()], alignment.arrow
    )
    found.validate(full=True)
    return found


def test_columns_are_matched_by_name_and_put_in_the_order_of_the_table() -> None:
    found = cast(pa.table({"name": ["a"], "id": [1]}))
    assert found.column_names == ["id", "name"]
    assert found.to_pylist() == [{"id": 1, "name": "a"}]
    assert found.schema.field("name").metadata == {b"k": b"v"}
    assert not found.schema.metadata
    assert [each.id for each in align_schema(TABLE, found.schema).schema.fields] == [0, 1]


def test_a_column_without_a_type_becomes_nulls_of_the_table_s_types() -> None:
    nothing = pa.nulls(2)
    found = cast(
        pa.table({"id": [1, 2], "name": nothing, "s": nothing, "v": nothing, "m": nothing})
    )
    assert [found.schema.field(each).type for each in ("name", "v")] == [
        pa.string(),
        pa.list_(pa.float32(), 2),
    ]
    assert [found[each].null_count for each in ("name", "s", "v", "m")] == [2, 2, 2, 2]


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.string()])
def test_strings_of_any_width_are_one(kind: pa.DataType) -> None:
    found = cast(pa.table({"id": [1, 2], "name": pa.array(["a", None], kind)}))
    assert found["name"].to_pylist() == ["a", None]
    assert found.schema.field("name").type == pa.string()


def test_nested_differences_that_do_not_matter_are_cast() -> None:
    item = pa.field("element", pa.string(), nullable=False)
    struct = pa.struct([("l", pa.list_(item)), pa.field("x", pa.int32(), nullable=False)])
    table = pa.table(
        {
            "id": [1, 2],
            "s": pa.array([{"l": ["a", "b"], "x": 1}, None], struct),
            "v": pa.array([[1, 2], None], pa.list_(pa.field("element", pa.float32()), 2)),
            "d": pa.DictionaryArray.from_arrays(
                pa.array([0, None], pa.int8()), pa.array(["a"]), ordered=True
            ),
            "u": pa.array([b"x" * 16, None], pa.binary(16)),
            "j": pa.array(['{"a":1}', None], pa.json_(pa.large_string())),
            "m": pa.array(
                [[("k", {"b": 1})], None], pa.map_(pa.string(), pa.struct([("b", pa.int8())]))
            ),
        }
    )
    for source in (table, pa.concat_tables([table, table]).combine_chunks().slice(1, 2)):
        found = cast(source)
        for name in ("id", "s", "v", "d"):
            assert found[name].to_pylist() == source[name].to_pylist(), name
        assert found["u"].combine_chunks().storage.to_pylist() == source["u"].to_pylist()
        assert found["j"].combine_chunks().storage.to_pylist() == source["j"].to_pylist()
        wanted = [
            each and [(k, {"a": None, **v}) for k, v in each] for each in source["m"].to_pylist()
        ]
        assert found["m"].to_pylist() == wanted


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"name": ["a"]}, ["column 'id' is missing and may not be null"]),
        ({"id": [1], "more": [1], "even": [2]}, ["'more' is not in the table", "'even'"]),
        ({"id": pa.array([1], pa.int32())}, ["'id' is int32, the table has int64"]),
        ({"id": [1], "name": [b"a"]}, ["'name' is binary"]),
        ({"id": [1], "s": [{"l": ["a"]}]}, ["'s.x' is missing"]),
        ({"id": [1], "s": [{"x": 1, "y": 2}]}, ["'s.x' is int64", "'s.y' is not in the table"]),
        ({"id": [1], "s": ["text"]}, ["'s' is string"]),
        ({"id": [1], "v": pa.array([[1.0]], pa.list_(pa.float32(), 1))}, ["'v'"]),
        ({"id": [1], "v": pa.array([[1.0]], pa.list_(pa.float32()))}, ["'v'"]),
        ({"id": [1], "d": pa.array(["a"])}, ["'d' is string"]),
        ({"id": [1], "u": pa.array(["1"], pa.json_())}, ["'u'"]),
        ({"id": [1], "j": ["{}"]}, ["'j' is string, the table has JSON"]),
        ({"id": [1], "j": pa.array([b"{}"], pa.large_binary())}, ["'j' is large_binary"]),
        ({"id": [1], "m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int8()))}, ["'m.value'"]),
    ],
)
def test_everything_that_does_not_fit_is_listed(data: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(InvalidInputError) as caught:
        align_schema(TABLE, pa.table(data).schema)
    for each in words:
        assert each in str(caught.value)


def test_a_column_that_occurs_twice_is_refused() -> None:
    arrow = pa.schema([("id", pa.int64()), ("name", pa.string()), ("name", pa.string())])
    with pytest.raises(InvalidInputError, match="'name' occurs twice"):
        align_schema(TABLE, arrow)


def test_a_long_list_of_problems_is_cut() -> None:
    arrow = pa.schema([("id", pa.int64()), *((f"c{each}", pa.int8()) for each in range(40))])
    with pytest.raises(InvalidInputError, match="and 30 more"):
        align_schema(TABLE, arrow)


def test_every_column_is_asked_for_when_the_rows_must_be_complete() -> None:
    with pytest.raises(InvalidInputError, match="'name' is missing"):
        align_schema(TABLE, pa.schema([("id", pa.int64())]), complete=True)


def test_every_child_of_a_struct_is_asked_for_when_the_rows_must_be_complete() -> None:
    whole = pa.struct([("x", pa.int8()), ("y", pa.list_(pa.struct([("z", pa.int8())])))])
    table = schema_from_arrow(pa.schema([("a", whole)]))
    align_schema(table, pa.schema([("a", whole)]), complete=True)
    part = pa.schema([("a", pa.struct([("x", pa.int8())]))])
    align_schema(table, part)
    with pytest.raises(InvalidInputError, match=r"'a\.y' is missing"):
        align_schema(table, part, complete=True)


def test_no_column_at_all_is_refused() -> None:
    optional = schema_from_arrow(pa.schema([("a", pa.int8())]))
    with pytest.raises(InvalidInputError, match="no column"):
        align_schema(optional, pa.schema([]))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"id": [1, None]}, "'id' may not be null"),
        (
            {
                "id": [1, 2, 3],
                "s": pa.array(
                    [None, {"x": 1}, {"x": None}],
                    pa.struct([("x", pa.int32())]),
                ),
            },
            "'s.x' may not be null, but 1 values",
        ),
    ],
)
def test_a_null_where_none_is_allowed_is_refused(data: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        cast(pa.table(data))


def test_lists_that_are_all_null_have_no_items_that_might_be() -> None:
    items = pa.struct([pa.field("c", pa.json_(), nullable=False)])
    kind = pa.large_list(pa.field("item", items))
    values = pa.array([], items.field(0).type.storage_type)
    none = pa.StructArray.from_arrays(
        [pa.ExtensionArray.from_storage(pa.json_(), values)], fields=list(items)
    )
    lists = pa.LargeListArray.from_arrays(pa.array([None, None, 0], pa.int64()), none)
    made = lw.create("memory://all-null", pa.table({"l": lists.cast(kind)}))
    assert made.count_rows("l IS NULL") == 2
