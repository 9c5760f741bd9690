"""``Repository.diff(rows=True)``: which rows differ between commits, on whatever branches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from tests.unit.repo.rows import rows

import lancewood as lw
from lancewood.errors import StorageError
from lancewood.jobs.counts import RowCounts
from lancewood.repo import NotLandedWarning

BIRDS = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]})


def bird(id: int, name: str) -> pa.Table:
    return pa.table({"id": [id], "name": [name]})


@pytest.fixture
def repo(repo: lw.Repository) -> lw.Repository:
    """A table more, and two branches that both went on with it."""
    with repo.transaction("main", "birds") as changes:
        changes.create_table("birds", BIRDS)
    repo.branches.create("left")
    repo.branches.create("right")
    with repo.transaction("left", "left") as changes:
        changes.table("birds").append(bird(4, "left")).update({"name": "'A'"}, "id = 1")
    with repo.transaction("right", "right") as changes:
        changes.table("birds").append(bird(5, "right")).delete("id = 2")
    return repo


def shown(diff: lw.Diff) -> list[tuple[str, Any, Any]]:
    """The kind of each change, with what the row was called before and after, in a fixed order."""
    found = diff.to_arrow().to_pylist()
    names = [
        (each["_change"], *(side and side["name"] for side in (each["before"], each["after"])))
        for each in found
    ]
    return sorted(names, key=str)


LEFT = [("inserted", None, "left"), ("updated", "a", "A")]
RIGHT = [("deleted", "b", None), ("inserted", None, "right")]
LEFT_TO_RIGHT = [
    ("deleted", "b", None),
    ("deleted", "left", None),
    ("inserted", None, "right"),
    ("updated", "A", "a"),
]


def test_two_branches_that_both_went_on_are_compared_row_by_row(repo: lw.Repository) -> None:
    diff = repo.diff("left", "right", table="birds", rows=True)
    assert shown(diff) == LEFT_TO_RIGHT
    assert (diff.kind, diff.counts) == ("changed", RowCounts(inserted=1, updated=1, deleted=2))
    assert shown(repo.diff("main", "left", table="birds", rows=True)) == LEFT
    assert shown(repo.diff("main", "right", table="birds", rows=True)) == RIGHT


def test_without_a_table_there_is_a_diff_of_each_that_differs(repo: lw.Repository) -> None:
    with repo.transaction("left", "photos") as changes:
        changes.table("photos").append(rows(9))
    found = repo.diff("left", "right", rows=True)
    assert list(found) == ["birds", "photos"]
    assert shown(found["birds"]) == LEFT_TO_RIGHT
    assert found["photos"].counts == RowCounts(deleted=1)
    assert repo.diff("left", "left", rows=True) == {}


def test_a_table_of_one_side_only_has_all_of_its_rows_inserted_or_deleted(
    repo: lw.Repository,
) -> None:
    new = repo.diff("main~1", "main", table="birds", rows=True)
    assert shown(new) == [("inserted", None, each) for each in "abc"]
    assert (new.kind, new.stat()) == ("added", lw.DiffStat(inserted=3, unchanged=0))
    assert [each.name for each in new.schema.added] == ["id", "name"]
    assert new.arrow_schema == repo.diff("main", "left", table="birds", rows=True).arrow_schema
    gone = repo.diff(
        "main", "main~1", table="birds", rows=True, where="name > 'a'", columns=["name"]
    )
    assert (gone.kind, len(gone.schema.dropped)) == ("removed", 2)
    assert gone.to_arrow()["before"].to_pylist() == [{"name": "b"}, {"name": "c"}]
    assert "from nothing to version 1 of main" in new.explain()
    assert new.deleted.to_arrow().num_rows == gone.inserted.to_arrow().num_rows == 0
    assert list(repo.diff("main", "main~1", rows=True)) == ["birds"]


@pytest.mark.parametrize("stable_row_ids", [True, False])
def test_a_table_that_is_taken_out_and_in_again_elsewhere_is_another_one(
    repo: lw.Repository, tmp_path: Path, stable_row_ids: bool
) -> None:
    with repo.transaction("main", "things") as changes:
        changes.create_table("things", BIRDS, layout=lw.Layout(stable_row_ids=stable_row_ids))
    repo.remove("things")
    away = pa.table({"id": [3, 4], "name": ["C", "d"]})
    lw.create(tmp_path / "away.lance", away, layout=lw.Layout(stable_row_ids=stable_row_ids))
    repo.add("things", tmp_path / "away.lance")
    found = repo.diff("HEAD~2", "HEAD", table="things", rows=True)
    assert (found.kind, found.counts) == ("changed", RowCounts(inserted=2, deleted=3))
    assert len(shown(found)) == 5
    paired = repo.diff("HEAD~2", "HEAD", table="things", rows=True, on="id")
    assert [each[0] for each in shown(paired)] == ["deleted", "deleted", "inserted", "updated"]


def test_two_tables_of_one_name_share_no_row(repo: lw.Repository) -> None:
    for branch, made in (("left", BIRDS), ("right", BIRDS.slice(1))):
        with repo.transaction(branch, "made") as changes:
            changes.create_table("things", made)
    found = repo.diff("left", "right", table="things", rows=True)
    assert found.counts == RowCounts(inserted=2, deleted=3)
    assert repo.diff("left", "right", table="things")[0].is_unrelated
    paired = repo.diff("left", "right", table="things", rows=True, on="id")
    assert paired.stat() == lw.DiffStat(deleted=1, unchanged=2)


def test_a_table_elsewhere_is_compared_like_one_of_its_own(
    repo: lw.Repository, tmp_path: Path
) -> None:
    lw.create(tmp_path / "away.lance", BIRDS)
    repo.add("away", tmp_path / "away.lance")
    repo.branches.create("there")
    with repo.transaction("there", "there") as changes:
        changes.table("away").update({"name": "'z'"}, "id = 3")
    with repo.transaction("main", "here") as changes:
        changes.table("away").delete("id = 1")
    found = repo.diff("main", "there", table="away", rows=True)
    assert shown(found) == [("inserted", None, "a"), ("updated", "c", "z")]


def test_a_renamed_column_is_compared_under_both_names(repo: lw.Repository) -> None:
    with repo.transaction("left", "renamed") as changes:
        changes.table("birds").rename_column("name", "label")
    (row,) = repo.diff("left", "main", table="birds", rows=True, change="updated").to_arrow()[
        "before"
    ]
    assert row.as_py() == {"id": 1, "label": "A"}
    change = repo.diff("left", "main", table="birds")[0]
    assert change.renamed_columns == (("label", "name"),)
    assert change.counts == RowCounts(updated=1, deleted=1)


def test_tables_as_they_stand_are_compared_with_a_commit(repo: lw.Repository) -> None:
    lw.open(repo.path / "tables/birds.lance").append(bird(7, "new"))
    found = repo.diff("HEAD", None, rows=True)
    assert shown(found["birds"]) == [("inserted", None, "new")]
    assert shown(repo.diff("left", None, table="birds", rows=True)) == [
        ("deleted", "left", None),
        ("inserted", None, "new"),
        ("updated", "A", "a"),
    ]
    assert repo.diff("HEAD", "HEAD", rows=True) == {}
    same = repo.diff("HEAD", None, table="photos", rows=True)
    assert (same.stat().unchanged, bool(same.stat())) == (3, False)


def not_landed(repo: lw.Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit of two changes to birds that stays beside the history of the table."""

    def fail(*_: object, **__: object) -> None:
        raise StorageError("no answer")

    changes = repo.transaction("main", "not landed")
    changes.table("birds").append(bird(6, "mine")).update({"name": "'C'"}, "id = 3")
    with monkeypatch.context() as patch:
        patch.setattr("lancewood.repo.commit.transaction.land", fail)
        with pytest.warns(NotLandedWarning):
            changes.commit()


