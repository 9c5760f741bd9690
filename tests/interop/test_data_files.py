"""Data files: what pylance writes we read, and the reverse."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileReader, LanceFileWriter
from tests.pylance import judged, lance

from lancewood.data.file_root import FileRoot
from lancewood.data.reader import FragmentReader
from lancewood.data.writer import write_fragments
from lancewood.errors import FormatError, InvalidInputError, UnsupportedError
from lancewood.format.schema import decode_schema, encode_schema, schema_from_arrow, to_arrow_schema
from lancewood.model.fragment import DataFile, Fragment
from lancewood.model.ids import FieldId
from lancewood.model.schema import Field, Schema
from lancewood.proto import table_pb2
from lancewood.store.disk import DiskStore

pytestmark = pytest.mark.sliced(6)

POINT = pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])
NEW = ("2.1", "2.2")
ALL = ("2.0", *NEW)


def rows(kind: pa.DataType, *values: Any) -> pa.Array:
    return pa.array([*values, *values, *values], kind)


def vectors(kind: pa.DataType, values: Sequence[Any]) -> pa.Array:
    return rows(pa.list_(kind, len(values)), values, values)


COLUMNS: dict[str, tuple[pa.Array, tuple[str, ...]]] = {
    "null": (pa.nulls(6), ALL),
    "bool": (rows(pa.bool_(), True, None, False), ALL),
    **{
        str(kind): (rows(kind, 1, None, 3), ALL)
        for kind in (
            *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
            *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
            *(pa.float32(), pa.float64(), pa.date32()),
            *(pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
            *(pa.timestamp("us"), pa.timestamp("ns", "+05:30")),
            *(pa.timestamp("s"), pa.timestamp("ms", "America/New_York")),
            *(pa.duration("s"), pa.duration("ns")),
        )
    },
    "float16": (rows(pa.float16(), np.float16(1.5), None), ALL),
    "date64": (rows(pa.date64(), 86_400_000, None), ALL),
    "decimal128": (rows(pa.decimal128(10, 2), Decimal("1.25"), None), ALL),
    "decimal128 negative scale": (rows(pa.decimal128(10, -2), Decimal(100)), ALL),
    "decimal256": (rows(pa.decimal256(60, 2), Decimal("1.25"), None), ALL),
    "string": (rows(pa.string(), "a", None, "zürich" * 30), ALL),
    "large_string": (rows(pa.large_string(), "a", None), ALL),
    "binary": (rows(pa.binary(), b"a", None, b""), ALL),
    "large_binary": (rows(pa.large_binary(), b"a", None), ALL),
    "fixed_size_binary": (rows(pa.binary(3), b"abc", None), ALL),
    "string_view": (rows(pa.string_view(), "a", None), ALL),
    "binary_view": (rows(pa.binary_view(), b"a", None), ALL),
    "struct": (rows(POINT, {"x": 1, "y": ["a"]}, {"x": None, "y": []}), ALL),
    "null struct": (rows(POINT, {"x": 1, "y": ["a"]}, None), NEW),
    "list": (rows(pa.list_(pa.int32()), [1, None], None, []), ALL),
    "list named": (
        rows(pa.list_(pa.field("elt", pa.int8(), False, {"k": "v"})), [1], None, [2, 3]),
        ALL,
    ),
    "large_list": (rows(pa.large_list(pa.list_(pa.string())), [["a"], []], []), ALL),
    "list of struct": (rows(pa.list_(POINT), [{"x": 1, "y": ["b"]}], [], None), ALL),
    "large list of struct": (rows(pa.large_list(POINT), [{"x": 1, "y": None}], []), ALL),
    "vector": (vectors(pa.float32(), [1.5, 2.5]), ALL),
    "vector of vectors": (vectors(pa.list_(pa.float32(), 2), [[1.0, 2.0], [3.0, 4.0]]), ALL),
    "vector of timestamps": (vectors(pa.timestamp("us", "UTC"), [1, 2]), ALL),
    "vector of bool": (vectors(pa.bool_(), [True, False, True]), ALL),
    "vector of bytes": (vectors(pa.binary(2), [b"ab", b"cd"]), ALL),
    "vector with named item": (
        rows(pa.list_(pa.field("element", pa.int32(), nullable=False), 2), [1, 2], [3, 4]),
        ALL,
    ),
    "map": (rows(pa.map_(pa.string(), pa.int32()), [("a", 1)], None, []), ("2.2",)),
    "map named": (
        rows(
            pa.map_(pa.field("k", pa.string(), nullable=False), pa.field("v", POINT)),
            [("a", {"x": 1, "y": ["b"]})],
            [],
        ),
        ("2.2",),
    ),
    "dictionary": (pa.array(["a", "b", None, "a"]).dictionary_encode(), ALL),
    "dictionary of int": (
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.uint16()), pa.array([5, 6])),
        ALL,
    ),
    "uuid": (rows(pa.uuid(), uuid.UUID(int=7).bytes, None), ALL),
    "bool8": (
        pa.ExtensionArray.from_storage(pa.bool8(), pa.array([0, 1, None], pa.int8())),
        ALL,
    ),
    "tensor": (
        pa.ExtensionArray.from_storage(
            pa.fixed_shape_tensor(pa.float32(), [2]), vectors(pa.float32(), [1.0, 2.0])
        ),
        ALL,
    ),
    "json": (
        rows(
            pa.json_(),
            '{"":"é\\"\\n","a":1,"b":[1,2,{"c":null}]}',
            *("0", "-5", "300", "-70000", "18446744073709551615", "1.5", "1e+300", "-0.0"),
            *("true", "false", "null", "[]", "{}", '"\\u0001😀"', "[[],{}]"),
            None,
        ),
        ALL,
    ),
    "list of uuid": (
        pa.ListArray.from_arrays(
            pa.array([0, 1, 2], pa.int32()),
            pa.array([uuid.UUID(int=1).bytes, uuid.UUID(int=2).bytes], pa.uuid()),
        ),
        ALL,
    ),
}
CASES = [(name, version) for name, (_, versions) in COLUMNS.items() for version in versions]


def manifest_of(root: Path) -> table_pb2.Manifest:
    newest = min((root / "_versions").glob("*.manifest"))
    data = newest.read_bytes()
    (at,) = struct.unpack("<q", data[-16:-8])
    (length,) = struct.unpack_from("<I", data, at)
    return table_pb2.Manifest.FromString(data[at + 4 : at + 4 + length])


def opened(root: Path) -> tuple[Schema, list[Fragment]]:
    manifest = manifest_of(root)
    schema = decode_schema(manifest.fields, dict(manifest.schema_metadata))
    return schema, [
        Fragment(table_pb2.DataFragment.FromString(each)) for each in manifest.fragments
    ]


def read(root: Path, wanted: Schema | None = None, **options: Any) -> pa.Table:
    schema, fragments = opened(root)
    wanted = schema if wanted is None else wanted
    batches: list[pa.RecordBatch] = []
    for fragment in fragments:
        batches += reader(root, fragment, wanted).batches(**options)
    return pa.Table.from_batches(batches, to_arrow_schema(wanted).remove_metadata())


def reader(root: Path, fragment: Fragment, wanted: Schema) -> FragmentReader:
    return FragmentReader(fragment, wanted, lambda file: (str(root / "data" / file.path), None))


def publish(
    root: Path, schema: Schema, fragments: Sequence[Fragment], version: str = "2.2"
) -> None:
    """A first manifest around files that are already there, for pylance to open."""
    manifest = table_pb2.Manifest(version=1, max_fragment_id=len(fragments))
    manifest.fields.extend(encode_schema(schema))
    manifest.schema_metadata.update(schema.metadata)
    manifest.data_format.file_format = "lance"
    manifest.data_format.version = version
    for number, fragment in enumerate(fragments):
        message = table_pb2.DataFragment()
        message.CopyFrom(fragment.message)
        message.id = number
        manifest.fragments.append(message.SerializeToString())
    raw = manifest.SerializeToString()
    (root / "_versions").mkdir(parents=True, exist_ok=True)
    (root / "_versions" / "18446744073709551614.manifest").write_bytes(
        struct.pack("<I", len(raw)) + raw + struct.pack("<qHH", 0, 0, 2) + b"LANC"
    )


def plain(schema: pa.Schema) -> pa.Schema:
    """Views as plain strings, items of vectors as the format keeps them."""
    return to_arrow_schema(schema_from_arrow(schema))


@pytest.mark.parametrize(("name", "version"), CASES, ids=lambda each: str(each))
def test_every_type_that_pylance_writes_is_read(tmp_path: Path, name: str, version: str) -> None:
    array, _ = COLUMNS[name]
    arrow = pa.schema(
        [pa.field("n", pa.int64()), pa.field("c", array.type, metadata={"k": "v"})], {"m": "x"}
    )
    table = pa.table([pa.array(range(len(array))), array], schema=arrow)
    written = lance.write_dataset(
        table, tmp_path, data_storage_version=version, max_rows_per_file=4
    )
    schema, _ = opened(tmp_path)
    exactly = name != "map named"  # pyarrow forgets the names of keys and values on the way
    assert to_arrow_schema(schema).equals(written.schema, check_metadata=exactly)
    assert to_arrow_schema(schema).equals(plain(arrow), check_metadata=True)
    found, expected = read(tmp_path), written.to_table()
    found.validate(full=True)
    assert found.schema.equals(expected.schema.remove_metadata(), check_metadata=exactly)
    assert found.equals(expected)


@pytest.mark.parametrize(("name", "version"), CASES, ids=lambda each: str(each))
def test_every_type_that_we_write_is_read_by_pylance(
    tmp_path: Path, name: str, version: str
) -> None:
    array, _ = COLUMNS[name]
    table = pa.table({"n": pa.array(range(len(array))), "c": array})
    schema = schema_from_arrow(table.schema, first_id=5)
    fragments = write_fragments(
        table.to_reader(),
        schema,
        file_roots=[FileRoot(DiskStore(tmp_path))],
        file_version=version,
        max_rows=4,
    )
    assert [each.physical_rows for each in fragments] == [
        min(4, len(array) - at) for at in range(0, len(array), 4)
    ]
    publish(tmp_path, schema, fragments, version)
    dataset = judged(tmp_path)
    found = read(tmp_path)
    found.validate(full=True)
    assert found.equals(dataset.to_table())
    assert found.to_pylist() == table.to_pylist()
    assert read(tmp_path, batch_rows=3).equals(found)


def test_pylance_can_go_on_with_a_table_of_ours(tmp_path: Path) -> None:
    table = pa.table({"n": list(range(10)), "s": [{"a": n, "b": [str(n)]} for n in range(10)]})
    schema = schema_from_arrow(table.schema)
    fragments = write_fragments(
        table.to_reader(), schema, file_roots=[FileRoot(DiskStore(tmp_path))], max_rows=5
    )
    publish(tmp_path, schema, fragments)
    dataset = lance.dataset(tmp_path)
    lance.write_dataset(table, dataset, mode="append")
    dataset = lance.dataset(tmp_path)
    dataset.delete("n = 3")
    dataset.optimize.compact_files()
    assert read(tmp_path).equals(lance.dataset(tmp_path).to_table())
    assert lance.dataset(tmp_path).count_rows() == 18


NESTED = pa.schema(
    [
        ("a", pa.int64()),
        ("s", pa.struct([("x", pa.int32()), ("y", pa.list_(POINT)), ("z", pa.string())])),
    ]
)


def nested(count: int, *, nulls: bool) -> pa.Table:
    def one(n: int) -> dict[str, Any] | None:
        if nulls and n % 5 == 1:
            return None
        return {"x": n, "y": [{"x": n, "y": [str(n)]}] * (n % 3), "z": f"z{n}"}

    return pa.table(
        [pa.array(range(count)), pa.array([one(n) for n in range(count)], NESTED.field("s").type)],
        schema=NESTED,
    )


def pruned(schema: Schema, *ids: int) -> Schema:
    """The schema with only these leaves."""

    def prune(field: Field) -> Field | None:
        if not field.children:
            return field if field.id in ids else None
        children = tuple(each for each in map(prune, field.children) if each is not None)
        return Field(**{**vars(field), "children": children}) if children else None

    return Schema(tuple(each for each in map(prune, schema.fields) if each is not None))


@pytest.mark.parametrize("version", ALL)
def test_any_part_of_a_nested_column_is_read_by_id(tmp_path: Path, version: str) -> None:
    table = nested(20, nulls=version != "2.0")
    lance.write_dataset(table, tmp_path, data_storage_version=version)
    schema, fragments = opened(tmp_path)
    leaves = {each.id: each for each in schema.walk() if not each.children}
    for one in leaves:
        for other in leaves:
            wanted = pruned(schema, one, other)
            found = read(tmp_path, wanted)
            found.validate(full=True)
            assert found.to_pylist() == _projected(table.to_pylist(), wanted.fields)
            taken = reader(tmp_path, fragments[0], wanted).take(np.array([1, 4, 19]))
            assert taken.equals(found.take([1, 4, 19]))


def _projected(values: list[Any], fields: Sequence[Field]) -> list[Any]:
    def pick(value: Any, field: Field) -> Any:
        if value is None or not field.children:
            return value
        if isinstance(value, list):
            return [pick(each, field.children[0]) for each in value]
        return {each.name: pick(value[each.name], each) for each in field.children}

    return [{each.name: pick(row[each.name], each) for each in fields} for row in values]


@pytest.mark.parametrize("version", ALL)
def test_renamed_columns_are_found_by_id(tmp_path: Path, version: str) -> None:
    table = nested(20, nulls=version != "2.0").append_column("b", pa.array(range(100, 120)))
    dataset = lance.write_dataset(table, tmp_path, data_storage_version=version)
    for path, name in [("a", "old"), ("b", "a"), ("old", "b"), ("s.y", "w"), ("s", "t")]:
        dataset.alter_columns({"path": path, "name": name})
    found = read(tmp_path)
    found.validate(full=True)
    assert found.equals(lance.dataset(tmp_path).to_table())
    assert found["a"].to_pylist() == list(range(100, 120))
    assert [each["w"] for each in found["t"].to_pylist() if each] == [
        each["y"] for each in table["s"].to_pylist() if each
    ]


def test_added_dropped_and_cast_columns_are_read(tmp_path: Path) -> None:
    dataset = lance.write_dataset(nested(20, nulls=True), tmp_path)
    dataset.add_columns(pa.schema([("empty", pa.list_(POINT))]))
    dataset.add_columns({"double": "a * 2"})
    dataset.alter_columns({"path": "a", "data_type": pa.int32()})
    dataset.drop_columns(["s.x"])
    found = read(tmp_path)
    assert found["empty"].null_count == 20
    assert found.schema.field("a").type == pa.int32()
    assert found.equals(lance.dataset(tmp_path).to_table())


def test_appends_with_other_columns_are_aligned(tmp_path: Path) -> None:
    lance.write_dataset(nested(3, nulls=False), tmp_path)
    lance.write_dataset(nested(3, nulls=True).select(["s", "a"]), tmp_path, mode="append")
    lance.write_dataset(nested(3, nulls=False).select(["s"]), tmp_path, mode="append")
    found = read(tmp_path)
    assert found["a"].to_pylist() == [0, 1, 2, 0, 1, 2, None, None, None]
    assert found.equals(lance.dataset(tmp_path).to_table())


def test_a_partial_merge_is_read(tmp_path: Path) -> None:
    table = pa.table({"k": range(10), "v": range(10), "w": ["x"] * 10})
    dataset = lance.write_dataset(table, tmp_path)
    source = pa.table({"k": [2, 4], "v": [200, 400]})
    dataset.merge_insert("k").when_matched_update_all().execute(source)
    found = read(tmp_path)["v"].to_pylist()  # the two old rows are deleted, which is not ours
    assert sorted(found) == [*range(10), 200, 400]


def test_a_rewritten_column_leaves_a_tombstone_and_the_new_file_is_read(tmp_path: Path) -> None:
    table = pa.table({"k": range(10), "v": range(10), "w": ["x"] * 10})
    dataset = lance.write_dataset(table, tmp_path)
    changed, fields = dataset.get_fragment(0).update_columns(
        pa.table({"k": [2, 4], "v": [200, 400]}), left_on="k", right_on="k"
    )
    update = lance.LanceOperation.Update(updated_fragments=[changed], fields_modified=fields)
    lance.LanceDataset.commit(tmp_path, update, read_version=dataset.version)
    _, (fragment,) = opened(tmp_path)
    assert any(-2 in file.fields for file in fragment.files)
    assert read(tmp_path)["v"].to_pylist() == [0, 1, 200, 3, 400, 5, 6, 7, 8, 9]
    assert read(tmp_path).equals(lance.dataset(tmp_path).to_table())


def test_fixed_size_lists_of_structs_are_read_even_where_pylance_fails(tmp_path: Path) -> None:
    kind = pa.list_(pa.struct([("p", pa.int32()), ("q", pa.string())]), 2)
    column = rows(kind, [{"p": 1, "q": "a"}, {"p": 2, "q": None}])
    table = pa.table({"n": range(3), "c": column})
    dataset = lance.write_dataset(table, tmp_path / "theirs")
    with pytest.raises(pa.ArrowInvalid, match="differing lengths"):
        dataset.to_table()
    assert read(tmp_path / "theirs").equals(table)
    schema, _ = opened(tmp_path / "theirs")
    assert (
        read(tmp_path / "theirs", pruned(schema, 3))["c"].to_pylist() == [[{"p": 1}, {"p": 2}]] * 3
    )
    store = DiskStore(tmp_path / "ours")
    with pytest.raises(UnsupportedError, match="sole column"):
        write_fragments(table.to_reader(), schema, file_roots=[FileRoot(store)])
    alone = table.select(["c"])
    schema = schema_from_arrow(alone.schema)
    publish(
        tmp_path / "ours",
        schema,
        write_fragments(alone.to_reader(), schema, file_roots=[FileRoot(store)]),
    )
    assert lance.dataset(tmp_path / "ours").to_table().equals(alone)
    assert read(tmp_path / "ours").equals(alone)


@pytest.mark.parametrize("version", NEW)
def test_parents_without_a_column_are_accepted(tmp_path: Path, version: str) -> None:
    table = nested(10, nulls=True)
    schema = schema_from_arrow(NESTED)
    (fragment,) = write_fragments(
        table.to_reader(), schema, file_roots=[FileRoot(DiskStore(tmp_path))], file_version=version
    )
    (file,) = fragment.files
    by_leaf = dict(zip(file.fields, file.column_indices, strict=True))
    ids = [each.id for each in schema.walk()]
    older = DataFile.make(
        file.path, ids, [by_leaf.get(each, -1) for each in ids], file.version, file.size or 0
    )
    assert -1 in older.column_indices
    publish(tmp_path, schema, [fragment.with_files([older])], version)
    assert read(tmp_path).equals(table)
    assert lance.dataset(tmp_path).to_table().equals(table)


def test_packed_structs_are_read_whole_in_part_and_renamed(tmp_path: Path) -> None:
    kind = pa.struct([("x", pa.int32()), ("y", pa.float32())])
    packed = pa.field("p", kind, metadata={"lance-encoding:packed": "true"})
    values = [{"x": n, "y": n / 2} for n in range(5)]
    table = pa.table(
        [pa.array(values, kind), pa.array(range(5))], schema=pa.schema([packed, ("a", pa.int64())])
    )
    for version in ALL:
        root = tmp_path / version
        lance.write_dataset(table, root, data_storage_version=version)
        assert read(root).equals(table)
        schema, _ = opened(root)
        part = pruned(schema, 2)
        assert read(root, part)["p"].to_pylist() == [{"y": n / 2} for n in range(5)]
        ours = tmp_path / f"ours-{version}"
        fragments = write_fragments(
            table.to_reader(), schema, file_roots=[FileRoot(DiskStore(ours))], file_version=version
        )
        assert fragments[0].files[0].fields == (0, 3)
        publish(ours, schema, fragments, version)
        assert lance.dataset(ours).to_table().equals(table)


def split(root: Path, left: pa.Array, right: pa.Array, version: str = "2.2") -> Schema:
    """A struct column whose children x and y lie in two files."""
    kind = pa.struct([*left.type, *right.type])
    schema = schema_from_arrow(pa.schema([("s", kind)]))
    files: list[DataFile] = []
    for child, array in zip(schema.fields[0].children, (left, right), strict=True):
        part = Schema((Field(**{**vars(schema.fields[0]), "children": (child,)}),))
        (fragment,) = write_fragments(
            pa.table({"s": array}).to_reader(),
            part,
            file_roots=[FileRoot(DiskStore(root))],
            file_version=version,
        )
        files += fragment.files
    publish(root, schema, [Fragment.make(files, len(left))], version)
    return schema


def side(name: str, *values: int | None) -> pa.Array:
    kind = pa.struct([(name, pa.int32())])
    return pa.array([None if each is None else {name: each} for each in values], kind)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((0, None, 2, 3), (0, 1, None, 3)),
        ((0, None, 2, 3), (0, 1, 2, 3)),
        ((0, 1, 2, 3), (0, None, 2, 3)),
        ((0, None, 2, 3), (0, None, 2, 3)),
        ((None, None, None, None), (0, None, 2, 3)),
    ],
)
def test_a_struct_split_over_files_is_valid_where_any_file_says_so(
    tmp_path: Path, left: tuple[int | None, ...], right: tuple[int | None, ...]
) -> None:
    split(tmp_path, side("x", *left), side("y", *right))
    assert read(tmp_path).equals(lance.dataset(tmp_path).to_table())
    assert read(tmp_path, batch_rows=3).equals(read(tmp_path))


def test_a_list_of_structs_split_over_files_is_assembled(tmp_path: Path) -> None:
    kind = pa.list_(pa.struct([("x", pa.int32()), ("y", pa.string())]))
    whole = pa.array([[{"x": 1, "y": "a"}, None], None, [], [{"x": 2, "y": None}]], kind)
    schema = schema_from_arrow(pa.schema([("l", kind)]))
    item = schema.fields[0].children[0]
    files: list[DataFile] = []
    for child in item.children:
        part_item = Field(**{**vars(item), "children": (child,)})
        part = Schema((Field(**{**vars(schema.fields[0]), "children": (part_item,)}),))
        rows_of = pa.array(
            [
                each and [entry and {child.name: entry[child.name]} for entry in each]
                for each in whole.to_pylist()
            ],
            to_arrow_schema(part).field(0).type,
        )
        (fragment,) = write_fragments(
            pa.table({"l": rows_of}).to_reader(), part, file_roots=[FileRoot(DiskStore(tmp_path))]
        )
        files += fragment.files
    both = Fragment.make(files, 4)
    found = pa.Table.from_batches(reader(tmp_path, both, schema).batches())
    assert found["l"].to_pylist() == whole.to_pylist()
    only = Fragment.make(files[:1], 4)
    half = pa.Table.from_batches(reader(tmp_path, only, schema).batches())
    assert half["l"].to_pylist()[0] == [{"x": 1, "y": None}, None]


def test_lists_of_different_lengths_are_damage_in_live_rows_alone(tmp_path: Path) -> None:
    schema = schema_from_arrow(
        pa.schema([("l", pa.list_(pa.struct([("x", pa.int32()), ("y", pa.int32())])))])
    )
    (column,) = schema.fields
    (item,) = column.children
    files: list[DataFile] = []
    lengths_of: tuple[list[int | None], ...] = ([1, 2, 3], [1, None, 3])
    for child, lengths in zip(item.children, lengths_of, strict=True):
        part = Schema((replace(column, children=(replace(item, children=(child,)),)),))
        cells = [None if each is None else [{child.name: each}] * each for each in lengths]
        lists = pa.array(cells, to_arrow_schema(part).field(0).type)
        (fragment,) = write_fragments(
            pa.table({"l": lists}).to_reader(), part, file_roots=[FileRoot(DiskStore(tmp_path))]
        )
        files += fragment.files

    def read_where(deleted: int) -> FragmentReader:
        return FragmentReader(
            Fragment.make(files, 3),
            schema,
            lambda file: (str(tmp_path / "data" / file.path), None),
            are_deleted=lambda offsets: offsets == deleted,
        )

    for batches in (read_where(1).batches(), read_where(1).batches(batch_rows=1)):
        found = [each for batch in batches for each in batch["l"].to_pylist()]
        assert found[0] == [{"x": 1, "y": 1}]
        assert found[2] == [{"x": 3, "y": 3}] * 3
    assert read_where(1).take(np.array([0, 2]))["l"].to_pylist() == found[::2]
    for batches in (read_where(0).batches(), read_where(0).pick(np.array([1, 2]))):
        with pytest.raises(FormatError, match=r"'l' disagree about its lengths"):
            list(batches)


def test_a_file_of_another_type_is_refused(tmp_path: Path) -> None:
    table = pa.table({"a": pa.array([1, 2], pa.int64())})
    schema = schema_from_arrow(table.schema)
    fragments = write_fragments(
        table.to_reader(), schema, file_roots=[FileRoot(DiskStore(tmp_path))]
    )
    other = Schema((Field(FieldId(0), "a", "int32"),))
    with pytest.raises(FormatError, match=r"int32.*int64"):
        list(reader(tmp_path, fragments[0], other).batches())


def test_a_legacy_table_is_refused(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"a": [1]}), tmp_path, data_storage_version="legacy")
    with pytest.raises(UnsupportedError, match=r"version 0\.2"):
        read(tmp_path)


def test_files_of_the_unstable_version_are_read(tmp_path: Path) -> None:
    table = nested(10, nulls=True)
    path = tmp_path / "data" / "next.lance"
    writer = LanceFileWriter(str(path), NESTED, version="2.3")
    writer.write_batch(table)
    writer.close()
    schema = schema_from_arrow(NESTED)
    ids = [each.id for each in schema.walk() if not each.children]
    file = DataFile.make("next.lance", ids, range(len(ids)), (2, 3), path.stat().st_size)
    assert pa.Table.from_batches(
        reader(tmp_path, Fragment.make([file], 10), schema).batches()
    ).equals(table)


def test_our_files_carry_hints_but_no_schema_metadata(tmp_path: Path) -> None:
    field = pa.field("a", pa.string(), metadata={"lance-encoding:compression": "zstd"})
    table = pa.table([["x", "y"]], schema=pa.schema([field], {"secret": "1"}))
    (fragment,) = write_fragments(
        table.to_reader(),
        schema_from_arrow(table.schema),
        file_roots=[FileRoot(DiskStore(tmp_path))],
    )
    (file,) = fragment.files
    found = LanceFileReader(str(tmp_path / "data" / file.path)).metadata().schema
    assert found.metadata in (None, {})
    assert found.field("a").metadata == field.metadata
    assert file.size == (tmp_path / "data" / file.path).stat().st_size


def test_null_structs_are_refused_in_version_2_0(tmp_path: Path) -> None:
    table = pa.table({"l": pa.array([[{"x": 1, "y": None}, None]], pa.list_(POINT))})
    with pytest.raises(InvalidInputError, match=r"'l\.item' has 1 null struct"):
        write_fragments(
            table.to_reader(),
            schema_from_arrow(table.schema),
            file_roots=[FileRoot(DiskStore(tmp_path))],
            file_version="2.0",
        )
    assert not list(tmp_path.rglob("*.lance"))
