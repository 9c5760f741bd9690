"""Commits that hold files instead of tables, or beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.interop.git_judge import git
from tests.repo.locations import Where, everywhere
from tests.repo.scene import ONE, TWO, Scene

from lancewood.errors import (
    InvalidInputError,
    NotFoundError,
    RetryableConflictError,
)
from lancewood.git.refs import Refs
from lancewood.git.values import Signature
from lancewood.repo.repository import Repository

FILES = {"edit.xmp": b"<x/>", "a/b/c.bin": bytes(range(256)), "a/b.txt": b"", "ä/ö.txt": b"\xff"}


@pytest.fixture
def repo(where: Where) -> Repository:
    return Repository.init(where.root, storage_options=where.options)


def test_files_are_read_back_by_us_and_by_git(repo: Repository) -> None:
    done = repo.snapshot(FILES, "first", author="Ada <ada@example.org>")
    assert done.is_new
    assert repo.at().files == tuple(sorted(FILES))
    assert {each: repo.at().read(each) for each in repo.at().files} == FILES
    assert repo.at().tables == ()
    listed = git(repo.path, "-c", "core.quotePath=false", "ls-tree", "-r", "--name-only", "HEAD")
    assert sorted(listed.splitlines()) == sorted(FILES)
    assert git(repo.path, "show", "HEAD:edit.xmp") == "<x/>"
    assert git(repo.path, "log", "--format=%an %ae %s") == "Ada ada@example.org first"


def test_the_same_files_are_the_same_tree(repo: Repository, tmp_path: Path) -> None:
    repo.snapshot(FILES, "first")
    other = Repository.init(tmp_path / "other")
    other.snapshot(dict(reversed(FILES.items())), "another message")
    assert other.at().commit.tree == repo.at().commit.tree
    assert other.at().hash != repo.at().hash


def test_the_same_files_author_and_time_are_the_same_commit(
    repo: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noon = Signature("Ada", "ada@example.org", 1_800_000_000, 60)
    monkeypatch.setattr("lancewood.repo.identity.author_of", lambda *_: noon)
    other = Repository.init(tmp_path / "other")
    for each in (repo, other):
        each.snapshot(FILES, "first")
        each.snapshot({"one": b"1"}, "second")
    assert repo.at().hash == other.at().hash
    assert repo.at("HEAD~1").hash == other.at("HEAD~1").hash


@everywhere
def test_a_snapshot_is_the_whole_set_of_files(repo: Repository) -> None:
    repo.snapshot(FILES, "first")
    repo.snapshot({"one": b"1"}, "second")
    assert repo.at().files == ("one",)
    assert repo.at("HEAD~1").files == tuple(sorted(FILES))
    repo.snapshot({}, "none")
    assert repo.at().files == ()
    assert len([*repo.log()]) == 3


@everywhere
def test_the_same_files_as_before_are_no_commit(repo: Repository) -> None:
    first = repo.snapshot(FILES, "first")
    again = repo.snapshot(FILES, "again")
    assert (again.is_new, again.hash) == (False, first.hash)
    assert len([*repo.log()]) == 1


@everywhere
def test_branches_have_their_own_files(repo: Repository) -> None:
    repo.snapshot({"a": b"1"}, "first")
    repo.branches.create("exp")
    repo.snapshot({"a": b"2"}, "second", branch="exp")
    assert (repo.at("main").read("a"), repo.at("exp").read("a")) == (b"1", b"2")
    with pytest.raises(NotFoundError, match="nope"):
        repo.snapshot({"a": b"3"}, "third", branch="nope")


@everywhere
def test_tables_stay_beside_files_and_files_beside_tables(scene: Scene) -> None:
    scene.repo.snapshot({"model.json": b"{}"}, "files")
    assert scene.counts() == (3, 3)
    assert scene.repo.at().tables == (TWO, ONE)
    scene.both(4)
    assert scene.repo.at().read("model.json") == b"{}"
    assert scene.repo.diff() != ()
    scene.repo.remove(ONE)
    scene.repo.remove(TWO)
    assert scene.repo.at().files == ("model.json",)
    assert scene.repo.at().tables == ()


REFUSED = {
    "../up": "leads elsewhere",
    "a/../b": "leads elsewhere",
    "a/./b": "leads elsewhere",
    "..": "leads elsewhere",
    "/etc/passwd": "absolute",
    "": "empty",
    "a//b": "empty",
    "a/": "empty",
    "a\0b": "NUL",
    "a\\b": "backslash",
    ".git": "git keeps",
    ".GIT/config": "git keeps",
    "a/.Git/hooks/x": "git keeps",
    "git~1": "git keeps",
    "GIT~1/config": "git keeps",
    ".git. .": "git keeps",
    ".git ": "git keeps",
    ".git::$INDEX_ALLOCATION": "git keeps",
    ".g\u200cit/config": "git keeps",
    "tables/photos.json": "pins of tables",
    "tables": "pins of tables",
    "Tables/x": "pins of tables",
    "tables ./x": "pins of tables",
    "\ud800": "UTF-8",
    "x" * 256: "no disk",
    "/".join(["abcd"] * 1000): "4096",
}


@everywhere
@pytest.mark.parametrize("path_of_file", REFUSED)
def test_paths_that_lead_out_or_into_git_are_refused(repo: Repository, path_of_file: str) -> None:
    with pytest.raises(InvalidInputError, match=REFUSED[path_of_file]):
        repo.snapshot({"fine": b"", path_of_file: b"x"}, "never")
    assert [*repo.branches] == []


@everywhere
@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"a": b"", "a/b": b""}, "'a' cannot be a file and the directory of 'a/b'"),
        ({"a/b/c/d": b"", "a/b": b""}, "directory of 'a/b/c/d'"),
        ({"a": "text"}, "bytes, not of str"),
        ({1: b""}, "is a text, not int"),
        ([("a", b"")], "a map"),
    ],
)
def test_what_is_no_set_of_files_is_refused(repo: Repository, files: Any, why: str) -> None:
    with pytest.raises(InvalidInputError, match=why):
        repo.snapshot(files, "never")
    with pytest.raises(InvalidInputError, match="message"):
        repo.snapshot({}, "")
    assert [*repo.branches] == []


@everywhere
@pytest.mark.parametrize(
    "path_of_file", [".gitignore", "a.git", "x/.github/y", "git", "tables.txt"]
)
def test_names_that_only_look_like_those_are_allowed(repo: Repository, path_of_file: str) -> None:
    repo.snapshot({path_of_file: b"1"}, "fine")
    assert repo.at().read(path_of_file) == b"1"


@everywhere
def test_what_is_not_there_is_told(repo: Repository) -> None:
    repo.snapshot(FILES, "first")
    view = repo.at()
    with pytest.raises(NotFoundError, match=r"did you mean a/b\.txt"):
        view.read("a/b.tx")
    with pytest.raises(NotFoundError, match="edit"):
        view.read("edit.xmp/more")
    with pytest.raises(InvalidInputError, match="a directory"):
        view.read("a")


def test_links_that_git_made_are_no_files(repo: Repository) -> None:
    repo.snapshot({"a": b"/etc/passwd"}, "first")
    blob = git(repo.path, "rev-parse", "HEAD:a")
    listing = f"100644 blob {blob}\ta\n120000 blob {blob}\tlink\n"
    tree = git(repo.path, "mktree", given=listing)
    commit = git(repo.path, "commit-tree", tree, "-p", "HEAD", "-m", "linked")
    git(repo.path, "update-ref", "-m", "linked", "refs/heads/main", commit)
    assert repo.at().files == ("a",)
    with pytest.raises(InvalidInputError, match="a link"):
        repo.at().read("link")


def test_another_snapshot_at_the_same_time_is_not_overwritten(
    repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.snapshot({"a": b"1"}, "first")
    real, is_used = Refs.move, list[bool]()

    def move(self: Refs, *given: Any, **told: Any) -> bool:
        if not is_used:
            is_used.append(True)
            Repository.open(repo.path).snapshot({"a": b"2"}, "faster")
        return real(self, *given, **told)

    monkeypatch.setattr(Refs, "move", move)
    with pytest.raises(RetryableConflictError, match="changed the files"):
        repo.snapshot({"a": b"3"}, "slower")
    assert repo.at().read("a") == b"2"


def test_a_commit_of_tables_at_the_same_time_is_built_upon(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, is_used = Refs.move, list[bool]()

    def move(self: Refs, *given: Any, **told: Any) -> bool:
        if not is_used:
            is_used.append(True)
            scene.both(4, repo=scene.again())
        return real(self, *given, **told)

    monkeypatch.setattr(Refs, "move", move)
    assert scene.repo.snapshot({"a": b"3"}, "files").is_new
    assert scene.counts() == (4, 4)
    assert scene.repo.at().read("a") == b"3"
    assert len([*scene.repo.log()]) == 3


def test_a_table_is_not_made_where_a_file_of_git_is_in_the_way(repo: Repository) -> None:
    repo.snapshot({"a": b"1"}, "first")
    blob = git(repo.path, "rev-parse", "HEAD:a")
    tree = git(repo.path, "mktree", given=f"100644 blob {blob}\ttables\n")
    commit = git(repo.path, "commit-tree", tree, "-p", "HEAD", "-m", "in the way")
    git(repo.path, "update-ref", "-m", "odd", "refs/heads/main", commit)
    repo.snapshot({"b": b"2"}, "beside it")
    assert repo.at().files == ("b",)
    assert repo.at().read("tables") == b"1"
    git(repo.path, "update-ref", "-m", "back", "refs/heads/main", "main~2")
