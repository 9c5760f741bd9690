"""The files of a commit: which paths they may have, and what their trees are."""

from __future__ import annotations

from pathlib import Path

import pytest

from lancewood.catalog import files
from lancewood.catalog.files import (
    checked_files,
    file_blobs,
    file_names,
    put_beside,
    put_files,
    read_file,
)
from lancewood.catalog.names import checked_path, checked_paths
from lancewood.catalog.tables import TableTree
from lancewood.errors import FormatError, InvalidInputError
from lancewood.git.objects import TREE, Objects, TreeEntry
from lancewood.git.values import Hash


@pytest.fixture
def objects(tmp_path: Path) -> Objects:
    return Objects(tmp_path, fsync=False)


def put(objects: Objects, given: dict[str, bytes]) -> Hash:
    return objects.put_tree(put_files(objects, checked_files(given)))


def test_a_path_is_its_own_if_it_is_fine() -> None:
    for each in ("a", "a/b", "ä", "a b", "...", ".x", "-", "tables2", "a/tables", "x" * 255):
        assert checked_path(each) == each
    assert checked_paths(["b", "a/c", "a.b"]) == ("a.b", "a/c", "b")


def test_every_directory_above_a_file_is_looked_at() -> None:
    with pytest.raises(InvalidInputError, match="'a/b' cannot be a file"):
        checked_paths(["a/b", "a/b.c", "a/b/c/d/e"])
    assert checked_paths(["a/b", "a/b.c", "a-/x"]) == ("a-/x", "a/b", "a/b.c")


def test_files_of_any_depth_are_written_and_read(objects: Objects) -> None:
    deep = "/".join(["d"] * 1500) + "/f"
    given = {"a": b"1", "b/c": b"2", "b/d/e": b"3", deep: b"4"}
    root = put(objects, given)
    assert file_names(objects, root) == tuple(sorted(given))
    assert {each: read_file(objects, root, each) for each in given} == given


def test_the_order_in_which_files_are_given_does_not_matter(objects: Objects) -> None:
    given = {"b/c": b"2", "a": b"1", "b.c": b"3"}
    assert put(objects, given) == put(objects, dict(reversed(given.items())))


def test_a_tree_that_names_too_many_files_is_refused(
    objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = put(objects, {"a": b"", "b": b""})
    for _ in range(10):
        at = objects.put_tree({"x": TreeEntry(TREE, at), "y": TreeEntry(TREE, at)})
    assert len(file_names(objects, at)) == 2048
    assert len([*file_blobs(objects, at, set())]) == 1, "what is shared is met once"
    monkeypatch.setattr(files, "_MOST_FILES", 1000)
    with pytest.raises(FormatError, match="more than 1,000 files"):
        file_names(objects, at)


def test_pins_stay_when_files_are_replaced(objects: Objects) -> None:
    pins = objects.put_tree(put_files(objects, {"x.json": b"{}"}))
    root = objects.put_tree({"tables": TreeEntry(TREE, pins), **put_files(objects, {"a": b"1"})})
    tree = TableTree.of(objects, root)
    assert [*tree.files] == ["a"]
    assert tree.with_files(tree.files).put() == root
    other = tree.with_files(put_files(objects, {"b": b"2"}))
    found = objects.tree(other.put())
    assert found["tables"].hash == pins
    assert [*found] == ["b", "tables"]
    assert other.names() == ("x",)


def test_files_are_put_beside_others_and_only_their_directories_are_read(objects: Objects) -> None:
    top = put_files(objects, checked_files({"a/b": b"1", "a/c/d": b"2", "e/f": b"3", "g": b"4"}))
    found = put_beside(objects, top, checked_files({"a/c/x": b"5", "g": b"6", "h/i/j": b"7"}))
    root = objects.put_tree(found)
    assert file_names(objects, root) == ("a/b", "a/c/d", "a/c/x", "e/f", "g", "h/i/j")
    assert [read_file(objects, root, each) for each in ("a/c/d", "a/c/x", "g")] == [
        b"2",
        b"5",
        b"6",
    ]
    assert found["e"] == top["e"]
    assert found == put_beside(objects, found, {"g": b"6"})
    deep = "/".join(["d"] * 1500) + "/f"
    assert read_file(objects, objects.put_tree(put_beside(objects, found, {deep: b"8"})), deep)


def test_a_file_does_not_take_the_place_of_a_directory(objects: Objects) -> None:
    top = put_files(objects, checked_files({"a/b": b"1"}))
    with pytest.raises(InvalidInputError, match="'a' is a directory"):
        put_beside(objects, top, {"a": b"2"})
    with pytest.raises(InvalidInputError, match="'a/b/c' cannot be in the commit"):
        put_beside(objects, top, {"a/b/c": b"2"})
