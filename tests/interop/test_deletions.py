"""Checklist lines 29 to 32: deletion files, theirs and ours. pylance is the judge."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest
from pyroaring import BitMap
from tests.manifests import decode_fragments, edit_manifest, put_fragments
from tests.pylance import lance

import lancewood as lw
from lancewood.engine.location.deletion_vectors import deletion_key
from lancewood.format.deletion import ARROW_ARRAY, BITMAP
from lancewood.model.fragment import DeletionFile
from lancewood.model.ids import FragmentId
from lancewood.proto import table_pb2

ROWS = 20_000
SYSTEM = ["_rowid", "_rowaddr", "_row_created_at_version", "_row_last_updated_at_version"]


def rows(count: int, first: int = 0) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table({"a": pa.array(numbers, pa.int64()), "s": [f"row {n}" for n in numbers]})


def deletion_files(uri: str) -> list[Path]:
    return sorted((Path(uri) / "_deletions").iterdir())


def numbers(found: pa.Table) -> list[int]:
    listed: list[int] = found.column("a").to_pylist()
    return listed


def agree(uri: str) -> lw.Table:
    """Our table at the newest version, after pylance has validated it and read the same rows."""
    dataset, table = lance.dataset(uri), lw.open(uri)
    dataset.validate()
    names = ["a", "s", *(SYSTEM if table.has_stable_row_ids else SYSTEM[:2])]
    theirs = dataset.scanner(columns=names).to_table()
    assert table.scan(names).to_arrow().to_pylist() == theirs.to_pylist()
    assert dataset.count_rows() == table.count_rows() == theirs.num_rows
    return table


@pytest.mark.parametrize(("count", "suffix"), [(1, ".arrow"), (4_999, ".arrow"), (5_000, ".bin")])
def test_line_29_deletions_by_pylance_of_either_kind_are_read(
    uri: str, count: int, suffix: str
) -> None:
    dataset = lance.write_dataset(rows(ROWS), uri)
    dataset.delete(f"a % 4 = 1 and a < {4 * count}")
    (file,) = deletion_files(uri)
    assert file.suffix == suffix
    gone = set(range(1, 4 * count, 4))
    assert numbers(lw.open(uri).to_arrow()) == [n for n in range(ROWS) if n not in gone]
    assert lw.open(uri).count_rows() == ROWS - count


@pytest.mark.sliced(2)
@pytest.mark.parametrize("stable", [True, False])
@pytest.mark.parametrize("count", [1, 4_999, 5_000])
def test_line_30_rows_that_we_delete_are_gone_for_pylance_which_deletes_more(
    uri: str, count: int, stable: bool
) -> None:
    table = lw.create(uri, rows(ROWS), layout=lw.Layout(stable_row_ids=stable))
    table.delete(f"a % 4 = 1 and a < {4 * count}")
    (file,) = deletion_files(uri)
    assert file.suffix == (".bin" if count >= 5_000 else ".arrow")
    assert agree(uri).count_rows() == ROWS - count
    lance.dataset(uri).delete("a % 4 = 2")
    assert agree(uri).count_rows() == ROWS - count - ROWS // 4
    agree(uri).delete("a % 4 = 3")
    assert set(numbers(agree(uri).to_arrow())) >= set(range(0, ROWS, 4))
    lance.dataset(uri).optimize.compact_files()
    assert agree(uri).fragments[0].deletion_file is None


Bytes = Callable[[BitMap], bytes]


def as_arrow(compression: Literal["zstd", "lz4"] | None) -> Bytes:
    def encode(offsets: BitMap) -> bytes:
        schema = pa.schema([pa.field("row_id", pa.uint32(), nullable=False)])
        sink = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression=compression)
        with pa.ipc.new_file(sink, schema, options=options) as writer:
            writer.write_batch(pa.record_batch([pa.array(offsets, pa.uint32())], schema=schema))
        return bytes(sink.getvalue())

    return encode


def with_runs(offsets: BitMap) -> bytes:
    assert offsets.run_optimize()
    return bytes(offsets.serialize())


def put_deletions(uri: str, kind: Any, data: bytes, count: int) -> None:
    """Give the first fragment a deletion file of these bytes."""

    def change(manifest: table_pb2.Manifest) -> None:
        fragments = decode_fragments(manifest)
        made = fragments[0].deletion_file
        made.file_type, made.read_version = kind, manifest.version
        made.id, made.num_deleted_rows = secrets.randbits(64), count
        file = DeletionFile(made)
        path = Path(uri) / deletion_key(FragmentId(fragments[0].id), file)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        put_fragments(manifest, fragments)
        manifest.reader_feature_flags |= 1
        manifest.writer_feature_flags |= 1

    edit_manifest(uri, change)


@pytest.mark.parametrize(
    ("kind", "encode"),
    [
        (ARROW_ARRAY, as_arrow(None)),
        (ARROW_ARRAY, as_arrow("zstd")),
        (BITMAP, BitMap.serialize),
        (BITMAP, with_runs),
    ],
    ids=["arrow", "arrow zstd", "bitmap", "bitmap with runs"],
)
def test_line_30_every_form_of_deletion_file_is_read_and_deleted_on_by_both(
    uri: str, kind: Any, encode: Bytes
) -> None:
    lw.create(uri, rows(ROWS))
    gone = BitMap(range(100, 8_000))
    put_deletions(uri, kind, encode(gone), len(gone))
    assert agree(uri).count_rows() == ROWS - len(gone)
    lance.dataset(uri).delete("a = 8001")
    agree(uri).delete("a < 100")
    assert numbers(agree(uri).to_arrow())[:2] == [8_000, 8_002]


def test_line_31_a_fragment_that_we_delete_whole_is_gone_and_its_id_is_not_used_again(
    uri: str,
) -> None:
    table = lw.create(uri, rows(300), layout=lw.Layout(max_rows_per_file=100))
    mark = table._snapshot.manifest.max_fragment_id
    after = table.delete("a >= 150")
    assert [each.fragment_id for each in lance.dataset(uri).get_fragments()] == [0, 1]
    assert after._snapshot.manifest.max_fragment_id == mark == 2
    agree(uri)
    after = after.delete("a >= 100")
    assert [each.fragment_id for each in lance.dataset(uri).get_fragments()] == [0]
    agree(uri)
    lance.write_dataset(rows(5, 1000), uri, mode="append")
    assert [each.id for each in agree(uri).fragments] == [0, 3]
    agree(uri).delete("true")
    assert agree(uri).count_rows() == 0
    assert agree(uri)._snapshot.manifest.max_fragment_id == 3


def test_line_32_a_signed_or_misnamed_column_is_read_but_never_written(uri: str) -> None:
    lw.create(uri, rows(100))
    column = pa.array([1, 2, 3], pa.int32())
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, pa.schema([("rows", pa.int32())])) as writer:
        writer.write_batch(pa.record_batch([column], names=["rows"]))
    put_deletions(uri, ARROW_ARRAY, bytes(sink.getvalue()), 3)
    table = lw.open(uri)
    assert numbers(table.head(2)) == [0, 4]
    table.delete("a = 4")
    written = [each for each in deletion_files(uri) if each.name.startswith("0-1-")]
    schemas = [pa.ipc.open_file(each.read_bytes()).schema for each in written]
    ours = pa.schema([pa.field("row_id", pa.uint32(), nullable=False)])
    assert ours in schemas
    assert numbers(agree(uri).head(2)) == [0, 5]


def test_pylance_decodes_our_delete_with_its_condition(uri: str) -> None:
    lw.create(uri, rows(100), layout=lw.Layout(max_rows_per_file=50)).delete("a < 60")
    operation = lance.dataset(uri).read_transaction(2).operation
    assert isinstance(operation, lance.LanceOperation.Delete)
    assert operation.predicate == "a < 60"
    assert operation.deleted_fragment_ids == [0]
    assert [each.id for each in operation.updated_fragments] == [1]


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP"])
def test_an_index_of_pylance_answers_right_after_our_delete(uri: str, kind: str) -> None:
    lw.create(uri, rows(1000), layout=lw.Layout(max_rows_per_file=300))
    lance.dataset(uri).create_scalar_index("a", kind)
    lw.open(uri).delete("a % 3 = 0")
    for where in ("a = 3", "a = 4", "a > 900", "a in (5, 6, 7)"):
        dataset = lance.dataset(uri)
        indexed = dataset.to_table(filter=where)
        plain = dataset.scanner(filter=where, use_scalar_index=False).to_table()
        assert indexed.sort_by("a") == plain.sort_by("a")
    agree(uri)
