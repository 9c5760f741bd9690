"""A squashed merge: the same work, one parent, files beside the tables; and the branch can go."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import lance
import pyarrow as pa
import pytest
from tests.unit.repo.rows import rows

import lancewood as lw
from lancewood.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidInputError,
    NotFoundError,
    RetryableConflictError,
)
from lancewood.jobs.refs import deletion
from lancewood.repo import notes, refs
from lancewood.repo.inspect.view import View

pytestmark = pytest.mark.usefixtures("unsynced")


def append(repo: lw.Repository, branch: str, *values: int, table: str = "photos") -> None:
    with repo.transaction(branch, f"{branch} gets {values}") as changes:
        changes.table(table).append(rows(*values))


def work(repo: lw.Repository, *values: int, onto: str = "main", table: str = "photos") -> None:
    """What a writer does who does not know the repository."""
    repo.prepare(table, branch="exp", onto=onto).append(rows(*values))
    repo.commit("work", branch="exp")


def seen(repo: lw.Repository, revision: str, table: str = "photos") -> list[int]:
    return sorted(repo.at(revision).table(table).to_arrow()["id"].to_pylist())


def uri(repo: lw.Repository, table: str = "photos") -> str:
    return str(repo.path / "tables" / f"{table}.lance")


def lance_branches(repo: lw.Repository, table: str = "photos") -> list[str]:
    return sorted(lance.dataset(uri(repo, table)).branches.list())


def clean(repo: lw.Repository, branch: str, table: str = "photos") -> None:
    """Nothing of the table's branch leads to another one that is gone."""
    opened = lw.open(uri(repo, table), branch=None if branch == "main" else branch)
    bases = [each.path for each in opened.base_paths]
    assert not any("exp" in each for each in bases), bases
    assert opened.verify().ok


def test_it_has_one_parent_and_leaves_no_note(repo: lw.Repository) -> None:
    append(repo, "exp", 4)
    before = repo.at("main").hash
    done = repo.merge("exp", squash=True, message="day 1")
    assert done.is_new
    assert repo.at("main").commit.parents == (before,)
    assert seen(repo, "main") == [1, 2, 3, 4]
    assert not (repo.path / "lancewood" / "merged").exists()
    append(repo, "exp", 5)  # nobody is told that it was merged


def test_the_same_work_squashed_twice_is_refused_by_the_table(repo: lw.Repository) -> None:
    append(repo, "exp", 4)
    repo.merge("exp", squash=True)
    with pytest.raises(ConflictError):
        repo.merge("exp", squash=True)
    assert seen(repo, "main") == [1, 2, 3, 4]


def test_a_branch_without_work_is_no_commit(repo: lw.Repository) -> None:
    assert not repo.merge("exp", squash=True).is_new
    repo.prepare("photos", branch="exp", onto="main")
    assert not repo.commit("nothing", branch="exp").is_new
    assert not repo.merge("exp", squash=True).is_new


def test_files_come_beside_tables_and_other_files(repo: lw.Repository) -> None:
    repo.snapshot({"pipelines/other.json": b"1", "README": b"hello"}, "files")
    append(repo, "exp", 4)
    repo.merge("exp", squash=True, files={"pipelines/mine.json": b"2"})
    now = repo.at("main")
    assert now.files == ("README", "pipelines/mine.json", "pipelines/other.json")
    assert (now.read("pipelines/mine.json"), now.read("pipelines/other.json")) == (b"2", b"1")
    assert seen(repo, "main") == [1, 2, 3, 4]


def test_files_alone_make_a_commit_and_the_same_files_none(repo: lw.Repository) -> None:
    assert repo.merge("exp", squash=True, files={"a/b": b"1"}).is_new
    assert repo.at("main").read("a/b") == b"1"
    assert not repo.merge("exp", squash=True, files={"a/b": b"1"}).is_new
    with repo.transaction("main", "files", files={"a/c": b"2"}):
        pass
    assert repo.at("main").files == ("a/b", "a/c")
    with repo.transaction("main", "files", files={"a/c": b"2"}) as changes:
        pass
    assert not changes.result.is_new


