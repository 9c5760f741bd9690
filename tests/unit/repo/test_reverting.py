"""Reverting and picking: what a commit did is taken back, or done once more, where the tables still
are what they were beside it."""

from __future__ import annotations

import pytest
from tests.unit.repo.rows import rows

import lancewood as lw
from lancewood.errors import IncompatibleConflictError, NotFoundError
from lancewood.repo.merge import next_state as bringing
from lancewood.repo.outcome import TableDone

pytestmark = pytest.mark.usefixtures("unsynced")


def append(repo: lw.Repository, branch: str, *values: int, table: str = "photos") -> str:
    with repo.transaction(
        branch, f"{table} gets {values}", author="Ada <ada@example.org>"
    ) as changes:
        changes.table(table).append(rows(*values))
    return str(changes.result.hash)


def seen(repo: lw.Repository, revision: str = "main", table: str = "photos") -> list[int]:
    return sorted(repo.at(revision).table(table).to_arrow()["id"].to_pylist())


def opened(repo: lw.Repository, table: str = "photos", branch: str | None = None) -> lw.Table:
    return lw.open(repo.path / "tables" / f"{table}.lance", branch=branch)


def standing(repo: lw.Repository, table: str = "photos", branch: str | None = None) -> list[int]:
    return sorted(opened(repo, table, branch).to_arrow()["id"].to_pylist())


# Reverting


def test_a_table_becomes_what_it_was_before_the_commit(repo: lw.Repository) -> None:
    commit = append(repo, "main", 4)
    append(repo, "main", 5, table="labels")
    done = repo.revert(commit)
    assert (done.tables, done.done) == (("photos",), (("photos", TableDone.RESTORED),))
    assert seen(repo) == standing(repo) == [1, 2, 3]
    assert seen(repo, table="labels") == [1, 2, 3, 5]
    assert repo.status().is_clean
    told = repo.at("main").commit
    assert told.message == f'Revert "photos gets (4,)"\n\nThis reverts commit {commit}.'
    assert told.parents == (repo.at("main~1").hash,)
    assert next(repo.reflog()).why.startswith("revert: Revert")


def test_a_revert_can_be_reverted(repo: lw.Repository) -> None:
    append(repo, "main", 4)
    repo.revert("HEAD")
    repo.revert("HEAD")
    assert seen(repo) == standing(repo) == [1, 2, 3, 4]
    append(repo, "main", 5)
    assert standing(repo) == [1, 2, 3, 4, 5]


def test_every_table_that_was_changed_since_is_named_and_nothing_is_done(
    repo: lw.Repository,
) -> None:
    for table in ("photos", "labels"):
        stable = table == "photos"
        with repo.transaction("main", "anew") as changes:
            changes.create_table(
                f"more_{table}", rows(1, 2, 3), layout=lw.Layout(stable_row_ids=stable)
            )
    for value in (4, 5):
        with repo.transaction("main", "both") as changes:
            for table in ("more_photos", "more_labels"):
                changes.table(table).update({"id": f"{value}"}, "id > 2")
    before = repo.at("main").hash
    with pytest.raises(IncompatibleConflictError, match="nothing has changed") as refused:
        repo.revert("HEAD~1")
    found = refused.value.facts["tables"]
    assert [*found] == ["more_labels", "more_photos"]
    assert "the content here" in found["more_labels"], "its rows cannot be told apart"
    assert "revert what came after it first, the newest first" in found["more_labels"]
    assert "both sides changed 1 row" in found["more_photos"]
    assert not isinstance(refused.value, lw.MergeConflictError)
    assert repo.at("main").hash == before
    assert standing(repo, "more_photos") == [1, 2, 5]


def test_writes_that_are_not_committed_are_not_taken_away(repo: lw.Repository) -> None:
    append(repo, "main", 4)
    opened(repo).append(rows(9))
    with pytest.raises(IncompatibleConflictError, match=r"'photos': .*commit\(\) it first"):
        repo.revert("HEAD")
    assert standing(repo) == [1, 2, 3, 4, 9]


def test_the_same_content_by_another_way_is_the_same(repo: lw.Repository) -> None:
    commit = append(repo, "main", 4)
    repo.revert(commit)
    repo.revert("HEAD")
    repo.revert(commit)
    assert seen(repo) == standing(repo) == [1, 2, 3]


