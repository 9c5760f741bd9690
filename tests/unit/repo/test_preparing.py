"""``Repository.prepare``, and what a branch of a table that was only prepared means to others."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.repo.inspect.status import State

ROWS = pa.table({"id": [1, 2, 3]})


@pytest.fixture
def repo(tmp_path: Path) -> lw.Repository:
    """One table on main; exp, at the same commit, is the current branch."""
    made = lw.Repository.init(tmp_path / "r")
    with made.transaction("main", "first") as changes:
        changes.create_table("photos", ROWS)
    made.switch("exp", create=True)
    return made


def state(repo: lw.Repository) -> State:
    return repo.status().tables[0].state


def test_preparing_makes_a_branch_that_pylance_writes_and_commit_records(
    repo: lw.Repository,
) -> None:
    ready = repo.prepare("photos")
    assert (ready.branch, ready.count_rows()) == ("exp", 3)
    assert state(repo) is State.CLEAN
    assert not repo.commit("nothing").is_new
    main = lance.dataset(str(repo.path / "tables" / "photos.lance"))
    main.checkout_version(("exp", None)).insert(ROWS, mode="append")
    assert state(repo) is State.MODIFIED
    assert repo.commit("by pylance").tables == ("photos",)
    assert repo.at("exp").table("photos").count_rows() == 6
    assert repo.at("main").table("photos").count_rows() == 3


def test_preparing_again_keeps_what_was_written_and_not_committed(repo: lw.Repository) -> None:
    repo.prepare("photos").append(ROWS)
    assert repo.prepare("photos").count_rows() == 6
    assert repo.commit("kept").is_new


def test_on_main_the_table_itself_is_prepared(repo: lw.Repository) -> None:
    ready = repo.prepare("photos", branch="main")
    assert (ready.branch, ready.version) == (None, 1)
    assert ready.append(ROWS).version == 2


def test_a_branch_of_a_table_from_before_says_nothing_about_a_later_commit(
    repo: lw.Repository,
) -> None:
    repo.prepare("photos").append(ROWS)
    with repo.transaction("main", "second") as changes:
        changes.table("photos").append(ROWS.slice(0, 1))
    repo.switch("main")
    repo.branches.delete("exp", force=True)
    repo.switch("exp", create=True)
    assert state(repo) is State.CLEAN
    assert not repo.commit("nothing").is_new
    assert repo.at("exp").table("photos").count_rows() == 4


def test_a_table_that_is_not_there_is_named(repo: lw.Repository) -> None:
    with pytest.raises(lw.NotFoundError, match=r"'phots'.*photos"):
        repo.prepare("phots")
    with pytest.raises(lw.NotFoundError, match="no branch 'nope'"):
        repo.prepare("photos", branch="nope")
