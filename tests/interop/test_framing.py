"""Checklist lines 1 to 12: framing and naming, with pylance as the judge."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from tests.manifests import edit_manifest, manifest_path
from tests.pylance import judged

import lancewood as lw
from lancewood.engine.commit.commit import CommitPolicy
from lancewood.engine.commit.publish import Detached
from lancewood.engine.location.location import Location
from lancewood.engine.snapshot.snapshot import Snapshot
from lancewood.format.layout import NamingScheme, manifest_key, manifest_name
from lancewood.format.manifest import decode_manifest_file
from lancewood.model.ids import DETACHED_BIT, Version
from lancewood.model.transaction import Append
from lancewood.testing.faults import FaultyStore, Killed, WatchedStore

ROWS = pa.table({"a": pa.array([1, 2, 3], pa.int64()), "s": ["x", "y", "z"]})
MORE = pa.table({"a": pa.array([4], pa.int64()), "s": ["w"]})
VERSIONS = ["2.0", "2.1", "2.2"]


@pytest.mark.parametrize("file_version", VERSIONS)
def test_line_1_we_read_a_first_write_by_pylance(uri: str, file_version: str) -> None:
    lance.write_dataset(ROWS, uri, data_storage_version=file_version)
    table = lw.open(uri)
    assert table.version == 1
    assert table.schema == ROWS.schema
    assert table.count_rows() == 3
    assert table.file_version == file_version
    assert table.to_arrow() == ROWS
    (first,) = table.versions()
    assert first.operation == "Overwrite"


@pytest.mark.parametrize("stable", [True, False])
@pytest.mark.parametrize("file_version", VERSIONS)
def test_line_2_pylance_reads_a_first_write_by_us(
    uri: str, file_version: str, stable: bool
) -> None:
    lw.create(uri, ROWS, layout=lw.Layout(file_version=file_version, stable_row_ids=stable))
    dataset = judged(uri)
    assert dataset.count_rows() == 3
    assert dataset.to_table() == ROWS
    assert dataset.data_storage_version == file_version
    assert dataset.has_stable_row_ids == stable
    assert lance.write_dataset(MORE, uri, mode="append").count_rows() == 4
    assert lw.open(uri).count_rows() == 4


def test_line_3_we_list_and_open_every_version(uri: str) -> None:
    lance.write_dataset(ROWS, uri)
    for _ in range(3):
        lance.write_dataset(MORE, uri, mode="append")
    assert [each.version for each in lw.open(uri).versions()] == [4, 3, 2, 1]
    assert [lw.open(uri, version=n).count_rows() for n in (1, 2, 3, 4)] == [3, 4, 5, 6]


def test_line_4_v1_names_are_read_and_kept(uri: str) -> None:
    lance.write_dataset(ROWS, uri, enable_v2_manifest_paths=False)
    lance.write_dataset(MORE, uri, mode="append")
    table = lw.open(uri).append(MORE)
    assert table.version == 3
    assert (Path(uri) / "_versions" / "3.manifest").exists()
    assert lance.dataset(uri).count_rows() == 5
    assert lw.open(uri, version=1).count_rows() == 3
    for _ in range(8):
        table = table.append(MORE)
    assert lw.open(uri).version == 11
    assert lance.dataset(uri).version == 11


def test_line_5_a_mixture_of_names_is_refused(uri: str) -> None:
    lance.write_dataset(ROWS, uri)
    shutil.copy(manifest_path(uri, 1), Path(uri) / "_versions" / "2.manifest")
    with pytest.raises(Exception, match="V1"):
        lance.dataset(uri)
    with pytest.raises(lw.FormatError, match="mixes V1 and V2"):
        lw.open(uri)


def test_line_6_strangers_among_the_manifests_are_ignored(uri: str) -> None:
    lance.write_dataset(ROWS, uri)
    folder = Path(uri) / "_versions"
    for name in (
        "foo.txt",
        "junk.manifest",
        f"{manifest_name(Version(2), NamingScheme.V2)}#1",
        f"{manifest_name(Version(2), NamingScheme.V2)}-6b7c",
        ".tmpAbCdEf",
        "abcdefghijklmnopqrst.manifest",
    ):
        (folder / name).write_bytes(b"not a manifest")
    assert lw.open(uri).version == 1
    assert lw.open(uri).append(MORE).version == 2
    assert lance.dataset(uri).count_rows() == 4


@pytest.mark.parametrize("hint", [b'{"version":1}', b'{"version":999}', b"garbage", b"", None])
def test_line_7_no_hint_leads_either_of_us_astray(uri: str, hint: bytes | None) -> None:
    lance.write_dataset(ROWS, uri)
    lw.open(uri).append(MORE)
    path = Path(uri) / "_versions" / "latest_version_hint.json"
    if hint is None:
        path.unlink(missing_ok=True)
    else:
        path.write_bytes(hint)
    assert lw.open(uri).version == 2
    assert lance.dataset(uri).version == 2
    assert lw.open(uri).append(MORE).version == 3
    assert lance.dataset(uri).version == 3


def test_line_8_a_detached_version_is_opened_by_number_only(uri: str) -> None:
    dataset = lance.write_dataset(ROWS, uri)
    fragment = lance.fragment.LanceFragment.create(uri, MORE)
    detached = lance.LanceDataset.commit(
        uri, lance.LanceOperation.Append([fragment]), read_version=dataset.version, detached=True
    )
    assert detached.version & DETACHED_BIT
    table = lw.open(uri)
    assert table.version == 1
    assert [each.version for each in table.versions()] == [1]
    beside = lw.open(uri, version=detached.version)
    assert beside.to_arrow() == detached.to_table()
    with pytest.raises(lw.InvalidInputError, match="is detached"):
        beside.append(MORE)
    assert table.append(MORE).version == 2


def test_line_8_a_detached_version_by_us_is_opened_by_pylance(uri: str) -> None:
    table = lw.create(uri, ROWS)
    transaction = table.transaction(Append(table.write_fragments(MORE)))
    beside = table._snapshot.commit(transaction, CommitPolicy(publisher=Detached()))
    number = beside.manifest.version
    assert number & DETACHED_BIT
    assert lance.dataset(uri).version == lw.open(uri).version == 1
    assert lance.dataset(uri, version=number).to_table() == pa.concat_tables([ROWS, MORE])
    assert lw.open(uri, version=number).count_rows() == 4
    assert table.append(MORE).version == 2


def test_line_9_a_gap_in_the_versions_is_no_obstacle(uri: str) -> None:
    lance.write_dataset(ROWS, uri)
    for _ in range(3):
        lance.write_dataset(MORE, uri, mode="append")
    manifest_path(uri, 3).unlink()
    table = lw.open(uri)
    assert [each.version for each in table.versions()] == [4, 2, 1]
    assert table.append(MORE).version == 5
    with pytest.raises(lw.NotFoundError, match=r"version 3 .* not found: the newest is 5"):
        lw.open(uri, version=3)


def test_an_old_handle_never_writes_into_a_gap(uri: str) -> None:
    old = lw.create(uri, ROWS)
    for _ in range(3):
        lance.write_dataset(MORE, uri, mode="append")
    manifest_path(uri, 2).unlink()
    with pytest.raises(lw.ConflictError, match="version 2 was cleaned up"):
        old.append(MORE)
    assert not manifest_path(uri, 2).exists()
    assert len(os.listdir(Path(uri) / "data")) == 4
    assert old.latest().append(MORE).version == 5


@pytest.mark.parametrize("damage", ["one byte short", "bad magic", "empty"])
def test_line_10_a_damaged_manifest_is_named_with_the_newest_readable_one(
    uri: str, damage: str
) -> None:
    lance.write_dataset(ROWS, uri)
    for _ in range(3):
        lance.write_dataset(MORE, uri, mode="append")
    for version in (3, 4):
        path = manifest_path(uri, version)
        data = path.read_bytes()
        path.write_bytes(
            {"one byte short": data[:-1], "bad magic": data[:-4] + b"LAND", "empty": b""}[damage]
        )
    with pytest.raises(lw.FormatError, match="newest readable version is 2") as caught:
        lw.open(uri)
    assert caught.value.facts["newest_readable"] == 2
    assert path.name in str(caught.value)
    with pytest.raises(lw.FormatError, match=path.name):
        lw.open(uri, version=4)
    assert lw.open(uri, version=2).count_rows() == 4


def test_a_damaged_version_does_not_hide_the_others(uri: str) -> None:
    table = lw.create(uri, ROWS).append(MORE)
    manifest_path(uri, 2).write_bytes(b"")
    old = lw.open(uri, version=1)
    damaged, fine = old.versions()
    assert (damaged.version, damaged.timestamp, damaged.operation) == (2, None, None)
    assert "too few" in (damaged.damage or "")
    assert (fine.operation, fine.damage) == ("Overwrite", None)
    with pytest.raises(lw.FormatError, match="newest readable version is 1"):
        old.checkout(as_of=table.timestamp)


def test_a_stray_name_with_a_huge_number_is_an_error_not_a_hang(uri: str) -> None:
    table = lw.create(uri, ROWS)
    (Path(uri) / "_versions" / "09223372036854775808.manifest").write_bytes(b"")
    with pytest.raises(lw.LancewoodError):
        table.append(MORE)


def test_line_11_pylance_finds_the_transaction_in_its_older_place(uri: str) -> None:
    lw.create(uri, ROWS, message="first")
    path = manifest_path(uri, 1)
    manifest = decode_manifest_file(path.read_bytes(), name="m")
    assert manifest.transaction_section is not None
    data = path.read_bytes()
    # Field 23 (tag b8 01) and field 21 (tag a8 01) have tags and values of the same length.
    at = data.rindex(b"\xb8\x01\x00")
    path.write_bytes(data[:at] + b"\xa8\x01\x00" + data[at + 3 :])
    shutil.rmtree(Path(uri) / "_transactions")
    read = lance.dataset(uri).read_transaction(1)
    assert read.transaction_properties["__lance_commit_message"] == "first"
    (only,) = lw.open(uri).versions()
    assert (only.operation, only.message) == ("Overwrite", "first")


def test_line_12_killed_before_the_manifest_no_version_is_seen(uri: str) -> None:
    table = lw.create(uri, ROWS)
    fragments = table.write_fragments(MORE)
    location = table._snapshot.location
    for at in range(1, 100):
        store = FaultyStore(location.store, at=at, mode="kill")
        snapshot = type(table._snapshot)(
            type(location)(store), table._snapshot.manifest, table._snapshot.scheme
        )
        transaction = table.transaction(Append(fragments))
        try:
            snapshot.commit(transaction)
        except Killed:
            assert lance.dataset(uri).version == 1
            assert lw.open(uri).version == 1
        else:
            break
        verb, key = store.calls[-1]
        if (verb, key) == ("put_new", manifest_key(Version(2), NamingScheme.V2)):
            return
    pytest.fail("the manifest was never put")


def test_a_version_number_that_contradicts_its_file_is_reported(uri: str) -> None:
    lw.create(uri, ROWS)

    def lie(message: object) -> None:
        message.version = 7  # type: ignore[attr-defined]

    edit_manifest(uri, lie)
    with pytest.raises(lw.FormatError, match="named for version 1, but says it is 7"):
        lw.open(uri)


def test_what_we_put_into_versions_is_a_manifest_and_nothing_else(uri: str) -> None:
    lw.create(uri, ROWS).append(MORE)
    names = sorted(os.listdir(Path(uri) / "_versions"))
    assert names == [
        manifest_name(Version(2), NamingScheme.V2),
        manifest_name(Version(1), NamingScheme.V2),
    ]
    assert sorted(os.listdir(uri)) == ["_transactions", "_versions", "data"]


def test_the_hint_is_left_where_listing_is_costly_and_nowhere_else() -> None:
    class Unordered(WatchedStore):
        lists_in_order = False

    table = lw.create("memory://hinted/t", ROWS).append(MORE)
    old = table._snapshot
    hint = "_versions/latest_version_hint.json"
    assert hint not in {each.key for each in old.location.store.list()}
    location = Location(Unordered(old.location.store))
    lw.Table(Snapshot(location, old.manifest, old.scheme)).append(MORE)
    assert json.loads(location.store.get(hint)) == {"version": 3}