def test_tables_that_a_commit_made_or_removed_go_and_come_back(repo: lw.Repository) -> None:
    with repo.transaction("main", "make") as changes:
        changes.create_table("extra", rows(7))
    repo.remove("labels")
    assert repo.revert("HEAD").done == (("labels", TableDone.TAKEN),)
    assert seen(repo, table="labels") == [1, 2, 3]
    assert repo.revert("HEAD~2").done == (("extra", TableDone.REMOVED),)
    assert repo.at("main").tables == ("labels", "photos")
    repo.revert("HEAD")
    assert seen(repo, table="extra") == [7]
    append(repo, "main", 8, table="extra")
    assert standing(repo, "extra") == [7, 8]


def test_a_table_that_was_written_since_it_was_made_stays(repo: lw.Repository) -> None:
    with repo.transaction("main", "make") as changes:
        changes.create_table("extra", rows(7))
    append(repo, "main", 8, table="extra")
    with pytest.raises(IncompatibleConflictError, match="'extra'"):
        repo.revert("HEAD~1")


def test_the_first_write_on_a_branch_is_taken_back_there(repo: lw.Repository) -> None:
    append(repo, "exp", 4)
    done = repo.revert("exp", branch="exp")
    assert done.done == (("photos", TableDone.RESTORED),)
    assert seen(repo, "exp") == standing(repo, branch="exp") == [1, 2, 3]
    append(repo, "exp", 5)
    repo.merge("exp")
    assert seen(repo) == standing(repo) == [1, 2, 3, 5]


def test_a_merge_is_taken_back_as_its_first_parent_was(repo: lw.Repository) -> None:
    append(repo, "exp", 4)
    append(repo, "main", 5)
    repo.merge("exp")
    repo.revert("HEAD")
    assert seen(repo) == standing(repo) == [1, 2, 3, 5]
    assert not repo.merge("exp").is_new, "as in git"


def test_the_first_commit_can_be_taken_back(repo: lw.Repository) -> None:
    repo.revert("HEAD")
    assert repo.at("main").tables == ()


def test_what_changed_nothing_is_no_commit(repo: lw.Repository) -> None:
    append(repo, "exp", 4)
    repo.revert("exp", branch="exp")
    repo.merge("exp")
    assert not repo.revert("HEAD").is_new


def test_a_commit_that_is_not_there_is_an_error(repo: lw.Repository) -> None:
    for verb in (repo.revert, repo.cherry_pick):
        with pytest.raises(NotFoundError):
            verb("nowhere")