def test_files_that_others_committed_meanwhile_are_kept(repo: lw.Repository) -> None:
    append(repo, "exp", 4)
    asked: list[str | None] = []

    def files(tip: View | None) -> Mapping[str, bytes]:
        asked.append(None if tip is None else tip.hash)
        if len(asked) == 2:
            # Between the plan and the swap, at the last moment.
            repo.snapshot({"pipelines/other.json": b"1"}, "another was faster")
        assert tip is not None
        return {"pipelines/mine.json": b",".join(each.encode() for each in tip.files)}

    asked.append("begun")
    repo.merge("exp", squash=True, files=files)
    now = repo.at("main")
    assert now.read("pipelines/other.json") == b"1"
    assert now.read("pipelines/mine.json") == b"pipelines/other.json"
    assert seen(repo, "main") == [1, 2, 3, 4]
    assert len(asked) == 3, "asked once for each tip"


def test_a_function_can_say_that_it_was_done_and_that_it_must_not_be(repo: lw.Repository) -> None:
    append(repo, "exp", 4)
    before = repo.at("main").hash
    assert not repo.merge("exp", squash=True, files=lambda tip: None).is_new

    def no(tip: View | None) -> Mapping[str, bytes]:
        raise RetryableConflictError("another run took these files")

    with pytest.raises(RetryableConflictError, match="took these files"):
        repo.merge("exp", squash=True, files=no)
    assert repo.at("main").hash == before


def test_files_that_do_not_fit_in_are_refused(repo: lw.Repository) -> None:
    repo.snapshot({"a": b"1", "d/e": b"1"}, "files")
    for path in ("a/b", "d", "tables/x.json", "../x"):
        with pytest.raises(InvalidInputError, match=path):
            repo.merge("exp", squash=True, files={path: b"2"})


def test_a_branch_that_never_wrote_a_table_ends_up_with_its_own(repo: lw.Repository) -> None:
    repo.branches.create("dev", at="main")
    work(repo, 4, onto="dev")
    assert repo.at("dev").pin("photos").branch is None
    repo.merge("exp", branch="dev", squash=True)
    assert repo.at("dev").pin("photos").branch == "dev"
    assert repo.at("dev").pin("labels").branch is None
    repo.branches.delete("exp", force=True, tables=True)
    assert lance_branches(repo) == ["dev"]
    assert (seen(repo, "dev"), seen(repo, "main")) == ([1, 2, 3, 4], [1, 2, 3])
    clean(repo, "dev")
    append(repo, "dev", 5)
    assert repo.fsck(deep=True).is_ok


def test_two_works_onto_such_a_branch_both_land(repo: lw.Repository) -> None:
    repo.branches.create("dev", at="main")
    repo.branches.create("exp2", at="main")
    work(repo, 4, onto="dev")
    repo.prepare("photos", branch="exp2", onto="dev").append(rows(5))
    repo.commit("work", branch="exp2")
    for each in ("exp", "exp2"):
        repo.merge(each, branch="dev", squash=True)
        repo.branches.delete(each, force=True, tables=True)
    assert seen(repo, "dev") == [1, 2, 3, 4, 5]
    assert lance_branches(repo) == ["dev"]


def test_a_table_that_was_only_made_ready_stands_in_nobodys_way(repo: lw.Repository) -> None:
    repo.branches.create("dev", at="main")
    repo.prepare("photos", branch="exp", onto="dev")
    work(repo, 7, onto="dev", table="labels")
    append(repo, "dev", 5)
    repo.merge("exp", branch="dev", squash=True)
    assert (seen(repo, "dev"), seen(repo, "dev", "labels")) == ([1, 2, 3, 5], [1, 2, 3, 7])


@pytest.mark.parametrize("target", ["main", "dev"])
def test_a_new_table_is_known_after_the_merge_only(repo: lw.Repository, target: str) -> None:
    if target == "dev":
        repo.branches.create("dev", at="main")
    made = repo.prepare_new("new", rows().schema, branch="exp", onto=target)
    made.append(rows(1, 2))
    repo.commit("work", branch="exp")
    assert "new" not in repo.at(target).tables
    repo.merge("exp", branch=target, squash=True)
    repo.branches.delete("exp", force=True, tables=True)
    assert seen(repo, target, "new") == [1, 2]
    assert lance_branches(repo, "new") == ([] if target == "main" else ["dev"])
    clean(repo, target, "new")
    assert lw.open(uri(repo, "new")).base_paths == () or target == "dev"
    if target == "dev":
        assert "new" not in repo.at("main").tables
    append(repo, target, 3, table="new")
    assert repo.fsck(deep=True).is_ok


