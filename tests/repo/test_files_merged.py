"""Merge, revert and cherry-pick of commits with files: file by file and line by line, as git."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Callable
from itertools import count, permutations
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.repo.locations import Where, everywhere
from tests.repo.scene import Scene
from tests.repo.test_processes import SEED

from lancewood.catalog import files as files_of_commits
from lancewood.errors import IncompatibleConflictError
from lancewood.git import values
from lancewood.git.history import merge_bases
from lancewood.git.refs import Refs
from lancewood.repo.repository import Repository

PATHS = ("a", "b", "d", "d/a", "d/e/f", "d/e/g", "h/i")


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
    with pytest.raises(IncompatibleConflictError, match=r"'one' \(changed here, deleted there\);"):
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
        ["git", "merge-tree", "--write-tree", one, other],
        capture_output=True,
        text=True,
        cwd=repo.path,
        check=False,
    )
    return None if judged.returncode else judged.stdout.split()[0]


@everywhere
def test_a_text_that_both_sides_changed_is_merged_by_lines(repo: Repository) -> None:
    text = [b"%d\n" % each for each in range(9)]
    repo.snapshot({"one": b"".join(text)}, "text", branch="main")
    repo.merge("main", branch="exp")
    repo.snapshot({"one": b"".join([b"theirs\n", *text])}, "theirs", branch="exp")
    repo.snapshot({"one": b"".join([*text, b"ours\n"])}, "ours", branch="main")
    repo.merge("exp", dry_run=True)
    repo.merge("exp")
    assert files(repo) == {"one": b"".join([b"theirs\n", *text, b"ours\n"])}
    repo.revert("exp")
    assert files(repo) == {"one": b"".join([*text, b"ours\n"])}
    repo.cherry_pick("exp")
    assert files(repo) == {"one": b"".join([b"theirs\n", *text, b"ours\n"])}


@pytest.mark.parametrize("content", [b"\0", b"\xff"])
def test_a_file_that_is_no_text_is_taken_from_one_side_or_refused(
    repo: Repository, content: bytes
) -> None:
    base = {"one": content + b"1\n2\n3\n4\n"}
    repo.snapshot(base, "base", branch="main")
    repo.merge("main", branch="exp")
    repo.snapshot({"one": content + b"1\n2\n3\n4\n5\n"}, "theirs", branch="exp")
    repo.snapshot({"one": content + b"1\n2\n3\n4\n5\n"}, "the same", branch="main")
    repo.merge("exp")
    repo.snapshot({"one": content + b"0\n1\n2\n3\n4\n5\n"}, "ours", branch="main")
    repo.snapshot({"one": content + b"1\n2\n3\n4\n5\n6\n"}, "theirs", branch="exp")
    with pytest.raises(IncompatibleConflictError, match=r"'one' \(changed on both sides, and no t"):
        repo.merge("exp")


@everywhere
def test_what_was_taken_back_does_not_return_by_a_merge_that_crosses_another(
    repo: Repository,
) -> None:
    crossed(repo, {"one": b"main", "in/two": b"2"}, {"one": b"1", "in/two": b"exp"})
    taken_back = {"one": b"1", "in/two": b"exp"}
    repo.snapshot(taken_back, "main takes it back")
    repo.merge("exp")
    assert files(repo) == taken_back


@everywhere
def test_what_both_sides_agree_on_is_merged_across(repo: Repository) -> None:
    crossed(repo, {"one": b"main", "in/two": b"2"}, {"one": b"1", "in/two": b"exp"})
    both = {"one": b"main", "in/two": b"exp"}
    repo.snapshot({**both, "in/three": b"3"}, "more", branch="exp")
    repo.merge("exp")
    assert files(repo) == {**both, "in/three": b"3"}


def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bases are ordered by time, and git's clock has seconds: here each commit has its own."""
    seconds = count(int(time.time()))
    clock = SimpleNamespace(time=lambda: next(seconds), localtime=time.localtime)
    monkeypatch.setattr(values, "time", clock)


