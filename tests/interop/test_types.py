"""Every type of the format, in every file version, written by one side and read by the other.

Each column comes whole, as a slice, in chunks, with nulls only and without rows: the codec has lost
its way in each of these before.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from lance.arrow import bfloat16_array
from tests.manifests import edit_manifest
from tests.pylance import judged, lance

import lancewood as lw
from lancewood.errors import FormatError, InvalidInputError, UnsupportedError

pytestmark = pytest.mark.sliced(8)

ALL = ("2.0", "2.1", "2.2")
MAPS = ("2.2",)
UNITS = ("s", "ms", "us", "ns")
ZONES = (None, "UTC", "+05:30", "America/New_York")
POINT = pa.struct(
    [("x", pa.int32()), ("y", pa.list_(pa.string())), ("z", pa.struct([("q", pa.float64())]))]
)
POINTS = [
    {"x": 1, "y": ["a", None], "z": {"q": 1.0}},
    {"x": None, "y": None, "z": {"q": None}},
    {"x": 2, "y": [], "z": {"q": 2.0}},
    {"x": 3, "y": ["b"], "z": {"q": 3.0}},
    {"x": 4, "y": ["c", "d"], "z": {"q": 4.0}},
]


def five(kind: pa.DataType, *values: Any) -> pa.Array:
    """Five values, the second null."""
    values = values if len(values) > 1 else values * 4
    return pa.array([values[0], None, *values[1:]], kind)


def lists(kind: pa.DataType, value: Any) -> pa.Array:
    return pa.array([[value, None], None, [], [value], [value] * 3], kind)


def vectors(kind: pa.DataType, value: Any, size: int = 3) -> pa.Array:
    return five(pa.list_(kind, size), [value] * size)


def dictionary(index: pa.DataType, values: pa.Array) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0, None, 1, 0, 1], index), values)


def extension(kind: pa.DataType, storage: pa.Array) -> pa.Array:
    return pa.ExtensionArray.from_storage(kind, storage)


def nested_structs(depth: int) -> pa.Array:
    kind, value = pa.int32(), 7
    for level in range(depth):
        kind, value = pa.struct([(f"c{level}", kind)]), {f"c{level}": value}  # type: ignore[assignment]
    return pa.array([value] * 5, kind)


def nested_lists(depth: int) -> pa.Array:
    kind, value = pa.int32(), 7
    for _ in range(depth):
        kind, value = pa.list_(kind), [value]  # type: ignore[assignment]
    return five(kind, value)


NUMBERS = (
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float32(), pa.float64(), pa.date32()),
    *(pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
    *(pa.duration(unit) for unit in UNITS),
    *(pa.timestamp(unit, zone) for unit in UNITS for zone in ZONES),
)
ITEMS: tuple[tuple[pa.DataType, Any], ...] = (
    (pa.int32(), 1),
    (pa.string(), "a"),
    (pa.bool_(), True),
    (pa.decimal128(10, 2), Decimal("1.25")),
    (pa.timestamp("us", "UTC"), 5),
)
ELEMENTS: tuple[tuple[pa.DataType, Any], ...] = (
    (pa.float32(), 1.5),
    (pa.float16(), np.float16(1.5)),
    (pa.int8(), 1),
    (pa.bool_(), True),
    (pa.decimal128(10, 2), Decimal("1.25")),
    (pa.timestamp("us", "UTC"), 5),
    (pa.binary(3), b"abc"),
    (pa.date32(), 1),
    (pa.duration("s"), 3),
    (pa.list_(pa.float32(), 2), [1.5, 2.5]),
    (pa.list_(pa.list_(pa.int8(), 2), 1), [[1, 2]]),
    (pa.null(), None),
)
KEYS: tuple[tuple[pa.DataType, Any], ...] = (
    (pa.string(), "k"),
    (pa.large_string(), "k"),
    (pa.int32(), 1),
    (pa.binary(2), b"ab"),
    (pa.bool_(), True),
    (pa.date32(), 3),
)
DECIMALS = (
    *(pa.decimal128(10, 2), pa.decimal128(38, 0), pa.decimal128(1, 1), pa.decimal128(10, -2)),
    *(pa.decimal256(60, 2), pa.decimal256(76, 0), pa.decimal256(60, -2)),
)
DICTIONARY_VALUES = (
    *(pa.array([1, 2], kind) for kind in (pa.int8(), pa.uint16(), pa.int64(), pa.float32())),
    *(pa.array([b"a", b"b"], kind) for kind in (pa.binary(), pa.large_binary())),
    pa.array(["a", "b"], pa.large_string()),
    pa.array([True, False]),
)
MAP = pa.map_(pa.string(), pa.int32())

COLUMNS: dict[str, tuple[pa.Array, tuple[str, ...]]] = {
    "null": (pa.nulls(5), ALL),
    "bool": (five(pa.bool_(), True, False, True, True), ALL),
    **{str(kind): (five(kind, 1, 2, 3, 4), ALL) for kind in NUMBERS},
    "float16": (five(pa.float16(), np.float16(1.5)), ALL),
    "date64": (five(pa.date64(), 86_400_000, 0, -86_400_000, 0), ALL),
    **{str(kind): (five(kind, Decimal(1).scaleb(-kind.scale)), ALL) for kind in DECIMALS},
    **{
        str(kind): (five(kind, "a", "", "zürich" * 40, "e"), ALL)
        for kind in (pa.string(), pa.large_string(), pa.string_view())
    },
    **{
        str(kind): (five(kind, b"a", b"", b"z" * 400, b"e"), ALL)
        for kind in (pa.binary(), pa.large_binary(), pa.binary_view())
    },
    **{str(pa.binary(size)): (five(pa.binary(size), b"a" * size), ALL) for size in (1, 16, 999)},
    "struct": (pa.array(POINTS, POINT), ALL),
    "struct with nulls": (pa.array([POINTS[0], None, *POINTS[2:]], POINT), ALL[1:]),
    "structs, 10 deep": (nested_structs(10), ALL),
    **{
        f"{make.__name__} of {kind}": (lists(make(kind), value), ALL)
        for make in (pa.list_, pa.large_list)
        for kind, value in ITEMS
    },
    "list of struct": (pa.array([POINTS[:2], None, [], POINTS[2:3], []], pa.list_(POINT)), ALL),
    "list of struct with nulls": (
        pa.array([[POINTS[0], None], None, [], POINTS[2:3], []], pa.list_(POINT)),
        ALL[1:],
    ),
    "large_list of struct": (
        pa.array([POINTS[:2], None, [], POINTS[2:3], []], pa.large_list(POINT)),
        ALL,
    ),
    "list of list": (
        pa.array([[[1], None, []], None, [], [[2, None]], [[]]], pa.list_(pa.list_(pa.int64()))),
        ALL,
    ),
    "list of vector": (lists(pa.list_(pa.list_(pa.float32(), 2)), [1.0, 2.0]), ALL),
    "list of null": (lists(pa.list_(pa.null()), None), ALL),
    "list of items that are there": (
        pa.array([[1], [2], [], [1, 2], [3]], pa.list_(pa.field("n", pa.int32(), nullable=False))),
        ALL,
    ),
    "lists, 8 deep": (nested_lists(8), ALL),
    "list of dictionary": (
        pa.ListArray.from_arrays(
            pa.array([0, 1, 2, 2, 3, 3], pa.int32()),
            pa.array(["a", "b", None]).dictionary_encode(),
        ),
        ALL,
    ),
    **{f"vector of {kind}": (vectors(kind, value), ALL) for kind, value in ELEMENTS},
    "vector with null items": (five(pa.list_(pa.int16(), 2), [1, None]), ALL),
    "struct of vector": (
        pa.array([{"v": [1.0, 2.0]}] * 5, pa.struct([("v", pa.list_(pa.float32(), 2))])),
        ALL,
    ),
    **{
        f"map of {kind}": (
            pa.array([[(key, 1)], None, [], [(key, None)], [(key, 2)]], pa.map_(kind, pa.int32())),
            MAPS,
        )
        for kind, key in KEYS
    },
    "map of struct": (
        pa.array(
            [[("k", POINTS[0])], None, [], [("k", POINTS[2])], [("k", None)]],
            pa.map_(pa.string(), POINT),
        ),
        MAPS,
    ),
    "map of map": (
        pa.array(
            [[("k", [("j", 1)])], None, [], [("k", [])], [("k", None)]],
            pa.map_(pa.string(), MAP),
        ),
        MAPS,
    ),
    "list of map": (
        pa.array([[[("k", 1)]], None, [], [[]], [[("k", 2)]]], pa.list_(MAP)),
        MAPS,
    ),
    "struct of map": (
        pa.array(
            [{"m": [("k", 1)]}, {"m": None}, {"m": []}, {"m": [("k", 2)]}, {"m": [("j", 2)]}],
            pa.struct([("m", MAP)]),
        ),
        MAPS,
    ),
    **{
        f"dictionary by {index}": (dictionary(index, pa.array(["a", "b"])), ALL)
        for index in (
            *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
            *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        )
    },
    **{
        f"dictionary of {values.type}": (dictionary(pa.int32(), values), ALL)
        for values in DICTIONARY_VALUES
    },
    "dictionary with a null value": (dictionary(pa.int32(), pa.array(["a", None])), ALL),
    "dictionary with a value twice": (dictionary(pa.int32(), pa.array(["a", "a"])), ALL),
    "dictionary without values": (
        pa.DictionaryArray.from_arrays(pa.array([None] * 5, pa.int32()), pa.array([], pa.string())),
        ALL,
    ),
    "struct of dictionary": (
        pa.StructArray.from_arrays([dictionary(pa.int8(), pa.array(["a", "b"]))], ["d"]),
        ALL,
    ),
    "uuid": (pa.array([uuid.UUID(int=n).bytes for n in range(5)], pa.uuid()), ALL),
    "list of uuid": (
        pa.ListArray.from_arrays(
            pa.array([0, 1, 2, 2, 3, 3], pa.int32()),
            pa.array([uuid.UUID(int=n).bytes for n in range(3)], pa.uuid()),
        ),
        ALL,
    ),
    "struct of uuid": (
        pa.StructArray.from_arrays(
            [pa.array([uuid.UUID(int=n).bytes for n in range(5)], pa.uuid())], ["u"]
        ),
        ALL,
    ),
    "bool8": (extension(pa.bool8(), pa.array([0, None, 1, 1, 0], pa.int8())), ALL),
    "tensor": (
        extension(
            pa.fixed_shape_tensor(pa.float32(), [2, 1], dim_names=["a", "b"]),
            vectors(pa.float32(), 1.5, 2),
        ),
        ALL,
    ),
    "opaque": (extension(pa.opaque(pa.int64(), "t", "v"), five(pa.int64(), 1, 2, 3, 4)), ALL),
    "json": (five(pa.json_(), '{"a":1}', "[1,2]", "3", "null"), ALL),
    "json, large": (five(pa.json_(pa.large_string()), '{"a":1}', "[1,2]", "3", "null"), ALL),
    "struct of json": (
        pa.StructArray.from_arrays([five(pa.json_(), '{"a":1}', "[1,2]", "3", "null")], ["j"]),
        ALL,
    ),
    "bfloat16": (bfloat16_array([1.0, None, 2.0, 3.0, 4.0]), ALL),
    "vector of bfloat16": (
        pa.FixedSizeListArray.from_arrays(bfloat16_array([float(n) for n in range(10)]), 2),
        ALL,
    ),
}
CASES = [(name, version) for name, (_, versions) in COLUMNS.items() for version in versions]


def shapes(array: pa.Array) -> Iterator[pa.ChunkedArray]:
    """The same values as input comes: whole, cut, in pieces, without any."""
    yield pa.chunked_array([array])
    yield pa.chunked_array([array.slice(1, 3)])
    yield pa.chunked_array([array.slice(0, 2), array.slice(5), array.slice(2, 1), array.slice(3)])
    yield pa.chunked_array([array.slice(0, 0)], array.type)


def table_of(column: pa.ChunkedArray) -> pa.Table:
    return pa.table({"n": pa.array(range(len(column)), pa.int64()), "c": column})


def copied(table: pa.Table) -> pa.Table:
    """Without offsets, of which pylance's own writer loses track."""
    columns = [pa.concat_arrays(each.chunks) if each.num_chunks else each for each in table.columns]
    return pa.Table.from_arrays(columns, schema=table.schema)


