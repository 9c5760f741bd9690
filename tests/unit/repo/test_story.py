"""``Repository.log`` of several tips and of one table, ``diff`` with tables as they stand, and what
became of commits."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from tests.commits import MemoryCommits

import lancewood as lw
from lancewood.repo.inspect.view import held_commits

ROWS = pa.table({"id": [1, 2, 3]})


@pytest.fixture
def repo(tmp_path: Path) -> lw.Repository:
    made = lw.Repository.init(tmp_path / "r")
    with made.transaction("main", "both") as changes:
        changes.create_table("photos", ROWS)
        changes.create_table("labels", ROWS)
    for number, table in enumerate(("photos", "labels", "photos")):
        with made.transaction("main", f"{table} {number}") as changes:
            changes.table(table).append(ROWS)
    return made


def messages(repo: lw.Repository, *revisions: str, **options: object) -> list[str]:
    return [each.message for each in repo.log(*revisions, **options)]  # type: ignore[arg-type]


def test_the_log_of_a_table_skips_what_left_it_alone(repo: lw.Repository) -> None:
    assert messages(repo, table="photos") == ["photos 2", "photos 0", "both"]
    assert messages(repo, table="labels") == ["labels 1", "both"]
    assert messages(repo, table="photos", skip=1, limit=1) == ["photos 0"]
    repo.remove("labels")
    assert messages(repo, table="labels", limit=1) == ["remove table labels"]
    assert messages(repo, table="labels", skip=9) == []


def test_a_table_that_never_was_is_told_with_those_that_are_near(repo: lw.Repository) -> None:
    with pytest.raises(lw.NotFoundError, match=r"never was.*'fotos'.*did you mean photos\?"):
        messages(repo, table="fotos")
    with pytest.raises(lw.NotFoundError, match="there is labels, photos"):
        messages(repo, table="none", skip=2, limit=1)
    repo.branches.create("exp")
    with repo.transaction("exp", "new") as changes:
        changes.create_table("later", ROWS)
    with pytest.raises(lw.NotFoundError):
        messages(repo, "main", table="later")
    assert messages(repo, "exp", table="later") == ["new"]


def test_the_log_of_several_revisions_has_each_commit_once(repo: lw.Repository) -> None:
    repo.switch("exp", create=True, at="HEAD~2")
    with repo.transaction(message="exp") as changes:
        changes.table("labels").append(ROWS)
    both = messages(repo, "main", "exp")
    assert sorted(both) == ["both", "exp", "labels 1", "photos 0", "photos 2"]
    assert messages(repo) == ["exp", "photos 0", "both"]


@pytest.mark.parametrize("options", [{"limit": -1}, {"skip": -1}])
def test_numbers_below_zero_are_refused(repo: lw.Repository, options: dict[str, int]) -> None:
    with pytest.raises(lw.InvalidInputError, match="-1"):
        repo.log(**options)  # type: ignore[arg-type]
    with pytest.raises(lw.InvalidInputError, match="-1"):
        repo.log(table="photos", **options)  # type: ignore[arg-type]


def test_a_name_that_no_table_can_have_is_refused(repo: lw.Repository) -> None:
    with pytest.raises(lw.InvalidInputError, match="not allowed"):
        repo.log(table="../photos")


def test_tables_as_they_stand_are_compared_without_writing(repo: lw.Repository) -> None:
    assert repo.diff("HEAD", None) == ()
    uri = repo.path / "tables" / "photos.lance"
    lance.write_dataset(ROWS, str(uri), mode="append")
    before = sorted((repo.path / "objects").rglob("*"))
    (change,) = repo.diff("HEAD", None)
    assert (change.name, change.kind, change.rows) == ("photos", "changed", 3)
    assert sorted((repo.path / "objects").rglob("*")) == before
    assert [each.name for each in repo.diff("HEAD~2", None)] == ["labels", "photos"]
    repo.detach()
    assert repo.diff("HEAD", None) == ()


def test_a_commit_is_held_until_a_reset_and_tells_who_reverted_it(repo: lw.Repository) -> None:
    third, second, first, _ = [each.hash for each in repo.log()]
    assert repo.held([first, third]) == {first: None, third: None}
    reverting = repo.revert(third).hash
    assert reverting is not None
    assert repo.held([second, third]) == {second: None, third: reverting}
    again = repo.revert(reverting).hash
    assert repo.held([third, reverting]) == {third: None, reverting: again}
    repo.reset(second)
    assert repo.held([first, second, third, reverting]) == {first: None, second: None}
    assert repo.held([third], str(again)) == {third: None}


@pytest.mark.parametrize("wanted", [["c4990"], ["c4990", "lost0"], ["lost0"]])
def test_whether_a_commit_is_held_is_settled_near_it(wanted: list[str]) -> None:
    commits = MemoryCommits()
    for number in range(5_000):
        commits.add(f"c{number}", *([f"c{number - 1}"] if number else []))
    for number in range(3):
        commits.add(f"lost{number}", f"lost{number - 1}" if number else "c4995")
    found = held_commits(commits, map(commits.hash, wanted), commits.hash("c4999"))
    assert found == {commits.hash(each): None for each in wanted if each.startswith("c")}
    assert len(set(commits.reads)) < 20
