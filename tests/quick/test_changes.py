"""Which files count as changed, in repositories that stock git makes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.quick.changes import UnknownBase, changes

Git = Callable[..., str]


@pytest.fixture
def git(tmp_path: Path) -> Git:
    """Stock git in a repository with one commit on main, of the file ``first``."""

    def run(*arguments: str) -> str:
        identity = ("-c", "user.name=n", "-c", "user.email=e@x", "-c", "commit.gpgsign=false")
        done = subprocess.run(
            ["git", *identity, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    run("init", "--quiet", "--initial-branch=main")
    _commit(run, tmp_path, "first")
    return run


def _commit(git: Git, root: Path, *names: str) -> None:
    for name in names:
        (root / name).write_text(name)
    git("add", "--all")
    git("commit", "--quiet", "-m", "more")


def test_on_a_branch_its_commits_and_what_is_not_committed_count(git: Git, tmp_path: Path) -> None:
    git("switch", "--quiet", "-c", "topic")
    _commit(git, tmp_path, "committed")
    git("switch", "--quiet", "main")
    _commit(git, tmp_path, "of_main")
    git("switch", "--quiet", "topic")
    (tmp_path / "first").write_text("other")
    (tmp_path / "untracked é").write_text("")
    found = changes(tmp_path)
    assert found.files == ("committed", "first", "untracked é")
    assert found.why == "the merge base of main"


def test_a_deleted_file_and_both_names_of_a_moved_one_count(git: Git, tmp_path: Path) -> None:
    _commit(git, tmp_path, "old", "gone")
    git("switch", "--quiet", "-c", "topic")
    git("mv", "old", "new")
    git("rm", "--quiet", "gone")
    assert changes(tmp_path).files == ("gone", "new", "old")


def test_on_main_it_is_what_the_remote_does_not_have(git: Git, tmp_path: Path) -> None:
    git("update-ref", "refs/remotes/origin/main", "HEAD")
    _commit(git, tmp_path, "second")
    _commit(git, tmp_path, "third")
    found = changes(tmp_path)
    assert found.files == ("second", "third")
    assert found.why == "the merge base of origin/main"


def test_a_clone_that_has_no_main_of_its_own_compares_with_the_remote_s(
    git: Git, tmp_path: Path
) -> None:
    git("update-ref", "refs/remotes/origin/main", "HEAD")
    git("switch", "--quiet", "-c", "topic")
    git("branch", "-D", "main")
    _commit(git, tmp_path, "second")
    assert changes(tmp_path).files == ("second",)


def test_on_main_without_a_remote_it_is_what_is_not_committed(git: Git, tmp_path: Path) -> None:
    _commit(git, tmp_path, "second")
    (tmp_path / "third").write_text("")
    assert changes(tmp_path).files == ("third",)


def test_on_main_without_a_remote_it_is_the_last_commit_if_all_is_committed(
    git: Git, tmp_path: Path
) -> None:
    _commit(git, tmp_path, "second")
    assert changes(tmp_path).files == ("second",)


def test_nothing_changed_where_there_is_nothing_to_compare_with(git: Git, tmp_path: Path) -> None:
    assert changes(tmp_path).files == ()


def test_a_base_that_is_given_is_compared_with_as_it_is(git: Git, tmp_path: Path) -> None:
    _commit(git, tmp_path, "second")
    _commit(git, tmp_path, "third")
    assert changes(tmp_path, "main~2").files == ("second", "third")
    with pytest.raises(UnknownBase, match="git knows no commit 'mian'"):
        changes(tmp_path, "mian")
