"""Merging: three-way over what commits pin, and the tables' own rules where both sides changed."""

from __future__ import annotations

from typing import Any

import lance
import pyarrow as pa
import pytest
from tests.unit.repo.rows import rows

import lancewood as lw
from lancewood.errors import (
    FormatError,
    IncompatibleConflictError,
    InvalidInputError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from lancewood.jobs.refs.creation import create_branch
from lancewood.jobs.runner import LocalRunner
from lancewood.repo.commit.transaction import Transaction
from lancewood.repo.merge import merge as merging
from lancewood.repo.outcome import NotLandedWarning, TableDone, TakenIn

pytestmark = pytest.mark.usefixtures("unsynced")


def append(repo: lw.Repository, branch: str, *values: int, table: str = "photos") -> None:
    with repo.transaction(branch, f"{branch} gets {values}") as changes:
        changes.table(table).append(rows(*values))


def seen(repo: lw.Repository, revision: str, table: str = "photos") -> list[int]:
    found = repo.at(revision).table(table).to_arrow()["id"].to_pylist()
    return sorted(found)


def standing(repo: lw.Repository, table: str = "photos", branch: str | None = None) -> list[int]:
    """What somebody sees who opens the table itself."""
    opened = lw.open(repo.path / "tables" / f"{table}.lance", branch=branch)
    return sorted(opened.to_arrow()["id"].to_pylist())


def test_work_is_published_by_the_caller_s_runner(repo: lw.Repository) -> None:
    asked = list[str]()

    class Noted(LocalRunner):
        def run(self, *given: Any, what: str, **told: Any) -> Any:
            asked.append(what)
            return super().run(*given, what=what, **told)

    append(repo, "exp", 4)
    repo.merge("exp", runner=Noted())
    assert asked == ["adopting files"]


def test_a_table_that_only_the_other_side_changed_is_published(repo: lw.Repository) -> None:
    append(repo, "exp", 4)
    done = repo.merge("exp")
    assert (done.branch, done.tables, done.done) == (
        "main",
        ("photos",),
        (("photos", TableDone.PUBLISHED),),
    )
    assert done.is_new
    assert not done.diverged
    assert seen(repo, "main") == standing(repo) == [1, 2, 3, 4]
    assert repo.status().is_clean
    assert repo.at("main").commit.parents == (
        repo.at("main~1").hash,
        repo.at("exp").hash,
    )
    assert repo.at("main").commit.message == "Merge branch 'exp'"
    assert next(repo.reflog("main")).why == "merge exp: Merge branch 'exp'"


def test_a_table_that_only_this_side_changed_stays_as_it_is_pinned(repo: lw.Repository) -> None:
    append(repo, "exp", 4)
    append(repo, "main", 5, table="labels")
    before = repo.at("main").pin("labels")
    repo.merge("exp")
    assert repo.at("main").pin("labels") == before
    assert seen(repo, "main", "labels") == [1, 2, 3, 5]


def test_a_table_that_both_changed_gets_both_where_the_rules_allow_it(repo: lw.Repository) -> None:
    append(repo, "exp", 4)
    append(repo, "main", 5)
    repo.merge("exp")
    assert seen(repo, "main") == standing(repo) == [1, 2, 3, 4, 5]


def test_rows_of_one_primary_key_that_both_sides_brought_are_one_row(repo: lw.Repository) -> None:
    key = {"lance-schema:unenforced-primary-key": "true"}
    field = pa.field("id", pa.int64(), nullable=False, metadata=key)

    def people(*keys: int) -> pa.Table:
        return pa.table([pa.array(keys, pa.int64())], schema=pa.schema([field]))

    with repo.transaction("main", "people") as changes:
        changes.create_table("people", people(1, 2))
    repo.branches.create("dev")
    for branch, keys in (("dev", (3, 4)), ("main", (4, 5))):
        with repo.transaction(branch, "more") as changes:
            changes.table("people").append(people(*keys))
    before = repo.at("main").hash
    assert repo.merge("dev", dry_run=True).done == (("people", TableDone.MERGED),)
    assert repo.at("main").hash == before
    repo.merge("dev")
    assert seen(repo, "main", "people") == [1, 2, 3, 4, 5]


def test_all_tables_with_conflicts_are_named_and_nothing_has_changed(repo: lw.Repository) -> None:
    for branch, value in (("exp", 8), ("main", 9)):
        with repo.transaction(branch, "both change rows") as changes:
            changes.table("photos").update({"id": f"{value}"}, "id = 1")
            changes.table("labels").update({"id": f"{value}"}, "id > 1")
    with repo.transaction("exp", "and a table that would do") as changes:
        changes.create_table("extra", rows(1))
    before = repo.at("main").hash
    for dry_run in (True, False):
        with pytest.raises(lw.MergeConflictError, match="nothing has changed") as refused:
            repo.merge("exp", dry_run=dry_run)
        facts = refused.value.facts
        assert {*facts["tables"]} == {"photos", "labels"}
        assert facts["conflicts"] == 3
        assert facts["by_table"]["labels"]["kinds"] == {"update/update": 2}
    for each in ("'photos'", "'labels'"):
        assert each in refused.value.message
    assert repo.at("main").hash == before
    assert standing(repo) == [2, 3, 9]
    repo.merge("exp", resolve="theirs")
    assert standing(repo) == [2, 3, 8]
    assert seen(repo, "main", "labels") == [1, 8, 8]
    assert seen(repo, "main", "extra") == [1]


def test_a_table_made_on_the_other_side_comes_along_with_its_rows(repo: lw.Repository) -> None:
    with repo.transaction("exp", "new") as changes:
        changes.create_table("extra", rows(7, 8)).append(rows(9))
        changes.create_table("empty", pa.schema([("id", pa.int64())]))
    assert "extra" not in repo.at("main").tables
    done = repo.merge("exp")
    assert {*done.tables} == {"extra", "empty"}
    assert seen(repo, "main", "extra") == standing(repo, "extra") == [7, 8, 9]
    assert seen(repo, "main", "empty") == []
    append(repo, "main", 10, table="extra")
    append(repo, "main", 11, table="empty")
    assert seen(repo, "main", "empty") == standing(repo, "empty") == [11]


def test_a_table_removed_there_and_untouched_here_is_removed(repo: lw.Repository) -> None:
    repo.remove("labels", branch="exp")
    assert repo.merge("exp").done == (("labels", TableDone.REMOVED),)
    assert repo.at("main").tables == ("photos",)


@pytest.mark.parametrize("removed_on", ["main", "exp"])
def test_a_table_removed_on_one_side_and_changed_on_the_other_is_refused(
    repo: lw.Repository, removed_on: str
) -> None:
    other = "exp" if removed_on == "main" else "main"
    repo.remove("labels", branch=removed_on)
    append(repo, other, 4, table="labels")
    append(repo, "exp", 4)
    with pytest.raises(IncompatibleConflictError, match="'labels': it was removed"):
        repo.merge("exp")
    assert seen(repo, "main") == [1, 2, 3]


def test_a_table_that_this_side_removed_and_the_other_left_alone_stays_away(
    repo: lw.Repository,
) -> None:
    repo.remove("labels", branch="main")
    append(repo, "exp", 4)
    repo.merge("exp")
    assert repo.at("main").tables == ("photos",)


def test_what_is_merged_already_is_no_commit(repo: lw.Repository) -> None:
    assert not repo.merge("exp").is_new
    append(repo, "exp", 4)
    first = repo.merge("exp")
    again = repo.merge("exp")
    assert (again.is_new, again.hash, again.tables) == (False, first.hash, ())
    assert not repo.merge("main", branch="main").is_new


def test_a_dry_run_judges_and_writes_nothing(repo: lw.Repository) -> None:
    append(repo, "exp", 4)
    files = sorted(each for each in repo.path.rglob("*") if each.is_file())
    done = repo.merge("exp", dry_run=True)
    assert done.is_dry_run
    assert done.tables == ("photos",)
    assert done.hash == repo.at("main").hash
    assert sorted(each for each in repo.path.rglob("*") if each.is_file()) == files


def test_a_merge_without_a_change_of_tables_still_joins_the_histories(repo: lw.Repository) -> None:
    append(repo, "exp", 4)
    repo.revert("exp", branch="exp")
    done = repo.merge("exp")
    assert done.is_new
    assert len(repo.at("main").commit.parents) == 2
    assert seen(repo, "main") == [1, 2, 3]
    assert not repo.merge("exp").is_new


def test_message_and_author_are_the_caller_s(repo: lw.Repository) -> None:
    append(repo, "exp", 4)
    repo.merge("exp", message="bring it", author="Ada <ada@example.org>")
    commit = repo.at("main").commit
    assert (commit.message, commit.author.name) == ("bring it", "Ada")


def test_what_cannot_be_merged_is_an_error_before_anything_is_done(repo: lw.Repository) -> None:
    with pytest.raises(NotFoundError):
        repo.merge("nowhere")
    with pytest.raises(NotFoundError, match="nowhere"):
        repo.merge("exp", branch="nowhere")
    with pytest.raises(InvalidInputError, match="message"):
        repo.merge("exp", message=" ")


# After a merge


def test_who_goes_on_where_work_was_merged_without_ids_of_its_own_is_told_the_way_out(
    repo: lw.Repository, no_own_ids: None
) -> None:
    append(repo, "exp", 4)
    append(repo, "main", 5)
    repo.merge("exp")
    with pytest.raises(IncompatibleConflictError, match="Merge 'main' into 'exp' first"):
        append(repo, "exp", 6)
    moved = repo.merge("main", branch="exp")
    assert moved.hash == repo.at("main").hash, "a plain move"
    assert next(repo.reflog("exp")).why == "merge main: Fast-forward"
    append(repo, "exp", 6)
    assert seen(repo, "exp") == standing(repo, branch="exp") == [1, 2, 3, 4, 5, 6]
    repo.merge("exp")
    assert seen(repo, "main") == standing(repo) == [1, 2, 3, 4, 5, 6]


@pytest.fixture
def no_own_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Branches of tables are made as before lines had row ids of their own."""

    def create(*given: Any, own_ids: bool, **told: Any) -> Any:
        return create_branch(*given, own_ids=False, **told)

    monkeypatch.setattr("lancewood.jobs.refs.creation.create_branch", create)


def test_other_tables_of_a_merged_branch_can_be_written(
    repo: lw.Repository, no_own_ids: None
) -> None:
    append(repo, "exp", 4)
    repo.merge("exp")
    append(repo, "exp", 5, table="labels")
    with pytest.raises(IncompatibleConflictError, match="merged into 'main'"):
        append(repo, "exp", 6)
    repo.merge("exp")
    assert seen(repo, "main") == [1, 2, 3, 4]
    assert seen(repo, "main", "labels") == [1, 2, 3, 5]


def test_work_without_ids_of_its_own_is_never_merged_twice(
    repo: lw.Repository, no_own_ids: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(repo, "exp", 4)
    repo.merge("exp")
    monkeypatch.setattr("lancewood.repo.writable.check_unmerged", lambda *_: None)
    append(repo, "exp", 5)
    with pytest.raises(IncompatibleConflictError, match="would be there twice"):
        repo.merge("exp")
    assert seen(repo, "main") == [1, 2, 3, 4]


def test_a_branch_is_merged_again_and_again_in_both_directions(repo: lw.Repository) -> None:
    for value in range(4, 10, 2):
        append(repo, "exp", value)
        repo.merge("exp")
        append(repo, "exp", value + 1)
        append(repo, "main", 10 * value)
        assert repo.merge("main", branch="exp").done == (("photos", TableDone.MERGED),)
        assert seen(repo, "exp") == standing(repo, branch="exp")
    repo.merge("exp")
    assert seen(repo, "main") == standing(repo) == [*range(1, 10), 40, 60, 80]
    assert lance.dataset(repo.path / "tables/photos.lance").count_rows() == 12


def test_work_that_was_merged_and_reverted_does_not_come_back_with_later_work(
    repo: lw.Repository,
) -> None:
    append(repo, "exp", 4)
    repo.merge("exp")
    repo.revert("HEAD")
    append(repo, "exp", 5)
    repo.merge("exp")
    assert seen(repo, "main") == standing(repo) == [1, 2, 3, 5]


def test_a_table_that_went_back_before_it_was_written_is_not_half_merged(
    repo: lw.Repository,
) -> None:
    append(repo, "main", 4)
    repo.merge("main", branch="exp")
    repo.revert("exp", branch="exp")
    append(repo, "exp", 5)
    assert seen(repo, "exp") == [1, 2, 3, 5]
    repo.merge("exp")
    assert seen(repo, "main") == standing(repo) == [1, 2, 3, 5]


def test_a_branch_that_came_to_nothing_does_not_hide_what_its_target_gave_up(
    repo: lw.Repository,
) -> None:
    append(repo, "exp", 4)
    append(repo, "exp", 5)
    repo.branches.create("deep", at="exp")
    append(repo, "deep", 6)
    with repo.transaction("deep", "and back") as changes:
        changes.table("photos").delete("id = 6")
    repo.reset("exp~1", branch="exp")
    assert seen(repo, "deep") == [1, 2, 3, 4, 5]
    repo.merge("deep", branch="exp")
    assert seen(repo, "exp") == standing(repo, branch="exp") == [1, 2, 3, 4, 5]


def test_a_table_whose_changes_were_reverted_stays_where_this_side_can_write_it(
    repo: lw.Repository,
) -> None:
    repo.branches.create("other")
    with repo.transaction("other", "labels alone") as changes:
        changes.table("labels").append(rows(7))
        changes.table("photos").compact()  # nothing to do, but photos has a branch 'other' now
    append(repo, "exp", 4)
    repo.revert("exp", branch="exp")
    before = repo.at("other").pin("photos")
    repo.merge("exp", branch="other")
    assert repo.at("other").pin("photos") == before
    append(repo, "other", 5)
    append(repo, "exp", 6)
    repo.merge("exp", branch="other")
    assert seen(repo, "other") == [1, 2, 3, 5, 6]
    repo.merge("other")
    assert seen(repo, "main") == [1, 2, 3, 5, 6]


def test_a_branch_does_not_just_move_to_a_commit_where_it_could_not_write_a_table(
    repo: lw.Repository,
) -> None:
    repo.branches.create("other")
    repo.transaction("other", "given up").table("photos").append(rows(9))
    append(repo, "exp", 4)
    repo.revert("exp", branch="exp")
    append(repo, "exp", 7, table="labels")
    repo.merge("exp", branch="other")
    assert repo.at("other").commit.parents == (repo.at("main").hash, repo.at("exp").hash)
    assert seen(repo, "other", "labels") == [1, 2, 3, 7]
    append(repo, "other", 5)
    assert seen(repo, "other") == [1, 2, 3, 5]
    assert repo.merge("exp", branch="other").is_new is False


def test_a_merge_that_was_taken_back_by_a_reset_can_be_done_again(repo: lw.Repository) -> None:
    append(repo, "exp", 4)
    repo.merge("exp")
    repo.reset("HEAD~1")
    assert standing(repo) == [1, 2, 3]
    append(repo, "exp", 5)
    repo.merge("exp")
    assert seen(repo, "main") == standing(repo) == [1, 2, 3, 4, 5]


def test_a_table_whose_merge_was_taken_back_comes_again(repo: lw.Repository) -> None:
    with repo.transaction("exp", "new") as changes:
        changes.create_table("extra", rows(7))
    repo.merge("exp")
    repo.reset("HEAD~1")
    assert repo.at("main").tables == ("labels", "photos")
    append(repo, "exp", 8, table="extra")
    assert repo.merge("exp", dry_run=True).tables == ("extra",)
    repo.merge("exp")
    assert seen(repo, "main", "extra") == standing(repo, "extra") == [7, 8]


def test_a_table_that_comes_back_does_not_bring_what_was_given_up(repo: lw.Repository) -> None:
    with repo.transaction("main", "new") as changes:
        changes.create_table("extra", rows(7))
    repo.branches.create("kept")
    append(repo, "main", 8, table="extra")
    repo.reset("HEAD~2")
    append(repo, "main", 4)
    assert repo.merge("kept").done == (("extra", TableDone.RESTORED),)
    assert seen(repo, "main", "extra") == standing(repo, "extra") == [7]
    append(repo, "main", 9, table="extra")
    assert seen(repo, "main", "extra") == [7, 9]


def test_a_table_made_there_whose_main_others_wrote_is_taken_in_first(repo: lw.Repository) -> None:
    with repo.transaction("exp", "new") as changes:
        changes.create_table("extra", rows(7))
    home = repo.path / "tables" / "extra.lance"
    lw.open(home).append(rows(9))
    for dry_run in (True, False):
        with pytest.raises(IncompatibleConflictError, match="others wrote to the table itself"):
            repo.merge("exp", dry_run=dry_run)
    repo.add("extra", home)
    repo.merge("exp")
    assert seen(repo, "main", "extra") == standing(repo, "extra") == [7, 9]


def test_a_table_that_others_went_on_writing_is_not_taken_back(repo: lw.Repository) -> None:
    repo.branches.create("kept")
    repo.remove("labels")
    append(repo, "kept", 4)
    lw.open(repo.path / "tables" / "labels.lance").append(rows(9))
    with pytest.raises(IncompatibleConflictError, match="others wrote to the table itself"):
        repo.revert("HEAD")
    assert standing(repo, "labels") == [1, 2, 3, 9]


def test_work_that_was_picked_before_is_not_merged_once_more(repo: lw.Repository) -> None:
    append(repo, "exp", 4)
    append(repo, "exp", 5)
    repo.cherry_pick("exp~1")
    assert seen(repo, "main") == [1, 2, 3, 4]
    repo.merge("exp")
    assert seen(repo, "main") == standing(repo) == [1, 2, 3, 4, 5]


def test_a_pick_that_came_by_another_branch_is_found(repo: lw.Repository) -> None:
    repo.branches.create("dev")
    append(repo, "exp", 4)
    repo.cherry_pick("exp", branch="dev")
    append(repo, "dev", 6)
    repo.merge("dev")
    repo.merge("exp")
    assert seen(repo, "main") == standing(repo) == [1, 2, 3, 4, 6]


# Branches of branches, and moves


def test_a_branch_of_a_branch_goes_to_its_parent_or_all_the_way(repo: lw.Repository) -> None:
    append(repo, "exp", 4)
    with repo.transaction("exp", "delete") as changes:
        changes.table("photos").delete("id = 1")
    repo.branches.create("deep", at="exp")
    append(repo, "deep", 5)
    with repo.transaction("deep", "delete") as changes:
        changes.table("photos").delete("id = 2")
    repo.branches.create("other", at="exp")
    append(repo, "other", 6)
    append(repo, "main", 7)
    assert repo.merge("other", branch="exp").done == (("photos", TableDone.PUBLISHED),)
    assert seen(repo, "exp") == standing(repo, branch="exp") == [2, 3, 4, 6]
    repo.merge("deep", branch="main")
    assert seen(repo, "main") == standing(repo) == [3, 4, 5, 7]
    repo.merge("exp", branch="main")
    assert seen(repo, "main") == standing(repo) == [3, 4, 5, 6, 7]


@pytest.mark.usefixtures("pages_decoded_here")
def test_files_of_branches_that_were_passed_come_into_the_target(repo: lw.Repository) -> None:
    append(repo, "exp", 4)
    with repo.transaction("exp", "delete") as changes:
        changes.table("photos").delete("id = 1")
    repo.branches.create("deep", at="exp")
    append(repo, "deep", 5)
    repo.merge("deep", branch="main")
    table = lw.open(repo.path / "tables" / "photos.lance")
    table.branches.delete("deep", force=True)
    table.branches.delete("exp", force=True)
    assert standing(repo) == [2, 3, 4, 5]
    assert not table.latest().verify(deep=True).problems


def test_a_branch_without_work_of_its_own_just_moves(repo: lw.Repository) -> None:
    append(repo, "main", 4)
    done = repo.merge("main", branch="exp")
    assert done.hash == repo.at("main").hash
    assert done.done == (("photos", TableDone.TAKEN),)
    append(repo, "exp", 5)
    assert seen(repo, "exp") == standing(repo, branch="exp") == [1, 2, 3, 4, 5]


def test_a_branch_with_other_tables_of_its_own_gets_a_commit_with_two_parents(
    repo: lw.Repository,
) -> None:
    append(repo, "main", 4)
    append(repo, "exp", 5, table="labels")
    done = repo.merge("main", branch="exp")
    assert len(repo.at("exp").commit.parents) == 2
    assert done.done == (("photos", TableDone.TAKEN),)
    assert repo.at("exp").commit.message == "Merge branch 'main' into exp"
    append(repo, "exp", 6)
    assert seen(repo, "exp") == [1, 2, 3, 4, 6]
    repo.merge("exp")
    assert seen(repo, "main") == standing(repo) == [1, 2, 3, 4, 6]
    assert seen(repo, "main", "labels") == [1, 2, 3, 5]


def test_without_ids_of_its_own_a_branch_takes_in_its_parent_by_the_other_direction(
    repo: lw.Repository, no_own_ids: None
) -> None:
    append(repo, "main", 4)
    append(repo, "exp", 5)
    with pytest.raises(IncompatibleConflictError, match="merge in the other direction first"):
        repo.merge("main", branch="exp")
    assert seen(repo, "exp") == [1, 2, 3, 5]
    repo.merge("exp", branch="main")
    repo.merge("main", branch="exp")
    assert seen(repo, "exp") == seen(repo, "main") == [1, 2, 3, 4, 5]


def test_main_never_just_moves_but_gets_a_commit(repo: lw.Repository) -> None:
    repo.remove("labels", branch="exp")
    repo.merge("exp")
    assert len(repo.at("main").commit.parents) == 2


def test_a_move_does_not_take_away_what_was_not_committed(repo: lw.Repository) -> None:
    append(repo, "exp", 4)
    repo.merge("exp")
    lw.open(repo.path / "tables" / "photos.lance", branch="exp").append(rows(5))
    with pytest.raises(IncompatibleConflictError, match=r"commit\(\) it first"):
        repo.merge("main", branch="exp")
    assert standing(repo, branch="exp") == [1, 2, 3, 4, 5]


def test_a_state_of_the_same_branch_of_a_table_comes_back_by_a_restoration(
    repo: lw.Repository,
) -> None:
    append(repo, "main", 4)
    repo.branches.create("kept")
    repo.reset("HEAD~1")
    append(repo, "main", 5, table="labels")
    done = repo.merge("kept")
    assert done.done == (("photos", TableDone.RESTORED),)
    assert seen(repo, "main") == standing(repo) == [1, 2, 3, 4]
    assert seen(repo, "main", "labels") == [1, 2, 3, 5]


def test_a_restoration_does_not_take_away_what_was_not_committed(repo: lw.Repository) -> None:
    append(repo, "main", 4)
    repo.branches.create("kept")
    repo.reset("HEAD~1")
    lw.open(repo.path / "tables" / "photos.lance").append(rows(9))
    with pytest.raises(IncompatibleConflictError, match="'photos': it was written"):
        repo.merge("kept")
    assert standing(repo) == [1, 2, 3, 9]


def test_writes_from_outside_are_taken_in_by_a_merge(repo: lw.Repository) -> None:
    append(repo, "exp", 4)
    lw.open(repo.path / "tables" / "photos.lance").append(rows(9), message="by hand")
    done = repo.merge("exp")
    assert seen(repo, "main") == standing(repo) == [1, 2, 3, 4, 9]
    assert done.taken_in == (TakenIn("photos", (2,), "by hand"),)


# Races


def test_a_commit_to_the_same_table_in_between_is_built_upon(
    repo: lw.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(repo, "exp", 4)
    real, others = Transaction.tree, iter([(5,), (6,)])

    def tree(self: Transaction, tip: object) -> object:
        found = real(self, tip)  # type: ignore[arg-type]
        if isinstance(self, merging._MergeTransaction):
            for values in others:
                append(lw.Repository.open(repo.path), "main", *values)
                break
        return found

    monkeypatch.setattr(Transaction, "tree", tree)
    done = repo.merge("exp")
    assert done.is_new
    assert seen(repo, "main") == standing(repo) == [1, 2, 3, 4, 5, 6]
    assert len([*repo.log("main", first_parent=True)]) == 4


def test_a_commit_in_between_that_has_not_landed_yet_is_built_upon(
    repo: lw.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(repo, "exp", 4)
    real, is_first = merging._Merging._judge, [True]

    def fail(*_: object, **__: object) -> None:
        raise StorageError("no answer")

    def judge(self: merging._Merging, *given: object, **told: object) -> object:
        judged = real(self, *given, **told)  # type: ignore[arg-type]
        if is_first.pop() if is_first else False:
            with monkeypatch.context() as patch:
                patch.setattr("lancewood.repo.commit.transaction.land", fail)
                with pytest.warns(NotLandedWarning):
                    append(lw.Repository.open(repo.path), "main", 5)
        return judged

    monkeypatch.setattr(merging._Merging, "_judge", judge)
    done = repo.merge("exp")
    assert not done.diverged
    assert seen(repo, "main") == standing(repo) == [1, 2, 3, 4, 5]
    assert repo.status().is_clean


def test_the_same_merge_by_somebody_faster_is_found(
    repo: lw.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(repo, "exp", 4)
    real, is_first = merging._Merging._committed, [True]

    def committed(self: merging._Merging, *given: object) -> object:
        if is_first.pop() if is_first else False:
            lw.Repository.open(repo.path).merge("exp")
        return real(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(merging._Merging, "_committed", committed)
    assert not repo.merge("exp").is_new
    assert seen(repo, "main") == standing(repo) == [1, 2, 3, 4]


def test_a_change_in_between_that_does_not_go_together_refuses_the_merge(
    repo: lw.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    with repo.transaction("exp", "delete") as changes:
        changes.table("photos").update({"id": "8"}, "id = 1")
    real, is_first = merging._Merging._committed, [True]

    def committed(self: merging._Merging, *given: object) -> object:
        if is_first.pop() if is_first else False:
            with lw.Repository.open(repo.path).transaction("main", "meanwhile") as changes:
                changes.table("photos").overwrite(rows(9))
        return real(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(merging._Merging, "_committed", committed)
    with pytest.raises(lw.MergeConflictError, match="'exp' cannot be merged into 'main'"):
        repo.merge("exp")
    assert seen(repo, "main") == standing(repo) == [9]


def test_tables_that_the_repository_keeps_for_itself_are_merged_as_well(
    repo: lw.Repository,
) -> None:
    repo.exclusive(True)
    append(repo, "exp", 4)
    append(repo, "main", 5)
    repo.merge("exp")
    assert seen(repo, "main") == standing(repo) == [1, 2, 3, 4, 5]
    repo.merge("main", branch="exp")
    append(repo, "exp", 6)
    repo.cherry_pick("exp")
    assert seen(repo, "main") == standing(repo) == [1, 2, 3, 4, 5, 6]
    repo.revert("HEAD")
    repo.reset("HEAD~3")
    assert seen(repo, "main") == standing(repo) == [1, 2, 3, 5]
    with pytest.raises(UnsupportedError, match="lets nobody else"):
        lw.open(repo.path / "tables" / "photos.lance").append(rows(7))


@pytest.mark.parametrize("text", ["[]", "{}", '{"merges": [3]}', '{"merges": [{"into": "main"}]}'])
def test_a_broken_note_of_merges_is_told_with_its_file(
    repo: lw.Repository, no_own_ids: None, text: str
) -> None:
    append(repo, "exp", 4)
    (repo.path / "lancewood" / "merged").mkdir(parents=True)
    (repo.path / "lancewood" / "merged" / "exp.json").write_text(text)
    with pytest.raises(FormatError, match=r"lancewood/merged/exp\.json"):
        append(repo, "exp", 5)


def test_a_branch_of_a_table_that_others_deleted_is_told(repo: lw.Repository) -> None:
    append(repo, "exp", 4)
    lance.dataset(repo.path / "tables" / "photos.lance").branches.delete("exp")
    with pytest.raises(IncompatibleConflictError, match=r"its branch 'exp', .* is gone: another"):
        lw.Repository.open(repo.path).merge("exp")
