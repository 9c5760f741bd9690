"""Blobs of both layouts: pylance writes them, we read descriptors and bytes; and the reverse."""

from __future__ import annotations

import io
import os
import pickle
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from lance.file import LanceFileReader
from tests.manifests import decode_fragments, edit_manifest, put_fragments
from tests.pylance import judged, lance

import lancewood as lw
from lancewood.errors import (
    FormatError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
)

BLOB = {"lance-encoding:blob": "true"}
OLD = ("2.0", "2.1")
NEW = ("2.2", "2.3")
VALUES = [b"hello", None, b"", b"y" * 100_000, b"z" * 5_000_000, b"q" * 200_000, None, b"end"]


def old_table(values: list[bytes | None] = VALUES) -> pa.Table:
    """A blob in the middle, so that columns on both sides of it are read."""
    schema = pa.schema(
        [
            ("n", pa.int64()),
            pa.field("b", pa.large_binary(), metadata=BLOB),
            ("s", pa.struct([("t", pa.string()), ("l", pa.list_(pa.int8()))])),
            ("z", pa.int32()),
        ]
    )
    numbers = range(len(values))
    structs = [{"t": str(each), "l": [1] * (each % 3)} for each in numbers]
    return pa.table([numbers, values, structs, numbers], schema=schema)


def new_table(values: list[Any] = VALUES) -> pa.Table:
    plain = old_table([None] * len(values))
    schema = plain.schema.set(1, lance.blob_field("b"))
    columns = [*plain.columns]
    columns[1] = lance.blob_array(values)
    return pa.table(columns, schema=schema)


def written(uri: Path, version: str, **options: Any) -> Any:
    table = old_table() if version in OLD else new_table()
    return lance.write_dataset(table, uri, data_storage_version=version, **options)


def contents(blobs: list[Any]) -> list[bytes | None]:
    return [None if each is None else each.read() for each in blobs]


@pytest.mark.parametrize("version", [*OLD, *NEW])
def test_the_bytes_of_blobs_are_those_that_pylance_reads(tmp_path: Path, version: str) -> None:
    dataset = written(tmp_path, version, max_rows_per_file=3)
    table = lw.open(tmp_path)
    every = list(range(len(VALUES)))
    assert contents(table.take_blobs("b", every)) == VALUES
    assert contents(dataset.take_blobs("b", indices=every)) == VALUES
    order = [7, 0, 4, 4, 1]
    assert contents(table.take_blobs("b", order)) == [VALUES[each] for each in order]
    assert table.take_blobs("b", []) == []


@pytest.mark.parametrize("version", [*OLD, *NEW])
def test_a_scan_gives_descriptors_like_pylance_s(tmp_path: Path, version: str) -> None:
    dataset = written(tmp_path, version, max_rows_per_file=3)
    table = lw.open(tmp_path)
    found, expected = table.to_arrow(), dataset.to_table()
    found.validate(full=True)
    assert found.schema.equals(expected.schema, check_metadata=True)
    if version == "2.0":
        # There pylance shows a null as an empty blob at position 1.
        rows = expected.column("b").to_pylist()
        assert [None if each == {"position": 1, "size": 0} else each for each in rows] == (
            found.column("b").to_pylist()
        )
        assert found.drop_columns("b").equals(expected.drop_columns("b"))
    else:
        assert found.equals(expected)
    for names in (["z"], ["s.t", "n"], ["z", "b"], ["s"]):
        part = dataset.to_table(columns=["z", "s", "n"])
        assert table.scan(names).to_arrow().num_rows == part.num_rows
    assert table.scan(["z"]).to_arrow().equals(expected.select(["z"]))
    assert table.scan(["s"]).to_arrow().equals(expected.select(["s"]))
    assert table.take([6, 2], ["z", "s", "n"]).equals(dataset.take([6, 2], ["z", "s", "n"]))


@pytest.mark.parametrize("version", [*OLD, *NEW])
def test_filters_see_which_blobs_are_null(tmp_path: Path, version: str) -> None:
    written(tmp_path, version)
    table = lw.open(tmp_path)
    assert table.count_rows("b IS NULL") == 2
    assert table.scan(["n"], "b IS NOT NULL AND z > 3").to_arrow().column("n").to_pylist() == [
        *(4, 5, 7)
    ]


