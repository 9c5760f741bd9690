"""A table that a branch had, and has no more, is made again under its name."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.errors import AlreadyExistsError, IncompatibleConflictError, InvalidInputError
from lancewood.repo.commit.transaction import Pending

ROWS = pa.table({"id": [1, 2, 3]})
OTHER = pa.table({"name": ["a", "b"], "size": [1.5, 2.5]})


@pytest.fixture
def repo(tmp_path: Path) -> lw.Repository:
    repo = lw.Repository.init(tmp_path / "zoo")
    with repo.transaction("main", "first") as changes:
        changes.create_table("labels", ROWS)
    return repo


def make(
    repo: lw.Repository,
    branch: str,
    data: pa.Table | pa.Schema,
    stable_row_ids: bool | None = None,
) -> None:
    with repo.transaction(branch, "made") as changes:
        changes.create_table("photos", data, layout=lw.Layout(stable_row_ids=stable_row_ids))


def seen(repo: lw.Repository, branch: str) -> pa.Table:
    return repo.at(branch).table("photos").to_arrow()


@pytest.mark.parametrize("branch", ["main", "exp"])
@pytest.mark.parametrize("way", ["revert", "remove"])
@pytest.mark.parametrize("data", [ROWS, OTHER, OTHER.schema], ids=["same", "other", "empty"])
def test_a_table_that_was_taken_out_begins_anew(
    repo: lw.Repository, branch: str, way: str, data: pa.Table | pa.Schema
) -> None:
    if branch == "exp":
        repo.branches.create("exp")
    make(repo, branch, ROWS)
    made = repo.at(branch).commit.hash
    with repo.transaction(branch, "more") as changes:
        changes.table("photos").set_config({"kept": "no"})
    if way == "revert":
        repo.revert(f"{branch}", branch=branch)
        repo.revert(made, branch=branch)
    else:
        with repo.transaction(branch, "out") as changes:
            changes.pin("photos", None)
    assert "photos" not in repo.at(branch).tables
    make(repo, branch, data)
    wanted = data.empty_table() if isinstance(data, pa.Schema) else data
    assert seen(repo, branch) == wanted
    assert "kept" not in repo.at(branch).table("photos").config
    assert repo.at(made).table("photos").to_arrow() == ROWS
    theirs = lance.dataset(str(repo.path / "tables/photos.lance"))
    theirs = theirs if branch == "main" else theirs.checkout_version(("exp", None))
    assert theirs.to_table() == wanted
    with repo.transaction(branch, "on") as changes:
        changes.table("photos").append(wanted)
    assert seen(repo, branch).num_rows == 2 * wanted.num_rows
    assert repo.fsck(deep=True).is_ok


def test_in_one_transaction_a_table_goes_and_another_takes_its_name(repo: lw.Repository) -> None:
    with repo.transaction("main", "swap") as changes:
        changes.pin("labels", None)
        changes.create_table("labels", OTHER)
    assert repo.at().table("labels").to_arrow() == OTHER
    assert repo.at("main~1").table("labels").to_arrow() == ROWS


def test_a_branch_makes_again_what_main_took_out(repo: lw.Repository) -> None:
    make(repo, "main", ROWS)
    repo.revert("main")
    repo.branches.create("exp")
    make(repo, "exp", OTHER)
    assert seen(repo, "exp") == OTHER
    assert "photos" not in repo.at("main").tables
    repo.merge("exp", branch="main")
    assert seen(repo, "main") == OTHER
    assert repo.fsck(deep=True).is_ok


@pytest.mark.parametrize("target", ["main", "dev"])
@pytest.mark.parametrize("data", [ROWS, OTHER], ids=["same", "other"])
def test_work_makes_again_what_was_reverted(
    repo: lw.Repository, target: str, data: pa.Table
) -> None:
    if target == "dev":
        repo.branches.create("dev", at="main")
    for number, rows in enumerate([ROWS, data]):
        name = f"run{number}"
        repo.branches.create(name, at=target)
        repo.prepare_new("photos", rows.schema, branch=name, onto=target).append(rows)
        repo.commit("work", branch=name)
        repo.merge(name, branch=target, squash=True)
        repo.branches.delete(name, force=True, tables=True)
        assert seen(repo, target) == rows
        if not number:
            repo.revert(target, branch=target)
            assert "photos" not in repo.at(target).tables
    assert repo.at(f"{target}~2").table("photos").to_arrow() == ROWS
    assert repo.fsck(deep=True).is_ok


def test_of_two_works_that_make_it_again_the_second_is_refused(repo: lw.Repository) -> None:
    make(repo, "main", ROWS)
    repo.revert("main")
    for name in ("one", "two", "late"):
        repo.branches.create(name)
    for name, rows in {"one": ROWS, "two": OTHER}.items():
        repo.prepare_new("photos", rows.schema, branch=name, onto="main").append(rows)
        repo.commit("work", branch=name)
    repo.merge("one", squash=True)
    with pytest.raises(lw.ConflictError):
        repo.merge("two", squash=True)
    assert seen(repo, "main") == ROWS
    with pytest.raises(AlreadyExistsError, match="takes it in"):
        repo.prepare_new("photos", OTHER.schema, branch="late", onto="main")


def test_what_others_wrote_since_is_not_buried(repo: lw.Repository) -> None:
    make(repo, "main", ROWS)
    repo.revert("main")
    where = str(repo.path / "tables/photos.lance")
    lance.write_dataset(ROWS, where, mode="append")
    changes = repo.transaction("main", "again")
    with pytest.raises(IncompatibleConflictError, match="others wrote"):
        changes.create_table("photos", OTHER)
    repo.branches.create("run")
    with pytest.raises(IncompatibleConflictError, match="others wrote"):
        repo.prepare_new("photos", OTHER.schema, branch="run", onto="main")
    assert lance.dataset(where).count_rows() == 6


def test_what_others_write_meanwhile_is_not_buried(repo: lw.Repository) -> None:
    make(repo, "main", ROWS)
    repo.revert("main")
    changes = repo.transaction("main", "again")
    changes.create_table("photos", OTHER)
    lance.write_dataset(ROWS, str(repo.path / "tables/photos.lance"), mode="append")
    with pytest.raises(lw.ConflictError):
        changes.commit()
    assert "photos" not in repo.at("main").tables


def test_two_who_make_it_again_at_once(repo: lw.Repository) -> None:
    make(repo, "main", ROWS)
    repo.revert("main")
    one, two = (repo.transaction("main", each) for each in ("one", "two"))
    one.create_table("photos", OTHER)
    two.create_table("photos", ROWS)
    one.commit()
    with pytest.raises(IncompatibleConflictError, match="created by another commit"):
        two.commit()
    assert seen(repo, "main") == OTHER


def test_other_row_ids_are_refused(repo: lw.Repository) -> None:
    make(repo, "main", ROWS, stable_row_ids=False)
    repo.revert("main")
    changes = repo.transaction("main", "again")
    with pytest.raises(InvalidInputError, match="without stable row ids"):
        changes.create_table("photos", OTHER, layout=lw.Layout(stable_row_ids=True))
    make(repo, "main", OTHER)
    assert seen(repo, "main") == OTHER


def made_twice(repo: lw.Repository, first: str, second: str) -> None:
    """Two branches make a table of one name, each its own."""
    for name in {first, second} - {"main"}:
        repo.branches.create(name)
    make(repo, first, ROWS)
    make(repo, second, OTHER)


@pytest.mark.parametrize(("first", "second"), [("exp", "main"), ("main", "exp"), ("exp", "dev")])
@pytest.mark.parametrize("other", [OTHER, ROWS], ids=["other", "same"])
def test_each_branch_makes_a_table_of_that_name(
    repo: lw.Repository, first: str, second: str, other: pa.Table
) -> None:
    for name in {first, second} - {"main"}:
        repo.branches.create(name)
    for name, data in {first: ROWS, second: other}.items():
        make(repo, name, data)
    with repo.transaction(second, "on") as changes:
        changes.table("photos").append(other)
    with repo.transaction(first, "on") as changes:
        changes.table("photos").append(ROWS)
    for name, data in {first: ROWS, second: other}.items():
        twice = pa.concat_tables([data, data])
        assert seen(repo, name) == twice
        theirs = lance.dataset(str(repo.path / "tables/photos.lance"))
        theirs = theirs if name == "main" else theirs.checkout_version((name, None))
        theirs.validate()
        assert theirs.to_table() == twice
    assert repo.fsck(deep=True).is_ok


@pytest.mark.parametrize(("first", "second"), [("exp", "main"), ("main", "exp"), ("exp", "dev")])
@pytest.mark.parametrize("one", ["first", "second"])
def test_two_tables_of_one_name_do_not_merge_and_one_of_them_can_go(
    repo: lw.Repository, first: str, second: str, one: str
) -> None:
    made_twice(repo, first, second)
    into, name = (first, second) if one == "first" else (second, first)
    kept = OTHER if one == "first" else ROWS
    if "main" not in (first, second):
        repo.merge(into)
        into = "main"
    before = seen(repo, into)
    for dry_run in (True, False):
        with pytest.raises(IncompatibleConflictError, match="both sides made a table") as caught:
            repo.merge(name, branch=into, dry_run=dry_run)
        assert {*caught.value.facts["tables"]} == {"photos"}
    assert seen(repo, into) == before
    repo.remove("photos", branch=into)
    repo.merge(name, branch=into)
    assert seen(repo, into) == kept
    assert repo.fsck(deep=True).is_ok


def test_what_a_reset_left_stands_in_nobodys_way(repo: lw.Repository) -> None:
    repo.branches.create("exp")
    for name in ("main", "exp"):
        make(repo, name, ROWS)
        repo.reset(f"{name}~1", branch=name)
        assert "photos" not in repo.at(name).tables
        make(repo, name, OTHER)
        assert seen(repo, name) == OTHER
        repo.reset(f"{name}@{{2}}", branch=name)
        assert seen(repo, name) == ROWS
    assert repo.fsck(deep=True).is_ok


@pytest.mark.parametrize("where", ["main", "exp"])
def test_a_table_that_others_keep_there_is_left_alone(repo: lw.Repository, where: str) -> None:
    repo.branches.create("exp")
    made = lw.create(repo.path / "tables" / "photos.lance", ROWS)
    changes = repo.transaction(where, "mine")
    with pytest.raises(AlreadyExistsError, match="takes it in"):
        changes.create_table("photos", OTHER)
    assert made.latest().version == 1


def test_rows_that_others_wrote_to_a_branch_that_began_are_left_alone(
    repo: lw.Repository,
) -> None:
    repo.branches.create("exp")
    make(repo, "exp", ROWS)
    repo.branches.create("dev")
    lw.open(repo.path / "tables/photos.lance").branches.create("dev")
    for where in ("main", "dev"):
        branch = None if where == "main" else where
        lw.open(repo.path / "tables/photos.lance", branch=branch).append(ROWS)
        changes = repo.transaction(where, "mine")
        with pytest.raises(AlreadyExistsError, match="takes it in"):
            changes.create_table("photos", OTHER)


def test_a_table_that_main_made_and_has_not_landed_is_not_met_halfway(
    repo: lw.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.branches.create("exp")
    with monkeypatch.context() as patched:
        patched.setattr(Pending, "land", lambda self: None)
        make(repo, "main", ROWS)
    make(repo, "exp", OTHER)
    assert (seen(repo, "main"), seen(repo, "exp")) == (ROWS, OTHER)
    assert repo.status().is_clean


@pytest.mark.parametrize("target", ["main", "dev"])
def test_work_makes_a_table_that_another_branch_made(repo: lw.Repository, target: str) -> None:
    other = "exp" if target == "main" else "main"
    for name in ("exp", "dev"):
        repo.branches.create(name)
    make(repo, other, OTHER)
    repo.branches.create("run", at=target)
    repo.prepare_new("photos", ROWS.schema, branch="run", onto=target).append(ROWS)
    repo.commit("work", branch="run")
    repo.merge("run", branch=target, squash=True)
    repo.branches.delete("run", force=True, tables=True)
    assert (seen(repo, target), seen(repo, other)) == (ROWS, OTHER)
    assert repo.fsck(deep=True).is_ok
