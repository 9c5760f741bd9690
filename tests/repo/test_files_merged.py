"""Merge, revert and cherry-pick of commits with files: judged file by file, as git does it."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.repo.locations import Where, everywhere
from tests.repo.scene import Scene
from tests.repo.test_processes import SEED

from lancewood.errors import IncompatibleConflictError
from lancewood.git import signature
from lancewood.git.refs import Refs
from lancewood.repo.repository import Repository

PATHS = ("a", "b", "d/a", "d/b", "d/e/f", "d/e/g", "h/i")


@pytest.fixture
def repo(where: Where) -> Repository:
    """Two files, and a branch exp at the same commit."""
    made = Repository.init(where.root, storage_options=where.options)
    made.snapshot({"one": b"1", "in/two": b"2"}, "begin")
    made.branches.create("exp")
    return made


def files(repo: Repository, revision: str = "main") -> dict[str, bytes]:
    view = repo.at(revision)
    return {each: view.read(each) for each in view.files}


@everywhere
def test_what_only_the_other_side_changed_is_taken(repo: Repository) -> None:
    repo.snapshot({"one": b"1", "in/three": b"3"}, "theirs", branch="exp")
    assert repo.merge("exp", dry_run=True).is_dry_run
    assert files(repo) == {"one": b"1", "in/two": b"2"}
    repo.merge("exp")
    assert files(repo) == {"one": b"1", "in/three": b"3"}


@everywhere
def test_a_file_that_both_sides_changed_is_named_and_nothing_has_changed(
    repo: Repository,
) -> None:
    repo.snapshot({"one": b"1", "in/two": b"theirs"}, "theirs", branch="exp")
    ours = repo.snapshot({"one": b"1", "in/two": b"ours"}, "ours").hash
    for dry_run in (True, False):
        with pytest.raises(IncompatibleConflictError, match="'in/two'") as caught:
            repo.merge("exp", dry_run=dry_run)
        assert caught.value.facts["files"] == ["in/two"]
    assert repo.at().hash == ours
    repo.snapshot({"one": b"1", "in/two": b"theirs"}, "the same")
    repo.merge("exp")
    assert files(repo) == {"one": b"1", "in/two": b"theirs"}


def test_files_that_another_commit_changed_meanwhile_are_judged_anew(
    repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.snapshot({"one": b"theirs", "in/two": b"2"}, "theirs", branch="exp")
    real = Refs.move
    left = [{"one": b"1", "in/two": b"meanwhile"}]

    def move(self: Refs, *given: object, **options: object) -> bool:
        if left:
            Repository.open(repo.path).snapshot(left.pop(), "meanwhile")
        return real(self, *given, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Refs, "move", move)
    repo.merge("exp")
    assert files(repo) == {"one": b"theirs", "in/two": b"meanwhile"}


@everywhere
def test_files_come_along_with_tables(scene: Scene) -> None:
    repo = scene.repo
    repo.branches.create("exp")
    scene.both(4, branch="exp")
    repo.snapshot({"note": b"1"}, "note", branch="exp")
    scene.both(5)
    repo.merge("exp")
    assert (scene.counts(), repo.at().files) == ((5, 5), ("note",))
    repo.revert("HEAD")
    assert (scene.counts(), repo.at().files) == ((4, 4), ())
    repo.cherry_pick("HEAD~1")
    assert (scene.counts(), repo.at().files) == ((5, 5), ("note",))


@everywhere
def test_a_commit_of_files_is_taken_back_and_done_again(repo: Repository) -> None:
    repo.snapshot({"one": b"new", "in/two": b"2"}, "change", branch="exp")
    repo.snapshot({"one": b"1", "in/two": b"2", "more": b""}, "more")
    repo.cherry_pick("exp")
    assert files(repo) == {"one": b"new", "in/two": b"2", "more": b""}
    assert not repo.cherry_pick("exp").is_new
    repo.revert("HEAD")
    assert files(repo) == {"one": b"1", "in/two": b"2", "more": b""}
    repo.snapshot({"one": b"other"}, "other")
    with pytest.raises(IncompatibleConflictError, match="'one'"):
        repo.cherry_pick("exp")
    with pytest.raises(IncompatibleConflictError, match="here: 'one';"):
        repo.revert("exp~1")


def crossed(repo: Repository, ours: dict[str, bytes], theirs: dict[str, bytes]) -> None:
    """A commit on main and one on exp, and each is merged into the other branch."""
    here = repo.snapshot(ours, "ours", branch="main").hash
    there = repo.snapshot(theirs, "theirs", branch="exp").hash
    repo.merge(str(there), branch="main")
    repo.merge(str(here), branch="exp")


def judged_by_git(repo: Repository, one: str, other: str) -> str | None:
    """The tree of the merge that stock git makes; None for a conflict."""
    judged = subprocess.run(
        ["git", "-c", "merge.renames=false", "merge-tree", "--write-tree", one, other],
        capture_output=True,
        text=True,
        cwd=repo.path,
        check=False,
    )
    return None if judged.returncode else judged.stdout.split()[0]


@everywhere
def test_what_was_taken_back_does_not_return_by_a_merge_that_crosses_another(
    repo: Repository,
) -> None:
    crossed(repo, {"one": b"main", "in/two": b"2"}, {"one": b"1", "in/two": b"exp"})
    taken_back = {"one": b"1", "in/two": b"exp"}
    tip = repo.snapshot(taken_back, "main takes it back").hash
    for dry_run in (True, False):
        with pytest.raises(IncompatibleConflictError, match=r"crosswise.*'one'; make") as caught:
            repo.merge("exp", dry_run=dry_run)
        assert caught.value.facts["files"] == ["one"]
    assert repo.at("main").hash == tip
    assert files(repo) == taken_back
    repo.snapshot(taken_back, "and exp takes it back", branch="exp")
    repo.merge("exp")
    assert files(repo) == taken_back


@everywhere
def test_what_both_sides_agree_on_is_merged_across(repo: Repository) -> None:
    crossed(repo, {"one": b"main", "in/two": b"2"}, {"one": b"1", "in/two": b"exp"})
    both = {"one": b"main", "in/two": b"exp"}
    repo.snapshot({**both, "in/three": b"3"}, "more", branch="exp")
    repo.merge("exp")
    assert files(repo) == {**both, "in/three": b"3"}


@pytest.mark.parametrize("is_ours_newer", [True, False])
def test_a_table_whose_bases_differ_is_refused(
    scene: Scene, is_ours_newer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The newest base is the one that counts, and git's clock has seconds: here each has its own.
    seconds = count(int(time.time()))
    clock = SimpleNamespace(time=lambda: next(seconds), localtime=time.localtime)
    monkeypatch.setattr(signature, "time", clock)
    repo = scene.repo
    repo.branches.create("exp")
    made: list[Callable[[], object]] = [
        lambda: scene.both(4),
        lambda: repo.snapshot({"note": b"1"}, "note", branch="exp"),
    ]
    for make in reversed(made) if is_ours_newer else made:
        make()
    here, there = repo.at("main").hash, repo.at("exp").hash
    repo.merge(str(there), branch="main")
    repo.merge(str(here), branch="exp")
    repo.revert(str(here), branch="main")
    with pytest.raises(IncompatibleConflictError, match="crosswise") as caught:
        repo.merge("exp")
    assert {*caught.value.facts["tables"]} == {"photos", "labels"}
    assert scene.counts() == (3, 3)
    assert scene.counts("exp") == (4, 4)


def drawn(chance: random.Random, before: dict[str, bytes]) -> dict[str, bytes]:
    made = dict(before)
    for each in chance.sample(PATHS, chance.randrange(4)):
        if chance.random() < 0.3:
            made.pop(each, None)
        else:
            made[each] = b"%d\n" % chance.randrange(4)
    return made


def test_merges_that_cross_others_are_those_of_git_or_refused(path: Path) -> None:
    chance = random.Random(SEED)
    repo = Repository.init(path)
    ends = set()
    for number in range(40):
        base = drawn(chance, drawn(chance, {"a": b"0\n"}))
        repo.snapshot(base, f"base {number}", branch="main")
        repo.branches.create("exp", at="main")
        try:
            crossed(repo, drawn(chance, base), drawn(chance, base))
        except IncompatibleConflictError:
            repo.branches.delete("exp", force=True)
            continue
        repo.snapshot(drawn(chance, files(repo)), "ours on", branch="main")
        repo.snapshot(drawn(chance, files(repo, "exp")), "theirs on", branch="exp")
        judged = judged_by_git(repo, "main", "exp")
        why = ""
        try:
            repo.merge("exp")
        except IncompatibleConflictError as refused:
            why = "crosswise" if "crosswise" in refused.message else "conflict"
        if not why:
            assert repo.at("main").commit.tree == judged
        assert judged is None or why != "conflict"
        ends.add(why)
        repo.branches.delete("exp", force=True)
    assert ends == {"", "crosswise", "conflict"}, "every kind was drawn"


def test_merges_of_files_are_those_of_git(path: Path) -> None:
    chance = random.Random(SEED)
    repo = Repository.init(path)
    ends = set()
    for number in range(40):
        base = drawn(chance, drawn(chance, {}))
        repo.snapshot(base, f"base {number}")
        branch = f"b{number}"
        repo.branches.create(branch)
        repo.snapshot(drawn(chance, base), "theirs", branch=branch)
        repo.snapshot(drawn(chance, base), "ours")
        judged = judged_by_git(repo, "main", branch)
        ends.add(judged is None)
        if judged is None:
            with pytest.raises(IncompatibleConflictError):
                repo.merge(branch)
        else:
            repo.merge(branch)
            assert repo.at().commit.tree == judged
    assert ends == {False, True}, "both kinds were drawn"
