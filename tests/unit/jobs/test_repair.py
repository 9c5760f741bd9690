"""Damaged tables become whole again when told so; pylance opens them afterwards."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from tests.manifests import (
    decode_fragments,
    edit_manifest,
    manifest_path,
    put_fragments,
)

import lancewood as lw
from lancewood.format.layout import HINT_KEY
from lancewood.jobs.upkeep.problems import ProblemKind, RepairReport
from lancewood.proto import table_pb2
from lancewood.table.by_uri import repair

pytestmark = pytest.mark.usefixtures("no_commit_under_way")

ROWS = pa.table({"a": range(100), "s": [f"text {i}" for i in range(100)]})


@pytest.fixture(autouse=True)
def _no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANCEWOOD_FSYNC", "0")


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Versions 1 to 3: 100 rows, 97 rows, 197 rows."""
    location = str(tmp_path / "t.lance")
    lw.create(location, ROWS, layout=lw.Layout(max_rows_per_file=25)).delete(
        "a in (1, 2, 30)"
    ).append(ROWS)
    return location


def actions(report: RepairReport) -> list[str]:
    return [each.action for each in report.proposals]


def mended(uri: str, *expected: str) -> RepairReport:
    """A dry run proposes, the other one does it, and after that there is nothing to do."""
    before = {each: each.read_bytes() for each in Path(uri).rglob("*") if each.is_file()}
    told = repair(uri, dry_run=True)
    assert told.dry_run
    assert actions(told) == [*expected]
    assert {each: each.read_bytes() for each in Path(uri).rglob("*") if each.is_file()} == before
    done = repair(uri, dry_run=False)
    assert done.proposals == told.proposals
    assert done.remaining == ()
    assert repair(uri, dry_run=True).ok
    assert lw.open(uri).verify().ok
    dataset = lance.dataset(uri)
    dataset.validate()
    assert dataset.to_table().equals(lw.open(uri).to_arrow())
    return done


def change_fragments(uri: str, change: Callable[[list[table_pb2.DataFragment]], None]) -> None:
    def edit(message: Any) -> None:
        fragments = decode_fragments(message)
        change(fragments)
        put_fragments(message, fragments)

    edit_manifest(uri, edit)


def data_file(uri: str, fragment: int) -> Path:
    return Path(uri) / "data" / lw.open(uri).fragments[fragment].files[0].path


def test_a_whole_table_needs_nothing(uri: str) -> None:
    assert repair(uri, dry_run=True).ok
    assert lw.open(uri).repair(dry_run=False).ok
    assert lw.open(uri).version == 3


def test_where_there_is_no_table_there_is_nothing_to_repair(tmp_path: Path) -> None:
    with pytest.raises(lw.NotFoundError):
        repair(tmp_path, dry_run=True)


@pytest.mark.parametrize("left", [0, 1, 100, -1])
def test_a_newest_manifest_that_was_cut_off_is_set_aside(uri: str, left: int) -> None:
    path = manifest_path(uri, 3)
    data = path.read_bytes()[:left]
    path.write_bytes(data)
    with pytest.raises(lw.FormatError):
        lw.open(uri)
    with pytest.raises((OSError, ValueError)):
        lance.dataset(uri)
    done = mended(uri, "set the manifest aside")
    assert "newest version is then 2" in done.proposals[0].effect
    assert lw.open(uri).version == 2
    (aside,) = path.parent.glob("*.damaged-*")
    assert aside.read_bytes() == data
    assert lw.open(uri).append(ROWS).version == 3
    assert lance.dataset(uri).count_rows() == 197


def test_several_damaged_versions_are_set_aside_the_old_ones_too(uri: str) -> None:
    lw.open(uri).append(ROWS)
    for version in (1, 3, 4):
        manifest_path(uri, version).write_bytes(b"")
    mended(uri, *["set the manifest aside"] * 3)
    assert [each.version for each in lw.open(uri).versions()] == [2]
    lw.open(uri).append(ROWS)
    assert lw.open(uri).cleanup(keep_versions=1).versions == (2,)


def test_a_table_without_any_readable_version_is_left_alone(uri: str) -> None:
    for version in (1, 2, 3):
        manifest_path(uri, version).write_bytes(b"")
    report = repair(uri, dry_run=False)
    assert report.proposals == ()
    assert [each.kind for each in report.remaining] == [ProblemKind.MANIFEST] * 3
    assert len([*(Path(uri) / "_versions").iterdir()]) == 3


