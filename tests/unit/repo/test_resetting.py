"""Resetting: the branch moves, and its tables follow; cut off in between, the next writer does the
rest, and nothing that was given up comes back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.repo.rows import rows

import lancewood as lw
from lancewood.catalog import tables
from lancewood.errors import (
    FormatError,
    IncompatibleConflictError,
    NotFoundError,
    RetryableConflictError,
    StorageError,
)
from lancewood.git.refs import Refs
from lancewood.repo import landing as settling
from lancewood.repo import notes as reset_notes
from lancewood.repo.inspect.status import State
from lancewood.repo.outcome import NotLandedWarning

pytestmark = pytest.mark.usefixtures("unsynced")


@pytest.fixture
def repo(tmp_path: Path) -> lw.Repository:
    """Two tables on main with three commits; each of the last two appends a row to both."""
    made = lw.Repository.init(tmp_path / "r")
    with made.transaction("main", "begin") as changes:
        changes.create_table("photos", rows(1))
        changes.create_table("labels", rows(1))
    both(made, "main", 2)
    both(made, "main", 3)
    return made


def both(repo: lw.Repository, branch: str, *values: int) -> None:
    with repo.transaction(branch, f"{branch} gets {values}") as changes:
        changes.table("photos").append(rows(*values))
        changes.table("labels").append(rows(*values))


def seen(repo: lw.Repository, revision: str, table: str = "photos") -> list[int]:
    return sorted(repo.at(revision).table(table).to_arrow()["id"].to_pylist())


def opened(repo: lw.Repository, table: str = "photos", branch: str | None = None) -> lw.Table:
    return lw.open(repo.path / "tables" / f"{table}.lance", branch=branch)


def standing(repo: lw.Repository, table: str = "photos", branch: str | None = None) -> list[int]:
    """What somebody sees who opens the table itself."""
    return sorted(opened(repo, table, branch).to_arrow()["id"].to_pylist())


def notes(repo: lw.Repository) -> list[Path]:
    return sorted((repo.path / "lancewood").rglob("*.json"))


def test_the_branch_goes_back_and_every_table_gets_a_new_version(repo: lw.Repository) -> None:
    target = repo.at("HEAD~1").hash
    done = repo.reset("HEAD~1")
    assert (done.hash, done.branch, done.tables) == (target, "main", ("labels", "photos"))
    assert repo.at("main").hash == target
    assert seen(repo, "main") == standing(repo) == standing(repo, "labels") == [1, 2]
    assert opened(repo).version == 4, "numbers only grow"
    assert opened(repo).checkout(version=3).count_rows() == 3
    assert repo.status().is_clean
    assert next(repo.reflog()).why == "reset: moving to HEAD~1"
    assert notes(repo) == []


def test_what_was_given_up_can_be_had_again(repo: lw.Repository) -> None:
    repo.reset("HEAD~2")
    both(repo, "main", 9)
    repo.reset("main@{2}")
    assert seen(repo, "main") == standing(repo) == [1, 2, 3]
    repo.reset("main@{1}")
    assert seen(repo, "main") == standing(repo) == [1, 9]
    both(repo, "main", 10)
    assert standing(repo) == standing(repo, "labels") == [1, 9, 10]


def test_a_table_that_is_as_it_should_be_gets_no_version(repo: lw.Repository) -> None:
    with repo.transaction("main", "one") as changes:
        changes.table("photos").append(rows(4))
    assert repo.reset("HEAD~1").tables == ("photos",)
    assert opened(repo, "labels").version == 3


def test_a_reset_to_where_the_branch_is_gives_up_what_was_not_committed(
    repo: lw.Repository,
) -> None:
    opened(repo).append(rows(9))
    assert repo.status().tables[1].state is State.MODIFIED
    done = repo.reset()
    assert (done.is_new, done.tables) == (True, ("photos",))
    assert standing(repo) == [1, 2, 3]
    assert repo.status().is_clean
    assert not repo.reset().is_new


def test_a_reset_gives_up_what_was_not_committed_of_tables_that_did_not_change(
    repo: lw.Repository,
) -> None:
    with repo.transaction("main", "one") as changes:
        changes.table("photos").append(rows(4))
    opened(repo, "labels").append(rows(9))
    assert repo.reset("HEAD~1").tables == ("labels", "photos")
    assert standing(repo, "labels") == [1, 2, 3]


def test_soft_moves_the_branch_only(repo: lw.Repository) -> None:
    done = repo.reset("HEAD~1", soft=True)
    assert done.tables == ()
    assert seen(repo, "main") == [1, 2]
    assert standing(repo) == [1, 2, 3]
    assert {each.state for each in repo.status().tables} == {State.MODIFIED}
    assert repo.commit("once more").tables == ("labels", "photos")
    assert seen(repo, "main") == [1, 2, 3]


def test_another_branch_than_the_current_one_can_be_reset(repo: lw.Repository) -> None:
    repo.branches.create("exp")
    both(repo, "exp", 7)
    repo.reset("exp~1", branch="exp")
    assert repo.head.branch == "main"
    assert seen(repo, "exp") == standing(repo, branch="exp") == [1, 2, 3]
    both(repo, "exp", 8)
    assert seen(repo, "exp") == standing(repo, branch="exp") == [1, 2, 3, 8]
    assert standing(repo) == [1, 2, 3]


def test_a_branch_of_a_table_goes_back_within_itself(repo: lw.Repository) -> None:
    repo.branches.create("exp")
    both(repo, "exp", 7)
    both(repo, "exp", 8)
    repo.reset("exp~1", branch="exp")
    assert standing(repo, branch="exp") == [1, 2, 3, 7]
    both(repo, "exp", 9)
    repo.merge("exp")
    assert seen(repo, "main") == standing(repo) == [1, 2, 3, 7, 9]


def test_what_was_recorded_from_outside_does_not_come_back_after_a_reset(
    repo: lw.Repository,
) -> None:
    repo.branches.create("exp")
    repo.prepare("photos", branch="exp").append(rows(7))
    repo.commit("from outside", branch="exp")
    repo.reset("exp~1", branch="exp")
    assert standing(repo, branch="exp") == [1, 2, 3]
    repo.switch("exp")
    assert repo.status().is_clean
    assert not repo.commit("nothing").is_new


def test_main_is_not_reset_to_what_is_on_another_branch_of_a_table(repo: lw.Repository) -> None:
    repo.branches.create("exp")
    both(repo, "exp", 7)
    for soft in (False, True):
        with pytest.raises(IncompatibleConflictError, match="merge 'exp' into main") as refused:
            repo.reset("exp", soft=soft)
        assert {*refused.value.facts["tables"]} == {"labels", "photos"}
    assert seen(repo, "main") == [1, 2, 3]


def test_a_branch_that_somebody_else_made_is_left_alone(repo: lw.Repository) -> None:
    opened(repo).branches.create("exp")
    repo.branches.create("exp", at="HEAD~1")
    with pytest.raises(IncompatibleConflictError, match="did not make") as refused:
        repo.reset("main", branch="exp")
    assert [*refused.value.facts["tables"]] == ["photos"]


def test_a_state_that_cannot_be_read_refuses_before_anything_moves(repo: lw.Repository) -> None:
    pin = repo.at("HEAD~1").pin("labels")
    (repo.path / pin.uri / pin.manifest).unlink()
    version = opened(repo, "labels").checkout(version=2)
    (repo.path / pin.uri / "_versions" / f"{2**64 - 1 - version.version:020}.manifest").unlink()
    before = repo.at("main").hash
    with pytest.raises(IncompatibleConflictError, match=r"'labels': .* is gone"):
        repo.reset("HEAD~1")
    assert repo.at("main").hash == before
    assert standing(repo) == [1, 2, 3]


def test_a_revision_that_is_not_there_is_an_error(repo: lw.Repository) -> None:
    with pytest.raises(NotFoundError):
        repo.reset("nowhere")


def test_a_table_that_diverged_gets_back_what_is_committed(
    repo: lw.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StorageError("no answer")

    with monkeypatch.context() as patch:
        patch.setattr("lancewood.repo.commit.transaction.land", fail)
        changes = repo.transaction("main", "delete")
        changes.table("photos").delete("id = 1")
        changes.table("labels").append(rows(4)).append(rows(5))
        with pytest.warns(NotLandedWarning):
            changes.commit()
    opened(repo).overwrite(rows(7))
    opened(repo, "labels").overwrite(rows(7))
    assert {each.state for each in repo.status().tables} == {State.DIVERGED}
    with pytest.raises(IncompatibleConflictError, match=r"reset\(\) brings back"):
        both(repo, "main", 9)
    assert repo.reset().tables == ("labels", "photos")
    assert repo.status().is_clean
    assert seen(repo, "main") == standing(repo) == [2, 3]
    assert seen(repo, "main", "labels") == standing(repo, "labels") == [1, 2, 3, 4, 5]
    both(repo, "main", 9)
    assert standing(repo) == [2, 3, 9]
    repo.branches.create("later", at="HEAD~1")
    both(repo, "later", 10)
    assert seen(repo, "later") == [2, 3, 10], "a branch can be made of the restored state"


def test_a_commit_that_never_landed_does_not_land_after_a_reset(
    repo: lw.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StorageError("no answer")

    with monkeypatch.context() as patch:
        patch.setattr("lancewood.repo.commit.transaction.land", fail)
        with pytest.warns(NotLandedWarning):
            both(repo, "main", 4)
    repo.branches.create("kept")
    repo.reset("HEAD~1")
    both(repo, "main", 5)
    assert seen(repo, "main") == standing(repo) == [1, 2, 3, 5]
    both(repo, "kept", 6)
    assert seen(repo, "kept") == [1, 2, 3, 4, 6]
    assert standing(repo) == [1, 2, 3, 5], "main does not get what it gave up"
    assert repo.status().is_clean


# Cut off


def cut_off(
    repo: lw.Repository, patch: pytest.MonkeyPatch, act: Callable[[], object], after: int
) -> None:
    """Run it, with no table after the first few that follows."""
    real, left = settling.move_table, [after]

    def move_table(*given: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise StorageError("no answer")
        real(*given)

    with patch.context() as inner:
        inner.setattr("lancewood.repo.moving.move_table", move_table)
        with pytest.warns(NotLandedWarning, match="the next writer does it"):
            act()


@pytest.mark.parametrize("after", [0, 1])
def test_the_next_writer_finishes_a_reset_and_gives_nothing_back(
    repo: lw.Repository, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    cut_off(repo, monkeypatch, lambda: repo.reset("HEAD~1"), after)
    assert seen(repo, "main") == [1, 2], "readers see the commit at once"
    again = lw.Repository.open(repo.path)
    assert {each.state for each in again.status().tables} <= {State.CLEAN, State.UNLANDED}
    both(again, "main", 9)
    assert seen(repo, "main") == standing(repo) == standing(repo, "labels") == [1, 2, 9]
    assert opened(repo).version == 5, "restored once"
    assert notes(repo) == []


@pytest.mark.parametrize("after", [0, 1])
def test_a_commit_of_what_stands_finishes_it_as_well(
    repo: lw.Repository, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    cut_off(repo, monkeypatch, lambda: repo.reset("HEAD~1"), after)
    assert not lw.Repository.open(repo.path).commit("as it stands").is_new
    assert standing(repo) == standing(repo, "labels") == [1, 2]
    assert notes(repo) == []


def test_a_branch_that_was_to_begin_anew_does_so_for_the_next_writer(
    repo: lw.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.branches.create("exp")
    for table in ("photos", "labels"):
        repo.prepare(table, branch="exp").append(rows(7))
    repo.commit("from outside", branch="exp")
    cut_off(repo, monkeypatch, lambda: repo.reset("exp~1", branch="exp"), 1)
    repo.switch("exp")
    again = lw.Repository.open(repo.path)
    assert State.UNLANDED in {each.state for each in again.status().tables}
    assert again.prepare("labels").count_rows() == again.prepare("photos").count_rows() == 3
    assert not again.commit("nothing").is_new
    assert notes(repo) == []
    both(again, "exp", 8)
    assert seen(again, "exp") == standing(repo, branch="exp") == [1, 2, 3, 8]


def test_each_table_is_paid_by_itself(repo: lw.Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    cut_off(repo, monkeypatch, lambda: repo.reset("HEAD~1"), 0)
    with repo.transaction("main", "one table") as changes:
        changes.table("photos").append(rows(9))
    assert standing(repo) == [1, 2, 9]
    assert standing(repo, "labels") == [1, 2, 3]
    (note,) = notes(repo)
    assert [*json.loads(note.read_text())["tables"]] == ["labels"]
    both(repo, "main", 10)
    assert standing(repo, "labels") == [1, 2, 10]
    assert notes(repo) == []


def test_a_note_whose_move_never_happened_is_owed_nothing(
    repo: lw.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object, **__: object) -> bool:
        raise KeyboardInterrupt

    opened(repo, "labels").append(rows(9))
    with monkeypatch.context() as patch:
        patch.setattr(Refs, "move", die)
        with pytest.raises(KeyboardInterrupt):
            repo.reset("HEAD~1")
    assert len(notes(repo)) == 1
    assert {each.state for each in repo.status().tables} == {State.CLEAN, State.MODIFIED}
    both(repo, "main", 4)
    assert standing(repo) == [1, 2, 3, 4]
    assert standing(repo, "labels") == [1, 2, 3, 4, 9]
    repo.reset("HEAD~2", soft=True)
    assert standing(repo) == [1, 2, 3, 4]
    repo.commit("what stands", branch="main")
    assert seen(repo, "main") == [1, 2, 3, 4], "a soft reset does not make it happen"


def test_a_transaction_that_began_before_a_reset_does_not_bring_back_what_it_gave_up(
    repo: lw.Repository,
) -> None:
    changes = repo.transaction("main", "late")
    changes.table("photos").append(rows(9))
    lw.Repository.open(repo.path).reset("HEAD~1")
    with pytest.raises((RetryableConflictError, IncompatibleConflictError), match="'photos'"):
        changes.commit()
    assert seen(repo, "main") == standing(repo) == [1, 2]


def test_the_same_where_the_reset_was_cut_off(
    repo: lw.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = repo.transaction("main", "late")
    changes.table("photos").append(rows(9))
    other = lw.Repository.open(repo.path)
    cut_off(repo, monkeypatch, lambda: other.reset("HEAD~1"), 0)
    with pytest.raises((RetryableConflictError, IncompatibleConflictError), match="'photos'"):
        changes.commit()
    assert seen(repo, "main") == standing(repo) == [1, 2]


def test_a_commit_between_the_look_and_the_move_is_not_lost_sight_of(
    repo: lw.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, is_first = reset_notes.save_move_note, [True]

    def leave(*given: Any) -> Any:
        note = real(*given)
        if is_first.pop() if is_first else False:
            both(lw.Repository.open(repo.path), "main", 4)
        return note

    monkeypatch.setattr("lancewood.repo.moving.save_move_note", leave)
    target = repo.at("HEAD~1").hash
    repo.reset(target)
    assert seen(repo, "main") == standing(repo) == standing(repo, "labels") == [1, 2]
    assert notes(repo) == []


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        '{"from": null, "to": "x", "tables": {}}',
        '{"from": null, "to": null}',
        f'{{"from": 1, "to": "{"a" * 64}", "tables": {{}}}}',
        f'{{"from": null, "to": "{"a" * 64}", "tables": {{"photos": 3}}}}',
        f'{{"from": null, "to": "{"a" * 64}", "tables": {{"photos": {{"base": -1}}}}}}',
    ],
)
def test_a_broken_note_is_told_with_its_file(repo: lw.Repository, text: str) -> None:
    directory = repo.path / "lancewood" / "resets" / "main"
    directory.mkdir(parents=True)
    (directory / "x.json").write_text(text)
    with pytest.raises(FormatError, match=r"lancewood/resets/main/x\.json"):
        both(repo, "main", 4)


def _unlink(repo: lw.Repository, found: str) -> None:
    (repo.path / "objects" / found[:2] / found[2:]).unlink()


def _newest(repo: lw.Repository, what: str) -> str:
    """An object of the newest commit that the one before does not have."""
    commit = repo.at().commit
    objects = repo._context.git.objects
    inner = objects.tree(commit.tree)["tables"].hash
    pin = objects.tree(inner)["photos.json"].hash
    found = {"commit": commit.hash, "tree": commit.tree, "tables": inner, "pin": pin}
    return found[what]


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("what", ["commit", "tree", "tables", "pin"])
def test_a_commit_that_cannot_be_read_is_left_behind(
    repo: lw.Repository, monkeypatch: pytest.MonkeyPatch, what: str, soft: bool
) -> None:
    good = repo.at("HEAD~1").hash
    _unlink(repo, _newest(repo, what))
    monkeypatch.setattr(tables, "_CACHE", tables._Cache())
    again = lw.Repository.open(repo.path)
    again.reset(good, soft=soft)
    assert seen(again, "main") == [1, 2]
    assert standing(again) == ([1, 2, 3] if soft else [1, 2])
    assert again.fsck().is_ok
    assert notes(again) == []
    again.reset()
    both(again, "main", 4)
    assert seen(again, "main") == standing(again) == [1, 2, 4]


def test_a_merge_does_not_leave_what_it_cannot_read(
    repo: lw.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.branches.create("exp", "HEAD~2")
    both(repo, "exp", 9)
    _unlink(repo, _newest(repo, "pin"))
    monkeypatch.setattr(tables, "_CACHE", tables._Cache())
    again = lw.Repository.open(repo.path)
    before = again.branches.list()
    with pytest.raises(NotFoundError):
        again.merge("exp")
    assert again.branches.list() == before


def test_a_note_still_holds_when_git_has_removed_what_was_left(
    repo: lw.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = repo.at().hash
    with monkeypatch.context() as patch:
        patch.setattr("lancewood.engine.commit.commit", _fails)
        with pytest.warns(NotLandedWarning):
            repo.reset("HEAD~1")
    assert len(notes(repo)) == 1
    _unlink(repo, left)
    again = lw.Repository.open(repo.path)
    both(again, "main", 4)
    assert seen(again, "main") == standing(again) == [1, 2, 4]
    assert notes(again) == []


def _fails(*_: Any, **__: Any) -> None:
    raise StorageError("the store is away")