MINE = [("inserted", None, "mine"), ("updated", "c", "C")]


def test_a_state_that_has_not_landed_is_compared_as_it_is_pinned(
    repo: lw.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    not_landed(repo, monkeypatch)
    assert repo.at().landed("birds") is None
    assert repo.at().table("birds").is_detached
    assert shown(repo.diff(table="birds", rows=True)) == MINE
    assert repo.diff(table="birds")[0].counts == RowCounts(inserted=1, updated=1)
    assert repo.diff("HEAD", None) == ()
    assert shown(repo.diff("left", "main", table="birds", rows=True)) == [
        ("deleted", "left", None),
        ("inserted", None, "mine"),
        ("updated", "A", "a"),
        ("updated", "c", "C"),
    ]


def test_a_state_that_landed_together_with_writes_of_others_is_compared_as_it_is_pinned(
    repo: lw.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    not_landed(repo, monkeypatch)
    where = str(repo.path / "tables/birds.lance")
    lance.write_dataset(bird(8, "theirs"), where, mode="append")
    with repo.transaction("main", "after both") as changes:
        changes.table("birds").delete("id = 2")
    assert repo.at("HEAD~1").landed("birds") is None
    assert repo.at("HEAD~1").table("birds").is_detached
    assert shown(repo.diff("HEAD~2", "HEAD~1", table="birds", rows=True)) == MINE
    after = [("deleted", "b", None), ("inserted", None, "theirs")]
    assert shown(repo.diff(table="birds", rows=True)) == after
    assert repo.diff(table="birds")[0].counts == RowCounts(inserted=1, deleted=1)


def test_a_merged_branch_differs_from_the_target_in_what_only_that_has(repo: lw.Repository) -> None:
    repo.merge("left")
    repo.merge("right")
    assert shown(repo.diff("left", "main", table="birds", rows=True)) == RIGHT
    assert repo.diff("left", "main", table="birds")[0].counts == RowCounts(inserted=1, deleted=1)


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ({"change": "deleted"}, [("deleted", "b", None), ("deleted", "left", None)]),
        ({"where": "before.name <> after.name"}, [("updated", "A", "a")]),
        ({"columns": ["name"], "change": ["inserted"]}, [("inserted", None, "right")]),
    ],
)
def test_some_rows_can_be_asked_for(
    repo: lw.Repository, asked: dict[str, Any], names: list[tuple[Any, ...]]
) -> None:
    assert shown(repo.diff("left", "right", table="birds", rows=True, **asked)) == names