@pytest.mark.parametrize("is_ours_newer", [True, False])
def test_rows_that_were_taken_back_do_not_return_by_a_merge_that_crosses_another(
    scene: Scene, is_ours_newer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticking(monkeypatch)
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
    repo.merge("exp")
    assert scene.counts() == scene.landed() == (3, 3)
    assert scene.counts("exp") == (4, 4)


def test_files_of_branches_that_merged_each_other_in_many_rounds_are_merged_in_few_steps(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In each round every branch changes a file of its own, and merges the others as they were."""
    ticking(monkeypatch)
    repo, names, rounds = Repository.init(path), ("a", "b", "c", "d"), 6
    repo.snapshot(dict.fromkeys(names, b"0"), "begin")
    for name in names:
        repo.branches.create(name)
    asked = list[int]()
    for number in range(1, rounds + 1):
        for name in names:
            changed = {**files(repo, name), name: b"%d" % number}
            repo.snapshot(changed, f"{name} {number}", branch=name)
        before = {name: str(repo.at(name).hash) for name in names}
        for name, other in permutations(names, 2):
            calls = count()
            monkeypatch.setattr(
                files_of_commits,
                "merge_bases",
                lambda *commits, calls=calls: (next(calls), merge_bases(*commits))[1],
            )
            repo.merge(before[other], branch=name)
            asked.append(next(calls))
        assert [files(repo, name) for name in names] == [dict.fromkeys(names, b"%d" % number)] * 4
    assert max(asked) <= 6 * rounds


def drawn(chance: random.Random, before: dict[str, bytes]) -> dict[str, bytes]:
    """The files with a few changes. No two have a line in common: git would see a file renamed."""
    made = dict(before)
    for each in chance.sample(PATHS, chance.randrange(5)):
        if chance.random() < 0.25:
            made.pop(each, None)
            continue
        for other in [*made]:
            if other.startswith(f"{each}/") or each.startswith(f"{other}/"):
                del made[other]
        lines = made.get(each, b"".join(drawn_lines(chance, each, 8))).splitlines(keepends=True)
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(lines) + 1)
            new = drawn_lines(chance, each, chance.randrange(2))
            lines[at : at + chance.randrange(3)] = new
        made[each] = b"".join(lines)
    return made


def drawn_lines(chance: random.Random, path: str, count: int) -> list[bytes]:
    return [b"%b %d\n" % (path.encode(), chance.randrange(9)) for _ in range(count)]


def merge_as_git_does(repo: Repository, name: str, branch: str) -> bool:
    """Whether a merge went through; it is judged by git either way."""
    judged = judged_by_git(repo, branch, name)
    if judged is None:
        with pytest.raises(IncompatibleConflictError, match="Files that do not go together"):
            repo.merge(name, branch=branch)
        return False
    repo.merge(name, branch=branch)
    assert repo.at(branch).commit.tree == judged
    return True


def test_merges_that_cross_others_are_those_of_git(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticking(monkeypatch)
    chance = random.Random(SEED)
    repo = Repository.init(path)
    ends = set()
    for number in range(25):
        base = drawn(chance, drawn(chance, {"a": b"0\n"}))
        repo.snapshot(base, f"base {number}", branch="main")
        repo.branches.create("exp", at="main")
        repo.snapshot(drawn(chance, base), "ours", branch="main")
        repo.snapshot(drawn(chance, base), "theirs", branch="exp")
        for _ in range(chance.randrange(1, 4)):
            here, there = str(repo.at("main").hash), str(repo.at("exp").hash)
            merge_as_git_does(repo, there, "main")
            merge_as_git_does(repo, here, "exp")
            repo.snapshot(drawn(chance, files(repo)), "ours on", branch="main")
            repo.snapshot(drawn(chance, files(repo, "exp")), "theirs on", branch="exp")
        ends.add(merge_as_git_does(repo, "exp", "main"))
        repo.branches.delete("exp", force=True)
    assert ends == {False, True}, "both kinds were drawn"


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
        ends.add(merge_as_git_does(repo, branch, "main"))
    assert ends == {False, True}, "both kinds were drawn"
