"""Tags and branches between the two: what one makes the other lists, opens, changes, protects."""

from __future__ import annotations

import json
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.format.refs import ref_name

pytestmark = pytest.mark.sliced(4)

ROWS = pa.table({"a": range(10)})
MORE = pa.table({"a": range(100, 105)})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Three versions by us, the last with a deletion."""
    location = str(tmp_path / "t.lance")
    lw.create(location, ROWS, layout=lw.Layout(max_rows_per_file=4)).append(MORE).delete("a = 3")
    return location


def theirs(uri: str, branch: str | None = None) -> Any:
    dataset = lance.dataset(uri)
    return dataset if branch is None else dataset.checkout_version((branch, None))


def rows(table: Any) -> list[int]:
    found = table.to_table() if hasattr(table, "to_table") else table.to_arrow()
    return sorted(found["a"].to_pylist())


# Line 51: tags


def test_line_51_tags_of_theirs_are_listed_resolved_and_moved(uri: str) -> None:
    dataset = theirs(uri)
    dataset.tags.create("on-main", 2)
    branch = dataset.create_branch("exp", 2)
    branch = lance.write_dataset(MORE, branch, mode="append")
    dataset.tags.create("on-branch", ("exp", 3))
    table = lw.open(uri)
    assert {name: (tag.branch, tag.version) for name, tag in table.tags.list().items()} == {
        "on-branch": ("exp", 3),
        "on-main": (None, 2),
    }
    assert rows(lw.open(uri, tag="on-branch")) == rows(branch)
    assert table.checkout(tag="on-main").count_rows() == 15
    created = dataset.tags.list()["on-main"]["created_at"]
    table.tags.update("on-main", 1)
    table.tags.update("on-branch", "exp:2")
    found = theirs(uri).tags.list()
    assert (found["on-main"]["version"], found["on-main"]["created_at"]) == (1, created)
    assert (found["on-branch"]["branch"], found["on-branch"]["version"]) == ("exp", 2)
    table.tags.delete("on-main")
    assert set(theirs(uri).tags.list()) == {"on-branch"}


def test_line_51_tags_of_ours_are_listed_opened_updated_and_deleted_by_them(uri: str) -> None:
    table = lw.open(uri)
    table.tags.create("v1", 1, metadata={"by": "us"})
    table.branches.create("exp").append(MORE).tags.create("b1")
    dataset = theirs(uri)
    found = dataset.tags.list()
    assert {name: (each["branch"], each["version"]) for name, each in found.items()} == {
        "b1": ("exp", 4),
        "v1": (None, 1),
    }
    assert found["v1"]["metadata"] == {"by": "us"}
    assert found["v1"]["manifest_size"] == table.tags.get("v1").manifest_size
    assert lance.dataset(uri, version="v1").count_rows() == 10
    assert dataset.checkout_version("b1").count_rows() == 19
    before = table.tags.get("v1")
    dataset.tags.update("v1", 2)
    after = table.tags.get("v1")
    assert (after.version, after.created_at_ns) == (2, before.created_at_ns)
    assert after.metadata == {"by": "us"}
    dataset.tags.delete("v1")
    assert list(table.tags.list()) == ["b1"]
    with pytest.raises(Exception, match="b1"):
        dataset.tags.create("b1", 1)


def test_line_51_a_wrong_size_harms_nobody(uri: str) -> None:
    table = lw.open(uri)
    table.tags.create("v1", 1)
    table.branches.create("exp")
    for kind, name in (("tags", "v1"), ("branches", "exp")):
        file = Path(uri) / "_refs" / kind / f"{name}.json"
        for size in (0, 1, 10**9):
            changed = {**json.loads(file.read_text()), "manifestSize": size, "manifest_size": size}
            file.write_text(json.dumps(changed))
            assert lw.open(uri, tag="v1").count_rows() == 10
            assert lw.open(uri, branch="exp").count_rows() == 14
            assert lance.dataset(uri, version="v1").count_rows() == 10
            assert theirs(uri, "exp").count_rows() == 14


# Line 53: branches of ours


def test_line_53_a_branch_of_ours_is_listed_checked_out_and_written_by_them(uri: str) -> None:
    table = lw.open(uri)
    branch = table.branches.create("exp", metadata={"by": "us"}).append(MORE)
    dataset = theirs(uri)
    record, listed = table.branches.get("exp"), dataset.branches.list()["exp"]
    assert listed["parent_branch"] is None
    assert listed["parent_version"] == record.parent_version == 3
    assert listed["manifest_size"] == record.manifest_size
    assert listed["branch_identifier"] == [tuple(each) for each in record.identifier or ()]
    assert listed["metadata"] == {"by": "us"}
    there = theirs(uri, "exp")
    there.validate()
    assert rows(there) == rows(branch)
    lance.write_dataset(pa.table({"a": [1000]}), there, mode="append")
    theirs(uri, "exp").delete("a = 100")
    there = theirs(uri, "exp")
    there.update({"a": "a + 5000"}, where="a = 1000")
    there.optimize.compact_files()
    there = theirs(uri, "exp")
    there.validate()
    ours = branch.latest()
    assert rows(ours) == rows(there)
    assert 6000 in rows(ours)
    assert rows(ours.append(MORE)) == rows(theirs(uri, "exp"))
    assert rows(table.latest()) == rows(theirs(uri))


def test_line_53_they_branch_again_from_a_branch_of_ours_and_we_from_theirs(uri: str) -> None:
    table = lw.open(uri)
    table.branches.create("one").delete("a = 4")
    two = theirs(uri, "one").create_branch("two")
    lance.write_dataset(MORE, two, mode="append")
    three = lw.open(uri, branch="two").branches.create("two/three").delete("a = 5")
    four = theirs(uri, "two/three").create_branch("four", ("two/three", None))
    assert rows(four) == rows(three) == rows(theirs(uri, "two/three"))
    found = table.branches.list()
    for child, parent in (("two", "one"), ("two/three", "two"), ("four", "two/three")):
        own = found[child].identifier or ()
        assert own[:-1] == found[parent].identifier
        assert found[child].parent_branch == parent
    for name in ("one", "two", "two/three", "four"):
        theirs(uri, name).validate()
        assert lw.open(uri, branch=name).verify().ok


@pytest.mark.parametrize("maker", ["ours", "theirs"])
def test_line_53_neither_deletes_what_a_child_or_a_tag_rests_on(uri: str, maker: str) -> None:
    table, dataset = lw.open(uri), theirs(uri)
    if maker == "ours":
        table.branches.create("p").branches.create("child")
        table.branches.create("tagged").tags.create("v1")
    else:
        dataset.create_branch("p").create_branch("child", ("p", None))
        dataset.create_branch("tagged")
        dataset.tags.create("v1", ("tagged", 3))
    for name in ("p", "tagged"):
        with pytest.raises(Exception, match=r"referenced|tag"):
            dataset.branches.delete(name)
        with pytest.raises(lw.InvalidInputError, match=r"'child' came from it|tag 'v1' names"):
            table.branches.delete(name)
    assert set(dataset.branches.list()) == {"p", "child", "tagged"}
    table.branches.delete("child")
    dataset.branches.delete("p")
    table.branches.delete("tagged", force=True)
    assert dataset.branches.list() == {}
    assert dataset.tags.list() == {}


def test_line_53_a_parent_without_a_descent_is_held_by_our_child_for_them_too(uri: str) -> None:
    dataset = theirs(uri)
    dataset.create_branch("p")
    file = Path(uri) / "_refs" / "branches" / "p.json"
    found = json.loads(file.read_text())
    del found["identifier"]
    file.write_text(json.dumps(found))
    theirs(uri, "p").create_branch("their-child", ("p", None))
    lw.open(uri, branch="p").branches.create("our-child")
    listed = theirs(uri).branches.list()
    assert listed["their-child"]["branch_identifier"][0] == listed["p"]["branch_identifier"][0]
    assert listed["our-child"]["branch_identifier"][0] == listed["p"]["branch_identifier"][0]
    theirs(uri).branches.delete("their-child")
    with pytest.raises(Exception, match="our-child"):
        theirs(uri).branches.delete("p")


def test_line_53_a_branch_that_they_delete_beside_a_nested_one_can_be_made_again(uri: str) -> None:
    table = lw.open(uri)
    table.branches.create("p").append(MORE)
    inner = rows(table.branches.create("p/q").append(MORE))
    theirs(uri).branches.delete("p")
    assert (Path(uri) / "tree" / "p" / "_versions").exists(), "they left its files"
    with pytest.raises(lw.InvalidInputError, match="delete it with force=True"):
        table.branches.create("p")
    table.branches.delete("p", force=True)
    assert table.branches.create("p").count_rows() == 14
    assert rows(theirs(uri, "p/q")) == inner
    assert theirs(uri, "p").count_rows() == 14


def test_line_53_the_intent_of_ours_in_a_root_does_not_disturb_them(uri: str) -> None:
    table = lw.open(uri)
    branch = table.branches.create("exp").append(MORE)
    intent = Path(branch.uri) / "_transactions" / "lancewood-intent.json"
    intent.write_text('{"verb": "create", "branch": null, "version": 3, "uuid": "0"}')
    there = theirs(uri, "exp")
    lance.write_dataset(MORE, there, mode="append")
    theirs(uri, "exp").cleanup_old_versions(timedelta(0), delete_unverified=True)
    theirs(uri).cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert theirs(uri, "exp").count_rows() == 24
    theirs(uri).branches.delete("exp")
    assert not (Path(uri) / "tree" / "exp").exists()
    assert table.branches.create("exp").count_rows() == 14


def test_line_53_a_branch_of_a_table_with_indices_and_without_stable_ids(tmp_path: Path) -> None:
    location = str(tmp_path / "plain.lance")
    dataset = lance.write_dataset(pa.table({"a": range(1000)}), location, max_rows_per_file=300)
    dataset.create_scalar_index("a", "BTREE")
    dataset.delete("a = 500")
    branch = lw.open(location).branches.create("exp")
    assert [each.base_id for each in branch.indices] == [0]
    child = branch.append(MORE).branches.create("exp/child").delete("a = 501")
    there = theirs(location, "exp/child")
    there.validate()
    assert rows(there) == rows(child)
    assert there.to_table(filter="a = 502").num_rows == 1
    assert there.to_table(filter="a = 501").num_rows == 0


# Line 54: names

_BRANCHES = """
a A 0 a1 a.b a-b a_b .a a. -x _x a/b a/b/c a/main main/a MAIN HEAD a.lock/c a/b.lock/c ü ünï/cödé
feature-a bugfix/issue-123 日本 a...b.. / a/ /a a//b a..b .. . a/. ./a a\\b a.lock a/b.lock main
a%b a%2Fb a+b a~b a@b a:b a*b a?b a,b a;b a&b a=b a!b a'b a"b a(b) [a] {a} <a> |a a^b `a` #a $a
"""
_TAGS = """
a A 0 1 a1 a.b a-b a_b -x _x v1.0.0 main latest HEAD a.b.c a.lock.b a/b / .a a. . .. a..b a.lock
.lock a%b a+b a~b a@b a:b a*b a?b a\\b a,b a=b a'b
"""
_DIRECTORIES = """
data tree _versions _transactions _deletions _indices _refs a/data data/a p/_versions p/tree/q
"""
_ODD = ["", " ", "a b", "a\tb", "a\nb", "a\0b", "a" * 211, "a" * 212]
BRANCH_NAMES = [*_BRANCHES.split(), *_ODD, "é" * 20, "½", "²", "①"]
TAG_NAMES = [*_TAGS.split(), *_ODD]
REFUSED_BY_US_ONLY = _DIRECTORIES.split()


def verdict(act: Any) -> bool:
    """Whether a name was accepted."""
    try:
        act()
    except Exception:
        return False
    return True


@pytest.mark.parametrize("name", BRANCH_NAMES)
def test_line_54_branch_names_meet_the_same_verdict_and_get_the_same_file(
    uri: str, name: str
) -> None:
    twin = f"{uri}.twin"
    shutil.copytree(uri, twin)
    taken = verdict(lambda: theirs(twin).create_branch(name))
    if not taken:
        with pytest.raises(lw.InvalidInputError, match=r"branch name .* is not allowed: "):
            lw.open(uri).branches.create(name)
        assert not (Path(uri) / "tree").exists()
        return
    assert lw.open(uri).branches.create(name).branch == name
    ours, other = (sorted((Path(each) / "_refs" / "branches").iterdir()) for each in (uri, twin))
    assert [each.name for each in ours] == [each.name for each in other]
    assert ref_name(ours[0].name) == name
    assert list(theirs(uri).branches.list()) == [name]
    assert theirs(uri, name).count_rows() == 14
    assert lw.open(twin, branch=name).count_rows() == 14


@pytest.mark.parametrize("name", TAG_NAMES)
def test_line_54_tag_names_meet_the_same_verdict_and_get_the_same_file(uri: str, name: str) -> None:
    twin = f"{uri}.twin"
    shutil.copytree(uri, twin)
    taken = verdict(lambda: theirs(twin).tags.create(name, 2))
    if not taken:
        with pytest.raises(lw.InvalidInputError, match=r"tag name .* is not allowed: it "):
            lw.open(uri).tags.create(name, 2)
        assert not (Path(uri) / "_refs").exists()
        return
    lw.open(uri).tags.create(name, 2)
    ours, other = (sorted((Path(each) / "_refs" / "tags").iterdir()) for each in (uri, twin))
    assert [each.name for each in ours] == [each.name for each in other]
    assert list(theirs(uri).tags.list()) == [name]
    assert lw.open(twin, tag=name).count_rows() == 15


@pytest.mark.parametrize("name", REFUSED_BY_US_ONLY)
def test_line_54_names_of_directories_are_refused_by_us_and_read_where_they_are(
    uri: str, name: str
) -> None:
    with pytest.raises(lw.InvalidInputError, match="is the name of a directory that every table"):
        lw.open(uri).branches.create(name)
    branch = theirs(uri).create_branch(name)
    branch = lance.write_dataset(MORE, branch, mode="append")
    table = lw.open(uri)
    assert list(table.branches.list()) == [name]
    ours = table.checkout(branch=name)
    assert rows(ours) == rows(branch)
    assert rows(ours.append(MORE)) == rows(theirs(uri, name))
    table.branches.delete(name)
    assert theirs(uri).branches.list() == {}
    assert rows(lw.open(uri)) == rows(theirs(uri))


def test_line_54_tag_names_beyond_ascii_are_refused_by_us_only(uri: str) -> None:
    with pytest.raises(lw.InvalidInputError, match="letters beyond ASCII stop pylance from"):
        lw.open(uri).tags.create("über")
    theirs(uri).tags.create("über", 1)
    with pytest.raises(Exception, match="ber"):
        theirs(uri).tags.list()
    table = lw.open(uri)
    assert list(table.tags.list()) == ["über"]
    assert table.checkout(tag="über").count_rows() == 10
    table.tags.delete("über")
    assert theirs(uri).tags.list() == {}


# Line 55: the seeds' spelling


def test_line_55_refs_in_the_seeds_spelling_are_read(uri: str) -> None:
    table = lw.open(uri)
    table.branches.create("exp").append(MORE)
    table.branches.create("bugfix/issue-123")
    seeds = {
        "branches/exp": {
            "parent_branch": None,
            "parent_version": 3,
            "create_at": 1700000000,
            "manifest_size": 1,
        },
        "branches/bugfix%2Fissue-123": {"parent_version": 3, "create_at": 0, "manifest_size": 1},
        "tags/v1.0.0": {"branch": None, "version": 1, "manifest_size": 5},
        "tags/on-exp": {"branch": "exp", "version": 4, "manifest_size": 5},
        "tags/main": {"version": 2, "manifest_size": 5},
    }
    (Path(uri) / "_refs" / "tags").mkdir()
    for name, record in seeds.items():
        (Path(uri) / "_refs" / f"{name}.json").write_text(json.dumps(record))
    assert {name: each.parent_version for name, each in table.branches.list().items()} == {
        "bugfix/issue-123": 3,
        "exp": 3,
    }
    assert {name: (each.branch, each.version) for name, each in table.tags.list().items()} == {
        "main": (None, 2),
        "on-exp": ("exp", 4),
        "v1.0.0": (None, 1),
    }
    assert lw.open(uri, branch="exp").count_rows() == 19
    assert lw.open(uri, tag="on-exp").count_rows() == 19
    with pytest.raises(Exception, match="missing field"):
        theirs(uri).branches.list()
    lw.open(uri, branch="exp").branches.create("child")
    table.tags.update("v1.0.0", 2)
    table.branches.rename("bugfix/issue-123", "fixed")
    assert set(theirs(uri).branches.list()) == {"exp", "child", "fixed"}, "now with both spellings"
    with pytest.raises(lw.InvalidInputError, match="tag 'on-exp' names its version 4"):
        table.branches.delete("exp")


def test_names_in_a_bucket(s3_root: str, s3_options: dict[str, str]) -> None:
    location = f"{s3_root}/t.lance"
    table = lw.create(location, ROWS, access=lw.Access(storage_options=s3_options))
    branch = table.branches.create("a/b", metadata={"by": "us"}).append(MORE).delete("a = 3")
    table.tags.create("v1")
    branch.tags.create("b1", "a/b:2")
    table.tags.update("v1", "b1")
    dataset = lance.dataset(location, storage_options=s3_options)
    assert rows(dataset.checkout_version(("a/b", None))) == rows(branch)
    assert dataset.checkout_version("v1").count_rows() == 15
    with pytest.raises(lw.InvalidInputError, match="tag 'b1' names its version 2"):
        table.branches.rename("a/b", "c")
    table.tags.delete("b1")
    table.tags.delete("v1")
    renamed = table.branches.rename("a/b", "c")
    assert rows(renamed) == rows(branch_of(dataset, "c")) == rows(renamed.append(MORE.slice(0, 0)))
    theirs = lance.write_dataset(MORE, branch_of(dataset, "c"), mode="append")
    assert rows(renamed.latest()) == rows(theirs)
    table.branches.delete("c")
    assert table.branches.list() == {}
    assert [each.key for each in table._snapshot.location.store.list("tree")] == []


def branch_of(dataset: Any, name: str) -> Any:
    there = dataset.checkout_version((name, None))
    there.validate()
    return there