def test_a_faster_commit_to_the_same_table_is_not_taken_back_with_it(
    repo: lw.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(repo, "main", 4)
    real, is_first = bringing.restored, [True]

    def restored(*given: object) -> object:
        staged = real(*given)  # type: ignore[arg-type]
        if is_first.pop() if is_first else False:
            append(lw.Repository.open(repo.path), "main", 5)
        return staged

    monkeypatch.setattr("lancewood.repo.merge.revert_pick.restored", restored)
    assert repo.revert("HEAD").done == (("photos", TableDone.MERGED),)
    assert seen(repo) == standing(repo) == [1, 2, 3, 5]


def test_a_faster_commit_to_another_table_is_no_hindrance(
    repo: lw.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(repo, "main", 4)
    real, is_first = bringing.restored, [True]

    def restored(*given: object) -> object:
        staged = real(*given)  # type: ignore[arg-type]
        if is_first.pop() if is_first else False:
            append(lw.Repository.open(repo.path), "main", 5, table="labels")
        return staged

    monkeypatch.setattr("lancewood.repo.merge.revert_pick.restored", restored)
    repo.revert("HEAD")
    assert seen(repo) == standing(repo) == [1, 2, 3]
    assert seen(repo, table="labels") == [1, 2, 3, 5]


# Picking


def test_a_commit_of_another_branch_is_done_here_too(repo: lw.Repository) -> None:
    commit = append(repo, "exp", 4)
    append(repo, "main", 5, table="labels")
    done = repo.cherry_pick(commit)
    assert done.done == (("photos", TableDone.REPEATED),)
    assert seen(repo) == standing(repo) == [1, 2, 3, 4]
    told, original = repo.at("main").commit, repo.at("exp").commit
    assert (told.message, told.author) == (original.message, original.author)
    assert told.committer.name != "Ada"
    assert len(told.parents) == 1
    assert next(repo.reflog()).why == "cherry-pick: photos gets (4,)"


@pytest.mark.usefixtures("pages_decoded_here")
def test_commits_are_picked_one_after_the_other(repo: lw.Repository) -> None:
    append(repo, "exp", 4)
    with repo.transaction("exp", "delete") as changes:
        changes.table("photos").delete("id = 1")
    with repo.transaction("exp", "update") as changes:
        changes.table("photos").update({"id": "id + 10"}, "id = 2")
    for back in (2, 1, 0):
        repo.cherry_pick(f"exp~{back}")
    assert seen(repo) == standing(repo) == [3, 4, 12]
    assert opened(repo).verify(deep=True).ok


def test_a_pick_in_another_order_brings_what_the_commit_did(repo: lw.Repository) -> None:
    append(repo, "exp", 4)
    append(repo, "exp", 5)
    assert repo.cherry_pick("exp").done == (("photos", TableDone.MERGED),)
    assert seen(repo) == standing(repo) == [1, 2, 3, 5]
    repo.cherry_pick("exp~1")
    assert seen(repo) == standing(repo) == [1, 2, 3, 4, 5]


def test_a_commit_of_main_is_picked_on_a_branch(repo: lw.Repository) -> None:
    append(repo, "main", 4)
    append(repo, "exp", 5, table="labels")
    done = repo.cherry_pick("main", branch="exp")
    assert done.done == (("photos", TableDone.TAKEN),)
    assert seen(repo, "exp") == [1, 2, 3, 4]
    append(repo, "exp", 6)
    repo.merge("exp")
    assert seen(repo) == standing(repo) == [1, 2, 3, 4, 6]


def test_a_commit_that_was_given_up_is_picked_from_where_it_is(repo: lw.Repository) -> None:
    commit = append(repo, "main", 4)
    repo.reset("HEAD~1")
    append(repo, "main", 5, table="labels")
    assert repo.cherry_pick(commit).done == (("photos", TableDone.RESTORED),)
    assert seen(repo) == standing(repo) == [1, 2, 3, 4]


def test_a_table_that_was_made_there_is_made_here(repo: lw.Repository) -> None:
    with repo.transaction("exp", "make") as changes:
        changes.create_table("extra", rows(7))
    append(repo, "exp", 8, table="extra")
    assert repo.cherry_pick("exp~1").done == (("extra", TableDone.REPEATED),)
    assert seen(repo, table="extra") == standing(repo, "extra") == [7]
    repo.cherry_pick("exp")
    assert seen(repo, table="extra") == standing(repo, "extra") == [7, 8]


def test_a_table_that_was_removed_there_goes_here_if_it_is_the_same(repo: lw.Repository) -> None:
    repo.remove("labels", branch="exp")
    append(repo, "main", 4, table="labels")
    with pytest.raises(IncompatibleConflictError, match="'labels'"):
        repo.cherry_pick("exp")
    repo.revert("HEAD")
    assert repo.cherry_pick("exp").done == (("labels", TableDone.REMOVED),)
    assert repo.at("main").tables == ("photos",)


def test_what_is_here_already_is_no_commit(repo: lw.Repository) -> None:
    append(repo, "exp", 4)
    repo.cherry_pick("exp")
    assert not repo.cherry_pick("exp").is_new
    assert not repo.cherry_pick("main").is_new


def test_a_whole_commit_is_refused_if_one_table_is(repo: lw.Repository) -> None:
    with repo.transaction("exp", "both") as changes:
        changes.table("photos").append(rows(4))
        changes.table("labels").update({"id": "4"}, "id = 3")
    with repo.transaction("main", "one") as changes:
        changes.table("labels").update({"id": "5"}, "id = 3")
    with pytest.raises(lw.MergeConflictError, match="'labels'") as refused:
        repo.cherry_pick("exp")
    assert [*refused.value.facts["tables"]] == ["labels"]
    assert seen(repo) == standing(repo) == [1, 2, 3]


@pytest.mark.usefixtures("pages_decoded_here")
def test_a_pick_between_two_branches_has_ids_of_its_own(repo: lw.Repository) -> None:
    repo.branches.create("dev")
    append(repo, "exp", 4)
    repo.cherry_pick("exp", branch="dev")
    append(repo, "dev", 5)
    append(repo, "exp", 6)
    assert seen(repo, "dev") == standing(repo, branch="dev") == [1, 2, 3, 4, 5]
    assert seen(repo, "exp") == standing(repo, branch="exp") == [1, 2, 3, 4, 6]
    repo.merge("dev")
    table = opened(repo)
    ids = table.scan(with_row_id=True).to_arrow()["_rowid"].to_pylist()
    assert len({*ids}) == len(ids) == 5
    assert table.verify(deep=True).ok