@pytest.mark.parametrize("version", [*OLD, *NEW])
def test_blobs_are_found_by_row_id_after_deletions(tmp_path: Path, version: str) -> None:
    written(tmp_path, version, max_rows_per_file=3, enable_stable_row_ids=True)
    lance.dataset(tmp_path).delete("n = 0 OR n = 3")
    table = lw.open(tmp_path)
    assert contents(table.take_blobs("b", row_ids=[7, 2, 4])) == [VALUES[7], VALUES[2], VALUES[4]]
    assert contents(table.take_blobs("b", [0, 2])) == [VALUES[1], VALUES[4]]
    with pytest.raises(NotFoundError, match="row id 3"):
        table.take_blobs("b", row_ids=[3])


@pytest.mark.parametrize("version", OLD)
def test_pylance_reads_the_blobs_that_we_write(tmp_path: Path, version: str) -> None:
    table = lw.create(
        tmp_path, old_table(), layout=lw.Layout(file_version=version, max_rows_per_file=3)
    )
    table = table.append(old_table().slice(2, 4))
    dataset = judged(tmp_path)
    expected = [*VALUES, *VALUES[2:6]]
    every = list(range(len(expected)))
    assert contents(dataset.take_blobs("b", indices=every)) == expected
    assert contents(table.take_blobs("b", every)) == expected
    assert table.schema.equals(old_table().schema, check_metadata=True)
    if version == "2.1":
        assert table.to_arrow().equals(dataset.to_table())


def test_an_append_to_a_table_with_old_blobs_by_pylance_is_read_by_both(tmp_path: Path) -> None:
    written(tmp_path, "2.1")
    lw.open(tmp_path).append(old_table())
    twice = VALUES + VALUES
    every = list(range(len(twice)))
    assert contents(lance.dataset(tmp_path).take_blobs("b", indices=every)) == twice
    assert contents(lw.open(tmp_path).take_blobs("b", every)) == twice


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_columns_of_many_pages_are_read_by_range_and_by_row(tmp_path: Path, version: str) -> None:
    values: list[bytes | None] = [None if n % 7 == 0 else b"%d" % n for n in range(3000)]
    table = old_table(values) if version in OLD else new_table(values)
    batches = table.to_batches(max_chunksize=100)
    reader = pa.RecordBatchReader.from_batches(table.schema, batches)
    options = {"data_cache_bytes": 64, "data_storage_version": version}
    dataset = lance.write_dataset(reader, tmp_path, **options)
    (file,) = (tmp_path / "data").glob("*.lance")
    pages = LanceFileReader(str(file), columns=["n"]).metadata().columns[1].pages
    assert len(pages) > 10
    found = lw.open(tmp_path)
    picks = [2999, 0, 1500, 99, 100, 101, 7]
    assert contents(found.take_blobs("b", picks)) == [values[each] for each in picks]
    for offset, limit in ((0, 3000), (95, 10), (100, 100), (2990, 10), (1234, 1)):
        part = found.scan(["z", "s", "b", "n"], offset=offset, limit=limit).to_arrow()
        expected = dataset.to_table(["z", "s", "b", "n"], offset=offset, limit=limit)
        assert part.drop_columns("b").equals(expected.drop_columns("b"))
        assert version == "2.0" or part.equals(expected)
        assert [each is None for each in part.column("b").to_pylist()] == [
            each is None for each in values[offset : offset + limit]
        ]


def test_blobs_of_a_table_in_memory_are_read() -> None:
    table = lw.create("memory://blobs", old_table(), layout=lw.Layout(file_version="2.1"))
    every = list(range(len(VALUES)))
    assert contents(table.take_blobs("b", every)) == VALUES
    assert table.scan(["z", "b"]).to_arrow().column("b").null_count == 2


