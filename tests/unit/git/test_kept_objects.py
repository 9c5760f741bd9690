"""Trees and commits that are kept in memory say what their files say."""

from __future__ import annotations

from pathlib import Path

import pytest

from lancewood.errors import NotFoundError
from lancewood.git.objects import FILE, TREE, Objects, Signature, TreeEntry
from lancewood.git.values import Hash

ADA = Signature("Ada", "ada@example.org", 1_700_000_000, -90)
BEN = Signature("Ben Ö", "ben@example.org", 1_700_000_100, 330)


def made(tmp_path: Path) -> Objects:
    (tmp_path / "pack").mkdir()
    return Objects(tmp_path, fsync=False)


def test_what_was_put_reads_like_what_another_reads(tmp_path: Path) -> None:
    mine = made(tmp_path)
    blob = mine.put_blob(b"1")
    below = mine.put_tree({"b.json": TreeEntry(FILE, blob), "a.json": TreeEntry(FILE, blob)})
    root = mine.put_tree({"tables": TreeEntry(TREE, below), "ü": TreeEntry(FILE, blob)})
    messages = ("one", "two lines\n\nand more\n\n\n", "  kept  ", "\n", "ümlaut\r\n")
    commits: list[Hash] = []
    for each in messages:
        commits.append(mine.put_commit(root, commits[-2:], ADA, each, committer=BEN))
    commits.append(mine.put_commit(root, [], ADA, "by one"))
    mine.sync()
    other = Objects(tmp_path, fsync=False)
    assert [mine.commit(each) for each in commits] == [other.commit(each) for each in commits]
    assert [mine.tree(each) for each in (below, root)] == [
        other.tree(each) for each in (below, root)
    ]


def test_a_tree_that_was_given_out_can_be_changed_without_harm(tmp_path: Path) -> None:
    objects = made(tmp_path)
    entries = {"a": TreeEntry(FILE, objects.put_blob(b"1"))}
    tree = objects.put_tree(entries)
    entries.clear()
    for _ in range(2):
        found = objects.tree(tree)
        assert [*found] == ["a"]
        found.clear()
    objects.sync()
    again = Objects(tmp_path, fsync=False)
    for _ in range(2):
        found = again.tree(tree)
        assert [*found] == ["a"]
        found.clear()


def test_what_was_dropped_before_it_was_written_is_not_remembered(tmp_path: Path) -> None:
    objects = made(tmp_path)
    tree = objects.put_tree({})
    commit = objects.put_commit(tree, [], ADA, "never synced")
    objects.close()
    with pytest.raises(NotFoundError):
        objects.commit(commit)
    with pytest.raises(NotFoundError):
        objects.tree(tree)