@pytest.mark.parametrize("target", ["main", "dev"])
def test_a_new_table_can_have_other_columns_after_an_attempt_that_was_given_up(
    repo: lw.Repository, target: str
) -> None:
    if target == "dev":
        repo.branches.create("dev", at="main")
    repo.prepare_new("new", rows().schema, branch="exp", onto=target).append(rows(1))
    repo.commit("work", branch="exp")
    repo.branches.create("exp2", at=target)
    other = pa.table({"name": ["a", "b"], "size": [1.5, 2.5]})
    repo.prepare_new("new", other.schema, branch="exp2", onto=target).append(other)
    repo.commit("work", branch="exp2")
    repo.merge("exp2", branch=target, squash=True)
    repo.branches.delete("exp2", force=True, tables=True)
    assert repo.at(target).table("new").to_arrow() == other
    assert repo.at("exp").table("new").count_rows() == 1
    clean(repo, target, "new")


def test_another_table_in_the_place_of_a_new_one_is_not_touched(repo: lw.Repository) -> None:
    with pytest.raises(AlreadyExistsError, match="on branch 'exp' already"):
        repo.prepare_new("photos", rows().schema, branch="exp", onto="main")
    lw.create(uri(repo, "new"), rows(1))
    with pytest.raises(AlreadyExistsError, match="takes it in"):
        repo.prepare_new("new", rows().schema, branch="exp", onto="main")


@pytest.mark.parametrize("branch", [None, "exp"])
def test_a_new_table_of_work_that_is_not_merged_is_on_the_branch_itself(
    repo: lw.Repository, branch: str | None
) -> None:
    repo.prepare_new("new", rows().schema, branch=branch).append(rows(1, 2))
    repo.commit("work", branch=branch)
    assert seen(repo, branch or "main", "new") == [1, 2]
    assert lance_branches(repo, "new") == ([] if branch is None else ["exp"])
    append(repo, branch or "main", 3, table="new")
    assert repo.fsck(deep=True).is_ok


@pytest.mark.parametrize("is_there", [True, False])
def test_a_table_elsewhere_is_taken_in_by_the_merge(
    repo: lw.Repository, tmp_path: Path, is_there: bool
) -> None:
    away = tmp_path / "away.lance"
    if is_there:
        lw.create(away, rows(1, 2))
    repo.prepare_new("away", rows().schema, branch="exp", onto="main", uri=away).append(rows(3))
    repo.commit("work", branch="exp")
    assert "away" not in repo.at("main").tables
    repo.merge("exp", squash=True)
    repo.branches.delete("exp", force=True, tables=True)
    assert seen(repo, "main", "away") == ([1, 2, 3] if is_there else [3])
    assert repo.at("main").pin("away").uri == str(away)
    assert sorted(lance.dataset(str(away)).to_table()["id"].to_pylist()) == seen(
        repo, "main", "away"
    )
    assert not lance.dataset(str(away)).branches.list()


def test_a_repository_without_commits_gets_its_first_by_a_merge(tmp_path: Path) -> None:
    repo = lw.Repository.init(tmp_path / "empty")
    repo.branches.create("exp", at=None)
    repo.prepare_new("photos", rows().schema, branch="exp", onto="main").append(rows(1))
    repo.commit("work", branch="exp")
    with pytest.raises(NotFoundError):
        repo.at("main")
    repo.merge("exp", squash=True, files=lambda tip: {"a": b"new" if tip is None else b"old"})
    repo.branches.delete("exp", force=True, tables=True)
    assert (repo.at("main").commit.parents, repo.at("main").read("a")) == ((), b"new")
    assert (seen(repo, "main"), lance_branches(repo)) == ([1], [])


def test_a_branch_of_a_table_stays_while_a_commit_pins_it(repo: lw.Repository) -> None:
    work(repo, 4)
    repo.branches.create("look", at="exp")
    repo.branches.delete("exp", force=True, tables=True)
    assert "exp" not in repo.branches
    assert lance_branches(repo) == ["exp"]
    assert seen(repo, "look") == [1, 2, 3, 4]


def test_a_branch_of_a_table_stays_while_a_tag_is_on_it(repo: lw.Repository) -> None:
    work(repo, 4)
    lw.open(uri(repo), branch="exp").tags.create("mine")
    repo.branches.delete("exp", force=True, tables=True)
    assert lance_branches(repo) == ["exp"]
    assert lw.open(uri(repo), tag="mine").count_rows() == 4