def test_blobs_are_not_written_into_2_2_files(tmp_path: Path) -> None:
    for table in (old_table(), new_table()):
        with pytest.raises(UnsupportedError, match=r"'b' is a blob.*write version 2\.1"):
            lw.create(tmp_path / "t", table, layout=lw.Layout(file_version="2.2"))
    assert not (tmp_path / "t").exists()
    written(tmp_path / "t", "2.2")
    with pytest.raises(UnsupportedError, match="'b' is a blob"):
        lw.open(tmp_path / "t").append(new_table())
    after = lw.open(tmp_path / "t").append(old_table().drop_columns("b"))
    assert contents(after.take_blobs("b", [7, 8, 15])) == [b"end", None, None]


def test_blobs_that_stayed_where_they_were_are_read(tmp_path: Path) -> None:
    outside, base = tmp_path / "a file.bin", tmp_path / "base"
    outside.write_bytes(b"0123456789")
    (base / "deep").mkdir(parents=True)
    (base / "deep" / "f.bin").write_bytes(b"abcdefghij")
    uri, inside = outside.as_uri(), (base / "deep" / "f.bin").as_uri()
    blob = lance.Blob
    for name, options, values in (
        (
            "absolute",
            {"allow_external_blob_outside_bases": True},
            [blob.from_uri(uri), blob.from_uri(uri, position=2, size=3), b"own", None],
        ),
        (
            "below a base",
            {"initial_bases": [lance.DatasetBasePath(base.as_uri(), name="x", id=1)]},
            [blob.from_uri(inside), blob.from_uri(inside, position=2, size=3), b"own", None],
        ),
    ):
        dataset = lance.write_dataset(
            new_table(values), tmp_path / name, data_storage_version="2.2", **options
        )
        table, every = lw.open(tmp_path / name), list(range(4))
        assert table.to_arrow().equals(dataset.to_table())
        expected = contents(dataset.take_blobs("b", indices=every))
        assert contents(table.take_blobs("b", every)) == expected
        assert [None if each is None else each.size() for each in table.take_blobs("b", every)] == [
            *(10, 3, 3, None)
        ]
    closed = lw.open(tmp_path / "absolute", access=lw.Access(allowed_bases=[]))
    with pytest.raises(InvalidInputError, match="allowed bases"):
        closed.take_blobs("b", [0])
    assert contents(closed.take_blobs("b", [2])) == [b"own"]


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_a_blob_is_a_file(tmp_path: Path, version: str) -> None:
    value = bytes(range(256)) * 1000
    table = old_table([value]) if version == "2.1" else new_table([value])
    lance.write_dataset(table, tmp_path, data_storage_version=version)
    (blob,) = lw.open(tmp_path).take_blobs("b", [0])
    assert blob is not None
    with blob as file:
        assert (file.readable(), file.seekable(), file.writable()) == (True, True, False)
        assert file.size() == len(value)
        assert file.read(3) == value[:3]
        assert file.tell() == 3
        assert file.seek(-5, io.SEEK_END) == len(value) - 5
        assert file.read() == value[-5:]
        assert file.read() == b""
        file.seek(1000)
        file.seek(24, io.SEEK_CUR)
        buffer = bytearray(10)
        assert file.readinto(buffer) == 10
        assert bytes(buffer) == value[1024:1034]
        file.seek(10**9)
        assert file.read(5) == b""
        with pytest.raises(ValueError, match="before the blob begins"):
            file.seek(-1)
        with pytest.raises(ValueError, match="whence"):
            file.seek(0, 7)
        file.seek(0)
        assert io.BufferedReader(file).read(500) == value[:500]
    with pytest.raises(ValueError, match="closed"):
        blob.read()


def test_reading_a_part_of_a_blob_reads_only_that_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, "2.2")
    (blob,) = lw.open(tmp_path).take_blobs("b", [4])
    assert blob is not None
    asked: list[int] = []
    real = type(blob._store).get_range

    def counted(self: Any, key: str, start: int, length: int) -> bytes:
        asked.append(length)
        return real(self, key, start, length)

    monkeypatch.setattr(type(blob._store), "get_range", counted)
    blob.seek(4_000_000)
    assert blob.read(10) == b"z" * 10
    assert asked == [10]


def test_a_scan_plan_with_blobs_travels(tmp_path: Path) -> None:
    written(tmp_path, "2.2")
    scan = pickle.loads(pickle.dumps(lw.open(tmp_path))).scan(["b", "z"])
    assert scan.to_arrow().num_rows == len(VALUES)


