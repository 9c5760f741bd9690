"""Verbs that write tables plan without writing: they say what they would do, and refuse what they
would refuse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.unit.repo.rows import rows

import lancewood as lw
from lancewood.errors import IncompatibleConflictError, StorageError
from lancewood.repo import Committed, NotLandedWarning, TableDone

pytestmark = pytest.mark.usefixtures("unsynced")


def append(repo: lw.Repository, branch: str, *values: int) -> None:
    with repo.transaction(branch, f"append {values}") as changes:
        changes.table("photos").append(rows(*values))


def contents(repo: lw.Repository) -> dict[str, bytes]:
    """Every file of the repository and its tables."""
    return {str(each): each.read_bytes() for each in repo.path.rglob("*") if each.is_file()}


VERBS: dict[str, Callable[..., Committed]] = {
    "revert": lambda repo, **how: repo.revert("HEAD", **how),
    "cherry_pick": lambda repo, **how: repo.cherry_pick("exp", branch="kept", **how),
    "reset": lambda repo, **how: repo.reset("HEAD~1", **how),
    "reset, soft": lambda repo, **how: repo.reset("HEAD~1", soft=True, **how),
    "reset, nothing to do": lambda repo, **how: repo.reset(**how),
    "revert, of files": lambda repo, **how: repo.revert("files", branch="files", **how),
    "cherry_pick, nothing to do": lambda repo, **how: repo.cherry_pick("exp", branch="exp", **how),
}


@pytest.fixture
def busy(repo: lw.Repository) -> lw.Repository:
    repo.branches.create("kept")
    append(repo, "main", 4)
    append(repo, "exp", 5)
    repo.branches.create("files")
    repo.snapshot({"notes.txt": b"words"}, "files", branch="files")
    return repo


@pytest.mark.parametrize("verb", VERBS)
def test_a_dry_run_says_what_is_done_then_and_writes_nothing(
    busy: lw.Repository, verb: str
) -> None:
    before = contents(busy)
    would = VERBS[verb](busy, dry_run=True)
    assert contents(busy) == before
    assert would.is_dry_run
    done = VERBS[verb](busy)
    assert replace(would, hash=done.hash, is_dry_run=False) == done


@pytest.mark.parametrize("verb", ["revert", "cherry_pick"])
def test_a_dry_run_refuses_what_would_be_refused(busy: lw.Repository, verb: str) -> None:
    for branch, value in (("main", 7), ("kept", 8), ("exp", 9)):
        with busy.transaction(branch, "something else") as changes:
            changes.table("photos").update({"id": f"{value}"}, "id > 2")
    before = contents(busy)
    act = {
        "revert": lambda: busy.revert("HEAD~1", dry_run=True),
        "cherry_pick": lambda: busy.cherry_pick("exp", branch="kept", dry_run=True),
    }
    with pytest.raises(IncompatibleConflictError, match="nothing has changed"):
        act[verb]()
    assert contents(busy) == before


def test_what_has_not_landed_is_not_judged_and_does_not_land(
    repo: lw.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StorageError("no answer")

    with monkeypatch.context() as patch:
        patch.setattr("lancewood.repo.commit.transaction.land", fail)
        with pytest.warns(NotLandedWarning):
            append(repo, "exp", 4)
    before = contents(repo)
    would = repo.cherry_pick("exp", dry_run=True)
    assert (would.tables, would.done) == (("photos",), (("photos", TableDone.REPEATED),))
    assert contents(repo) == before


def test_a_repository_says_which_tables_it_would_reserve(repo: lw.Repository) -> None:
    append(repo, "exp", 4)
    before = contents(repo)
    would = repo.exclusive(True, dry_run=True)
    assert [(each.branch, each.tables, each.is_dry_run) for each in would] == [
        ("exp", ("photos",), True),
        ("main", ("labels", "photos"), True),
    ]
    assert (contents(repo), repo.is_exclusive) == (before, False)
    done = repo.exclusive(True)
    assert [(each.branch, each.tables) for each in done] == [
        (each.branch, each.tables) for each in would
    ]
    assert repo.exclusive(True, dry_run=True) == ()
