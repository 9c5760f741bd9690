"""Cleanup, verify and repair on tables that pylance made; what is left, pylance reads.

Line 59 of the checklist from the other side: given cleanup by us, nothing that a tag, a branch or a
version of pylance's needs may disappear.
"""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from tests.pylance import judged

import lancewood as lw
from lancewood.jobs.upkeep.problems import ProblemKind
from lancewood.table.by_uri import repair

pytestmark = pytest.mark.usefixtures("no_commit_under_way")

ROWS = pa.table({"a": range(100), "s": [f"text {i}" for i in range(100)]})
NEVER = timedelta(0)


def files(location: str, directory: str = "") -> list[str]:
    root = Path(location) / directory
    return sorted(str(each.relative_to(location)) for each in root.rglob("*") if each.is_file())


def contents(dataset: Any) -> dict[Any, list[dict[str, Any]]]:
    """Every version of main, every tag and every branch at its newest, validated by pylance."""
    found = {}
    refs = [each["version"] for each in dataset.versions()]
    refs += [*dataset.tags.list()]
    refs += [(each, None) for each in dataset.branches.list()]
    for each in refs:
        there = dataset.checkout_version(each)
        there.validate()
        found[each] = there.to_table().to_pylist()
    return found


def with_refs(uri: str, **options: Any) -> Any:
    """Ten versions; tags on 1 and on a branch, a branch from 3, a branch from that one."""
    dataset = lance.write_dataset(ROWS, uri, max_rows_per_file=30, **options)
    dataset.create_scalar_index("a", "BTREE")
    dataset.delete("a < 5")
    branch = dataset.create_branch("exp")
    branch = lance.write_dataset(ROWS, branch.uri, mode="append")
    branch.delete("a = 50")
    branch.tags.create("on-exp", ("exp", branch.version))
    branch.create_branch("exp2/deep").delete("a = 60")
    dataset = lance.dataset(uri)
    dataset.tags.create("first", 1)
    dataset.update({"s": "'changed'"}, where="a % 2 = 0")
    dataset.optimize.compact_files()
    lance.write_dataset(ROWS, uri, mode="overwrite")
    lance.write_dataset(ROWS, uri, mode="append")
    lance.dataset(uri).create_scalar_index("a", "BTREE", replace=True)
    return lance.dataset(uri)


@pytest.mark.parametrize("stable", [True, False])
def test_line_59_what_tags_branches_and_versions_need_stays(uri: str, stable: bool) -> None:
    dataset = with_refs(uri, enable_stable_row_ids=stable)
    newest = dataset.version
    before = contents(dataset)
    report = lw.open(uri).cleanup(keep_versions=2)
    assert {1, 3, newest - 1, newest}.isdisjoint(report.versions)
    after = contents(lance.dataset(uri))
    assert after.items() <= before.items()
    assert before.keys() - after.keys() == set(report.versions)
    assert {each.why for each in report.kept} == {"tag first", "branch exp begins there"}
    assert report.data_files > 0
    for each in ("exp", "exp2/deep"):
        lw.open(f"{uri}/tree/{each}").cleanup(keep_versions=1)
        assert contents(lance.dataset(uri)) == after
    for each in after:
        assert lance.dataset(uri).checkout_version(each).to_table(filter="a = 17").num_rows == sum(
            row["a"] == 17 for row in after[each]
        )


def test_pylance_finds_nothing_more_to_remove_and_the_reverse(uri: str) -> None:
    with_refs(uri)
    lw.open(uri).cleanup(keep_versions=1)
    theirs = lance.dataset(uri).cleanup_old_versions(NEVER, error_if_tagged_old_versions=False)
    # It removes the transaction file of version 3 too, which it keeps for the branch.
    assert (theirs.old_versions, theirs.data_files_removed) == (0, 0)
    assert (theirs.deletion_files_removed, theirs.index_files_removed) == (0, 0)
    again = str(Path(uri).parent / "u.lance")
    with_refs(again)
    lance.dataset(again).cleanup_old_versions(NEVER, error_if_tagged_old_versions=False)
    before = contents(lance.dataset(again))
    lw.open(again).cleanup(keep_versions=1)
    assert contents(lance.dataset(again)) == before


def test_where_a_branch_began_goes_after_the_branch_is_deleted(uri: str) -> None:
    with_refs(uri)
    lance.dataset(uri).tags.delete("on-exp")
    for name in ("exp2/deep", "exp"):
        lance.dataset(uri).branches.delete(name)
    report = lw.open(uri).cleanup(keep_versions=1)
    assert 3 in report.versions
    assert contents(lance.dataset(uri)).keys() == {1, lw.open(uri).version, "first"}