def test_a_column_without_blobs_is_told_from_one_with(tmp_path: Path) -> None:
    written(tmp_path, "2.1")
    table = lw.open(tmp_path)
    for name in ("n", "nothing"):
        with pytest.raises(InvalidInputError, match=rf"'{name}' is no blob column.*: b"):
            table.take_blobs(name, [0])
    with pytest.raises(InvalidInputError, match="no blob column"):
        table.take_blobs(cast(Any, ["b"]), [0])
    with pytest.raises(InvalidInputError, match="position 99"):
        table.take_blobs("b", [99])
    with pytest.raises(InvalidInputError, match="not both"):
        table.take_blobs("b")
    with pytest.raises(InvalidInputError, match="not both"):
        table.take_blobs("b", [0], row_ids=[0])


def test_a_side_file_that_is_gone_or_cut_is_told(tmp_path: Path) -> None:
    written(tmp_path, "2.2")
    table = lw.open(tmp_path)
    sides = sorted((tmp_path / "data").glob("*/*.blob"), key=os.path.getsize)
    assert [each.stat().st_size for each in sides] == [300_000, 5_000_000]
    packed = table.take_blobs("b", [5])[0]
    dedicated = table.take_blobs("b", [4])[0]
    assert packed is not None
    assert dedicated is not None
    os.truncate(sides[0], 250_000)
    sides[1].unlink()
    with pytest.raises(FormatError, match=r"has 250000 bytes.*200000 from 100000"):
        packed.read(1)
    with pytest.raises(NotFoundError):
        dedicated.read()


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_a_data_file_that_was_cut_is_told(tmp_path: Path, version: str) -> None:
    written(tmp_path, version)
    (path,) = (tmp_path / "data").glob("*.lance")
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(FormatError, match="bytes, the manifest says"):
        lw.open(tmp_path).scan(["b"]).to_arrow()
    with pytest.raises(FormatError, match="bytes, the manifest says"):
        lw.open(tmp_path).take_blobs("b", [0])


def test_a_blob_inside_another_column_is_refused_by_name(tmp_path: Path) -> None:
    inner = pa.field("b", pa.large_binary(), metadata=BLOB)
    kind = pa.struct([("k", pa.int32()), inner])
    schema = pa.schema([("s", kind)])
    table = pa.table([pa.array([{"k": 1, "b": b"x"}], kind)], schema=schema)
    with pytest.raises(UnsupportedError, match=r"'s\.b' is a blob inside another column"):
        lw.create(tmp_path / "ours", table, layout=lw.Layout(file_version="2.1"))
    lance.write_dataset(table, tmp_path / "theirs", data_storage_version="2.1")
    found = lw.open(tmp_path / "theirs")
    with pytest.raises(UnsupportedError, match=r"'s\.b' is a blob inside another column"):
        found.to_arrow()
    assert found.scan(["s.k"]).to_arrow().to_pylist() == [{"s": {"k": 1}}]


def test_a_table_that_calls_plain_bytes_a_blob_is_corrupt(tmp_path: Path) -> None:
    table = pa.table({"b": pa.array([b"x"], pa.large_binary())})
    lance.write_dataset(table, tmp_path, data_storage_version="2.1")

    def lie(manifest: Any) -> None:
        manifest.fields[0].metadata["lance-encoding:blob"] = b"true"

    edit_manifest(tmp_path, lie)
    with pytest.raises(FormatError, match=r"blob of large_binary.*file has"):
        lw.open(tmp_path).take_blobs("b", [0])


def test_a_manifest_without_sizes_still_gives_blobs(tmp_path: Path) -> None:
    written(tmp_path, "2.2")

    def forget(manifest: Any) -> None:
        fragments = decode_fragments(manifest)
        for fragment in fragments:
            for file in fragment.files:
                file.file_size_bytes = 0
        put_fragments(manifest, fragments)

    edit_manifest(tmp_path, forget)
    assert contents(lw.open(tmp_path).take_blobs("b", [0, 7])) == [b"hello", b"end"]
