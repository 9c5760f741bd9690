"""Making and opening a repository, and its settings."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from lancewood.errors import (
    AlreadyExistsError,
    FormatError,
    InvalidInputError,
    LancewoodError,
    NotFoundError,
    RetryableConflictError,
    StorageError,
    UnsupportedError,
)
from lancewood.git.config import Config
from lancewood.git.ref_files import LEFT_BEHIND, locked
from lancewood.git.refs import Head
from lancewood.git.repository import GitRepository
from lancewood.git.values import Signature


def test_a_new_repository_has_no_commit_and_is_opened_again(tmp_path: Path) -> None:
    made = GitRepository.init(tmp_path / "deep" / "er" / "repo", branch="trunk")
    assert made.path == tmp_path / "deep" / "er" / "repo"
    found = GitRepository.open(str(made.path))
    assert found.refs.head() == Head("trunk", None)
    assert found.refs.names() == {}
    assert sorted(os.listdir(made.path)) == ["HEAD", "config", "objects", "refs"]
    assert repr(found) == f"<GitRepository {made.path}>"
    found.close()


def test_a_second_init_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    GitRepository.init(tmp_path).set("lancewood", "id", "kept")
    with pytest.raises(AlreadyExistsError, match=f"{tmp_path} already: open it"):
        GitRepository.init(tmp_path, branch="other")
    assert GitRepository.open(tmp_path).get("lancewood", "id") == "kept"
    assert GitRepository.open(tmp_path).refs.head().branch == "main"


def test_of_several_inits_at_once_one_wins(tmp_path: Path) -> None:
    outcomes: list[str] = []

    def init(number: int) -> None:
        try:
            GitRepository.init(tmp_path / "repo", branch=f"b{number}", fsync=False)
            outcomes.append("made")
        except LancewoodError as error:
            outcomes.append(type(error).__name__)

    threads = [threading.Thread(target=init, args=[number]) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(outcomes) == ["AlreadyExistsError"] * 7 + ["made"]
    assert sorted(os.listdir(tmp_path / "repo")) == ["HEAD", "config", "objects", "refs"]


def test_an_init_goes_on_where_another_stopped(tmp_path: Path) -> None:
    GitRepository.init(tmp_path).set("lancewood", "id", "kept")
    (tmp_path / "HEAD").unlink()
    with pytest.raises(NotFoundError, match="HEAD not found; init makes one"):
        GitRepository.open(tmp_path)
    assert GitRepository.init(tmp_path).get("lancewood", "id") == "kept"


def test_an_init_over_the_settings_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("[core]\n\tbare = true\n")
    with pytest.raises(UnsupportedError, match="sha1"):
        GitRepository.init(tmp_path)
    assert not (tmp_path / "HEAD").exists()


def test_a_branch_or_a_path_that_cannot_be_is_refused_before_anything_is_made(
    tmp_path: Path,
) -> None:
    with pytest.raises(InvalidInputError):
        GitRepository.init(tmp_path / "repo", branch="a..b")
    with pytest.raises(InvalidInputError):
        GitRepository.init("a\0b")
    assert os.listdir(tmp_path) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot make a repository"):
        GitRepository.init(tmp_path / "file" / "repo")


def test_where_there_is_none_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="HEAD, objects, refs not found"):
        GitRepository.open(tmp_path)
    with pytest.raises(NotFoundError):
        GitRepository.open(tmp_path / "none")
    (tmp_path / ".git").mkdir()
    with pytest.raises(UnsupportedError, match="work tree"):
        GitRepository.open(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "kind", "why"),
    [
        ("sha256", "sha1", UnsupportedError, "in sha1 format"),
        ("objectformat = sha256", "", UnsupportedError, "in sha1 format"),
        ("bare = true", "bare = false", UnsupportedError, "work tree"),
        ("bare = true", "", UnsupportedError, "work tree"),
        ("bare = true", "bare = perhaps", FormatError, "perhaps"),
        ("tversion = 1", "tversion = 2", UnsupportedError, "format '2'"),
        ("tversion = 1", "tversion = 0", UnsupportedError, "in sha1 format"),
        ("sha256", "sha256\n\trefstorage = reftable", UnsupportedError, "refstorage"),
        ("[core]", "[core", FormatError, "config"),
    ],
)
def test_a_repository_of_another_kind_is_refused(
    tmp_path: Path, old: str, new: str, kind: type[Exception], why: str
) -> None:
    GitRepository.init(tmp_path)
    config = tmp_path / "config"
    assert old in config.read_text()
    config.write_text(config.read_text().replace(old, new))
    with pytest.raises(kind, match=why):
        GitRepository.open(tmp_path)


def test_without_its_settings_it_is_no_repository_of_ours(tmp_path: Path) -> None:
    GitRepository.init(tmp_path)
    (tmp_path / "config").unlink()
    with pytest.raises(FormatError, match="config is missing"):
        GitRepository.open(tmp_path)


def test_fsync_follows_the_environment_unless_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    monkeypatch.setenv("LANCEWOOD_FSYNC", "0")
    quick = GitRepository.init(tmp_path / "quick")
    quick.objects.put_blob(b"data")
    quick.objects.sync()
    quick.set("a", "b", "c")
    assert synced == []
    GitRepository.init(tmp_path / "sure", fsync=True)
    assert synced


def test_settings_are_kept_beside_others(tmp_path: Path) -> None:
    repository = GitRepository.init(tmp_path)
    assert repository.get("lancewood", "id") is None
    for value in ("one", "two words", 'a "quoted" \\ one', " spaces ", "#", ""):
        repository.set("lancewood", "id", value)
        assert repository.get("lancewood", "id") == value
        assert repository.get("LANCEWOOD", "Id") == value
    repository.set("lancewood.Sub.Section", "key-1", "x")
    assert GitRepository.open(tmp_path).get("lancewood.Sub.Section", "key-1") == "x"
    assert GitRepository.open(tmp_path).get("lancewood.sub.section", "key-1") is None


def test_another_process_s_settings_are_seen_and_not_lost(tmp_path: Path) -> None:
    one, other = GitRepository.init(tmp_path), GitRepository.open(tmp_path)
    assert one.get("a", "other") is None
    assert other.get("a", "one") is None
    one.set("a", "one", "1")
    other.set("a", "other", "2")
    assert one.get("a", "other") == "2"
    assert other.get("a", "one") == "1"


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [("", "k", "v"), ("a b", "k", "v"), ("a", "", "v"), ("a", "1k", "v"), ("a", "k", "v\0"),
     ("a", "k", 3), ("a\nb", "k", "v"), ("a", "k\n[core]", "v"), ("a", "k", "\ud800")],
)  # fmt: skip
def test_a_setting_that_git_could_not_read_is_refused(
    tmp_path: Path, section: str, key: str, value: str
) -> None:
    repository = GitRepository.init(tmp_path)
    before = (tmp_path / "config").read_bytes()
    with pytest.raises(InvalidInputError):
        repository.set(section, key, value)
    assert (tmp_path / "config").read_bytes() == before


def test_the_user_s_settings_stand_behind_the_repository_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "user").write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "user"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    repository = GitRepository.init(tmp_path / "repo")
    repository.set("user", "name", "Grace")
    assert repository.get("user", "name") == "Grace"
    assert repository.get("user", "email") == "ada@example.org"
    assert repository.config.own("user", "email") is None


def test_settings_under_a_lock_are_waited_for(tmp_path: Path) -> None:
    GitRepository.init(tmp_path)
    config = Config(str(tmp_path), fsync=False, patience=0.05)
    with (
        locked(str(tmp_path / "config"), str(tmp_path)),
        pytest.raises(RetryableConflictError, match=r"config\.lock"),
    ):
        config.set("a", "b", "c")
    config.set("a", "b", "c")


def test_tidy_removes_files_without_a_name_when_they_are_old(tmp_path: Path) -> None:
    repository = GitRepository.init(tmp_path)
    old, young = tmp_path / f".tmp{'0' * 16}", tmp_path / f".tmp{'1' * 16}"
    for each in (old, young, tmp_path / ".tmp-of-others"):
        each.write_text("")
        then = each.stat().st_mtime - (0 if each == young else LEFT_BEHIND + 60)
        os.utime(each, (then, then))
    assert repository.tidy() == [str(old)]
    assert young.exists()


@pytest.mark.parametrize("fsync", [True, False])
def test_a_move_lets_go_of_the_objects_that_waited(tmp_path: Path, fsync: bool) -> None:
    repository = GitRepository.init(tmp_path, fsync=fsync)
    objects = repository.objects
    by = Signature("Ada", "ada@example.org", 0, 0)
    first = objects.put_commit(objects.put_tree({}), [], by, "one")
    assert repository.refs.move("refs/heads/main", None, first, why="", by=by)
    assert not objects._waiting
    assert not objects._named
    second = objects.put_commit(objects.put_tree({}), [first], by, "two")
    assert not repository.refs.move("refs/heads/main", None, second, why="lost", by=by)
    assert second in objects._waiting, "who has lost may yet rest on it"
    assert repository.refs.move("refs/heads/main", first, second, why="won", by=by)
    assert not objects._waiting
    assert not objects._bytes_waiting
    assert objects.commit(second).parents == (first,)