def test_a_table_that_neither_side_has_is_an_error_with_the_nearest_names(
    repo: lw.Repository,
) -> None:
    with pytest.raises(
        lw.NotFoundError, match=r"no table 'brds' in left, nor in right; did you mean birds\?"
    ):
        repo.diff("left", "right", table="brds", rows=True)
    with pytest.raises(lw.NotFoundError, match="nor in the tables as they stand"):
        repo.diff("HEAD", None, table="nothing")
    with pytest.raises(lw.InvalidInputError, match="is not allowed: it contains"):
        repo.diff(table="../x")


@pytest.mark.parametrize("name", ["columns", "where", "change", "on"])
def test_what_chooses_rows_is_refused_where_none_are_asked_for(
    repo: lw.Repository, name: str
) -> None:
    with pytest.raises(lw.InvalidInputError, match=f"{name} chooses rows.*rows=True"):
        repo.diff(**{name: "id"})  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("asked", "error", "said"),
    [
        ({"before": "nope"}, lw.NotFoundError, "revision 'nope' not found"),
        ({"change": "changed"}, lw.InvalidInputError, "deleted, inserted, updated"),
        ({"columns": ["nope"]}, lw.InvalidInputError, "nope"),
        ({"where": "nope = 1"}, lw.InvalidInputError, "nope"),
        ({"on": "nope"}, lw.InvalidInputError, "nope"),
    ],
)
def test_bad_input_is_refused_before_rows_are_asked_for(
    repo: lw.Repository, asked: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        repo.diff(**{"before": "left", "after": "right", "table": "birds", **asked}, rows=True)


def test_a_state_that_is_gone_is_an_error_that_names_it(repo: lw.Repository) -> None:
    lw.open(repo.path / "tables/birds.lance").append(bird(6, "six"))
    repo.commit("as it stands")
    (repo.path / "tables/birds.lance" / repo.at().pin("birds").manifest).unlink()
    assert repo.diff(table="birds")[0].counts is None
    with pytest.raises(lw.NotFoundError, match=r"version 2 of .*birds\.lance"):
        repo.diff(rows=True)


def test_the_history_of_a_table_counts_rows_commit_by_commit(repo: lw.Repository) -> None:
    with repo.transaction("main", "two at once") as changes:
        changes.table("birds").delete("id = 1").append(BIRDS)
        changes.table("photos").append(rows(9))
    with repo.transaction("main", "photos alone") as changes:
        changes.table("photos").append(rows(10))
    lw.open(repo.path / "tables/birds.lance").rename_column("name", "label")
    repo.commit("renamed")
    repo.merge("right")
    found = [(each.commit.message, each.changes[0].counts) for each in repo.history("birds")]
    merged = [("Merge branch 'right'", RowCounts(inserted=1, deleted=1))]
    alone = [
        ("renamed", RowCounts()),
        ("two at once", RowCounts(inserted=3, deleted=1)),
        ("birds", RowCounts(inserted=3)),
    ]
    right = [("right", RowCounts(inserted=1, deleted=1))]
    assert sorted(found, key=str) == sorted(merged + alone + right, key=str)
    assert all(len(each.changes) == 1 for each in repo.history("birds"))
    by_first = repo.history("birds", first_parent=True, skip=1, limit=2)
    assert [(each.commit.message, each.changes[0].counts) for each in by_first] == alone[:2]
    assert [each.commit.message for each in repo.history("birds", "right", limit=1)] == ["right"]
    with pytest.raises(lw.NotFoundError, match="never was a table 'bird'"):
        list(repo.history("bird"))


def test_the_commits_of_a_history_are_counted_when_they_are_reached(
    repo: lw.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = repo.history("birds", "left")
    assert next(written).changes[0].counts == RowCounts(inserted=1, updated=1)
    monkeypatch.setattr("lancewood.repo.inspect.measuring.measured", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        next(written)


def test_one_table_of_a_commit_can_be_shown(repo: lw.Repository) -> None:
    assert [each.name for each in repo.show("main~1").changes] == ["labels", "photos"]
    assert [each.name for each in repo.show("main~1", table="photos").changes] == ["photos"]
    assert repo.show("main", table="photos").changes == ()
    with pytest.raises(
        lw.NotFoundError, match="no table 'birds' in what was before, nor in main~1"
    ):
        repo.show("main~1", table="birds")


def test_tables_of_two_commits_are_states_of_one_table(repo: lw.Repository) -> None:
    repo.tags.create("first")
    with repo.transaction("main", "second") as changes:
        changes.table("birds").append(bird(6, "f")).append(bird(7, "g"))
    repo.tags.create("second")
    with repo.transaction("main", "third") as changes:
        changes.table("birds").update({"name": "upper(name)"}, "id IN (2, 7)")
    first, second, third = (repo.at(each).table("birds") for each in ("first", "second", "main"))
    news = [("inserted", None, "G"), ("inserted", None, "f"), ("updated", "b", "B")]
    assert shown(lw.diff(first, third)) == news
    assert shown(lw.diff(second, third)) == [("updated", "b", "B"), ("updated", "g", "G")]
