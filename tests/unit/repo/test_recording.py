"""What ``commit`` looks at: tables that moved, and of the others no more than their number."""

from __future__ import annotations

import os
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from tests.manifests import manifest_path

import lancewood as lw
from lancewood.catalog.opening import pin_of
from lancewood.engine.snapshot.snapshot import Snapshot, load_snapshot
from lancewood.errors import FormatError
from lancewood.git.objects import LINK, TREE, Signature, TreeEntry
from lancewood.git.repository import GitRepository
from lancewood.repo import writable
from lancewood.repo.commit import swapping

ROWS = pa.table({"id": [1, 2, 3]})
NAMES = ("a", "b", "c")


@pytest.fixture
def repo(tmp_path: Path) -> lw.Repository:
    """Three tables that a transaction made."""
    made = lw.Repository.init(tmp_path / "r", fsync=False)
    with made.transaction(message="first") as changes:
        for name in NAMES:
            changes.create_table(name, ROWS)
    return made


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tables whose manifests a commit reads."""
    names: list[str] = []

    def load(location: object, **options: int) -> Snapshot:
        found: Snapshot = load_snapshot(location, **options)  # type: ignore[arg-type]
        names.append(Path(found.location.uri).stem)
        return found

    monkeypatch.setattr(writable, "load_snapshot", load)
    return names


def uri(repo: lw.Repository, name: str) -> str:
    return str(repo.path / "tables" / f"{name}.lance")


def rows(repo: lw.Repository) -> list[int]:
    return [repo.at().table(name).count_rows() for name in NAMES]


def test_a_commit_reads_nothing_of_tables_that_stand_where_they_were_seen(
    repo: lw.Repository, opened: list[str]
) -> None:
    assert not repo.commit("nothing").is_new
    assert sorted(opened) == ["a", "b", "c"], "once, to see that they are as they are pinned"
    opened.clear()
    lw.open(uri(repo, "b")).append(ROWS)
    assert repo.commit("b moved").tables == ("b",)
    assert opened == ["b"]
    opened.clear()
    assert not repo.commit("nothing").is_new
    assert opened == []
    assert rows(repo) == [3, 6, 3]


def test_a_table_with_the_same_content_at_a_newer_version_is_read_once(
    repo: lw.Repository, opened: list[str]
) -> None:
    repo.commit("nothing")
    table = lw.open(uri(repo, "a")).append(ROWS)
    table.restore(1)
    opened.clear()
    for _ in range(2):
        assert not repo.commit("nothing").is_new
    assert opened == ["a"]
    lance.write_dataset(ROWS, uri(repo, "a"), mode="append")
    assert repo.commit("by pylance").tables == ("a",)


def test_a_state_that_landed_and_went_away_lands_again(repo: lw.Repository) -> None:
    with repo.transaction(message="more") as changes:
        changes.table("a").append(ROWS)
    assert not repo.commit("nothing").is_new
    Path(manifest_path(uri(repo, "a"), 2)).unlink()
    assert lw.open(uri(repo, "a")).count_rows() == 3
    assert not repo.commit("nothing").is_new, "the older state is not taken for a change"
    assert lw.open(uri(repo, "a")).count_rows() == 6


def test_a_pinned_version_that_went_away_is_recorded_as_the_table_stands(
    repo: lw.Repository,
) -> None:
    lw.open(uri(repo, "a")).append(ROWS)
    repo.commit("a moved")
    Path(manifest_path(uri(repo, "a"), 2)).unlink()
    assert repo.commit("a went back").tables == ("a",)
    assert rows(repo) == [3, 3, 3]


def test_a_table_that_moves_while_the_tree_is_written_is_looked_at_again(
    repo: lw.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.commit("nothing")
    lw.open(uri(repo, "a")).append(ROWS)
    moves = iter([True, False])

    def pin(head: Snapshot, table_uri: str) -> object:
        if next(moves, False):
            lw.open(uri(repo, "c")).append(ROWS)
        return pin_of(head, table_uri)

    monkeypatch.setattr(swapping, "pin_of", pin)
    assert repo.commit("both moved").tables == ("a", "c")
    assert rows(repo) == [6, 3, 6]


def test_a_write_within_the_tick_of_the_one_that_was_seen_is_recorded(repo: lw.Repository) -> None:
    versions = Path(uri(repo, "a")) / "_versions"
    lw.open(uri(repo, "a")).append(ROWS)
    before = os.stat(versions).st_mtime_ns
    repo.commit("one")
    lw.open(uri(repo, "a")).append(ROWS)
    os.utime(versions, ns=(before, before))
    assert repo.commit("two").tables == ("a",)
    assert rows(repo) == [9, 3, 3]


def test_a_pin_that_became_a_link_with_the_same_text_is_not_taken_for_a_pin(
    repo: lw.Repository,
) -> None:
    repo.commit("nothing")
    git = GitRepository.open(repo.path, fsync=False)
    tip = git.refs.read("refs/heads/main")
    assert tip is not None
    root = git.objects.tree(git.objects.commit(tip).tree)
    below = git.objects.tree(root["tables"].hash)
    below["b.json"] = TreeEntry(LINK, below["b.json"].hash)
    root["tables"] = TreeEntry(TREE, git.objects.put_tree(below))
    by = Signature.now("Ada", "ada@example.org")
    commit = git.objects.put_commit(git.objects.put_tree(root), [tip], by, "a link")
    assert git.refs.move("refs/heads/main", tip, commit, why="test", by=by)
    with pytest.raises(FormatError, match=r"tables/b\.json: is no file"):
        repo.commit("again")


def test_what_one_repository_object_remembers_does_not_hide_commits_of_another(
    repo: lw.Repository,
) -> None:
    other = lw.Repository.open(repo.path, fsync=False)
    repo.commit("nothing")
    with other.transaction(message="by the other") as changes:
        changes.table("b").append(ROWS)
    lw.open(uri(repo, "c")).append(ROWS)
    assert repo.commit("c moved").tables == ("c",)
    assert rows(other) == [3, 6, 6]
