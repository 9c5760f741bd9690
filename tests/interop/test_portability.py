"""A table's directory is copied or moved: main and its branches, three levels deep, go on there.

Every level has appended rows, deleted rows, an added column and an index of its own. Whatever
becomes of the old place, deleted, filled with junk or taken by another table, the rows that pylance
saw there are read and changed at the new one. After ``relocate`` pylance does so too.
"""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from tests.manifests import edit_manifest, newest_manifest
from tests.pylance import judged

import lancewood as lw
from lancewood.engine.location.base_paths import moved_bases
from lancewood.format.manifest import decode_manifest_file, encode_manifest_file
from lancewood.store.locate import open_store

pytestmark = pytest.mark.sliced(4)
NAMES = ("one", "one/two", "three")
"""Each branch is made from the one before it, the first from main."""
AT_ONCE = timedelta(0)


def rows(first: int, count: int, **columns: Any) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {"id": pa.array(numbers, pa.int64()), "s": [f"row {each}" for each in numbers], **columns}
    )


@dataclass(frozen=True)
class Made:
    """A table and what pylance reads from it."""

    uri: str
    contents: dict[str | None, pa.Table]


def theirs(uri: str, branch: str | None = None, **options: Any) -> Any:
    dataset = lance.dataset(uri, **options)
    return dataset if branch is None else dataset.checkout_version((branch, None))


def contents(dataset: Any) -> pa.Table:
    return dataset.scanner(with_row_id=True).to_table()


def make_by_pylance(uri: str, level: int, branch: str | None, parent: str | None) -> None:
    if branch is None:
        lance.write_dataset(rows(0, 20), uri, max_rows_per_file=5, enable_stable_row_ids=True)
        dataset = lance.dataset(uri)
    else:
        made = theirs(uri, parent).create_branch(branch)
        extra = {f"added{n}": pa.array(range(10), pa.int64()) for n in range(level)}
        lance.write_dataset(rows(100 * level, 10, **extra), made.uri, mode="append")
        dataset = lance.dataset(made.uri)
    change_by_pylance(dataset, level)


def change_by_pylance(dataset: Any, level: int) -> None:
    dataset.delete(f"id % 20 = {5 * level + 3}")
    dataset.add_columns({f"added{level}": f"id * {level + 2}"})
    dataset.create_scalar_index("id", "BTREE", name=f"index{level}", replace=False)


def make_by_us(uri: str, level: int, branch: str | None, parent: str | None) -> None:
    if branch is None:
        table = lw.create(uri, rows(0, 20), layout=lw.Layout(max_rows_per_file=5))
    else:
        source = lw.open(uri) if parent is None else lw.open(uri, branch=parent)
        table = source.branches.create(branch)
        extra = {f"added{n}": pa.array(range(10), pa.int64()) for n in range(level)}
        table = table.append(rows(100 * level, 10, **extra))
    table = table.delete(f"id % 20 = {5 * level + 3}")
    table.add_columns({f"added{level}": f"id * {level + 2}"})
    theirs(uri, branch).create_scalar_index("id", "BTREE", name=f"index{level}", replace=False)


def make_by_both(uri: str, level: int, branch: str | None, parent: str | None) -> None:
    make = make_by_us if level % 2 else make_by_pylance
    make(uri, level, branch, parent)


MAKERS: dict[str, Callable[[str, int, str | None, str | None], None]] = {
    "pylance": make_by_pylance,
    "lancewood": make_by_us,
    "both in turn": make_by_both,
}


def make(uri: str, maker: str) -> Made:
    parent = None
    for level, branch in enumerate((None, *NAMES)):
        MAKERS[maker](uri, level, branch, parent)
        parent = branch
    return Made(uri, {each: contents(theirs(uri, each)) for each in (None, *NAMES)})


