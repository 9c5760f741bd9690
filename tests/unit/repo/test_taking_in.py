"""A transaction contains what others wrote directly to its tables, and says so."""

from __future__ import annotations

import warnings

import lance
import pytest
from tests.unit.repo.rows import rows

import lancewood as lw
from lancewood.repo.commit.transaction import Pending
from lancewood.repo.outcome import Committed, TakenIn


def directly(repo: lw.Repository, value: int, *, branch: str | None = None) -> None:
    where = lw.open(repo.path / "tables" / "photos.lance", branch=branch)
    where.append(rows(value), message=f"by hand {value}")


def append(repo: lw.Repository, value: int, branch: str = "main") -> Committed:
    with repo.transaction(branch, f"gets {value}") as changes:
        changes.table("photos").append(rows(value))
    return changes.result


def test_a_transaction_that_meets_nobody_takes_nothing_in(repo: lw.Repository) -> None:
    assert append(repo, 4).taken_in == append(repo, 5).taken_in == ()
    assert append(repo, 4, "exp").taken_in == append(repo, 5, "exp").taken_in == ()


def test_what_was_written_directly_is_named(repo: lw.Repository) -> None:
    directly(repo, 4)
    where = str(repo.path / "tables" / "photos.lance")
    lance.write_dataset(rows(5), where, mode="append")
    assert append(repo, 6).taken_in == (TakenIn("photos", (2, 3), "by hand 4"),)
    assert repo.at().table("photos").count_rows() == 6
    assert append(repo, 7).taken_in == ()


def test_what_was_committed_is_nobody_s_surprise(repo: lw.Repository) -> None:
    directly(repo, 4)
    repo.commit("recorded")
    assert append(repo, 5).taken_in == ()


def test_a_write_while_the_transaction_is_at_work_is_named(repo: lw.Repository) -> None:
    changes = repo.transaction("main", "slow")
    changes.table("photos").append(rows(4))
    changes.table("labels").append(rows(4))
    directly(repo, 5)
    assert changes.commit().taken_in == (TakenIn("photos", (2,), "by hand 5"),)


def test_a_write_between_the_swap_and_the_landing_is_named_by_the_next(
    repo: lw.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Pending, "land", lambda self: None)
        append(repo, 4)
    directly(repo, 5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert append(repo, 6).taken_in == (TakenIn("photos", (2,), "by hand 5"),)
    assert repo.at().table("photos").count_rows() == 6
    assert repo.status().is_clean


def test_commits_that_a_reset_gave_up_are_not_named(repo: lw.Repository) -> None:
    for value in (4, 5):
        append(repo, value)
    repo.reset("HEAD~2")
    assert append(repo, 6).taken_in == ()
    repo.reset("HEAD~1")
    directly(repo, 7)
    (found,) = append(repo, 8).taken_in
    assert (found.table, len(found.versions), found.message) == ("photos", 1, "by hand 7")


def test_what_only_rewrote_settings_changes_nothing(repo: lw.Repository) -> None:
    lw.open(repo.path / "tables" / "photos.lance").set_config({"a": "b"})
    assert append(repo, 4).taken_in == ()


def test_a_write_to_a_branch_that_was_made_ready_is_named(repo: lw.Repository) -> None:
    repo.prepare("photos", branch="exp")
    directly(repo, 4, branch="exp")
    (found,) = append(repo, 5, "exp").taken_in
    assert (found.table, found.message, len(found.versions)) == ("photos", "by hand 4", 1)
    assert append(repo, 6, "exp").taken_in == ()
