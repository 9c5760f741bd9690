"""Transactions over several tables, one at a time; races and crashes are in ``tests/repo``."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.errors import (
    AlreadyExistsError,
    IncompatibleConflictError,
    InvalidInputError,
    NotFoundError,
    RetryableConflictError,
    StorageError,
)
from lancewood.repo.outcome import NotLandedWarning

ROWS = pa.table({"id": [1, 2, 3]})


@pytest.fixture
def repo(tmp_path: Path) -> lw.Repository:
    made = lw.Repository.init(tmp_path / "r", fsync=False)
    with made.transaction("main", "first") as changes:
        changes.create_table("photos", ROWS)
        changes.create_table("labels", ROWS)
    return made


def count(repo: lw.Repository, name: str = "photos", revision: str = "HEAD") -> int:
    return repo.at(revision).table(name).count_rows()


def test_a_transaction_sees_its_own_writes_and_nobody_else_does(repo: lw.Repository) -> None:
    with repo.transaction(message="day 2", author="Ada <ada@example.org>") as changes:
        after = changes.table("photos").append(ROWS)
        assert after.count_rows() == changes.table("photos").count_rows() == 6
        assert changes.table("photos").scan(where="id = 1").to_arrow().num_rows == 2
        assert after.latest().version == after.version
        assert count(repo) == 3
        assert lw.open(repo.path / "tables/photos.lance").count_rows() == 3
    assert count(repo) == lw.open(repo.path / "tables/photos.lance").count_rows() == 6
    assert changes.result.tables == ("photos",)
    assert changes.result.is_new
    commit = repo.at().commit
    assert (commit.message, commit.author.name) == ("day 2", "Ada")


def test_the_tables_of_a_transaction_are_those_that_it_leaves(repo: lw.Repository) -> None:
    with repo.transaction("main", "changes") as changes:
        changes.create_table("new", ROWS.schema)
        changes.pin("labels", None)
        assert changes.tables == ("new", "photos")
        with pytest.raises(InvalidInputError, match="added or removed in this transaction"):
            changes.table("labels")
    assert changes.result.tables == ("labels", "new")
    assert repo.tables == ("new", "photos")
    assert count(repo, "new") == 0


def test_looking_at_tables_is_no_commit(repo: lw.Repository) -> None:
    before = repo.at().hash
    with repo.transaction("main", "nothing") as changes:
        assert changes.table("photos").count_rows() == 3
    assert not changes.result.is_new
    assert changes.result.hash == before == repo.at().hash


def test_a_block_that_raises_gives_the_transaction_up(repo: lw.Repository) -> None:
    before = repo.at().hash

    def work() -> None:
        with repo.transaction("main", "given up") as changes:
            changes.table("photos").append(ROWS)
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        work()
    assert repo.at().hash == before
    assert repo.status().is_clean


def test_a_transaction_that_is_over_takes_nothing_more(repo: lw.Repository) -> None:
    changes = repo.transaction("main", "once")
    with pytest.raises(InvalidInputError, match="has not been committed"):
        _ = changes.result
    changes.table("photos").append(ROWS)
    done = changes.commit()
    assert changes.result == done
    for late in (
        lambda: changes.table("photos"),
        lambda: changes.create_table("late", ROWS),
        lambda: changes.pin("photos", None),
        changes.commit,
    ):
        with pytest.raises(InvalidInputError, match="is over"):
            late()
    with changes:
        pass
    assert count(repo) == 6


def test_a_table_that_is_not_there_is_named_with_what_is_near(repo: lw.Repository) -> None:
    changes = repo.transaction("main", "typed wrong")
    with pytest.raises(NotFoundError, match="did you mean photos"):
        changes.table("fotos")
    with pytest.raises(InvalidInputError, match="a text; got 3"):
        changes.table(3)  # type: ignore[arg-type]
    with pytest.raises(AlreadyExistsError, match="'photos'"):
        changes.create_table("photos", ROWS)
    with pytest.raises(TypeError, match="unexpected keyword argument 'mode'"):
        changes.create_table("new", ROWS, mode="append")  # type: ignore[call-arg]
    with pytest.raises(InvalidInputError):
        changes.create_table("no/name", ROWS)


def test_a_table_that_is_there_and_not_pinned_is_not_written_over(repo: lw.Repository) -> None:
    lw.create(repo.path / "tables/loose.lance", ROWS)
    repo.branches.create("exp")
    for branch in ("main", "exp"):
        changes = repo.transaction(branch, "new")
        with pytest.raises(AlreadyExistsError, match="takes it in"):
            changes.create_table("loose", ROWS)


def test_a_new_table_takes_the_options_of_any_other(repo: lw.Repository) -> None:
    with repo.transaction("main", "new") as changes:
        changes.create_table(
            "new", ROWS, layout=lw.Layout(stable_row_ids=False, max_rows_per_file=2)
        )
    made = repo.at().table("new")
    assert not made.has_stable_row_ids
    assert len(made.fragments) == 2


def test_a_table_made_on_a_branch_is_on_that_branch_only(repo: lw.Repository) -> None:
    repo.branches.create("exp")
    with repo.transaction("exp", "new") as changes:
        changes.create_table("new", ROWS)
        assert changes.table("new").count_rows() == 3
    assert count(repo, "new", "exp") == 3
    assert "new" not in repo.at("main").tables
    with repo.transaction("exp", "more") as changes:
        changes.table("new").append(ROWS)
    assert count(repo, "new", "exp") == 6


@pytest.mark.parametrize("message", ["", "  \n", None, 7, "a\0b"])
def test_a_commit_needs_a_message(repo: lw.Repository, message: str) -> None:
    with pytest.raises(InvalidInputError, match="message"):
        repo.transaction("main", message)
    with pytest.raises(InvalidInputError, match="message"):
        repo.commit(message)


@pytest.mark.parametrize(
    "verb", ["branches", "tags", "cleanup", "versions", "clone", "checkout", "lance", "verify"]
)
def test_what_concerns_the_whole_table_is_no_part_of_a_transaction(
    repo: lw.Repository, verb: str
) -> None:
    table = repo.transaction("main", "m").table("photos")
    with pytest.raises(InvalidInputError, match="concerns the whole table"):
        getattr(table, verb)()
    assert "after version" in repr(table)


def test_every_table_lands_and_the_result_is_there_before_anybody_is_warned(
    repo: lw.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StorageError("no answer")

    changes = repo.transaction("main", "not landed")
    changes.table("photos").append(ROWS)
    changes.table("labels").append(ROWS)
    monkeypatch.setattr("lancewood.repo.commit.transaction.land", fail)
    with pytest.raises(NotLandedWarning, match="could not land yet"):
        changes.commit()
    assert changes.result.hash == repo.at().hash
    assert count(repo) == count(repo, "labels") == 6


def test_a_table_that_goes_on_elsewhere_since_another_commit_is_not_written_behind_its_back(
    repo: lw.Repository,
) -> None:
    repo.branches.create("exp")
    with repo.transaction("exp", "on exp") as changes:
        changes.table("photos").append(ROWS)
    late = repo.transaction("exp", "late")
    late.table("photos").append(ROWS)
    with repo.transaction("exp", "as on main") as others:
        others.pin("photos", repo.at("main").pin("photos"))
    with pytest.raises(RetryableConflictError, match="goes on at"):
        late.commit()
    assert count(repo, revision="exp") == 3


def test_main_is_not_written_where_a_commit_pins_another_branch_of_the_table(
    repo: lw.Repository,
) -> None:
    repo.branches.create("exp")
    with repo.transaction("exp", "on exp") as changes:
        changes.table("photos").append(ROWS)
    with repo.transaction("main", "as on exp") as changes:
        changes.pin("photos", repo.at("exp").pin("photos"))
    assert count(repo) == 6
    with pytest.raises(IncompatibleConflictError, match="into main first"):
        repo.transaction("main", "more").table("photos")


def test_two_first_writes_on_a_branch_begin_at_the_same_version(repo: lw.Repository) -> None:
    repo.branches.create("exp")
    one, other = repo.transaction("exp", "one"), repo.transaction("exp", "other")
    one.table("photos").append(ROWS)
    one.commit()
    other.table("labels").append(ROWS)
    other.table("photos").append(ROWS)
    other.commit()
    assert count(repo, "photos", "exp") == 9
    assert count(repo, "labels", "exp") == 6
    landed = lw.open(repo.path / "tables/photos.lance", branch="exp")
    assert landed.count_rows() == 9
    assert landed.version == 3


def test_a_new_table_where_somebody_made_one_meanwhile_is_refused_before_the_commit(
    repo: lw.Repository,
) -> None:
    before = repo.at().hash
    changes = repo.transaction("main", "late")
    changes.create_table("new", ROWS)
    changes.table("photos").append(ROWS)
    lw.create(repo.path / "tables/new.lance", ROWS)
    with pytest.raises(IncompatibleConflictError, match="somebody else made one there"):
        changes.commit()
    assert repo.at().hash == before
    assert lw.open(repo.path / "tables/photos.lance").count_rows() == 3


def unlanded(repo: lw.Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit whose writer died before it landed."""

    def die(*_: object, **__: object) -> None:
        raise StorageError("cut off")

    changes = repo.transaction("main", "cut off")
    changes.table("photos").append(ROWS)
    with monkeypatch.context() as patch:
        patch.setattr("lancewood.repo.commit.transaction.land", die)
        with pytest.warns(NotLandedWarning):
            changes.commit()


