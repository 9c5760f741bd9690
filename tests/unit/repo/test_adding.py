"""Taking tables in, and out."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.errors import AlreadyExistsError, InvalidInputError, NotFoundError

ROWS = pa.table({"id": [1, 2, 3]})


@pytest.fixture
def repo(tmp_path: Path) -> lw.Repository:
    return lw.Repository.init(tmp_path / "r", fsync=False)


def test_a_table_below_the_repository_is_added_by_a_relative_place(repo: lw.Repository) -> None:
    home = repo.path / "tables/photos.lance"
    lance.write_dataset(ROWS, str(home))
    assert repo.status().untracked == ("photos",)
    assert repo.add("photos", home).tables == ("photos",)
    assert repo.at().pin("photos").uri == "tables/photos.lance"
    assert repo.status().untracked == ()
    assert lance.dataset(str(home)).tags.list() == {}


def test_a_table_whose_rows_are_on_another_branch_is_not_taken_in_empty(
    repo: lw.Repository,
) -> None:
    repo.branches.create("exp", at=None)
    with repo.transaction("exp", "made") as changes:
        changes.create_table("photos", ROWS)
    home = repo.path / "tables/photos.lance"
    with pytest.raises(AlreadyExistsError, match="made on branch 'exp'"):
        repo.add("photos", home)
    lw.open(home).append(ROWS)
    repo.add("photos", home)
    assert repo.at().table("photos").to_arrow() == ROWS


def test_a_table_that_was_taken_out_is_taken_in_again(repo: lw.Repository) -> None:
    with repo.transaction("main", "made") as changes:
        changes.create_table("photos", ROWS)
    repo.branches.create("exp")
    repo.remove("photos")
    repo.add("photos", repo.path / "tables/photos.lance")
    assert repo.at().table("photos").to_arrow() == ROWS


def test_a_table_elsewhere_is_told_which_repository_it_belongs_to(
    repo: lw.Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lance.write_dataset(ROWS, str(tmp_path / "away.lance"))
    monkeypatch.chdir(tmp_path)
    repo.add("away", "away.lance", message="took it in", author="Ada <ada@example.org>")
    assert repo.at().pin("away").uri == str(tmp_path / "away.lance")
    assert repo.at().commit.message == "took it in"
    assert repo.at().commit.author.name == "Ada"
    (tag,) = lance.dataset("away.lance").tags.list().values()
    assert str(repo.path) in tag["metadata"].values()


@pytest.mark.parametrize("name", ["", "a/b", ".a", "a b", "x" * 101])
def test_a_name_that_no_table_may_have_is_refused(
    repo: lw.Repository, tmp_path: Path, name: str
) -> None:
    lance.write_dataset(ROWS, str(tmp_path / "away.lance"))
    with pytest.raises(InvalidInputError):
        repo.add(name, tmp_path / "away.lance")
    assert repo.branches.list() == {}


def test_what_is_no_table_or_only_a_part_of_one_is_refused(
    repo: lw.Repository, tmp_path: Path
) -> None:
    with pytest.raises(NotFoundError):
        repo.add("photos", tmp_path / "nothing.lance")
    away = str(tmp_path / "away.lance")
    lw.create(away, ROWS).branches.create("exp")
    with pytest.raises(InvalidInputError, match="the root of branch 'exp'"):
        repo.add("photos", f"{away}/tree/exp")
    lw.create(repo.path / "tables/other.lance", ROWS)
    with pytest.raises(InvalidInputError, match="lives at"):
        repo.add("photos", repo.path / "tables/other.lance")
    assert repo.branches.list() == {}


def test_a_name_that_is_taken_is_refused_and_a_missing_one_is_not_removed(
    repo: lw.Repository, tmp_path: Path
) -> None:
    away = tmp_path / "away.lance"
    lance.write_dataset(ROWS, str(away))
    repo.add("photos", away)
    with pytest.raises(AlreadyExistsError, match="'photos'"):
        repo.add("photos", away)
    with pytest.raises(NotFoundError, match="there is photos"):
        repo.remove("labels")
    repo.remove("photos", message="gone")
    assert repo.tables == ()
    assert repo.at("HEAD~1").table("photos").count_rows() == 3
