"""``Repository.diff`` and ``show``: what became of rows and columns."""

from __future__ import annotations

import lance
import numpy as np
import pyarrow as pa
import pytest
from tests.unit.repo.rows import rows

import lancewood as lw
from lancewood.jobs.counts import RowCounts
from lancewood.repo.inspect import measuring
from lancewood.repo.inspect.comparing import TableChange

PLACES = pa.table({"id": [1, 2, 3], "x": [0.5, float("nan"), None], "name": ["a", "b", None]})


@pytest.fixture
def repo(repo: lw.Repository) -> lw.Repository:
    """A table more, with several columns."""
    with repo.transaction("main", "places") as changes:
        changes.create_table("places", PLACES)
    return repo


def diff(repo: lw.Repository, before: str = "HEAD~1", after: str | None = "HEAD") -> TableChange:
    (found,) = repo.diff(before, after)
    return found


def test_rows_are_counted_by_what_became_of_them(repo: lw.Repository) -> None:
    with repo.transaction("main", "all at once") as changes:
        places = changes.table("places").append(PLACES).delete("id = 1")
        places.update({"name": "'z'"}, where="id = 2")
    assert diff(repo).counts == RowCounts(inserted=2, updated=1, deleted=1)
    assert diff(repo, "HEAD", "HEAD~1").counts == RowCounts(inserted=1, updated=1, deleted=2)
    assert repo.show().changes == repo.diff()


def test_tables_as_they_stand_are_counted_too(repo: lw.Repository) -> None:
    lw.open(repo.path / "tables/places.lance").delete("id = 1")
    assert diff(repo, "HEAD", None).counts == RowCounts(deleted=1)


def test_a_new_table_has_its_rows_inserted_and_one_that_goes_has_them_deleted(
    repo: lw.Repository,
) -> None:
    assert diff(repo).counts == RowCounts(inserted=3)
    assert diff(repo, "HEAD", "HEAD~1").counts == RowCounts(deleted=3)


def test_a_compaction_and_a_restoration_change_no_row_that_is_the_same(repo: lw.Repository) -> None:
    with repo.transaction("main", "more") as changes:
        changes.table("places").append(PLACES)
    lw.open(repo.path / "tables/places.lance").compact()
    repo.commit("compacted")
    assert diff(repo).counts == RowCounts()
    repo.revert("HEAD")
    assert (diff(repo).counts, diff(repo, "HEAD~2").kind) == (RowCounts(), "moved")
    repo.revert("HEAD~2")
    assert diff(repo).counts == RowCounts(deleted=3)


def test_a_renamed_column_is_no_other_column(repo: lw.Repository) -> None:
    with repo.transaction("main", "columns") as changes:
        table = changes.table("places").rename_column("name", "label")
        table.add_columns({"more": "id + 1"}).drop_columns(["x"])
    found = diff(repo)
    assert found.renamed_columns == (("name", "label"),)
    assert (found.added_columns, found.removed_columns) == (("more: int64",), ("x: double",))
    assert found.counts == RowCounts()
    back = diff(repo, "HEAD", "HEAD~1")
    assert back.renamed_columns == (("label", "name"),)
    assert (back.added_columns, back.removed_columns) == (("x: double",), ("more: int64",))


def test_columns_that_swap_their_names_were_renamed(repo: lw.Repository) -> None:
    with repo.transaction("main", "swap") as changes:
        table = changes.table("places").rename_column("name", "t").rename_column("x", "name")
        table.rename_column("t", "x")
    found = diff(repo)
    assert sorted(found.renamed_columns) == [("name", "x"), ("x", "name")]
    assert (found.added_columns, found.removed_columns) == ((), ())


def test_another_column_in_the_place_of_a_dropped_one_is_no_renaming(repo: lw.Repository) -> None:
    with repo.transaction("main", "other") as changes:
        changes.table("places").drop_columns(["name"]).add_columns({"label": "'a'"})
    found = diff(repo)
    assert found.renamed_columns == ()
    assert (found.added_columns, found.removed_columns) == (("label: string",), ("name: string",))


@pytest.mark.parametrize("stable_row_ids", [True, False])
def test_an_overwrite_by_the_same_rows_is_told(repo: lw.Repository, stable_row_ids: bool) -> None:
    with repo.transaction("main", "other") as changes:
        changes.create_table("other", PLACES, layout=lw.Layout(stable_row_ids=stable_row_ids))
    with repo.transaction("main", "the same") as changes:
        changes.table("other").overwrite(PLACES, layout=lw.Layout(max_rows_per_file=2))
    found = diff(repo)
    assert found.is_same_rows
    assert found.counts == (RowCounts(inserted=3, deleted=3) if stable_row_ids else None)
    with repo.transaction("main", "not the same") as changes:
        changes.table("other").overwrite(PLACES.take([1, 0, 2]))
    assert not diff(repo).is_same_rows