def test_a_branch_that_somebody_else_made_stays(repo: lw.Repository) -> None:
    lw.open(uri(repo)).branches.create("exp")
    repo.branches.delete("exp", force=True, tables=True)
    assert lance_branches(repo) == ["exp"]


class Died(BaseException):
    """The process is gone."""


@pytest.mark.parametrize(
    ("room", "step"),
    [(notes, "note_deletion"), (refs, "finish_deletion"), (deletion, "delete_branch")],
    ids=["note", "tables", "branch"],
)
def test_a_deletion_that_was_cut_off_is_finished_by_the_next_one(
    repo: lw.Repository, room: ModuleType, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:

    work(repo, 4)

    def die(*_: object, **__: object) -> None:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(room, step, die)
        with pytest.raises(Died):
            repo.branches.delete("exp", force=True, tables=True)
    assert repo.branches.leaving() == (() if step == "note_deletion" else ("exp",))
    again = lw.Repository.open(repo.path)
    again.branches.delete("exp", force=True, tables=True)
    assert (again.branches.leaving(), lance_branches(repo)) == ((), [])
    assert "exp" not in again.branches
    with pytest.raises(NotFoundError):
        again.branches.delete("exp", force=True, tables=True)


def test_a_deletion_that_died_among_the_files_of_a_table_is_finished(
    repo: lw.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:

    work(repo, 4)

    def die(*_: object, **__: object) -> None:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(deletion, "remove_files", die)
        with pytest.raises(Died):
            repo.branches.delete("exp", force=True, tables=True)
    lw.Repository.open(repo.path).branches.delete("exp", force=True, tables=True)
    assert not (Path(uri(repo)) / "tree" / "exp").exists()


def test_a_new_table_begins_empty_whatever_an_attempt_left_on_its_branch(
    repo: lw.Repository,
) -> None:
    repo.prepare_new("new", rows().schema, branch="exp", onto="main").append(rows(1))
    repo.branches.delete("exp", force=True)  # the ref only
    repo.branches.create("exp", at="main")
    repo.prepare_new("new", rows().schema, branch="exp", onto="main").append(rows(2))
    repo.commit("work", branch="exp")
    repo.merge("exp", squash=True)
    assert seen(repo, "main", "new") == [2]


def test_work_that_no_commit_knows_goes_with_a_reset_to_where_the_branch_is(
    repo: lw.Repository,
) -> None:
    repo.prepare("photos", branch="exp", onto="main").append(rows(9))
    repo.reset("exp", branch="exp")
    work(repo, 4)
    repo.prepare("photos", branch="exp", onto="main").append(rows(9))
    repo.reset("exp", branch="exp")
    work(repo, 5)
    repo.merge("exp", squash=True)
    assert seen(repo, "main") == [1, 2, 3, 4, 5]


def test_marks_are_names_for_commits_that_stay(repo: lw.Repository) -> None:
    commit = repo.at("main").hash
    assert repo.marks.find("runs/p/1") is None
    assert repo.marks.set("runs/p/1", commit, why="run 1")
    assert not repo.marks.set("runs/p/1", commit, why="run 1")
    append(repo, "main", 4)
    with pytest.raises(AlreadyExistsError, match="cannot be"):
        repo.marks.set("runs/p/1", repo.at("main").hash, why="run 1")
    assert repo.marks.find("runs/p/1") == commit


def test_work_that_comes_too_late_does_not_take_back_what_its_target_has(
    repo: lw.Repository,
) -> None:
    repo.branches.create("dev", at="main")
    append(repo, "dev", 5)
    with pytest.raises(RetryableConflictError, match="begin the work again"):
        repo.prepare("photos", branch="exp", onto="dev")
    assert seen(repo, "dev") == [1, 2, 3, 5]
    opened = lw.open(uri(repo), branch="dev")
    assert sorted(opened.to_arrow()["id"].to_pylist()) == [1, 2, 3, 5]
    repo.branches.create("exp2", at="dev")
    repo.prepare("photos", branch="exp2", onto="dev").append(rows(6))
    repo.commit("work", branch="exp2")
    repo.merge("exp2", branch="dev", squash=True)
    assert seen(repo, "dev") == [1, 2, 3, 5, 6]