def test_a_version_that_we_do_not_know_is_not_called_damaged(uri: str) -> None:
    def raise_flag(message: Any) -> None:
        message.reader_feature_flags |= 1 << 40

    edit_manifest(uri, raise_flag)
    report = repair(uri, dry_run=False)
    assert report.proposals == ()
    assert [each.kind for each in report.remaining] == [ProblemKind.MANIFEST]
    assert manifest_path(uri, 3).exists()


def test_names_of_two_schemes_become_one(uri: str) -> None:
    path = manifest_path(uri, 2)
    path.rename(path.parent / "2.manifest")
    with pytest.raises(lw.FormatError):
        lw.open(uri)
    mended(uri, "rename manifests to scheme V2")
    assert [each.version for each in lw.open(uri).versions()] == [3, 2, 1]


@pytest.mark.parametrize("hint", [b"{}", b"x", b'{"version":17}', b'{"version":"3"}', b"[]"])
def test_a_hint_that_misleads_goes(uri: str, hint: bytes) -> None:
    (Path(uri) / HINT_KEY).write_bytes(hint)
    mended(uri, "delete the hint")
    assert not (Path(uri) / HINT_KEY).exists()


def test_a_hint_that_is_behind_stays(uri: str) -> None:
    (Path(uri) / HINT_KEY).write_bytes(json.dumps({"version": 2}).encode())
    assert repair(uri, dry_run=True).ok


def test_unfinished_files_go_when_they_are_old(uri: str) -> None:
    left = [
        Path(uri) / "_versions/.tmpAbC123",
        Path(uri) / "_versions/18446744073709551611.manifest#1",
        Path(uri) / "_transactions/.tmpxyz",
    ]
    other = Path(uri) / "_versions/18446744073709551611.manifest-0123"
    for each in (*left, other):
        each.write_bytes(b"half")
    assert repair(uri, dry_run=True).ok
    long_ago = time.time() - timedelta(days=8).total_seconds()
    for each in (*left, other):
        os.utime(each, (long_ago, long_ago))
    mended(uri, "delete unfinished files")
    assert not any(each.exists() for each in left)
    assert other.exists()


def test_lost_data_leads_back_to_the_newest_version_that_is_whole(uri: str) -> None:
    lw.open(uri).append(ROWS)
    data_file(uri, 4).unlink()
    done = mended(uri, "restore version 2")
    assert "versions 3 to 4" in done.proposals[0].effect
    table = lw.open(uri)
    assert table.version == 5
    assert table.count_rows() == 97
    assert next(iter(table.versions())).message == (
        "repair: restore version 2, the newest that is whole"
    )


def test_a_lost_deletion_file_leads_back_before_it(uri: str) -> None:
    next((Path(uri) / "_deletions").iterdir()).unlink()
    mended(uri, "restore version 1")
    assert lw.open(uri).count_rows() == 100


def test_data_that_every_version_needs_cannot_be_made_up(uri: str) -> None:
    path = data_file(uri, 0)
    path.unlink()
    report = repair(uri, dry_run=False)
    assert report.proposals == ()
    assert [each.where for each in report.remaining] == [str(path)]
    assert lw.open(uri).version == 3


@pytest.mark.parametrize("told", [0, 17])
def test_deleted_rows_are_counted(uri: str, told: int) -> None:
    def claim(fragments: list[table_pb2.DataFragment]) -> None:
        fragments[0].deletion_file.num_deleted_rows = told
        fragments[1].deletion_file.num_deleted_rows = told

    change_fragments(uri, claim)
    mended(uri, "record how many rows are deleted")
    assert lance.dataset(uri).count_rows() == 197
    lance.dataset(uri).delete("a = 5")
    assert lw.open(uri).count_rows() == 195


def leaves_alone(table: lw.Table, *kinds: ProblemKind) -> None:
    """Nothing is proposed, all of it is told, and no version is made."""
    report = table.repair(dry_run=False)
    assert report.proposals == ()
    assert {each.kind for each in report.remaining} == {*kinds}
    assert lw.open(table.uri).version == table.version


