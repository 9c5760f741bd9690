"""Making and opening a repository, and looking into it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.catalog.opening import pin_of
from lancewood.errors import (
    AlreadyExistsError,
    InvalidInputError,
    LancewoodError,
    NotFoundError,
)
from lancewood.git.repository import GitRepository

ROWS = pa.table({"id": [1, 2, 3]})


@pytest.fixture
def repo(tmp_path: Path) -> lw.Repository:
    made = lw.Repository.init(tmp_path / "r", fsync=False)
    with made.transaction("main", "first") as changes:
        changes.create_table("photos", ROWS)
    with made.transaction("main", "second") as changes:
        changes.table("photos").append(ROWS)
        changes.create_table("labels", ROWS)
    return made


@pytest.mark.parametrize("name", ["x" * 300, "a\0b"])
def test_a_path_that_no_disk_has_is_an_error_of_ours(tmp_path: Path, name: str) -> None:
    for make in (lw.Repository.open, lw.Repository.init, lw.Repository.open_or_init):
        with pytest.raises(LancewoodError):
            make(tmp_path / name)


def test_a_new_repository_is_what_stock_git_calls_one(tmp_path: Path) -> None:
    made = lw.Repository.init(tmp_path / "deep/er/r", fsync=False)
    command = [
        "git",
        "-C",
        str(made.path),
        "rev-parse",
        "--show-object-format",
        "--is-bare-repository",
    ]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert told == ["sha256", "true"]
    assert (made.path / "HEAD").read_text() == "ref: refs/heads/main\n"
    for key, value in (("gc.packRefs", "false"), ("core.logAllRefUpdates", "always")):
        found = subprocess.run(
            ["git", "-C", str(made.path), "config", key], capture_output=True, text=True, check=True
        )
        assert found.stdout.strip() == value


def test_a_repository_is_made_once(tmp_path: Path) -> None:
    first = lw.Repository.open_or_init(tmp_path / "r")
    with pytest.raises(AlreadyExistsError, match="open it"):
        lw.Repository.init(tmp_path / "r")
    assert lw.Repository.open_or_init(tmp_path / "r")._context.id == first._context.id
    assert "r>" in repr(first)


def test_one_that_somebody_else_makes_at_the_same_time_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = lw.Repository.init
    others: list[str] = []

    def slower(path: Path, **said: object) -> lw.Repository:
        others.append(make(path)._context.id)
        return make(path)

    monkeypatch.setattr(lw.Repository, "init", slower)
    assert lw.Repository.open_or_init(tmp_path / "r")._context.id == others[0]


def test_an_identity_is_there_as_soon_as_the_repository_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("the identity is written with the settings, not after them")

    monkeypatch.setattr(GitRepository, "set", never)
    made = lw.Repository.init(tmp_path / "r")
    assert len(made._context.id) == 32


def test_what_is_no_repository_of_ours_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no repository"):
        lw.Repository.open(tmp_path)
    for words in (["--bare"], [], ["--bare", "--object-format=sha256"]):
        location = tmp_path / "-".join(["git", *words])
        subprocess.run(["git", "init", "--quiet", *words, str(location)], check=True)
        with pytest.raises(LancewoodError, match="git repository"):
            lw.Repository.open(location)


def test_commits_are_shown_and_compared_from_their_pins(repo: lw.Repository) -> None:
    assert [each.message for each in repo.log()] == ["second", "first"]
    assert [each.message for each in repo.log(limit=1, skip=1)] == ["first"]
    shown = repo.show()
    assert shown.commit.message == "second"
    assert [(each.name, each.kind, each.rows) for each in shown.changes] == [
        ("labels", "added", 3),
        ("photos", "changed", 3),
    ]
    back = repo.diff("HEAD", "HEAD~1")
    assert [(each.name, each.kind, each.rows) for each in back] == [
        ("labels", "removed", -3),
        ("photos", "changed", -3),
    ]
    assert repo.diff("HEAD", "main") == ()
    assert [each.kind for each in repo.show("HEAD~1").changes] == ["added"]


def test_a_change_of_columns_is_told(repo: lw.Repository) -> None:
    with repo.transaction("main", "columns") as changes:
        changes.table("photos").add_columns({"twice": "id * 2"}).drop_columns(["id"])
    (change,) = repo.diff()
    assert change.added_columns == ("twice: int64",)
    assert change.removed_columns == ("id: int64",)
    assert change.fragments == 0


def test_the_same_rows_at_another_version_have_only_moved(repo: lw.Repository) -> None:
    before = repo.at().pin("photos")
    lw.open(repo.path / "tables/photos.lance").set_config({"k": "v"})
    again = lw.open(repo.path / "tables/photos.lance")
    with repo.transaction("main", "moved") as changes:
        changes.pin("photos", pin_of(again._snapshot, before.uri))
    assert [each.kind for each in repo.diff()] == ["moved"]


def test_a_view_is_one_commit(repo: lw.Repository) -> None:
    view = repo.at("HEAD~1")
    assert [*view] == ["photos"]
    assert "photos" in view
    assert view.hash[:12] in repr(view)
    assert view.table("photos").count_rows() == 3
    with pytest.raises(NotFoundError, match="no table 'labels'"):
        view.table("labels")
    with pytest.raises(NotFoundError):
        repo.at("nowhere")
    with pytest.raises(LancewoodError):
        view.table("photos").append(ROWS)
    assert repo.at("HEAD~1").table("photos").count_rows() == 3


def test_histories_meet_where_they_forked(repo: lw.Repository) -> None:
    fork = repo.at().hash
    repo.branches.create("exp")
    for branch in ("main", "exp"):
        with repo.transaction(branch, branch) as changes:
            changes.table("photos").append(ROWS)
    assert repo.merge_base("main", "exp") == fork


def test_every_move_is_in_the_log_of_the_ref(repo: lw.Repository) -> None:
    assert [each.why for each in repo.reflog()] == ["commit: second", "commit (initial): first"]
    assert [each.new for each in repo.reflog("main")] == [each.hash for each in repo.log()]
    repo.tags.create("v1")
    assert [each.new for each in repo.reflog("v1")] == [repo.at().hash]
    assert repo.at("main@{1}").hash == repo.at("HEAD~1").hash
    assert [*repo.reflog("none")] == []


def test_a_protected_commit_has_tags_in_its_tables(repo: lw.Repository) -> None:
    assert repo.protect("HEAD~1") == ("photos",)
    ((name, tag),) = lance.dataset(str(repo.path / "tables/photos.lance")).tags.list().items()
    assert (name[:3], tag["version"]) == ("lw.", 1)


def test_settings_of_a_new_repository_are_plain_words(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="plain words"):
        GitRepository.init(tmp_path / "r", settings={"lancewood.id": 'a"\n[core]'})
    with pytest.raises(InvalidInputError, match="plain words"):
        GitRepository.init(tmp_path / "r", settings={"nonsense": "a"})
    assert not (tmp_path / "r").exists()


def test_a_reflog_is_asked_for_by_a_text(repo: lw.Repository) -> None:
    with pytest.raises(InvalidInputError, match="5 is no ref"):
        repo.reflog(5)  # type: ignore[arg-type]


def test_who_writes_to_a_table_of_a_commit_is_told_of_transactions(repo: lw.Repository) -> None:
    with pytest.raises(InvalidInputError, match=r"written in repo\.transaction\(\)"):
        repo.at().table("photos").append(ROWS)