@pytest.mark.parametrize("lost", ["_versions/d*", "data/*"])
def test_a_commit_whose_files_went_before_it_landed_blocks_no_other_table_and_has_a_way_out(
    repo: lw.Repository, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    root = repo.path / "tables/photos.lance"
    known = {*root.glob("**/*")}
    unlanded(repo, monkeypatch)
    for each in {*root.glob(lost)} - known:
        each.unlink()
    with (
        pytest.raises(IncompatibleConflictError, match=r"commit\(\) takes the table as it stands"),
        repo.transaction("main", "more") as changes,
    ):
        changes.table("photos").append(ROWS)
    with pytest.raises(IncompatibleConflictError, match="is gone"):
        repo.reset("HEAD")
    assert lw.open(root).to_arrow().num_rows == 3
    with repo.transaction("main", "another") as changes:
        changes.table("labels").append(ROWS)
    assert repo.commit("as it stands").tables == ("photos",)
    with repo.transaction("main", "goes on") as changes:
        changes.table("photos").append(ROWS)
    assert count(repo) == lw.open(root).to_arrow().num_rows == 6


def test_a_table_that_is_gone_is_named_with_the_way_out(repo: lw.Repository) -> None:
    shutil.rmtree(repo.path / "tables/photos.lance")
    with pytest.raises(NotFoundError, match=r"table 'photos' is gone.*remove\('photos'\)"):
        repo.commit("all that stands")
    with (
        pytest.raises(IncompatibleConflictError, match=r"remove\('photos'\) leaves it out"),
        repo.transaction("main", "more") as changes,
    ):
        changes.table("photos")
    repo.remove("photos")
    assert repo.tables == ("labels",)
    assert not repo.commit("all that stands").is_new


@pytest.mark.parametrize("end", ["commit", "abandon"])
def test_a_handle_takes_no_writes_once_its_transaction_is_over(
    repo: lw.Repository, end: str
) -> None:
    changes = repo.transaction("main", "more")
    photos = changes.table("photos").append(ROWS)
    getattr(changes, end)()
    with pytest.raises(InvalidInputError, match="the transaction is over"):
        photos.append(ROWS)
    assert photos.count_rows() == 6, "what it read can still be read"
    assert count(repo) == (6 if end == "commit" else 3)


def test_a_handle_from_before_another_commit_was_met_takes_no_writes(repo: lw.Repository) -> None:
    changes = repo.transaction("main", "more")
    photos = changes.table("photos").append(ROWS)
    with repo.transaction("main", "faster") as faster:
        faster.table("photos").append(ROWS)
    changes._meet(repo.at().hash)
    with pytest.raises(InvalidInputError, match="for the table again"):
        photos.append(ROWS)
    changes.table("photos").append(ROWS)
    changes.commit()
    assert count(repo) == 12