def test_a_place_that_is_not_allowed_is_no_damage(uri: str, tmp_path: Path) -> None:
    base = lance.DatasetBasePath(str(tmp_path / "base"), name="cold", is_dataset_root=True)
    lance.dataset(uri).add_bases([base])
    lance.write_dataset(ROWS, uri, mode="append", target_bases=["cold"])
    leaves_alone(lw.open(uri, access=lw.Access(allowed_bases=[])), ProblemKind.OUT_OF_REACH)
    clone = str(tmp_path / "clone.lance")
    lance.dataset(uri).create_scalar_index("a", "BTREE")
    lance.dataset(uri).shallow_clone(clone, lance.dataset(uri).version)
    leaves_alone(lw.open(clone, access=lw.Access(allowed_bases=[])), ProblemKind.OUT_OF_REACH)
    assert repair(clone, dry_run=True).ok


def test_fragments_out_of_order_are_no_reason_to_go_back(uri: str) -> None:
    change_fragments(uri, list.reverse)
    leaves_alone(lw.open(uri), ProblemKind.FRAGMENT_ORDER)
    assert lw.open(uri).count_rows() == 197


def test_a_deletion_file_without_rows_is_no_reason_to_go_back(uri: str) -> None:
    def claim_none(fragments: list[table_pb2.DataFragment]) -> None:
        fragments[0].deletion_file.num_deleted_rows = 0

    (path,) = (Path(uri) / "_deletions").glob("0-*")
    schema = pa.schema([pa.field("row_id", pa.uint32(), nullable=False)])
    with pa.ipc.new_file(str(path), schema) as writer:
        writer.write_table(schema.empty_table())
    change_fragments(uri, claim_none)
    leaves_alone(lw.open(uri), ProblemKind.EMPTY_DELETION_FILE)
    assert lw.open(uri).delete("a = 5").verify().ok
    lance.dataset(uri).delete("a = 6")


def test_deleted_rows_are_not_counted_where_the_rows_are_not(uri: str) -> None:
    def forget(fragments: list[table_pb2.DataFragment]) -> None:
        fragments[0].physical_rows = 0
        fragments[0].deletion_file.num_deleted_rows = 17

    change_fragments(uri, forget)
    leaves_alone(lw.open(uri), ProblemKind.ROW_COUNT, ProblemKind.DELETED_COUNT)


def test_a_newest_manifest_with_broken_fragments_is_set_aside(uri: str) -> None:
    def break_first(message: Any) -> None:
        message.fragments[0] = b"\xff\xff\xff"

    edit_manifest(uri, break_first)
    mended(uri, "set the manifest aside")
    assert lw.open(uri).version == 2


def test_an_index_that_lost_its_files_is_dropped(uri: str) -> None:
    dataset = lance.dataset(uri)
    dataset.create_scalar_index("a", "BTREE")
    dataset.create_scalar_index("s", "BITMAP")
    bad = next(each for each in lw.open(uri).indices if each.name == "a_idx")
    for each in (Path(uri) / "_indices" / str(bad.uuid)).iterdir():
        each.unlink()
    found = lw.open(uri).verify().problems
    assert {each.kind for each in found} == {ProblemKind.INDEX_FILE}
    mended(uri, "drop the index")
    assert [each.name for each in lw.open(uri).indices] == ["s_idx"]
    assert lance.dataset(uri).to_table(filter="a = 7").num_rows == 2


def test_several_things_at_once_are_mended_one_after_the_other(uri: str) -> None:
    lance.dataset(uri).create_scalar_index("a", "BTREE")
    table = lw.open(uri).append(ROWS)

    def claim(fragments: list[table_pb2.DataFragment]) -> None:
        fragments[0].deletion_file.num_deleted_rows = 0

    change_fragments(uri, claim)
    for each in (Path(uri) / "_indices" / str(table.indices[0].uuid)).iterdir():
        each.unlink()
    table.append(ROWS)
    manifest_path(uri, 6).write_bytes(b"")
    (Path(uri) / HINT_KEY).write_bytes(b'{"version":6}')
    mended(
        uri,
        "set the manifest aside",
        "delete the hint",
        "record how many rows are deleted",
        "drop the index",
    )
    assert lw.open(uri).count_rows() == 297


def test_a_branch_is_repaired_at_its_own_root(uri: str) -> None:
    location = lance.dataset(uri).create_branch("exp").uri
    lance.write_dataset(ROWS, location, mode="append")
    manifest_path(location, 4).write_bytes(b"")
    with pytest.raises(lw.FormatError, match="repair"):
        lw.open(uri).cleanup(keep_versions=1)
    mended(location, "set the manifest aside", "delete the hint")
    assert lw.open(uri).cleanup(keep_versions=1).versions == (1, 2)
    assert lance.dataset(location).count_rows() == 197