def values(table: pa.Table) -> list[Any]:
    """As Python sees them; bfloat16 as the bytes that it is without pylance."""
    found = []
    for column in table.columns:
        for chunk in column.chunks:
            found += [str(each) for each in _plain(chunk).to_pylist()]
    return found


def _plain(array: pa.Array) -> pa.Array:
    if isinstance(array.type, pa.BaseExtensionType) and "bfloat16" in str(array.type):
        return array.storage
    if pa.types.is_fixed_size_list(array.type) and "bfloat16" in str(array.type):
        return pa.FixedSizeListArray.from_arrays(_plain(array.flatten()), array.type.list_size)
    return array


@pytest.mark.parametrize(("name", "version"), CASES, ids=str)
def test_line_13_every_type_that_pylance_writes_is_read(
    tmp_path: Path, name: str, version: str
) -> None:
    for number, column in enumerate(shapes(COLUMNS[name][0])):
        uri = tmp_path / str(number)
        written = lance.write_dataset(
            copied(table_of(column)), uri, data_storage_version=version, max_rows_per_file=2
        )
        expected, found = written.to_table(), lw.open(uri).to_arrow()
        found.validate(full=True)
        if "bfloat16" not in name:
            assert found.schema.equals(expected.schema, check_metadata=True)
        assert values(found) == values(expected)