@pytest.fixture(scope="module", params=MAKERS)
def template(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make(str(tmp_path_factory.mktemp("made") / "t.lance"), request.param)


def delete_it(old: Path) -> None:
    shutil.rmtree(old)


def spoil_it(old: Path) -> None:
    """Everything is still there, of the same size, and wrong."""
    for each in old.rglob("*"):
        if each.is_file():
            each.write_bytes(b"\xff" * each.stat().st_size)


def clean_it(old: Path) -> None:
    """The old table lives on, without the rows that were copied."""
    for branch in reversed(NAMES):
        theirs(str(old)).branches.delete(branch)
    lance.write_dataset(rows(900, 3), old, mode="overwrite")
    lance.dataset(old).cleanup_old_versions(timedelta(0), delete_unverified=True)


def take_it(old: Path) -> None:
    shutil.rmtree(old)
    lance.write_dataset(rows(700, 5), old)
    lance.dataset(str(old)).create_branch("one")


FATES = {"deleted": delete_it, "spoiled": spoil_it, "cleaned": clean_it, "taken": take_it}


@pytest.fixture(params=FATES)
def moved(request: pytest.FixtureRequest, template: Made, tmp_path: Path) -> Made:
    """The table in another place; the old one met one of the fates."""
    return move(template, tmp_path, FATES[request.param])


def move(template: Made, tmp_path: Path, fate: Callable[[Path], None] = delete_it) -> Made:
    """Brings the template back to where it was made, copies it from there, and lets fate act."""
    old, new = Path(template.uri), tmp_path / "elsewhere" / "copied.lance"
    kept = old.with_name("kept.lance")
    if not kept.exists():
        shutil.copytree(old, kept)
    shutil.rmtree(old, ignore_errors=True)
    shutil.copytree(kept, old)
    shutil.copytree(old, new)
    fate(old)
    return Made(str(new), template.contents)


def ours(uri: str, branch: str | None, **options: Any) -> lw.Table:
    return lw.open(uri, branch=branch or "main", access=lw.Access(**options))


def test_every_level_is_read_at_the_new_place(moved: Made) -> None:
    for branch, expected in moved.contents.items():
        table = ours(moved.uri, branch)
        assert table.scan(with_row_id=True).to_arrow() == expected, branch
        assert table.count_rows("id % 7 = 1") == sum(
            each % 7 == 1 for each in expected["id"].to_pylist()
        )
        assert table.take([0, 3])["id"].to_pylist() == expected["id"].take([0, 3]).to_pylist()
        report = table.verify()
        assert report.ok, report.problems


def test_every_level_is_written_at_the_new_place(moved: Made) -> None:
    old = Path(ours(moved.uri, "one").base_paths[0].path)
    before = files(old)
    for branch, expected in moved.contents.items():
        table = ours(moved.uri, branch)
        ids = expected["id"].to_pylist()
        table = table.append(table.head(4)).delete(f"id = {ids[0]}")
        table = table.update({"s": "'changed'"}, where=f"id = {ids[6]}")
        table = table.merge(table.head(0), on="id")
        table = table.add_columns({"more": "id + 1"}).compact()
        assert table.count_rows() == len(ids) + 4 - 2
        assert table.count_rows("s = 'changed' and more = id + 1") == 1
        report = table.verify()
        assert report.ok, report.problems
        cleaned = table.cleanup(keep_versions=1, in_flight=AT_ONCE)
        assert cleaned.data_files
    for branch in (None, *NAMES):
        assert ours(moved.uri, branch).verify().ok
    assert files(old) == before


def files(root: Path) -> dict[str, bytes]:
    return {
        str(each.relative_to(root)): each.read_bytes() for each in root.rglob("*") if each.is_file()
    }


def again(branch: str | None) -> str:
    return f"again-{branch or 'main'}".replace("/", "-")


def test_new_branches_of_moved_ones_survive_the_next_move(template: Made, tmp_path: Path) -> None:
    moved = move(template, tmp_path)
    for branch in (None, *NAMES):
        made = ours(moved.uri, branch).branches.create(again(branch))
        made.append(made.head(2)).delete("id = 9")
    new = tmp_path / "again.lance"
    shutil.move(moved.uri, new)
    for branch, expected in moved.contents.items():
        table = ours(str(new), again(branch))
        kept = [each for each in expected["id"].to_pylist() if each != 9]
        assert table.to_arrow()["id"].to_pylist() == [*kept, *expected["id"][:2].to_pylist()]
        assert table.verify().ok


def test_pylance_reads_and_writes_every_level_after_relocate(moved: Made) -> None:
    before = {each: contents(theirs(moved.uri, each)) for each in (None,)}
    assert before[None] == moved.contents[None]
    looked = lw.relocate(moved.uri, dry_run=True)
    assert looked.dry_run
    assert looked.manifests > 3
    report = lw.relocate(moved.uri, in_flight=AT_ONCE)
    assert (report.manifests, report.bases) == (looked.manifests, looked.bases)
    assert report.left == ()
    assert set(report.roots) == {f"tree/{each}" for each in NAMES}
    assert {each.now for each in report.bases} <= {
        moved.uri,
        *(f"{moved.uri}/tree/{each}" for each in NAMES),
    }
    for branch, expected in moved.contents.items():
        dataset = theirs(moved.uri, branch)
        dataset.validate()
        assert contents(dataset) == expected, branch
        wanted = expected["id"][8].as_py()
        assert dataset.to_table(filter=f"id = {wanted}")["id"].to_pylist() == [wanted]
        table = ours(moved.uri, branch)
        assert table.scan(with_row_id=True).to_arrow() == expected
        assert moved_bases(table._snapshot.location, table._snapshot.manifest) == {}
        if branch is not None:
            dataset.delete(f"id = {wanted}")
            assert ours(moved.uri, branch).count_rows() == len(expected) - 1
    assert lw.relocate(moved.uri).manifests == 0


def test_without_relocate_pylance_finds_no_branch(template: Made, tmp_path: Path) -> None:
    moved = move(template, tmp_path)
    for branch in NAMES:
        with pytest.raises((OSError, ValueError), match=r"[Nn]ot found"):
            contents(theirs(moved.uri, branch))
        with pytest.raises(lw.UnsupportedError, match="was moved") as caught:
            ours(moved.uri, branch).lance()
        assert template.uri in str(caught.value)
        assert "relocate" in str(caught.value)
    assert ours(moved.uri, None).lance().count_rows() == len(moved.contents[None])


def test_every_old_version_is_relocated_and_detached_ones_too(
    template: Made, tmp_path: Path
) -> None:
    moved = move(template, tmp_path)
    branch = ours(moved.uri, "three")
    detached = tmp_path / "elsewhere" / "copied.lance" / "tree" / "three" / "_versions"
    source = sorted(detached.glob("*.manifest"))[0]
    number = (1 << 63) + 5
    shutil.copy(source, detached / f"d{number}.manifest")
    edit_one(detached / f"d{number}.manifest", number)
    versions = [each.version for each in branch.versions()]
    expected = {each: branch.checkout(version=each).to_arrow() for each in (*versions, number)}
    report = lw.relocate(moved.uri, in_flight=AT_ONCE)
    assert report.manifests > len(versions)
    for version, found in expected.items():
        dataset = lance.dataset(f"{moved.uri}/tree/three", version=version)
        assert dataset.to_table() == found


def edit_one(path: Path, version: int) -> None:
    """Give a copied manifest the number that its name says."""
    old = decode_manifest_file(path.read_bytes(), name=str(path))
    old.message.version = version
    path.write_bytes(
        encode_manifest_file(
            old.message,
            index_section=old.index_section,
            transaction_section=old.transaction_section,
        )
    )


def test_a_file_that_stayed_behind_is_read_from_the_old_place(
    template: Made, tmp_path: Path
) -> None:
    moved = move(template, tmp_path, lambda old: None)
    table = ours(moved.uri, "one")
    inherited = [
        each.files[0].path for each in table.fragments if each.files[0].base_id is not None
    ]
    (Path(moved.uri) / "data" / inherited[1]).unlink()
    assert ours(moved.uri, "one").scan(with_row_id=True).to_arrow() == moved.contents["one"]
    (Path(template.uri) / "data" / inherited[1]).unlink()
    with pytest.raises(lw.NotFoundError) as caught:
        ours(moved.uri, "one").to_arrow()
    for root in (moved.uri, template.uri):
        assert f"{root}/data/{inherited[1]}" in str(caught.value)


def test_a_deletion_file_that_stayed_behind_is_read_from_the_old_place(
    template: Made, tmp_path: Path
) -> None:
    moved = move(template, tmp_path, lambda old: None)
    name = next(iter((Path(moved.uri) / "_deletions").iterdir())).name
    (Path(moved.uri) / "_deletions" / name).unlink()
    assert ours(moved.uri, "one").scan(with_row_id=True).to_arrow() == moved.contents["one"]
    (Path(template.uri) / "_deletions" / name).unlink()
    with pytest.raises(lw.NotFoundError) as caught:
        ours(moved.uri, "one").to_arrow()
    for root in (moved.uri, template.uri):
        assert f"{root}/_deletions/{name}" in str(caught.value)


def test_a_file_of_another_size_does_not_stand_for_the_base(tmp_path: Path) -> None:
    old, new = str(tmp_path / "old.lance"), str(tmp_path / "new.lance")
    lance.write_dataset(rows(0, 20), old)
    lance.dataset(old).create_branch("one")
    shutil.copytree(old, new)
    data = next((Path(new) / "data").iterdir())
    data.write_bytes(data.read_bytes() + b"more")
    assert ours(new, "one").to_arrow() == rows(0, 20)
    assert lw.relocate(new, in_flight=AT_ONCE).manifests == 0


def test_the_source_of_a_clone_is_not_taken_for_the_table(tmp_path: Path) -> None:
    source, clone = str(tmp_path / "source.lance"), str(tmp_path / "clone.lance")
    new = str(tmp_path / "new.lance")
    lance.write_dataset(rows(0, 20), source)
    made = lance.dataset(source).shallow_clone(clone, 1)
    lance.write_dataset(rows(50, 5), made.uri, mode="append")
    branch = lance.dataset(clone).create_branch("one")
    branch.delete("id = 3")
    expected = {each: theirs(clone, each).to_table() for each in (None, "one")}
    shutil.move(clone, new)
    for name, found in expected.items():
        table = ours(new, name)
        assert table.to_arrow() == found
        assert table.append(table.head(1)).compact().count_rows() == len(found) + 1
    bases = {each.path: each.now for each in lw.relocate(new, in_flight=AT_ONCE).bases}
    assert bases == {clone: new}
    assert theirs(new, "one").to_table().num_rows == len(expected["one"]) + 1
    shutil.move(source, tmp_path / "gone.lance")
    with pytest.raises(lw.NotFoundError, match=r"source\.lance"):
        lw.open(new, version=1).to_arrow()


def test_a_table_that_lists_its_own_root_is_read_where_it_is(tmp_path: Path) -> None:
    old, new = str(tmp_path / "old.lance"), str(tmp_path / "new.lance")
    lance.write_dataset(rows(0, 20), old, max_rows_per_file=5)
    lance.dataset(old).shallow_clone(str(tmp_path / "form.lance"), 1)
    shutil.copytree(tmp_path / "form.lance", old, dirs_exist_ok=True)
    assert newest_manifest(old).base_paths[0].path == old
    shutil.copytree(old, new)
    spoil_it(Path(old))
    assert lw.open(new).to_arrow() == rows(0, 20)
    assert lw.open(new).scan(in_bases=[None]).count() == 20
    assert lw.relocate(new, in_flight=AT_ONCE).roots == ("",)
    assert lance.dataset(new).to_table() == rows(0, 20)


def test_a_relative_path_of_pylance_is_found_from_any_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lance.write_dataset(rows(0, 20), "t.lance")
    lance.dataset("t.lance").create_branch("one").delete("id = 3")
    uri = str(tmp_path / "t.lance")
    assert ours(uri, "one").base_paths[0].path == "t.lance"
    expected = theirs(uri, "one").to_table()
    assert ours(uri, "one").to_arrow() == expected
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    with pytest.raises((OSError, ValueError), match=r"[Nn]ot found"):
        theirs(uri, "one").to_table()
    assert ours(uri, "one").to_arrow() == expected
    monkeypatch.chdir(tmp_path)
    assert lw.relocate(uri, in_flight=AT_ONCE).bases[0].now == uri
    monkeypatch.chdir(tmp_path / "other")
    assert theirs(uri, "one").to_table() == expected


def test_a_relative_path_of_another_table_is_followed_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lance.write_dataset(rows(0, 20), "source.lance")
    lance.dataset("source.lance").shallow_clone("clone.lance", 1)
    uri = str(tmp_path / "clone.lance")
    with pytest.warns(UserWarning, match=r"relative path 'source\.lance'.*working directory"):
        assert lw.open(uri).to_arrow() == rows(0, 20)
    monkeypatch.chdir("/")
    with (
        pytest.warns(UserWarning, match="relative path"),
        pytest.raises(lw.NotFoundError, match=r"/source\.lance"),
    ):
        lw.open(uri).to_arrow()


def test_the_own_family_is_always_allowed_and_the_old_place_is_not(
    template: Made, tmp_path: Path
) -> None:
    moved = move(template, tmp_path, lambda old: None)
    table = ours(moved.uri, "three", allowed_bases=[])
    assert table.scan(with_row_id=True).to_arrow() == moved.contents["three"]
    inherited = [each.files[0] for each in table.fragments if each.files[0].base_id is not None]
    lost = next(Path(moved.uri).rglob(inherited[1].path))
    lost.unlink()
    with pytest.raises(lw.NotFoundError, match="not among the allowed bases"):
        ours(moved.uri, "three", allowed_bases=[]).to_arrow()


def test_tasks_need_not_look_for_the_files_again(
    template: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = move(template, tmp_path)
    bare = ours(moved.uri, "three")._snapshot.bare()
    monkeypatch.setattr("lancewood.engine.location.moved_roots.RootTrace.is_below", None)
    there = pickle.loads(pickle.dumps(bare))
    whole = ours(moved.uri, "three")._snapshot.manifest
    for fragment in whole.fragments:
        for file in fragment.files:
            store, key = there.location.data_file(there.manifest, file)
            assert store.uri.startswith(moved.uri)
            store.head(key)


def test_a_branch_of_a_table_in_a_directory_called_tree_is_found(tmp_path: Path) -> None:
    old, new = tmp_path / "tree" / "one", tmp_path / "tree" / "two"
    lance.write_dataset(rows(0, 20), old)
    lance.dataset(str(old)).create_branch("one")
    child = theirs(str(old), "one").create_branch("tree/one")
    child.delete("id = 3")
    expected = theirs(str(old), "tree/one").to_table()
    shutil.move(old, new)
    assert ours(str(new), "tree/one").to_arrow() == expected
    lw.relocate(new, in_flight=AT_ONCE)
    assert theirs(str(new), "tree/one").to_table() == expected


def test_branches_on_s3_are_found_after_a_copy_to_another_prefix(
    s3_root: str, s3_options: dict[str, str]
) -> None:
    old, new = f"{s3_root}/old ü.lance", f"{s3_root}/new ü.lance"
    options: dict[str, Any] = {"storage_options": s3_options}
    lance.write_dataset(rows(0, 20), old, max_rows_per_file=5, **options)
    lance.dataset(old, **options).create_branch("ü")
    branch = theirs(old, "ü", **options)
    branch.delete("id = 3")
    branch.create_branch("two").delete("id = 4")
    expected = theirs(old, "two", **options).to_table()
    source, target = (open_store(each, storage_options=s3_options) for each in (old, new))
    for each in list(source.list()):
        target.put(each.key, source.get(each.key))
    source.delete(each.key for each in list(source.list()))
    table = lw.open(new, branch="two", access=lw.Access(**options))
    assert table.to_arrow() == expected
    assert table.append(table.head(2)).delete("id = 5").compact().count_rows() == 19
    report = lw.relocate(new, in_flight=AT_ONCE, access=lw.Access(**options))
    assert {each.now for each in report.bases} == {target.uri, target.at("tree/ü").uri}
    assert theirs(new, "two", **options).count_rows() == 19
    assert theirs(new, "ü", **options).to_table().num_rows == 19


def test_a_table_that_was_downloaded_from_s3_is_read_on_disk(
    s3_root: str, s3_options: dict[str, str], tmp_path: Path
) -> None:
    options: dict[str, Any] = {"storage_options": s3_options}
    lance.write_dataset(rows(0, 20), s3_root, **options)
    lance.dataset(s3_root, **options).create_branch("ü").delete("id = 3")
    theirs(s3_root, "ü", **options).create_branch("two")
    source = open_store(s3_root, storage_options=s3_options)
    for each in list(source.list()):
        path = tmp_path / "t.lance" / each.key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(source.get(each.key))
    uri = str(tmp_path / "t.lance")
    assert ours(uri, "two").count_rows("id >= 0") == 19
    lw.relocate(uri, in_flight=AT_ONCE)
    assert theirs(uri, "two").to_table().num_rows == 19


def test_relocate_is_refused_while_somebody_may_be_writing(tmp_path: Path) -> None:
    old, new = str(tmp_path / "old.lance"), str(tmp_path / "new.lance")
    lance.write_dataset(rows(0, 20), old)
    lance.dataset(old).create_branch("one")
    shutil.move(old, new)
    before = files(Path(new))
    with pytest.raises(lw.RetryableConflictError, match="may be writing; nothing was changed"):
        lw.relocate(new)
    assert files(Path(new)) == before
    edit_manifest(f"{new}/tree/one", lambda message: message.timestamp.FromSeconds(1))
    assert lw.relocate(new).manifests == 1


def test_relocate_refuses_what_is_no_whole_table(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(rows(0, 20), uri)
    lance.dataset(uri).create_branch("one")
    with pytest.raises(lw.InvalidInputError, match="is its branch 'one'; give") as caught:
        lw.relocate(f"{uri}/tree/one")
    assert uri in str(caught.value)
    with pytest.raises(lw.InvalidInputError, match="whole table"):
        lw.relocate(f"{uri}@one")
    with pytest.raises(lw.NotFoundError):
        lw.relocate(tmp_path / "nothing")
    with pytest.raises(lw.InvalidInputError, match="in_flight"):
        lw.relocate(uri, in_flight=5)  # type: ignore[arg-type]
    assert lw.relocate(uri).manifests == 0


def test_relocate_leaves_what_it_cannot_read_and_says_so(tmp_path: Path) -> None:
    old, new = str(tmp_path / "old.lance"), str(tmp_path / "new.lance")
    lance.write_dataset(rows(0, 20), old)
    branch = lance.dataset(old).create_branch("one")
    branch.delete("id = 3")
    shutil.move(old, new)
    first = max((Path(new) / "tree/one/_versions").glob("*.manifest"))
    first.write_bytes(b"damaged")
    report = lw.relocate(new, in_flight=AT_ONCE)
    assert report.manifests == 1
    assert [each.file for each in report.left] == [str(first)]
    assert first.read_bytes() == b"damaged"
    assert theirs(new, "one").count_rows() == 19


def test_symbolic_links_to_a_table_need_no_relocation(tmp_path: Path) -> None:
    real, link = tmp_path / "real.lance", tmp_path / "link.lance"
    lance.write_dataset(rows(0, 20), real)
    lance.dataset(str(real)).create_branch("one").delete("id = 3")
    os.symlink(real, link)
    assert ours(str(link), "one").count_rows("id >= 0") == 19
    assert theirs(str(link), "one").count_rows() == 19
    assert ours(str(link), "one").lance().count_rows() == 19
    assert lw.relocate(link, dry_run=True).manifests == 0


def test_a_base_that_moved_along_takes_new_files_where_it_is(
    template: Made, tmp_path: Path
) -> None:
    moved = move(template, tmp_path)
    table = ours(moved.uri, "one")
    ids = table.scan(in_bases=0).count()
    after = table.append(table.head(3), layout=lw.Layout(into=[0]))
    assert after.count_rows() == table.count_rows() + 3
    assert after.scan(in_bases=[template.uri]).count() == ids + 3
    assert after.verify().ok
    assert not Path(template.uri).exists()
    lw.relocate(moved.uri, in_flight=AT_ONCE)
    assert contents(theirs(moved.uri, "one")).num_rows == after.count_rows()


def test_new_files_of_a_moved_branch_never_go_to_the_old_place(tmp_path: Path) -> None:
    old, new = tmp_path / "old.lance", tmp_path / "new.lance"
    lw.create(old, rows(0, 20)).branches.create("one").branches.create("two")
    shutil.move(old, new)
    table = ours(str(new), "two")
    assert [each.name for each in table.base_paths] == [None, "one"]
    assert table.scan(in_bases=[str(new)]).count() == 20
    with pytest.raises(lw.InvalidInputError, match=r"holds the table at .*new.lance/tree/one"):
        table.append(rows(20, 1), layout=lw.Layout(into="one"))
    with pytest.raises(lw.InvalidInputError, match="it is base path 0"):
        ours(str(new), "two").add_base(new, is_dataset_root=True)
    table = table.append(rows(20, 10), layout=lw.Layout(into="all", max_rows_per_file=2))
    assert {each.files[0].base_id for each in table.fragments} == {None, 0}
    assert not old.exists()


def test_a_moved_branch_without_rows_is_told_where_its_main_root_is(tmp_path: Path) -> None:
    old, new = tmp_path / "old.lance", tmp_path / "new.lance"
    cold = lw.BasePath(tmp_path / "cold", name="cold", is_dataset_root=True)
    lw.create(old, rows(0, 1).schema, layout=lw.Layout(bases=[cold])).branches.create("one")
    shutil.move(old, new)
    table = ours(str(new), "one").append(
        rows(0, 4), layout=lw.Layout(into="all", max_rows_per_file=1)
    )
    assert {each.files[0].base_id for each in table.fragments} == {None, 1}
    with pytest.raises(lw.InvalidInputError, match=r"set_base\(id, '.*new.lance'\)"):
        table.append(rows(4, 1), layout=lw.Layout(into=[2]))
    assert not old.exists()
    table = table.set_base(2, new).append(rows(4, 1), layout=lw.Layout(into=[2]))
    assert table.fragments[-1].files[0].base_id == 2
    assert theirs(str(new), "one").count_rows() == 5


def test_the_work_on_a_moved_branch_is_published_and_pylance_reads_it(
    template: Made, tmp_path: Path
) -> None:
    moved = move(template, tmp_path)
    table = ours(moved.uri, None).branches.publish("one")
    assert sorted(table.to_arrow()["id"].to_pylist()) == sorted(
        moved.contents["one"]["id"].to_pylist()
    )
    dataset = judged(moved.uri)
    assert dataset.to_table() == table.to_arrow()
    assert table.verify().ok
    for branch in ("one/two", "three"):
        assert ours(moved.uri, branch).scan(with_row_id=True).to_arrow() == moved.contents[branch]


def test_what_was_published_by_reference_is_found_after_a_move(
    template: Made, tmp_path: Path
) -> None:
    first = move(template, tmp_path, lambda old: None)
    published = ours(template.uri, None).branches.publish("one", adopt=False)
    expected = published.to_arrow()
    new = tmp_path / "published.lance"
    shutil.move(template.uri, new)
    shutil.copytree(first.uri, template.uri)
    spoil_it(Path(template.uri))
    main = ours(str(new), None)
    assert main.to_arrow() == expected
    for tag in main.tags.list(pins=True):
        main.tags.delete(tag, force=True)
    for branch in ("three", "one/two"):
        main.branches.delete(branch)
    with pytest.raises(lw.InvalidInputError, match="main has a base path there"):
        main.branches.delete("one")
    assert lw.relocate(new, in_flight=AT_ONCE).manifests
    assert lance.dataset(str(new)).to_table() == expected


def test_a_moved_branch_is_detached_and_cloned(template: Made, tmp_path: Path) -> None:
    moved = move(template, tmp_path)
    expected = moved.contents["three"]
    for deep in (False, True):
        clone = ours(moved.uri, "three").clone(tmp_path / f"clone{deep}.lance", deep=deep)
        assert clone.scan(with_row_id=True).to_arrow() == expected
        assert contents(lance.dataset(clone.uri)) == expected
    detached = ours(moved.uri, "three").detach()
    assert detached.scan(with_row_id=True).to_arrow() == expected
    assert contents(theirs(moved.uri, "three")) == expected


def test_blobs_of_a_moved_branch_are_read_and_may_have_stayed_behind(tmp_path: Path) -> None:
    old, new = tmp_path / "old.lance", tmp_path / "new.lance"
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([pa.field("id", pa.int64()), field])
    blobs = pa.table([range(6), [bytes([each]) * 100 for each in range(6)]], schema=schema)
    lance.write_dataset(blobs, old, max_rows_per_file=3, data_storage_version="2.1")
    lance.dataset(str(old)).create_branch("one").delete("id = 1")
    shutil.copytree(old, new)
    table = ours(str(new), "one")
    second = table.fragments[1].files[0].path
    assert [each.read()[:1] for each in table.take_blobs("b", [0, 4]) if each] == [b"\0", b"\5"]
    assert table.update({"id": "id + 10"}, where="id = 5").count_rows("id = 15") == 1
    (new / "data" / second).unlink()
    late = table.checkout(version=table.version)
    assert [each.read()[:1] for each in late.take_blobs("b", [0, 4]) if each] == [b"\0", b"\5"]
