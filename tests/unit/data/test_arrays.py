"""Columns put together from parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.data.arrays import FieldPart, assemble, without_offset
from lancewood.errors import FormatError
from lancewood.format.schema import schema_from_arrow
from lancewood.model.ids import FieldId

STRUCT = pa.struct([("x", pa.int32()), ("y", pa.string())])


def built(kind: pa.DataType, *parts: FieldPart, rows: int) -> pa.Array:
    (field,) = schema_from_arrow(pa.schema([("c", kind)])).fields
    found = assemble(field, kind, parts, rows)
    found.validate(full=True)
    assert found.type.equals(kind, check_metadata=True)
    return found


def names(**of: str) -> dict[FieldId, str]:
    return {FieldId(int(key[1:])): name for key, name in of.items()}


def test_nothing_found_is_all_null() -> None:
    assert built(STRUCT, rows=3).null_count == 3


def test_an_array_of_the_right_type_is_passed_on_untouched() -> None:
    array = pa.array([{"x": 1, "y": "a"}], STRUCT)
    assert built(STRUCT, FieldPart(array), rows=1) is array


def test_swapped_names_are_told_apart_by_id() -> None:
    both = pa.struct([("x", pa.int32()), ("y", pa.int32())])
    array = pa.array([{"x": 1, "y": 2}], both)
    part = FieldPart(array, names(f0="c", f1="y", f2="x"), is_renamed=True)
    assert built(both, part, rows=1).to_pylist() == [{"x": 2, "y": 1}]


def test_a_struct_of_two_parts_is_null_where_both_are() -> None:
    left = pa.array([{"x": 1}, None, None], pa.struct([("x", pa.int32())]))
    right = pa.array([{"y": "a"}, {"y": "b"}, None], pa.struct([("y", pa.string())]))
    parts = (FieldPart(left, names(f0="c", f1="x")), FieldPart(right, names(f0="c", f2="y")))
    wanted = [{"x": 1, "y": "a"}, {"x": None, "y": "b"}, None]
    assert built(STRUCT, *parts, rows=3).to_pylist() == wanted
    sliced = [FieldPart(each.array.slice(1), each.names) for each in parts]
    assert built(STRUCT, *sliced, rows=2).to_pylist() == wanted[1:]


@pytest.mark.parametrize("make", [pa.list_, pa.large_list, lambda each: pa.list_(each, 1)])
def test_a_list_of_two_parts_is_merged_item_by_item(make: Any) -> None:
    left = make(pa.struct([("x", pa.int32())]))
    right = make(pa.struct([("y", pa.string())]))
    parts = [
        FieldPart(
            pa.array([[{"x": 9}], [{"x": 1}], None, [{"x": 2}]], left).slice(1),
            names(f0="c", f1="item", f2="x"),
        ),
        FieldPart(
            pa.array([[{"y": "a"}], None, [{"y": "b"}]], right), names(f0="c", f1="item", f3="y")
        ),
    ]
    wanted = [[{"x": 1, "y": "a"}], None, [{"x": 2, "y": "b"}]]
    assert built(make(STRUCT), *parts, rows=3).to_pylist() == wanted


def test_lists_of_different_lengths_do_not_merge() -> None:
    left = pa.array([[{"x": 1}]], pa.list_(pa.struct([("x", pa.int32())])))
    right = pa.array([[]], pa.list_(pa.struct([("y", pa.string())])))
    parts = (
        FieldPart(left, names(f0="c", f1="item", f2="x")),
        FieldPart(right, names(f0="c", f1="item", f3="y")),
    )
    with pytest.raises(FormatError, match="lengths"):
        built(pa.list_(STRUCT), *parts, rows=1)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (pa.list_(pa.field("a", pa.int8(), nullable=False)), pa.list_(pa.field("b", pa.int8()))),
        (pa.list_(pa.large_string()), pa.list_(pa.string())),
        (pa.list_(pa.field("e", pa.int8()), 2), pa.list_(pa.int8(), 2)),
        (
            pa.map_(pa.string(), pa.large_string()),
            pa.map_(pa.field("k", pa.string(), nullable=False), pa.field("v", pa.string())),
        ),
    ],
    ids=str,
)
def test_nested_arrays_keep_their_values_under_another_type(
    source: pa.DataType, target: pa.DataType
) -> None:
    values: list[Any] = [[1, 2], None, [3, 4]]
    if pa.types.is_map(source):
        values = [[("1", "2")], None, [("3", "4")]]
    elif not pa.types.is_int8(source.value_type):
        values = [["1", "2"], None, ["3"]]
    array = pa.array(values, source)
    assert built(target, FieldPart(array), rows=3).to_pylist() == values
    assert built(target, FieldPart(array.slice(1)), rows=2).to_pylist() == values[1:]


def test_only_sliced_structs_are_copied() -> None:
    struct = pa.array([{"x": 1, "y": "a"}, None, {"x": 3, "y": "c"}], STRUCT)
    flat = pa.array([1, 2, 3]).slice(1)
    assert without_offset(struct) is struct
    assert without_offset(flat) is flat
    for array in (
        struct.slice(1),
        pa.StructArray.from_arrays([flat], ["x"]),
        pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), struct.slice(1)),
        pa.array([[{"x": 1}], [{"x": 2}]]).slice(1),
        pa.FixedSizeListArray.from_arrays(struct.slice(1), 1),
        pa.array([[("a", 1)], [("b", 2)]], pa.map_(pa.string(), pa.int8())).slice(1),
        pa.StructArray.from_arrays([struct.slice(1)], ["s"]),
    ):
        copied = without_offset(array)
        assert copied.equals(array)
        assert copied is not array
        assert without_offset(copied) is copied


@pytest.mark.parametrize(
    "values",
    [["a", "b"], [b"a", b"b"], [1, 2], [True, False], [["a"], ["b"]], [{"x": "a"}, {"x": "b"}]],
)
def test_lists_over_a_slice_of_nothing_are_written(values: list[Any], tmp_path: Path) -> None:
    none = pa.array(values).slice(1, 0)
    empty = pa.ListArray.from_arrays(pa.array([0, 0, 0], pa.int32()), none)
    data = pa.table({"a": empty, "b": pa.StructArray.from_arrays([empty], ["x"])})
    found = lw.create(tmp_path / "t.lance", data).to_arrow()
    assert found.to_pylist() == [{"a": [], "b": {"x": []}}] * 2


def test_a_dictionary_keeps_null_among_its_indices_only() -> None:
    kind = pa.dictionary(pa.int8(), pa.string())
    array = pa.DictionaryArray.from_arrays(
        pa.array([0, 1, None, 2, 1], pa.int8()), pa.array(["a", None, "b"])
    )
    found = built(kind, FieldPart(array), rows=5)
    assert found.to_pylist() == ["a", None, None, "b", None]
    assert found.dictionary.to_pylist() == ["a", "b"]


def test_indices_into_an_empty_dictionary_are_null() -> None:
    kind = pa.dictionary(pa.int8(), pa.string())
    array = pa.DictionaryArray.from_arrays(
        pa.array([0, None], pa.int8()), pa.array([], pa.string()), safe=False
    )
    found = built(kind, FieldPart(array), rows=2)
    assert found.to_pylist() == [None, None]
