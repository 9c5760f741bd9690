"""Checklist lines 60, 61 and 65: feature flags, and what a commit must carry along."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from tests.manifests import add_version, edit_manifest, newest_manifest
from tests.pylance import judged

import lancewood as lw
from lancewood.proto import table_pb2, transaction_pb2

ROWS = pa.table({"a": [1, 2, 3], "s": ["x", "y", "z"]})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    made = str(tmp_path / "t.lance")
    lw.create(made, ROWS)
    return made


def set_flags(uri: str, reader: int, writer: int) -> None:
    def change(message: table_pb2.Manifest) -> None:
        message.reader_feature_flags |= reader
        message.writer_feature_flags |= writer

    edit_manifest(uri, change)


UNKNOWN = [64, 512, 4096, 8192, *(1 << n for n in range(16, 64, 7)), 1 << 63]


@pytest.mark.parametrize("flag", UNKNOWN)
def test_line_60_an_unknown_reader_flag_bars_reading(uri: str, flag: int) -> None:
    set_flags(uri, flag, 0)
    with pytest.raises(lw.UnsupportedError, match=f"reading needs feature flag {flag}"):
        lw.open(uri)
    with pytest.raises(Exception, match=r"(?i)flag|feature|upgrade|not supported|cannot"):
        lance.dataset(uri)


@pytest.mark.parametrize("flag", [*UNKNOWN, 2048])
def test_line_60_an_unknown_writer_flag_bars_writing_only(uri: str, flag: int) -> None:
    set_flags(uri, 0, flag)
    table = lw.open(uri)
    assert table.to_arrow() == ROWS
    before = sorted(each.name for each in Path(uri).rglob("*"))
    writes: list[Callable[[], lw.Table]] = [
        lambda: table.append(ROWS),
        lambda: table.overwrite(ROWS),
        lambda: table.set_config({"a": "b"}),
        lambda: table.restore(1),
    ]
    for write in writes:
        with pytest.raises(lw.UnsupportedError, match=f"writing needs feature flag {flag}"):
            write()
    assert sorted(each.name for each in Path(uri).rglob("*")) == before


@pytest.mark.parametrize("flag", [256, 1024, 16384])
@pytest.mark.parametrize("in_reader", [True, False])
def test_line_61_half_of_a_pair_is_corruption(uri: str, flag: int, in_reader: bool) -> None:
    set_flags(uri, flag * in_reader, flag * (not in_reader))
    with pytest.raises(lw.FormatError, match=f"flag {flag} .*one of the two words only"):
        lw.open(uri)


def test_line_61_a_mark_without_its_flag_is_corruption(uri: str) -> None:
    def change(message: table_pb2.Manifest) -> None:
        message.max_allocated_field_id = 5

    edit_manifest(uri, change)
    with pytest.raises(lw.FormatError, match="32768"):
        lw.open(uri)


def test_field_ids_are_not_reused_where_the_table_forbids_it(uri: str) -> None:
    def change(message: table_pb2.Manifest) -> None:
        message.max_allocated_field_id = 5
        message.writer_feature_flags |= 32768

    edit_manifest(uri, change)
    table = lw.open(uri).append(ROWS).overwrite(ROWS)
    manifest = newest_manifest(uri)
    assert [each.id for each in manifest.fields] == [6, 7]
    assert manifest.message.max_allocated_field_id == 7
    assert manifest.writer_flags & 32768
    dataset = judged(uri)
    assert dataset.to_table() == ROWS
    assert table.restore(1).to_arrow() == ROWS
    assert newest_manifest(uri).message.max_allocated_field_id == 7
    lance.dataset(uri).validate()


def test_a_stale_flag_is_tolerated_and_the_others_follow_the_content(uri: str) -> None:
    table = lw.open(uri).set_config({"a": "1"})
    assert newest_manifest(uri).writer_flags & 8
    table.set_config({"a": None})
    manifest = newest_manifest(uri)
    assert (manifest.reader_flags, manifest.writer_flags) == (2, 2)


def test_line_65_a_commit_carries_everything_along(uri: str) -> None:
    dataset = lance.dataset(uri)
    dataset.create_scalar_index("a", "BTREE")
    dataset.create_scalar_index("s", "BITMAP")
    lance.dataset(uri).update_config({"lance.auto_cleanup.interval": "1000", "mine": "1"})
    lance.dataset(uri).update_metadata({"owner": "me"})

    def plant(message: table_pb2.Manifest) -> None:
        message.MergeFromString(b"\xfa\x3f\x05hello")

    edit_manifest(uri, plant)
    before = newest_manifest(uri)
    table = lw.open(uri)
    table = table.append(ROWS, message="ours").set_config({"ours": "1"})
    after = newest_manifest(uri)
    assert after.index_section == before.index_section
    assert b"\xfa\x3f\x05hello" in after.message.SerializeToString()
    assert after.table_metadata == {"owner": "me"}
    assert after.config == {"lance.auto_cleanup.interval": "1000", "mine": "1", "ours": "1"}
    dataset = judged(uri)
    assert {each.name for each in dataset.describe_indices()} == {"a_idx", "s_idx"}
    assert dataset.to_table(filter="a = 2").num_rows == 2
    assert [each.name for each in table.indices] == ["a_idx", "s_idx"]
    assert {each.kind for each in table.indices} == {"BTreeIndexDetails", "BitmapIndexDetails"}


def test_an_overwrite_drops_the_indices(uri: str) -> None:
    lance.dataset(uri).create_scalar_index("a", "BTREE")
    lw.open(uri).overwrite(ROWS)
    assert not lance.dataset(uri).describe_indices()
    assert lance.dataset(uri).to_table(filter="a = 2").num_rows == 1


def test_a_restore_takes_the_indices_of_that_version(uri: str) -> None:
    lance.dataset(uri).create_scalar_index("a", "BTREE")
    indexed = lw.open(uri)
    indexed.overwrite(ROWS)
    restored = indexed.restore()
    assert [each.name for each in restored.indices] == ["a_idx"]
    assert lance.dataset(uri).to_table(filter="a = 2").num_rows == 1


def test_a_restore_of_what_we_may_not_write_is_refused(uri: str) -> None:
    set_flags(uri, 1024, 1024)
    table = lw.open(uri)
    with pytest.raises(lw.UnsupportedError, match="1024"):
        table.append(ROWS)

    def clear(message: table_pb2.Manifest) -> None:
        message.reader_feature_flags &= ~1024
        message.writer_feature_flags &= ~1024

    theirs = transaction_pb2.Transaction(read_version=1)
    theirs.restore.version = 1
    add_version(uri, theirs, clear)
    with pytest.raises(lw.UnsupportedError, match="1024"):
        lw.open(uri).restore(1)
    assert lw.open(uri).version == 2


def test_base_paths_keep_their_flag(uri: str, tmp_path: Path) -> None:
    dataset = lance.dataset(uri)
    clone = str(tmp_path / "clone.lance")
    dataset.shallow_clone(clone, 1)
    table = lw.open(clone)
    assert table.to_arrow() == ROWS
    table = table.append(ROWS)
    manifest = newest_manifest(clone)
    assert manifest.reader_flags & manifest.writer_flags & 16
    assert lance.dataset(clone).count_rows() == 6
    assert lw.open(clone, access=lw.Access(allowed_bases=[uri])).count_rows() == 6
    assert lw.open(clone, access=lw.Access(allowed_bases=["/"])).to_arrow().num_rows == 6
    inside = tmp_path / "allowed"
    inside.mkdir()
    (inside / "link").symlink_to(uri)
    for allowed in ([str(tmp_path / "elsewhere")], [], [str(inside)]):
        with pytest.raises(lw.InvalidInputError, match="not among the allowed bases"):
            lw.open(clone, access=lw.Access(allowed_bases=allowed)).to_arrow()
    wrong: Any
    for wrong in (uri, 7, [7]):
        with pytest.raises(lw.InvalidInputError, match="allowed_bases takes a list"):
            lw.open(clone, access=lw.Access(allowed_bases=wrong))


@pytest.mark.parametrize("change", ["unknown", "twice"])
def test_a_base_that_is_not_declared_once_is_named_with_its_file(
    uri: str, tmp_path: Path, change: str
) -> None:
    clone = str(tmp_path / "clone.lance")
    lance.dataset(uri).shallow_clone(clone, 1)

    def spoil(message: table_pb2.Manifest) -> None:
        if change == "unknown":
            message.base_paths[0].id = 9
        else:
            message.base_paths.add().CopyFrom(message.base_paths[0])

    edit_manifest(clone, spoil)
    with pytest.raises(lw.FormatError, match=r"manifest: .*base path 0"):
        lw.open(clone).to_arrow()