def test_large_tables_are_not_read_to_see_it(
    repo: lw.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    with repo.transaction("main", "the same") as changes:
        changes.table("places").overwrite(PLACES)
    assert diff(repo).is_same_rows
    monkeypatch.setattr(measuring, "_MOST_READ", 10)
    assert not diff(repo).is_same_rows


def test_rows_are_counted_between_branches_of_which_one_or_both_went_on(
    repo: lw.Repository,
) -> None:
    with repo.transaction("exp", "there") as changes:
        changes.table("photos").append(rows(4, 5)).delete("id = 1")
    photos = next(each for each in repo.diff("main", "exp") if each.name == "photos")
    assert photos.counts == RowCounts(inserted=2, deleted=1)
    photos = next(each for each in repo.diff("exp", "main") if each.name == "photos")
    assert photos.counts == RowCounts(inserted=1, deleted=2)
    with repo.transaction("main", "here") as changes:
        changes.table("photos").append(rows(9))
    photos = next(each for each in repo.diff("main", "exp") if each.name == "photos")
    assert photos.counts == RowCounts(inserted=2, deleted=2), "4 and 5 came, 9 and 1 went"
    photos = next(each for each in repo.diff("main...exp") if each.name == "photos")
    assert photos.counts == RowCounts(inserted=2, deleted=1)


def test_a_write_of_what_was_there_and_a_cast_update_no_row(repo: lw.Repository) -> None:
    with repo.transaction("main", "the same again") as changes:
        changes.table("places").update({"name": "'b'"}, where="id = 2").cast_column(
            "id", pa.int32()
        )
    assert diff(repo).counts == RowCounts()
    with repo.transaction("main", "one of them") as changes:
        changes.table("places").update({"name": "'b'"}, where="id < 3", rewrite="columns")
    assert (diff(repo).counts, diff(repo).is_exact) == (RowCounts(updated=1), True)


def test_values_of_many_rows_are_not_read_to_count_them(
    repo: lw.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    with repo.transaction("main", "most are the same") as changes:
        changes.table("places").update({"name": "'b'"}, rewrite="rows")
    assert (diff(repo).counts, diff(repo).is_exact) == (RowCounts(updated=2), True)
    monkeypatch.setattr(measuring, "_MOST_READ", 10)
    assert (diff(repo).counts, diff(repo).is_exact) == (RowCounts(updated=3), False)


def test_a_narrow_column_of_wide_rows_is_read_to_count_them(repo: lw.Repository) -> None:
    count = 20_000
    wide = np.random.default_rng(0).random((count, 256), np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(wide.ravel(), 256)
    with repo.transaction("main", "made") as changes:
        changes.create_table("wide", pa.table({"id": range(count), "v": vectors}))
        changes.table("wide").add_columns({"score": "0.5"})
    with repo.transaction("main", "one column anew") as changes:
        changes.table("wide").update(
            {"score": "CASE WHEN id < 256 THEN 0.7 ELSE score END"}, rewrite="columns"
        )
    (found,) = repo.diff("HEAD~1", "HEAD")
    assert (found.counts, found.is_exact) == (RowCounts(updated=256), True)


def keyed(stable_row_ids: bool, repo: lw.Repository) -> None:
    """A table with a primary key, and a commit that writes all of its rows anew."""
    key = pa.field("id", pa.int64(), False, {"lance-schema:unenforced-primary-key": "true"})
    schema = pa.schema([key, *list(PLACES.schema)[1:]])
    with repo.transaction("main", "keyed") as changes:
        changes.create_table(
            "keyed", PLACES.cast(schema), layout=lw.Layout(stable_row_ids=stable_row_ids)
        )
    with repo.transaction("main", "written anew") as changes:
        fresh = pa.table({"id": [3, 2, 9], "x": [None, float("nan"), 1.0], "name": ["c", "b", "d"]})
        changes.table("keyed").overwrite(fresh.cast(schema))


@pytest.mark.parametrize("stable_row_ids", [True, False])
def test_rows_that_were_written_anew_are_known_by_the_primary_key(
    repo: lw.Repository, stable_row_ids: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyed(stable_row_ids, repo)
    assert diff(repo).counts == RowCounts(inserted=1, updated=1, deleted=1)
    monkeypatch.setattr(measuring, "_MOST_READ", 10)
    all_of_them = RowCounts(inserted=3, deleted=3)
    assert diff(repo).counts == (all_of_them if stable_row_ids else None)


def test_a_primary_key_that_is_not_unique_pairs_nothing(repo: lw.Repository) -> None:
    keyed(True, repo)
    twice = repo.at().table("keyed").to_arrow().take([0, 0, 1])
    with repo.transaction("main", "twice") as changes:
        changes.table("keyed").overwrite(twice)
    assert diff(repo).counts == RowCounts(inserted=3, deleted=3)


def test_what_cannot_be_read_is_told_from_the_pins(repo: lw.Repository) -> None:
    where = str(repo.path / "tables/places.lance")
    for value in range(3):
        lance.write_dataset(PLACES, where, mode="append")
        repo.commit(f"outside {value}")
    (repo.path / "tables/places.lance" / repo.at("HEAD~1").pin("places").manifest).unlink()
    found = diff(repo)
    assert (found.kind, found.rows, found.counts) == ("changed", 3, None)


def test_a_branch_that_was_brought_up_to_date_is_not_taken_for_what_it_was(
    repo: lw.Repository,
) -> None:
    for branch, many in (("alice", 2), ("bob", 3)):
        repo.branches.create(branch)
        with repo.transaction(branch, message=branch) as changes:
            for _ in range(5):
                changes.table("photos").append(pa.table({"id": range(many)}))
    alice = str(repo.at("alice").hash)
    repo.merge("alice")
    repo.merge("bob")
    repo.merge("main", branch="alice")
    change = diff(repo, alice, "main")
    assert (change.counts, change.rows) == (RowCounts(inserted=15), 15)


def written(repo: lw.Repository, branch: str, *values: int) -> str:
    """The commit in which a branch writes each value in a version of its own."""
    with repo.transaction(branch, message=branch) as changes:
        for each in values:
            changes.table("photos").append(rows(each))
    return str(repo.at(branch).hash)


def test_a_commit_from_before_a_reset_is_not_taken_for_what_came_after(repo: lw.Repository) -> None:
    first = str(repo.at("main").hash)
    repo.branches.create("dev")
    old = written(repo, "dev", 10, 11)
    second = written(repo, "main", 20)
    third = written(repo, "main", 30)
    repo.reset("main", branch="dev")
    new = written(repo, "dev", 40)
    for after, count in ((second, 1), (third, 2), (new, 3)):
        assert diff(repo, old, after).counts == RowCounts(inserted=count, deleted=2)
        assert diff(repo, after, old).counts == RowCounts(inserted=2, deleted=count)
    assert diff(repo, first, old).counts == RowCounts(inserted=2)
    assert diff(repo, new, second).counts == RowCounts(deleted=2)
    assert diff(repo, third, new).counts == RowCounts(inserted=1)


def test_a_branch_that_was_reset_and_written_again_is_counted_from_where_it_went_back_to(
    repo: lw.Repository,
) -> None:
    repo.branches.create("dev")
    old = written(repo, "dev", 10, 11)
    gone = written(repo, "dev", 12)
    repo.reset(old, branch="dev")
    new = written(repo, "dev", 13)
    assert diff(repo, old, new).counts == RowCounts(inserted=1)
    assert diff(repo, gone, new).counts == RowCounts(inserted=1, deleted=1)


def test_a_state_from_before_a_reset_that_came_back_has_no_past_beyond_it(
    repo: lw.Repository,
) -> None:
    """Row ids were given out twice: by what was reset away, and after the state came back."""
    base = str(repo.at("main").hash)
    repo.branches.create("dev")
    kept = written(repo, "dev", 10, 11)
    gone = written(repo, "dev", 20, 21, 22)
    last = lw.open(repo.path / "tables/photos.lance", branch="dev").version
    repo.reset(base, branch="dev")
    written(repo, "dev", 40)
    repo.reset(kept, branch="dev")
    new = written(repo, "dev", 30, 31)
    assert diff(repo, gone, new).counts == RowCounts(inserted=2, deleted=3)
    table = lw.open(repo.path / "tables/photos.lance", branch="dev")
    with pytest.raises(lw.InvalidInputError, match="are those of different rows"):
        table.changes(last)


def test_a_branch_that_was_made_again_is_not_taken_for_the_one_before(repo: lw.Repository) -> None:
    repo.branches.create("dev")
    old = written(repo, "dev", 10, 11)
    repo.tags.create("kept", old)
    repo.branches.delete("dev", force=True)
    written(repo, "main", 20)
    repo.branches.create("dev")
    new = written(repo, "dev", 30, 31)
    assert diff(repo, old, new).counts == RowCounts(inserted=3, deleted=2)
    assert diff(repo, "main", new).counts == RowCounts(inserted=2)
    assert diff(repo, old, "main").counts == RowCounts(inserted=1, deleted=2)


@pytest.mark.parametrize("branches", [("exp", "exp2"), ("exp", "main"), ("main", "exp")])
def test_two_tables_of_one_name_that_share_no_history_are_told_apart(
    repo: lw.Repository, branches: tuple[str, str]
) -> None:
    repo.branches.create("exp2")
    for number, branch in enumerate(branches, 1):
        with repo.transaction(branch, "made") as changes:
            changes.create_table("things", rows(*range(number)))
    found = next(each for each in repo.diff(*branches) if each.name == "things")
    assert (found.kind, found.counts, found.is_unrelated) == ("changed", None, True)


def test_tables_with_a_common_past_are_not_told_apart(repo: lw.Repository) -> None:
    repo.branches.create("exp2")
    for number, branch in enumerate(("exp2", "main"), 5):
        with repo.transaction(branch, "more") as changes:
            changes.table("places").overwrite(PLACES.slice(0, number - 4))
    found = diff(repo, "exp2", "main")
    assert (found.counts, found.is_unrelated) == (RowCounts(inserted=2, deleted=1), False)
    assert not diff(repo, "HEAD~1").is_unrelated
    assert not any(each.is_unrelated for each in repo.diff("exp", "main"))