@pytest.mark.parametrize(("name", "version"), CASES, ids=str)
def test_line_14_every_type_that_we_write_is_read_by_pylance(
    tmp_path: Path, name: str, version: str
) -> None:
    for number, column in enumerate(shapes(COLUMNS[name][0])):
        uri, table = tmp_path / str(number), table_of(column)
        ours = lw.create(uri, table, layout=lw.Layout(file_version=version, max_rows_per_file=2))
        dataset = judged(uri)
        expected, found = values(table), ours.to_arrow()
        assert values(dataset.to_table()) == expected
        assert values(found) == expected
        if len(table):
            last = len(table) - 1
            assert values(ours.take([last, 0])) == values(dataset.take([last, 0]))


def all_columns(version: str, *, nulls: bool = False) -> pa.Table:
    """Every type that a file version can hold, in one table."""
    return pa.table(
        {
            name: pa.nulls(5, array.type) if nulls else array
            for name, (array, versions) in COLUMNS.items()
            if version in versions and "." not in name
        }
    )


@pytest.mark.parametrize("version", ALL[1:])
def test_columns_of_nulls_only_survive_both_ways(tmp_path: Path, version: str) -> None:
    table = all_columns(version, nulls=True)
    lance.write_dataset(table, tmp_path / "theirs", data_storage_version=version)
    lw.create(tmp_path / "ours", table, layout=lw.Layout(file_version=version))
    for uri in (tmp_path / "theirs", tmp_path / "ours"):
        for found in (lw.open(uri).to_arrow(), lance.dataset(uri).to_table()):
            assert [each.null_count for each in found.columns] == [5] * table.num_columns