def test_a_branch_whose_main_was_opened_by_another_path_keeps_its_files(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The branch records its main root as a relative path, or through a link."""
    monkeypatch.chdir(tmp_path)
    lance.write_dataset(ROWS, "t.lance", max_rows_per_file=30)
    lance.dataset("t.lance").create_branch("relative")
    (tmp_path / "link").symlink_to(tmp_path)
    lance.dataset(str(tmp_path / "link" / "t.lance")).create_branch("linked")
    lance.write_dataset(ROWS, uri, mode="overwrite")
    lance.write_dataset(ROWS, uri, mode="overwrite")
    report = lw.open(uri).cleanup(keep_versions=1)
    assert report.versions == (2,)
    (Path(uri) / "_refs/branches/relative.json").unlink()
    (Path(uri) / "_refs/branches/linked.json").unlink()
    report = lw.open(uri).cleanup(keep_versions=1)
    assert report.versions == (1,)
    assert report.data_files == 0
    for name in ("relative", "linked"):
        assert lance.dataset(f"{uri}/tree/{name}").to_table().equals(ROWS)


def test_blobs_stay_with_their_rows_and_go_with_them(uri: str) -> None:
    schema = pa.schema(
        [
            pa.field("a", pa.int64()),
            pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"}),
        ]
    )
    large = [bytes([n]) * 300_000 for n in range(4)]
    rows = pa.table({"a": range(4), "b": large}, schema=schema)
    lance.write_dataset(rows, uri)
    lance.write_dataset(rows, uri, mode="overwrite")
    sidecars = [each for each in files(uri, "data") if each.endswith(".blob")]
    table = lw.open(uri)
    assert table.verify(deep=True).ok
    report = table.cleanup(keep_versions=1)
    left = [each for each in files(uri, "data") if each.endswith(".blob")]
    assert 2 * len(left) == len(sidecars)
    assert report.data_files == 1 + len(left)
    found = lance.dataset(uri).take_blobs("b", indices=[0, 1, 2, 3])
    assert [each.readall() for each in found] == large
    assert left
    (Path(uri) / left[0]).unlink()
    assert lw.open(uri).verify().ok
    assert [each.kind for each in lw.open(uri).verify(deep=True).problems] == [ProblemKind.PAGE]


def test_names_of_scheme_v1_are_cleaned_up_as_they_are(uri: str) -> None:
    lance.write_dataset(ROWS, uri, enable_v2_manifest_paths=False)
    for _ in range(3):
        lance.write_dataset(ROWS, uri, mode="overwrite")
    assert lw.open(uri).cleanup(keep_versions=1).versions == (1, 2, 3)
    assert [each for each in files(uri, "_versions") if "manifest" in each] == [
        "_versions/4.manifest"
    ]
    assert lance.dataset(uri).to_table().equals(ROWS)


@pytest.mark.usefixtures("pages_decoded_here")
def test_data_in_another_base_is_never_touched(uri: str, tmp_path: Path) -> None:
    base = tmp_path / "base"
    base.mkdir()
    bases = [lance.DatasetBasePath(str(base), name="cold", is_dataset_root=True)]
    lance.write_dataset(ROWS, uri, initial_bases=bases, target_bases=["cold"])
    lance.write_dataset(ROWS, uri, mode="overwrite")
    there = files(str(base))
    assert there
    assert lw.open(uri).verify(deep=True).ok
    report = lw.open(uri).cleanup(keep_versions=1, in_flight=NEVER)
    assert report.versions == (1,)
    assert report.data_files == 0
    assert files(str(base)) == there


def test_a_detached_version_of_pylance_stays_with_its_files(uri: str) -> None:
    dataset = lance.write_dataset(ROWS, uri)
    fragments = [each.metadata for each in dataset.get_fragments()]
    detached = lance.LanceDataset.commit(
        dataset, lance.LanceOperation.Append(fragments), read_version=1, detached=True
    )
    lance.write_dataset(ROWS, uri, mode="overwrite")
    report = lw.open(uri).cleanup(keep_versions=1)
    assert (report.versions, report.detached) == ((1,), 1)
    assert report.data_files == 0
    assert lance.dataset(uri, version=detached.version).count_rows() == 200


@pytest.mark.usefixtures("pages_decoded_here")
def test_tables_of_pylance_verify(uri: str) -> None:
    dataset = with_refs(uri, enable_stable_row_ids=True)
    dataset.create_scalar_index("s", "INVERTED")
    dataset.add_columns({"c": "a * 2"})
    dataset.merge_insert("a").when_matched_update_all().when_not_matched_insert_all().execute(
        pa.table({"a": [1, 1000], "s": ["x", "y"], "c": [1, 2]})
    )
    table = lw.open(uri)
    report = table.verify(deep=True)
    assert report.problems == ()
    assert report.refs == 4
    assert report.indices == len(table.indices)
    for each in ("exp", "exp2/deep"):
        assert lw.open(f"{uri}/tree/{each}").verify(deep=True).problems == ()


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2", "2.3"])
@pytest.mark.usefixtures("pages_decoded_here")
def test_every_file_version_of_pylance_verifies(uri: str, version: str) -> None:
    rows = pa.table(
        {
            "l": [[i, i + 1] for i in range(50)],
            "n": [{"x": i, "y": [str(i)]} for i in range(50)],
            "v": pa.array([[1.0] * 4] * 50, pa.list_(pa.float32(), 4)),
            "d": pa.array(["a", "b"] * 25).dictionary_encode(),
        }
    )
    lance.write_dataset(rows, uri, data_storage_version=version)
    assert lw.open(uri).verify(deep=True).problems == ()


def test_deferred_compaction_verifies_and_is_cleaned_up(uri: str) -> None:
    dataset = lance.write_dataset(ROWS, uri, max_rows_per_file=20)
    dataset.create_scalar_index("a", "BTREE")
    dataset.optimize.compact_files(defer_index_remap=True)
    assert lw.open(uri).verify().problems == ()
    lw.open(uri).cleanup(keep_versions=1)
    dataset = judged(uri)
    assert dataset.to_table(filter="a = 17").num_rows == 1


def test_a_lost_file_of_a_branch_is_found_and_led_back(uri: str) -> None:
    with_refs(uri)
    location = f"{uri}/tree/exp"
    table = lw.open(location)
    own = [each for each in table.fragments if each.files[0].base_id is None]
    (Path(location) / "data" / own[0].files[0].path).unlink()
    assert ProblemKind.DATA_FILE in {each.kind for each in table.verify().problems}
    assert [each.action for each in repair(location, dry_run=True).proposals] == [
        "restore version 3"
    ]
    repair(location, dry_run=False)
    dataset = judged(location)
    assert dataset.to_table().num_rows == 95


def test_a_copied_table_is_cleaned_up_without_its_branches_losing_files(
    uri: str, tmp_path: Path
) -> None:
    """Pylance reads a copied branch from the old place; the copy's own files stay all the same."""
    with_refs(uri)
    copy = str(tmp_path / "copy.lance")
    shutil.copytree(uri, copy)
    needed = {
        file.path
        for each in ("exp", "exp2/deep")
        for fragment in lw.open(f"{copy}/tree/{each}").fragments
        for file in fragment.files
        if (Path(copy) / "data" / file.path).exists()
    }
    assert needed
    assert lw.open(copy).cleanup(keep_versions=1, in_flight=NEVER).data_files > 0
    assert needed <= {Path(each).name for each in files(copy, "data")}


def test_a_bucket_is_cleaned_up_verified_and_repaired(
    s3_root: str, s3_options: dict[str, str]
) -> None:
    location = f"{s3_root}/t.lance"
    table = lw.create(location, ROWS, access=lw.Access(storage_options=s3_options)).delete("a = 3")
    table = table.overwrite(ROWS).append(ROWS).delete("a = 5")
    assert table.verify(deep=True).problems == ()
    report = table.cleanup(keep_versions=2)
    assert report.versions == (1, 2, 3)
    assert (report.data_files, report.deletion_files, report.transactions) == (1, 1, 3)
    dataset = judged(location, storage_options=s3_options)
    assert dataset.count_rows() == 198
    assert [each["version"] for each in dataset.versions()] == [4, 5]
    store = table._snapshot.location.store
    store.put("_versions/18446744073709551609.manifest", b"")
    assert [
        each.action
        for each in repair(
            location, dry_run=True, access=lw.Access(storage_options=s3_options)
        ).proposals
    ] == ["set the manifest aside"]
    repair(location, dry_run=False, access=lw.Access(storage_options=s3_options))
    assert lance.dataset(location, storage_options=s3_options).version == 5
    assert table.latest().verify().ok
