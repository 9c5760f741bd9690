"""Branches, tags and HEAD of a repository."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from tests.interop.git_judge import git

import lancewood as lw
from lancewood.errors import (
    AlreadyExistsError,
    FormatError,
    IncompatibleConflictError,
    InvalidInputError,
    NotFoundError,
)
from lancewood.git.refs import Refs
from lancewood.repo.refs import protect
from lancewood.repo.refs import unprotect as real_unprotect

ROWS = pa.table({"id": [1, 2, 3]})


@pytest.fixture
def repo(tmp_path: Path) -> lw.Repository:
    made = lw.Repository.init(tmp_path / "r", fsync=False)
    with made.transaction("main", "first") as changes:
        changes.create_table("photos", ROWS)
    return made


def append(repo: lw.Repository, branch: str = "main") -> str:
    with repo.transaction(branch, f"more on {branch}") as changes:
        changes.table("photos").append(ROWS)
    assert changes.result.hash is not None
    return changes.result.hash


def lance_tags(repo: lw.Repository) -> dict[str, int]:
    found = lance.dataset(str(repo.path / "tables/photos.lance")).tags.list()
    return {name: each["version"] for name, each in found.items()}


# Branches


def test_a_branch_is_made_listed_and_deleted(repo: lw.Repository) -> None:
    tip = repo.at().hash
    assert repo.branches.create("exp") == tip
    append(repo)
    assert repo.branches.create("old", at="main~1") == tip
    assert [*repo.branches] == ["exp", "main", "old"]
    assert len(repo.branches) == 3
    assert "exp" in repo.branches
    assert "none" not in repo.branches
    for wrong in (7, "", "a..b", "refs/heads//x"):
        assert wrong not in repo.branches
    assert (repo.branches["exp"], repo.branches["main"]) == (tip, repo.at().hash)
    with pytest.raises(NotFoundError, match="no branch 'xp'; did you mean exp"):
        repo.branches["xp"]
    repo.branches.delete("exp")
    assert [*repo.branches] == ["main", "old"]
    assert "of" in repr(repo.branches)


def test_a_branch_stays_where_it_is_when_it_is_made_again(repo: lw.Repository) -> None:
    first = repo.branches.create("exp")
    append(repo)
    with pytest.raises(AlreadyExistsError, match=first[:12]):
        repo.branches.create("exp")
    with pytest.raises(AlreadyExistsError, match="directory of another"):
        repo.branches.create("exp/deeper")
    assert repo.branches.list()["exp"] == first


def test_a_branch_cannot_be_made_of_nothing(tmp_path: Path) -> None:
    empty = lw.Repository.init(tmp_path / "empty", fsync=False)
    with pytest.raises(NotFoundError):
        empty.branches.create("exp")
    assert empty.branches.list() == {}
    assert empty.status().tables == ()
    assert [*empty.tables] == []


def test_the_current_branch_and_one_with_work_of_its_own_are_not_deleted(
    repo: lw.Repository,
) -> None:
    repo.switch("exp", create=True)
    append(repo, "exp")
    with pytest.raises(InvalidInputError, match="current one"):
        repo.branches.delete("exp", force=True)
    repo.switch("main")
    with pytest.raises(IncompatibleConflictError, match="no other branch has"):
        repo.branches.delete("exp")
    repo.branches.delete("exp", force=True)
    with pytest.raises(NotFoundError, match="'exp'"):
        repo.branches.delete("exp")


# HEAD


def test_switching_moves_head_and_leaves_the_tables_alone(repo: lw.Repository) -> None:
    before = lw.open(repo.path / "tables/photos.lance").version
    assert repo.switch("exp", create=True).branch == "exp"
    append(repo)
    assert repo.switch("main").branch == "main"
    assert lw.open(repo.path / "tables/photos.lance").version == before + 1
    assert [each.why for each in repo.reflog()] == [
        "checkout: moving from exp to main",
        "checkout: moving from main to exp",
        "commit (initial): first",
    ]


def test_a_switch_to_a_branch_that_is_not_there_names_those_that_are(repo: lw.Repository) -> None:
    with pytest.raises(NotFoundError, match="there is main"):
        repo.switch("mian")
    with pytest.raises(AlreadyExistsError):
        repo.switch("main", create=True)
    assert repo.head.branch == "main"


def test_nothing_is_committed_while_head_is_detached(repo: lw.Repository) -> None:
    old = repo.at().hash
    append(repo)
    assert repo.detach("HEAD~1").hash == old
    assert repo.head.branch is None
    assert repo.status().branch is None
    assert repo.at().table("photos").count_rows() == 3
    with pytest.raises(InvalidInputError, match="HEAD is detached"):
        repo.transaction(message="where to?")
    with pytest.raises(InvalidInputError, match="HEAD is detached"):
        repo.commit("where to?")
    append(repo, "main")
    assert repo.switch("main").branch == "main"


def test_a_branch_that_is_written_must_be_there(repo: lw.Repository) -> None:
    repo.branches.create("experiment")
    with pytest.raises(NotFoundError, match="did you mean experiment"):
        repo.transaction("experimnt", "typed wrong")


# Tags


def test_a_tag_names_a_commit_and_keeps_its_versions_in_the_tables(repo: lw.Repository) -> None:
    tagged = repo.tags.create("v1")
    append(repo)
    assert repo.tags.list() == {"v1": tagged}
    assert [*repo.tags] == ["v1"]
    assert "v1" in repo.tags
    assert len(repo.tags) == 1
    assert repo.at("v1").table("photos").count_rows() == 3
    assert [*lance_tags(repo).values()] == [1]
    repo.tags.delete("v1")
    assert repo.tags.list() == {}
    assert lance_tags(repo) == {}
    with pytest.raises(NotFoundError, match="'v1'"):
        repo.tags.delete("v1")


def test_a_tag_with_a_message_is_one_of_git_and_names_the_same_commit(
    repo: lw.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Ada")
    monkeypatch.setenv("GIT_AUTHOR_EMAIL", "ada@example.org")
    tagged = repo.tags.create("v1", message="the first\n\nof many\n")
    assert git(repo.path, "cat-file", "-t", "v1").strip() == "tag"
    assert git(repo.path, "rev-parse", "v1^{commit}").strip() == tagged
    shown = git(repo.path, "show", "--no-patch", "v1")
    assert "Tagger: Ada <ada@example.org>" in shown
    assert "\nthe first\n\nof many\n" in shown
    git(repo.path, "fsck", "--strict", "--no-dangling")
    append(repo)
    assert repo.tags.list() == {"v1": tagged}
    assert repo.tags["v1"] == repo.at("v1").hash == repo.at("v1~0").hash == tagged
    assert repo.at("v1").table("photos").count_rows() == 3
    assert [*lance_tags(repo).values()] == [1]
    assert not repo.fsck().problems
    assert repo.gc(in_flight=timedelta(0)).states == 0
    assert repo.diff("v1", "main")[0].name == "photos"
    with pytest.raises(AlreadyExistsError):
        repo.tags.create("v1", message="again")
    with pytest.raises(InvalidInputError, match="message"):
        repo.tags.create("v2", message=" ")
    repo.tags.delete("v1")
    assert lance_tags(repo) == {}


def test_a_tag_with_a_message_in_a_bucket_names_the_same_commit() -> None:
    shop = lw.Repository.init("memory://annotated/shop")
    with shop.transaction("main", message="one") as changes:
        changes.create_table("photos", pa.table({"id": [1]}))
    tagged = shop.tags.create("v1", message="the first")
    again = lw.Repository.open("memory://annotated/shop")
    assert again.tags.list() == {"v1": tagged}
    assert again.at("v1").hash == tagged
    assert again.gc(in_flight=timedelta(0)).states == 0
    assert not again.fsck().problems
    again.tags.delete("v1")
    assert again.tags.list() == {}


def test_tags_that_name_no_commit_are_left_out_and_can_be_deleted(repo: lw.Repository) -> None:
    git = repo._context.git
    blob = git.objects.put_blob(b"no commit")
    git.objects.sync()
    tags = repo.path / "refs" / "tags"
    (tags / "blob").write_text(f"{blob}\n")
    assert repo.tags.list() == {}
    repo.tags.delete("blob")
    assert not (tags / "blob").exists()
    (tags / "gone").write_text("d" * 64 + "\n")
    with pytest.raises(NotFoundError, match=r"refs/tags/gone .* delete the tag"):
        repo.tags.list()
    repo.tags.delete("gone")
    assert repo.tags.list() == {}


def test_a_tag_stays_where_it_is(repo: lw.Repository) -> None:
    repo.tags.create("v1")
    append(repo)
    with pytest.raises(AlreadyExistsError, match="delete it first"):
        repo.tags.create("v1")
    assert [*lance_tags(repo).values()] == [1]


def test_who_makes_the_same_tag_too_late_leaves_the_protection_of_the_first(
    repo: lw.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = repo.at().hash
    append(repo)
    real = Refs.move

    def move(self: Refs, *given: object, **told: object) -> bool:
        monkeypatch.setattr(Refs, "move", real)
        lw.Repository.open(repo.path).tags.create("v1", at=first)
        assert [*lance_tags(repo).values()] == [1]
        protect(repo._context, "refs/tags/v1", repo.at().hash)
        return real(self, *given, **told)  # type: ignore[arg-type]

    monkeypatch.setattr(Refs, "move", move)
    with pytest.raises(AlreadyExistsError):
        repo.tags.create("v1")
    assert repo.tags.list() == {"v1": first}
    assert [*lance_tags(repo).values()] == [1], "the version that the tag names"


def test_who_deletes_a_tag_leaves_the_protection_of_one_that_was_made_meanwhile(
    repo: lw.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.tags.create("v1")
    append(repo)

    def unprotect(*given: object) -> None:
        lw.Repository.open(repo.path).tags.create("v1")
        real_unprotect(*given)  # type: ignore[arg-type]

    monkeypatch.setattr("lancewood.repo.refs.unprotect", unprotect)
    repo.tags.delete("v1")
    assert repo.tags.list() == {"v1": repo.at().hash}
    assert [*lance_tags(repo).values()] == [2]


@pytest.mark.parametrize("text", ["ref: refs/hea", "", "0123", "ref: refs/heads/half"])
def test_a_head_that_cannot_be_read_is_mended_by_a_switch(repo: lw.Repository, text: str) -> None:
    repo.branches.create("exp")
    (repo.path / "HEAD").write_text(text)
    (repo.path / "refs/heads/half").write_text("0123")
    again = lw.Repository.open(repo.path)
    with pytest.raises(FormatError):
        _ = again.head
    assert again.switch("exp").branch == "exp"
    (repo.path / "HEAD").write_text(text)
    tip = again.at("exp").hash
    assert again.detach("exp").hash == tip
    assert again.head.hash == tip
