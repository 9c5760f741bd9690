"""Who commits: found as git finds it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lancewood.errors import InvalidInputError
from lancewood.git.repository import GitRepository
from lancewood.repo import identity
from lancewood.repo.identity import author_of


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GitRepository:
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    return GitRepository.init(tmp_path / "r", fsync=False)


def test_the_caller_comes_first(git: GitRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Somebody")
    found = author_of(git, "Ada Lovelace <ada@example.org>")
    assert (found.name, found.email) == ("Ada Lovelace", "ada@example.org")


def test_then_the_environment_then_the_repository_then_the_user(
    git: GitRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".gitconfig").write_text("[user]\n\tname = User\n\temail = user@example.org\n")
    assert author_of(git).name == "User"
    git.set("user", "name", "Repository")
    assert (author_of(git).name, author_of(git).email) == ("Repository", "user@example.org")
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Environment")
    assert author_of(git).name == "Environment"


def test_without_any_word_it_is_the_account(
    git: GitRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "_account", lambda: "ada")
    found = author_of(git)
    assert found.name == "ada"
    assert found.email.startswith("ada@")


def test_what_would_break_a_commit_is_left_out_of_a_setting(
    git: GitRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Ada <the\nfirst>")
    monkeypatch.setenv("GIT_AUTHOR_EMAIL", "<>")
    found = author_of(git)
    assert (found.name, found.email) == ("Ada thefirst", "unknown")
    tree = git.objects.put_tree({})
    commit = git.objects.put_commit(tree, (), found, "first")
    git.objects.sync()
    command = ["git", "-C", str(git.path), "fsck", "--strict"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    assert git.objects.commit(commit).author == found


@pytest.mark.parametrize("author", ["Ada", "<a@b>", "Ada <a b>", "Ada <a", "", 7])
def test_an_author_is_a_name_and_an_address(git: GitRepository, author: str) -> None:
    with pytest.raises(InvalidInputError, match="Name <address>"):
        author_of(git, author)