def test_every_type_in_a_2_3_file_is_read_but_not_written(tmp_path: Path) -> None:
    columns = all_columns("2.2")
    written = lance.write_dataset(columns, tmp_path, data_storage_version="2.3")
    table = lw.open(tmp_path)
    assert table.file_version == "2.3"
    assert values(table.to_arrow()) == values(written.to_table())
    with pytest.raises(UnsupportedError, match=r"2\.3"):
        table.append(columns)


def test_dictionaries_with_more_values_than_their_index_numbers_are_taken(tmp_path: Path) -> None:
    def part(start: int) -> pa.Table:
        texts = pa.array([str(n) for n in range(start, start + 100)])
        return pa.table(
            {"d": pa.DictionaryArray.from_arrays(pa.array(range(100), pa.int8()), texts)}
        )

    table = lw.create(tmp_path, part(0)).append(part(100))
    found = table.take([150, 3, 199])
    assert found.column("d").to_pylist() == ["150", "3", "199"]


REFUSED = {
    "interval": pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
    "decimal32": pa.array([Decimal("1.2")], pa.decimal32(5, 1)),
    "decimal64": pa.array([Decimal("1.2")], pa.decimal64(5, 1)),
    "sorted map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32(), keys_sorted=True)),
    "vector of text": pa.array([["a", "b"]], pa.list_(pa.string(), 2)),
    "vector of lists": pa.array([[[1], [2]]], pa.list_(pa.list_(pa.int32()), 2)),
    "vector of dictionary": pa.FixedSizeListArray.from_arrays(
        pa.array(["a", "b"]).dictionary_encode(), 2
    ),
    "vector of nothing": pa.array([[]], pa.list_(pa.int32(), 0)),
    "bytes of no width": pa.array([b""], pa.binary(0)),
    "struct of nothing": pa.array([{}], pa.struct([])),
    "list view": pa.array([[1]], pa.list_view(pa.int32())),
    "run-end encoded": pa.RunEndEncodedArray.from_arrays([1], [1]),
    "union": pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])]),
    "dictionary of timestamps": pa.array([1], pa.timestamp("us")).dictionary_encode(),
}


@pytest.mark.parametrize("version", ALL)
@pytest.mark.parametrize("name", REFUSED)
def test_a_type_that_the_format_cannot_hold_is_refused_by_name_before_anything_is_written(
    tmp_path: Path, name: str, version: str
) -> None:
    table = pa.table({"n": [1], "bad": REFUSED[name]})
    with pytest.raises(UnsupportedError, match="'bad") as caught:
        lw.create(tmp_path / "t", table, layout=lw.Layout(file_version=version))
    assert str(REFUSED[name].type) in str(caught.value) or "bad." in str(caught.value)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("version", ["2.0", "2.1"])
