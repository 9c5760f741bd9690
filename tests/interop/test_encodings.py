"""Encoding keys of field metadata: they reach the data file, and a wrong one is told before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileReader
from tests.pylance import judged, lance

import lancewood as lw
from lancewood.errors import InvalidInputError, UnsupportedError

ALL = ("2.0", "2.1", "2.2")
COMPRESSION = "lance-encoding:compression"
LEVEL = "lance-encoding:compression-level"
STRUCTURAL = "lance-encoding:structural-encoding"
PACKED = "lance-encoding:packed"
BLOB = "lance-encoding:blob"
PAIR = pa.struct([("x", pa.int32()), ("y", pa.float64())])


def texts(metadata: dict[str, str]) -> pa.Table:
    """Text that repeats itself, as logs do, but no value twice."""
    values = [f"GET /api/v1/items/{n % 997} took {n} ms and was fine" for n in range(20_000)]
    return pa.table([values], schema=pa.schema([pa.field("c", pa.string(), metadata=metadata)]))


def stored_bytes(uri: Path) -> int:
    return sum(each.stat().st_size for each in (uri / "data").glob("*.lance"))


def data_file(uri: Path) -> LanceFileReader:
    (path,) = (uri / "data").glob("*.lance")
    return LanceFileReader(str(path))


def column(kind: pa.DataType, metadata: dict[str, str], *values: Any) -> pa.Table:
    schema = pa.schema(
        [("n", pa.int32()), pa.field("c", kind, metadata=metadata), ("z", pa.int32())]
    )
    numbers = pa.array(range(len(values)), pa.int32())
    return pa.table([numbers, pa.array(values, kind), numbers], schema=schema)


@pytest.mark.parametrize("version", ALL)
def test_zstd_shrinks_our_files_as_it_does_pylance_s(tmp_path: Path, version: str) -> None:
    sizes = {}
    for name, metadata in (("plain", {COMPRESSION: "none"}), ("zstd", {COMPRESSION: "zstd"})):
        table = texts(metadata)
        ours = lw.create(tmp_path / "ours" / name, table, layout=lw.Layout(file_version=version))
        lance.write_dataset(table, tmp_path / "theirs" / name, data_storage_version=version)
        assert ours.schema.field("c").metadata == table.schema.field("c").metadata
        assert data_file(tmp_path / "ours" / name).metadata().schema.field("c").metadata == (
            table.schema.field("c").metadata
        )
        assert ours.to_arrow().equals(table)
        assert lance.dataset(tmp_path / "ours" / name).to_table().equals(table)
        sizes[name] = stored_bytes(tmp_path / "ours" / name)
        theirs = stored_bytes(tmp_path / "theirs" / name)
        assert abs(sizes[name] - theirs) < theirs / 10
    assert sizes["zstd"] < sizes["plain"] / 2


def test_a_higher_level_makes_smaller_files(tmp_path: Path) -> None:
    sizes = []
    for level in ("1", "19"):
        numbers = np.random.default_rng(0).integers(0, 1000, 50_000)
        field = pa.field("c", pa.int64(), metadata={COMPRESSION: "zstd", LEVEL: level})
        table = pa.table([numbers], schema=pa.schema([field]))
        lw.create(tmp_path / level, table, layout=lw.Layout(file_version="2.1"))
        assert lance.dataset(tmp_path / level).to_table().equals(table)
        sizes.append(stored_bytes(tmp_path / level))
    assert sizes[1] < sizes[0]


@pytest.mark.parametrize("version", ALL)
@pytest.mark.parametrize("codec", ["zstd", "lz4", "fsst", "none"])
def test_every_codec_that_is_allowed_is_read_by_both(
    tmp_path: Path, codec: str, version: str
) -> None:
    table = texts({COMPRESSION: codec})
    ours = lw.create(tmp_path, table, layout=lw.Layout(file_version=version))
    assert ours.to_arrow().equals(table)
    assert lance.dataset(tmp_path).to_table().equals(table)


@pytest.mark.parametrize("version", ALL)
@pytest.mark.parametrize("structure", ["miniblock", "fullzip"])
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int64(), 7),
        (pa.string(), "abc"),
        (pa.list_(pa.int32()), [1, 2]),
        (pa.list_(pa.float32(), 4), [1.0] * 4),
        (PAIR, {"x": 1, "y": 2.0}),
    ],
    ids=str,
)
def test_both_structural_encodings_are_read_by_both(
    tmp_path: Path, kind: pa.DataType, value: Any, structure: str, version: str
) -> None:
    table = column(kind, {STRUCTURAL: structure}, *[value] * 300)
    ours = lw.create(tmp_path, table, layout=lw.Layout(file_version=version))
    assert ours.to_arrow().equals(table)
    assert lance.dataset(tmp_path).to_table().equals(table)


def test_full_zip_changes_the_file(tmp_path: Path) -> None:
    sizes = set()
    for structure in ("miniblock", "fullzip"):
        table = column(pa.bool_(), {STRUCTURAL: structure}, *[True, False] * 4_000)
        lw.create(tmp_path / structure, table, layout=lw.Layout(file_version="2.1"))
        sizes.add(stored_bytes(tmp_path / structure) // 1000)
    assert len(sizes) == 2


def test_the_example_of_the_specification_is_accepted(tmp_path: Path) -> None:
    table = texts({COMPRESSION: "zstd", LEVEL: "3", STRUCTURAL: "miniblock", PACKED: "true"})
    for version in ALL:
        ours = lw.create(tmp_path / version, table, layout=lw.Layout(file_version=version))
        assert ours.to_arrow().equals(table)
        assert lance.dataset(tmp_path / version).to_table().equals(table)


PACKABLE = {
    "numbers": (PAIR, {"x": 1, "y": 2.0}, ALL),
    "bytes": (pa.struct([("x", pa.binary(3)), ("y", pa.float16())]), {"x": b"abc", "y": 1.5}, ALL),
    "text": (pa.struct([("x", pa.int32()), ("y", pa.string())]), {"x": 1, "y": "ab"}, ("2.2",)),
    "vector": (
        pa.struct([("x", pa.int32()), ("y", pa.list_(pa.float32(), 2))]),
        {"x": 1, "y": [1.0, 2.0]},
        ("2.0", "2.2"),
    ),
}


@pytest.mark.parametrize("version", ALL)
@pytest.mark.parametrize("name", PACKABLE)
def test_a_packed_struct_is_one_column_and_read_by_both(
    tmp_path: Path, name: str, version: str
) -> None:
    kind, value, versions = PACKABLE[name]
    table = column(kind, {PACKED: "true"}, *[value] * 10)
    if version not in versions:
        with pytest.raises(UnsupportedError, match=rf"packed struct of a {version} file"):
            lw.create(tmp_path / "t", table, layout=lw.Layout(file_version=version))
        assert not (tmp_path / "t").exists()
        return
    ours = lw.create(tmp_path / "t", table, layout=lw.Layout(file_version=version))
    assert len(data_file(tmp_path / "t").file_statistics().columns) == 3
    (file,) = ours.fragments[0].files
    assert len(file.fields) == 3
    assert ours.to_arrow().equals(table)
    dataset = judged(tmp_path / "t")
    assert dataset.to_table().equals(table)
    lance.write_dataset(table, dataset, mode="append")
    assert lw.open(tmp_path / "t").to_arrow().equals(lance.dataset(tmp_path / "t").to_table())
    assert lw.open(tmp_path / "t").scan(["z", "n"]).to_arrow().num_rows == 20


@pytest.mark.parametrize("version", ALL)
def test_packed_structs_inside_lists_and_structs_are_read_by_both(
    tmp_path: Path, version: str
) -> None:
    packed = {PACKED: "true"}
    inner = pa.field("s", PAIR, metadata=packed)
    item = pa.field("item", PAIR, metadata=packed)
    pair = {"x": 1, "y": 2.0}
    for number, (kind, value) in enumerate(
        [(pa.struct([inner, ("t", pa.int8())]), {"s": pair, "t": 1}), (pa.list_(item), [pair] * 2)]
    ):
        table = column(kind, {}, *[value] * 10)
        ours = lw.create(tmp_path / str(number), table, layout=lw.Layout(file_version=version))
        assert ours.to_arrow().equals(table)
        assert lance.dataset(tmp_path / str(number)).to_table().equals(table)


@pytest.mark.parametrize("version", ALL)
def test_null_children_of_a_packed_struct_are_refused(tmp_path: Path, version: str) -> None:
    table = column(PAIR, {PACKED: "true"}, {"x": 1, "y": 2.0}, {"x": None, "y": 2.0})
    with pytest.raises(InvalidInputError, match=r"'c' is packed, but 1 values of its child 'x'"):
        lw.create(tmp_path / "t", table, layout=lw.Layout(file_version=version))
    assert not list(tmp_path.rglob("*.lance"))


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_null_packed_structs_are_read_by_both(tmp_path: Path, version: str) -> None:
    table = column(PAIR, {PACKED: "true"}, {"x": 1, "y": 2.0}, None, {"x": 3, "y": 4.0})
    ours = lw.create(tmp_path, table, layout=lw.Layout(file_version=version))
    assert ours.to_arrow().equals(table)
    assert lance.dataset(tmp_path).to_table().equals(table)


TEXT, BYTES, INTS = pa.string(), pa.large_binary(), pa.int64()
WRONG: dict[str, tuple[pa.DataType, dict[str, str], str]] = {
    "unknown codec": (TEXT, {COMPRESSION: "snappy"}, "one of zstd, lz4, fsst, none"),
    "codec in capitals": (TEXT, {COMPRESSION: "ZSTD"}, "one of zstd"),
    "no codec": (TEXT, {COMPRESSION: ""}, "one of zstd"),
    "codec of a list": (pa.list_(TEXT), {COMPRESSION: "zstd"}, "stored as 'item': put it there"),
    "codec of a struct": (PAIR, {COMPRESSION: "zstd"}, "stored as 'x', 'y': put it there"),
    "level 0": (TEXT, {COMPRESSION: "zstd", LEVEL: "0"}, "from 1 to 22"),
    "level 23": (TEXT, {COMPRESSION: "zstd", LEVEL: "23"}, "from 1 to 22"),
    "level below zero": (TEXT, {COMPRESSION: "zstd", LEVEL: "-5"}, "from 1 to 22"),
    "level in words": (TEXT, {COMPRESSION: "zstd", LEVEL: "high"}, "from 1 to 22"),
    "level of nothing": (TEXT, {LEVEL: "3"}, "only .* = 'zstd' has levels"),
    "level of lz4": (TEXT, {COMPRESSION: "lz4", LEVEL: "3"}, "only .* = 'zstd' has levels"),
    "structure": (INTS, {STRUCTURAL: "zipped"}, "one of miniblock, fullzip"),
    "packed list, as it was called": (pa.list_(INTS), {"packed": "true"}, "cannot be packed"),
    "packed map, as it was called": (
        pa.map_(TEXT, INTS),
        {"packed": "True"},
        "cannot be packed|is a map",
    ),
    "packed, perhaps": (PAIR, {PACKED: "yes"}, "one of true, false"),
    "packed list": (pa.list_(INTS), {PACKED: "true"}, "a list cannot be packed"),
    "packed map": (pa.map_(TEXT, INTS), {PACKED: "true"}, "cannot be packed|is a map"),
    "blob of text": (TEXT, {BLOB: "true"}, "a blob is of the type large_binary"),
    "blob of numbers": (INTS, {BLOB: "true"}, "a blob is of the type large_binary"),
    "blob of short bytes": (pa.binary(), {BLOB: "true"}, "a blob is of the type large_binary"),
    "ratio": (TEXT, {"lance-encoding:dict-size-ratio": "-1"}, "above 0 and up to 1"),
    "divisor": (TEXT, {"lance-encoding:dict-divisor": "two"}, "a whole number from 1"),
    "typo": (TEXT, {"lance-encoding:compresion": "zstd"}, "did you mean 'lance-encoding:compr"),
    "unheard of": (TEXT, {"lance-encoding:color": "red"}, "not known.*The prefix .* is reserved"),
}


@pytest.mark.parametrize("version", ALL)
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_value_is_told_before_anything_is_written(
    tmp_path: Path, name: str, version: str
) -> None:
    kind, metadata, why = WRONG[name]
    table = column(kind, metadata, None)
    with pytest.raises((InvalidInputError, UnsupportedError), match=why):
        lw.create(tmp_path / "t", table, layout=lw.Layout(file_version=version))
    assert not (tmp_path / "t").exists()


def test_what_2_0_files_would_misread_is_refused(tmp_path: Path) -> None:
    for metadata, kind, why in (
        ({PACKED: "false"}, PAIR, "leave it out"),
        ({COMPRESSION: "fsst"}, BYTES, "for the type string only"),
        ({COMPRESSION: "fsst"}, pa.large_string(), "for the type string only"),
        ({COMPRESSION: "fsst"}, pa.json_(), "for the type string only"),
        ({BLOB: "false"}, BYTES, "leave the key out"),
    ):
        with pytest.raises(InvalidInputError, match=why):
            lw.create(
                tmp_path / "t", column(kind, metadata, None), layout=lw.Layout(file_version="2.0")
            )
    assert not (tmp_path / "t").exists()


def test_tuning_keys_of_pylance_pass(tmp_path: Path) -> None:
    table = texts(
        {
            "lance-encoding:dict-divisor": "2",
            "lance-encoding:dict-size-ratio": "0.8",
            "lance-encoding:dict-values-compression": "zstd",
            "lance-encoding:minichunk-size": "4096",
            "lance-encoding:rle-threshold": "0.5",
            "lance-encoding:bss": "auto",
        }
    )
    ours = lw.create(tmp_path, table)
    assert ours.schema.equals(table.schema, check_metadata=True)
    assert lance.dataset(tmp_path).to_table().equals(table)


def test_keys_of_a_newer_writer_do_not_stop_an_append(tmp_path: Path) -> None:
    table = texts({"lance-encoding:from-the-future": "1"})
    lance.write_dataset(table, tmp_path)
    lw.open(tmp_path).append(table)
    assert lance.dataset(tmp_path).count_rows() == 2 * len(table)
