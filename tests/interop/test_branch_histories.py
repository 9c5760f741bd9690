"""Line 52, and what is around the rows of branches and clones: homes of files, changes, upkeep."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.interop.branch_bench import (
    KINDS,
    Bench,
    check,
    content,
    make_bench,
    make_template,
    rows,
    with_added,
)
from tests.pylance import judged, lance

import lancewood as lw
from lancewood.jobs.upkeep.problems import ProblemKind
from lancewood.model.transaction import Append

pytestmark = pytest.mark.sliced(6)
BRANCHES = [each for each in KINDS if "clone" not in each]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("template") / "t.lance"
    make_template(root, stable=True)
    return root


@pytest.fixture(params=KINDS)
def bench(request: pytest.FixtureRequest, template: Path, tmp_path: Path) -> Bench:
    return make_bench(request.param, template, tmp_path)


@pytest.fixture(params=BRANCHES)
def branch(request: pytest.FixtureRequest, template: Path, tmp_path: Path) -> Bench:
    return make_bench(request.param, template, tmp_path)


@pytest.fixture
def root(template: Path, tmp_path: Path) -> Path:
    return make_bench("our branch", template, tmp_path).source


# Line 52


def of_main(dataset: Any) -> tuple[str, Any]:
    return "theirs", dataset.create_branch("theirs", dataset.version - 1)


def of_a_tag(dataset: Any) -> tuple[str, Any]:
    dataset.tags.create("good", dataset.version - 2)
    return "theirs", dataset.create_branch("theirs", "good")


def of_a_branch(dataset: Any) -> tuple[str, Any]:
    parent = dataset.create_branch("parent", dataset.version)
    parent.delete("k < 30")
    parent.insert(with_added(rows(500, 510)))
    return "parent/exp", parent.create_branch("parent/exp", ("parent", None))


@pytest.mark.parametrize("make", [of_main, of_a_tag, of_a_branch])
def test_line_52_a_branch_by_pylance_is_opened_read_and_appended_to(
    root: Path, make: Callable[[Any], tuple[str, Any]]
) -> None:
    name, theirs = make(lance.dataset(str(root)))
    table = lw.open(root, branch=name)
    assert (table.branch, table.version) == (name, theirs.version)
    assert table.to_arrow() == theirs.to_table()
    assert any(each.deletion_file for each in table.fragments)
    data = {each.name for each in (root / "data").iterdir()}
    more = rows(700, 720)
    after = table.append(with_added(more) if "added" in table.schema.names else more)
    now = judged(str(root)).checkout_version((name, None))
    assert now.version == after.version == theirs.version + 1
    assert now.to_table() == after.to_arrow()
    assert now.count_rows() == theirs.count_rows() + 20
    new = after.fragments[-1].files[0]
    base = next(each for each in after.base_paths if each.id == new.base_id)
    assert base.path == str(root)
    assert {each.name for each in (root / "data").iterdir()} - data == {new.path}
    assert not (root / "tree" / name / "data" / new.path).exists()


def test_a_branch_is_opened_in_every_way(root: Path) -> None:
    dataset = lance.dataset(str(root))
    dataset.create_branch("theirs", dataset.version)
    dataset.tags.create("good", ("theirs", None))
    for each in ("exp", "theirs"):
        expected = dataset.checkout_version((each, None)).to_table()
        assert lw.open(root, branch=each).to_arrow() == expected
        assert lw.open(f"{root}@{each}").to_arrow() == expected
        assert lw.open(root / "tree" / each).to_arrow() == expected
    assert lw.open(root, tag="good").branch == "theirs"


def test_pylance_is_handed_exactly_this_version_of_the_branch(branch: Bench) -> None:
    after = branch.table.append(with_added(rows(600, 610))).delete("k < 9")
    for each in (branch.table, after.checkout(version=after.version - 1), after):
        handed = each.lance()
        assert handed.version == each.version
        assert handed.to_table() == each.to_arrow()


# Homes of files


def bases_of(table: lw.Table) -> set[int | None]:
    return {file.base_id for each in table.fragments for file in each.files}


def test_new_data_files_of_a_branch_go_to_the_main_root_and_the_rest_stays_below_it(
    branch: Bench,
) -> None:
    main = next(e.id for e in branch.table.base_paths if e.path == str(branch.source))
    before = {each.name for each in (branch.source / "data").iterdir()}
    table = branch.table.append(with_added(rows(600, 610)))
    assert table.fragments[-1].files[0].base_id == main
    table = table.update({"other": "k"}, "k = 3", rewrite="columns").delete("k % 50 = 2")
    changed = [each for each in table.fragments if each.deletion_file]
    own = {each.id for each in changed if each.deletion_file and each.deletion_file.base_id is None}
    deleted = {2, 52, 102, 152, 202, 252, 602}
    assert len(own) >= 5
    files = {each.name for each in (branch.own / "_deletions").iterdir()}
    assert len(files) >= len(own)
    compacted = table.compact(target_rows=10_000)
    assert bases_of(compacted) == {main}
    assert not any(each.deletion_file for each in compacted.fragments)
    new = {each.name for each in (branch.source / "data").iterdir()} - before
    assert {file.path for each in compacted.fragments for file in each.files} <= new
    assert deleted.isdisjoint(compacted.to_arrow()["k"].to_pylist())


def test_new_files_of_a_clone_go_to_its_own_root(template: Path, tmp_path: Path) -> None:
    bench = make_bench("our clone", template, tmp_path)
    table = bench.table.append(with_added(rows(600, 610))).delete("k < 100")
    assert table.fragments[-1].files[0].base_id is None
    assert bases_of(table.compact(target_rows=10_000)) == {None}


def test_a_column_file_beside_inherited_ones_leaves_their_base_ids(bench: Bench) -> None:
    before = [[(file.path, file.base_id) for file in each.files] for each in bench.table.fragments]
    table = bench.table.add_columns({"more": "k + 1"})
    after = [[(file.path, file.base_id) for file in each.files] for each in table.fragments]
    assert [each[:-1] for each in after] == before


def test_fragments_of_a_branch_are_not_taken_for_those_of_main(branch: Bench) -> None:
    fragments = branch.table.write_fragments(with_added(rows(600, 610)))
    main = lw.open(branch.source)
    with pytest.raises(lw.LancewoodError, match="base path"):
        main.commit(main.transaction(Append(fragments)))
    assert lw.open(branch.source).version == main.version


# Changes


def lived_on(table: lw.Table) -> lw.Table:
    table = table.append(with_added(rows(600, 610))).update({"other": "k"}, "k % 40 = 1")
    table = table.add_columns({"more": "k * 3"}).delete("k % 40 = 2")
    return table.compact(target_rows=10_000).update({"other": "1"}, "k = 5", rewrite="columns")


def seen(table: lw.Table, since: int, until: int) -> list[dict[str, Any]]:
    changes = table.changes(since, until, columns=["k", "other", "text"]).to_arrow()
    order = [("_change", "ascending"), ("_rowid", "ascending")]
    found: list[dict[str, Any]] = changes.sort_by(order).to_pylist()
    return found


def test_changes_of_a_branch_reach_back_before_it_was_made(branch: Bench) -> None:
    one, other = lived_on(branch.table), lived_on(branch.plain)
    check(branch)
    fork, newest = branch.table.version, one.version
    for since in (1, fork - 2, fork - 1, fork, fork + 1, fork + 3):
        for until in {fork - 1, fork, fork + 2, newest - 1, newest}:
            if since <= until:
                assert seen(one, since, until) == seen(other, since, until), (since, until)


def test_changes_of_a_clone_begin_with_it(template: Path, tmp_path: Path) -> None:
    bench = make_bench("clone by pylance", template, tmp_path)
    one, other = lived_on(bench.table), lived_on(bench.plain)
    first = bench.table.version
    assert seen(one, first, one.version) == seen(other, first, other.version)
    with pytest.raises(lw.NotFoundError, match=f"version {first - 1} of"):
        one.changes(first - 1)


def test_only_what_a_branch_changed_is_opened_for_its_changes(
    template: Path, tmp_path: Path
) -> None:
    bench = make_bench("our branch", template, tmp_path)
    table = bench.table.append(with_added(rows(600, 610)))
    since = table.version - 2
    for each in (bench.source / "data").iterdir():
        if each.name not in {file.path for file in table.fragments[-1].files}:
            each.unlink()
    assert table.changes(since, table.version).counts.inserted == 10 + 20


# Rows and indices


def test_rows_are_taken_and_indices_masked_as_in_a_plain_table(bench: Bench) -> None:
    ours, plain = (
        each.update({"btree": "6"}, "k % 40 = 1").delete("k % 40 = 2")
        for each in (bench.table, bench.plain)
    )
    ids = plain.scan(["k"], with_row_id=True).to_arrow()["_rowid"].to_pylist()[::7]
    assert ours.take([5, 0, 200, 5]) == plain.take([5, 0, 200, 5])
    assert ours.take(row_ids=ids) == plain.take(row_ids=ids)
    for name in ("btree", "bitmap", "text", "near"):
        one, other = ours.index_mask(name), plain.index_mask(name)
        assert one.row_count == other.row_count
        assert list(one.fragments) == list(other.fragments)
        assert list(one.uncovered) == list(other.uncovered)


VALUES = [b"one", None, b"x" * 300_000, b"four"]


def blob_rows(version: str) -> pa.Table:
    if version == "2.1":
        field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
        column: Any = pa.array(VALUES, pa.large_binary())
    else:
        field, column = lance.blob_field("b"), lance.blob_array(VALUES)
    return pa.table([range(4), column], schema=pa.schema([("k", pa.int64()), field]))


def our_blobs(table: lw.Table) -> list[bytes | None]:
    found = table.take_blobs("b", range(table.count_rows()))
    return [None if each is None else each.read() for each in found]


def their_blobs(dataset: Any, positions: list[int]) -> list[bytes]:
    return [each.readall() for each in dataset.take_blobs("b", indices=positions)]


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_blobs_are_read_through_a_branch(tmp_path: Path, version: str) -> None:
    root, data = tmp_path / "b.lance", blob_rows(version)
    lance.write_dataset(data, root, data_storage_version=version, enable_stable_row_ids=True)
    theirs = lance.dataset(str(root)).create_branch("exp", 1)
    theirs.insert(data)
    assert our_blobs(lw.open(root, branch="exp")) == VALUES * 2


def test_blobs_that_we_write_on_a_branch_are_read_by_pylance(tmp_path: Path) -> None:
    """It looks for those of the first layout in the own root only, inherited ones too."""
    root, data = tmp_path / "b.lance", blob_rows("2.1")
    lance.write_dataset(data, root, data_storage_version="2.1", enable_stable_row_ids=True)
    table = lw.open(root).branches.create("exp").append(data)
    assert our_blobs(table) == VALUES * 2
    theirs = judged(str(root)).checkout_version(("exp", None))
    assert their_blobs(theirs, [4, 6, 7]) == [each for each in VALUES if each is not None]
    with pytest.raises(ValueError, match="Not found"):
        their_blobs(theirs, [0])
    table = table.delete("k = 3").compact()
    assert our_blobs(table) == VALUES[:3] * 2
    theirs = lance.dataset(str(root)).checkout_version(("exp", None))
    assert their_blobs(theirs, [0, 2, 3, 5]) == [VALUES[0], VALUES[2]] * 2


def test_blobs_of_an_overwritten_branch_are_read_by_pylance(tmp_path: Path) -> None:
    root = tmp_path / "b.lance"
    table = lw.create(root, rows(0, 5), layout=lw.Layout(file_version="2.1")).branches.create("exp")
    table = table.overwrite(blob_rows("2.1"))
    theirs = lance.dataset(str(root)).checkout_version(("exp", None))
    assert their_blobs(theirs, [0, 2]) == [VALUES[0], VALUES[2]]
    assert our_blobs(table) == VALUES


# Upkeep

NOW = timedelta(0)


def age(root: Path) -> None:
    """Make every file so old that cleanup may take it."""
    old = (datetime.now(UTC) - timedelta(days=30)).timestamp()
    for each in root.rglob("*"):
        if each.is_file():
            os.utime(each, (old, old))


def test_cleanup_of_main_keeps_what_branches_have_there(branch: Bench) -> None:
    table = lived_on(branch.table)
    expected = table.to_arrow()
    main = lw.open(branch.source)
    main = main.append(with_added(rows(900, 910))).compact(target_rows=10_000)
    age(branch.source)
    main.cleanup(keep_versions=1, in_flight=NOW)
    assert branch.judge().to_table() == expected
    assert lw.open(table.uri).to_arrow() == expected
    lance.dataset(str(branch.source)).cleanup_old_versions(
        older_than=timedelta(0), delete_unverified=True
    )
    assert branch.judge().to_table() == expected
    branch.judge().validate()
    assert lw.open(table.uri).verify().ok
    assert lw.open(branch.source).to_arrow() == main.to_arrow()


def test_cleanup_of_a_branch_removes_its_own_and_nothing_of_others(branch: Bench) -> None:
    table = lived_on(branch.table)
    expected = table.to_arrow()
    main = lance.dataset(str(branch.source)).to_table()
    age(branch.source)
    files = {each.name for each in (branch.source / "data").iterdir()}
    report = table.cleanup(keep_versions=1, in_flight=NOW)
    assert branch.table.version in report.versions
    assert [each.version for each in table.versions()] == [table.version]
    assert {each.name for each in (branch.source / "data").iterdir()} == files
    assert branch.judge().to_table() == expected
    assert lw.open(table.uri).verify().ok
    assert lance.dataset(str(branch.source)).to_table() == main
    lw.open(branch.source).cleanup(in_flight=NOW)
    assert {each.name for each in (branch.source / "data").iterdir()} < files
    assert branch.judge().to_table() == expected
    assert lance.dataset(str(branch.source)).to_table() == main


def test_pylance_cleans_a_branch_of_ours(branch: Bench) -> None:
    table = lived_on(branch.table)
    expected = table.to_arrow()
    main = lance.dataset(str(branch.source)).to_table()
    branch.judge().cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    assert branch.judge().to_table() == expected
    assert lw.open(table.uri).to_arrow() == expected
    assert lw.open(table.uri).verify().ok
    assert lance.dataset(str(branch.source)).to_table() == main


@pytest.mark.usefixtures("pages_decoded_here")
def test_a_branch_and_a_clone_are_verified_to_the_last_page(bench: Bench) -> None:
    table = lived_on(bench.table)
    report = table.verify(deep=True)
    assert report.ok, report.problems
    assert report.data_files == len([f for each in table.fragments for f in each.files])


def test_a_missing_inherited_file_is_found_and_told_with_its_place(bench: Bench) -> None:
    victim = bench.table.fragments[0].files[0].path
    (bench.source / "data" / victim).unlink()
    report = bench.table.verify()
    assert {each.kind for each in report.problems} == {ProblemKind.DATA_FILE}
    assert any(str(bench.source / "data" / victim) in str(each) for each in report.problems)


def test_a_branch_is_repaired_at_its_own_root(branch: Bench) -> None:
    table = lived_on(branch.table)
    newest = min((branch.own / "_versions").glob("*.manifest"))
    newest.write_bytes(b"not a manifest")
    before = sorted((branch.source / "_versions").iterdir())
    report = lw.repair(branch.own, dry_run=False)
    assert [each.action for each in report.proposals]
    assert not report.remaining
    assert lw.open(branch.own).version == table.version - 1
    branch.judge().validate()
    assert sorted((branch.source / "_versions").iterdir()) == before


def test_restore_below_the_fork_says_whose_version_it_is(branch: Bench) -> None:
    fork = branch.table.version
    table = branch.table.append(with_added(rows(600, 610)))
    with pytest.raises(lw.NotFoundError, match=f"version {fork - 1} of .*: ask for"):
        table.restore(fork - 1)
    restored = table.restore(fork)
    assert restored.version == fork + 2
    assert content(branch.judge()) == content(branch.judge().checkout_version(fork))


# Both histories at once


def test_main_and_branch_go_on_beside_each_other(branch: Bench) -> None:
    name = branch.table.branch
    theirs = branch.judge()
    main = lw.open(branch.source)
    for number in range(3):
        main = main.append(with_added(rows(1000 + number, 1001 + number)))
        branch.table.append(with_added(rows(2000 + number, 2001 + number)))
        theirs = lance.dataset(str(branch.source)).checkout_version((name, None))
        theirs.insert(with_added(rows(3000 + number, 3001 + number)))
    expected = {*range(2000, 2003), *range(3000, 3003)}
    assert set(branch.judge().to_table()["k"].to_pylist()) >= expected
    found = set(lance.dataset(str(branch.source)).to_table()["k"].to_pylist())
    assert found.isdisjoint(expected)
    assert found >= set(range(1000, 1003))
    assert branch.table.latest().verify().ok


def test_a_branch_in_a_bucket_is_a_branch_like_any_other(
    s3_root: str, s3_options: dict[str, str]
) -> None:
    uri = f"{s3_root}/t@home.lance"
    lw.create(uri, rows(0, 10), access=lw.Access(storage_options=s3_options)).branches.create("exp")
    table = (
        lw.open(f"{uri}@exp", access=lw.Access(storage_options=s3_options))
        .append(rows(10, 15))
        .delete("k = 3")
    )
    assert (table.branch, table.uri) == ("exp", f"{uri}/tree/exp")
    assert [file.base_id for each in table.fragments for file in each.files] == [0, 0]
    theirs = table.lance()
    theirs.validate()
    assert theirs.to_table() == table.to_arrow()
    theirs.insert(rows(20, 25))
    assert lw.open(f"{uri}@exp", access=lw.Access(storage_options=s3_options)).count_rows() == 19
    assert lw.exists(f"{uri}@exp:3", access=lw.Access(storage_options=s3_options))
    assert not lw.exists(f"{uri}@exp:9", access=lw.Access(storage_options=s3_options))
    assert lw.open(uri, access=lw.Access(storage_options=s3_options)).count_rows() == 10
    table.latest().tags.create("good")
    assert lw.open(f"{uri}@good", access=lw.Access(storage_options=s3_options)).branch == "exp"


def test_a_branch_of_a_main_with_old_names_has_its_history_too(tmp_path: Path) -> None:
    root = str(tmp_path / "v1.lance")
    options = {"enable_v2_manifest_paths": False, "enable_stable_row_ids": True}
    lance.write_dataset(rows(0, 10), root, **options)
    dataset = lance.write_dataset(rows(10, 15), root, mode="append")
    dataset.tags.create("good", 2)
    dataset.create_branch("theirs", 2)
    ours = lw.open(root).branches.create("ours")
    for name in ("ours", "theirs"):
        table = lw.open(root, branch=name).append(rows(20, 23))
        assert lw.open(f"{root}@{name}:3").to_arrow() == table.to_arrow()
        assert table.lance().to_table() == table.to_arrow()
        assert [table.changes(1, each).counts.inserted for each in (1, 2, 3)] == [0, 5, 8]
    assert lw.open(root, tag="good").to_arrow() == ours.to_arrow()