@pytest.mark.parametrize("name", ["map of string", "list of map", "struct of map"])
def test_a_map_is_refused_before_version_2_2(tmp_path: Path, name: str, version: str) -> None:
    with pytest.raises(UnsupportedError, match=r"is a map.*write version 2\.2"):
        lw.create(
            tmp_path / "t", table_of(COLUMNS[name][0]), layout=lw.Layout(file_version=version)
        )
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("version", ALL[1:])
def test_null_structs_that_no_one_could_read_again_are_refused(
    tmp_path: Path, version: str
) -> None:
    """pylance writes this and then fails on every read: the codec miscounts the nulls."""
    kind = pa.list_(pa.struct([("a", pa.list_(pa.list_(pa.int32())))]))
    table = pa.table({"c": pa.array([[None], []], kind)})
    lance.write_dataset(table, tmp_path / "theirs", data_storage_version=version)
    with pytest.raises(Exception, match="nulls"):
        lance.dataset(tmp_path / "theirs").to_table()
    with pytest.raises(FormatError, match="nulls"):
        lw.open(tmp_path / "theirs").to_arrow()
    with pytest.raises(InvalidInputError, match=r"'c\.item' has 1 null structs"):
        lw.create(tmp_path / "ours", table, layout=lw.Layout(file_version=version))
    assert not list(tmp_path.glob("ours/**/*.lance"))
    way_out = pa.table({"c": pa.array([[{"a": None}], [], None], kind)})
    ours = lw.create(tmp_path / "ours", way_out, layout=lw.Layout(file_version=version))
    assert ours.to_arrow().equals(way_out)
    assert lance.dataset(tmp_path / "ours").to_table().equals(way_out)


def test_line_18_a_struct_from_which_pylance_dropped_a_child_is_read_without_it(
    tmp_path: Path,
) -> None:
    for version in ALL:
        uri = tmp_path / version
        table = pa.table({"n": range(5), "c": pa.array(POINTS, POINT)})
        lance.write_dataset(table, uri, data_storage_version=version, max_rows_per_file=2)
        lance.dataset(uri).drop_columns(["c.y"])
        lance.dataset(uri).drop_columns(["c.z"])
        found = lw.open(uri)
        assert found.schema.field("c").type == pa.struct([("x", pa.int32())])
        assert found.to_arrow().equals(lance.dataset(uri).to_table())
        found.append(pa.table({"n": [9], "c": [{"x": 9}]}, schema=found.schema))
        assert lw.open(uri).to_arrow().equals(lance.dataset(uri).to_table())


@pytest.mark.parametrize("version", ALL)
def test_line_20_a_column_that_pylance_cast_has_its_new_type(tmp_path: Path, version: str) -> None:
    table = pa.table({"a": pa.array(range(5), pa.int32()), "b": [str(n) for n in range(5)]})
    lance.write_dataset(table, tmp_path, data_storage_version=version, max_rows_per_file=2)
    lance.dataset(tmp_path).alter_columns({"path": "a", "data_type": pa.int64()})
    lance.dataset(tmp_path).alter_columns({"path": "b", "data_type": pa.large_string()})
    found = lw.open(tmp_path)
    assert found.schema.field("a").type == pa.int64()
    assert found.schema.field("b").type == pa.large_string()
    assert found.to_arrow().equals(lance.dataset(tmp_path).to_table())
    found.append(pa.table({"a": [2**40], "b": ["x"]}))
    assert lance.dataset(tmp_path).to_table().column("a").to_pylist() == [*range(5), 2**40]


@pytest.mark.parametrize("version", ALL)
@pytest.mark.parametrize("other", ["int32", "double", "string", "fixed_size_binary:8", "struct"])
def test_line_25_a_file_of_another_type_than_the_schema_says_is_an_error(
    tmp_path: Path, version: str, other: str
) -> None:
    lance.write_dataset(pa.table({"a": [1, 2, 3]}), tmp_path, data_storage_version=version)

    def lie(manifest: Any) -> None:
        manifest.fields[0].logical_type = other

    edit_manifest(tmp_path, lie)
    with pytest.raises(FormatError, match=r"int64|no name|needs"):
        lw.open(tmp_path).to_arrow()


def test_line_27_a_legacy_table_is_refused_by_name(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"a": [1]}), tmp_path, data_storage_version="0.1")
    with pytest.raises(UnsupportedError, match=r"0\.1 \(legacy\).*rewrite the table"):
        lw.open(tmp_path)
