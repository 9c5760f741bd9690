"""Which commit brought what a table holds, and which commits changed certain rows."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.engine.staging import land


@pytest.fixture
def repo(tmp_path: Path, unsynced: None) -> lw.Repository:
    made = lw.Repository.init(tmp_path / "r")
    with made.transaction("main", "begin", author="Ann <ann@example.org>") as changes:
        changes.create_table("birds", rows(1, 2, 3, 4))
    return made


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "seen": pa.array([0] * len(ids), pa.int64())})


def seen(repo: lw.Repository, message: str, value: int, where: str, branch: str = "main") -> None:
    with repo.transaction(branch, message) as changes:
        changes.table("birds").update({"seen": str(value)}, where)


def added(repo: lw.Repository, message: str, *ids: int, branch: str = "main") -> None:
    with repo.transaction(branch, message) as changes:
        changes.table("birds").append(rows(*ids))


def changed(repo: lw.Repository, revision: str = "HEAD", **asked: Any) -> dict[int, str]:
    """The messages of the commits that last changed rows, but for those of the first commit."""
    found = repo.blame("birds", revision=revision, show=["id"], **asked).to_arrow().to_pylist()
    assert all(each["_changed"]["exact"] for each in found)
    said = {each["id"]: each["_changed"]["commit_message"] for each in found}
    return {number: said[number] for number in sorted(said) if said[number] != "begin"}


def inserted(repo: lw.Repository, revision: str = "HEAD") -> dict[int, str]:
    found = repo.blame("birds", revision=revision, show=["id"]).to_arrow().to_pylist()
    said = {each["id"]: each["_inserted"]["commit_message"] for each in found}
    return {number: said[number] for number in sorted(said) if said[number] != "begin"}


def test_a_row_has_the_commit_that_changed_it(repo: lw.Repository) -> None:
    seen(repo, "two", 2, "id = 2")
    seen(repo, "two again, and three", 2, "id in (2, 3)")
    added(repo, "five", 5)
    assert changed(repo) == {2: "two", 3: "two again, and three", 5: "five"}
    assert inserted(repo) == {5: "five"}
    assert changed(repo, "HEAD~2") == {2: "two"}
    assert changed(repo, where="id = 3") == {3: "two again, and three"}
    assert changed(repo, columns=["id"]) == {5: "five"}


def test_the_commit_is_said_with_its_author_and_moment(repo: lw.Repository) -> None:
    (found,) = repo.blame("birds", "id = 1").to_arrow().to_pylist()
    commit, landed = repo.at().commit, repo.at().landed("birds")
    assert landed is not None
    assert found["_changed"] == {
        "version": 1,
        "branch": "main",
        "time": landed.timestamp,
        "operation": "Overwrite",
        "message": "begin",
        "exact": True,
        "commit": commit.hash,
        "author": "Ann",
        "email": "ann@example.org",
        "commit_time": datetime.fromtimestamp(commit.author.seconds, UTC),
        "commit_message": "begin",
    }
    (cell, *_) = repo.blame("birds", "id = 1", cells=True).to_arrow().to_pylist()
    assert (cell["_column"], cell["_value"], cell["_written"]["author"]) == ("id", "1", "Ann")


def test_all_steps_of_a_transaction_are_of_its_commit(repo: lw.Repository) -> None:
    with repo.transaction("main", "several") as changes:
        changes.table("birds").update({"seen": "2"}, "id = 2")
        changes.table("birds").append(rows(5))
        changes.table("birds").update({"seen": "3"}, "id = 3")
    assert changed(repo) == {2: "several", 3: "several", 5: "several"}


def test_what_was_written_beside_the_repository_is_of_the_commit_that_took_it_in(
    repo: lw.Repository,
) -> None:
    uri = repo.at().table("birds").uri
    lw.open(uri).update({"seen": "7"}, "id = 2").append(rows(5))
    seen(repo, "three", 3, "id = 3")
    repo.commit("the rest")
    assert set(changed(repo)) == {2, 3, 5}
    assert changed(repo)[3] == "three"


def test_what_somebody_wrote_before_a_commit_landed_is_not_of_that_commit(
    repo: lw.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = repo.at().table("birds").uri

    def late(*given: Any, **known: Any) -> object:
        lw.open(uri).append(rows(5))
        return land(*given, **known)

    with monkeypatch.context() as patched:
        patched.setattr("lancewood.repo.commit.transaction.land", late)
        seen(repo, "three", 3, "id = 3")
    assert changed(repo) == {3: "three"}
    repo.commit("the rest")
    assert changed(repo) == {3: "three", 5: "the rest"}


def test_a_commit_that_has_not_landed_yet_is_read_where_it_waits(
    repo: lw.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise lw.StorageError("no answer")

    seen(repo, "two", 2, "id = 2")
    changes = repo.transaction("main", "three and five")
    changes.table("birds").update({"seen": "3"}, "id = 3")
    changes.table("birds").append(rows(5))
    monkeypatch.setattr("lancewood.repo.commit.transaction.land", fail)
    with pytest.raises(lw.NotLandedWarning):
        changes.commit()
    expected = {2: "two", 3: "three and five", 5: "three and five"}
    assert changed(repo) == expected
    assert inserted(repo) == {5: "three and five"}
    monkeypatch.undo()
    added(repo, "six", 6)
    assert changed(repo) == {**expected, 6: "six"}


def test_a_transaction_knows_who_wrote_what_it_has(repo: lw.Repository) -> None:
    seen(repo, "two", 2, "id = 2")
    changes = repo.transaction("main", "three")
    changes.table("birds").update({"seen": "3"}, "id = 3")
    found = changes.table("birds").blame(show=["id"]).to_arrow().to_pylist()
    assert {each["id"]: each["_changed"]["version"] for each in found} == {1: 1, 2: 2, 3: 3, 4: 1}


def test_a_version_that_only_a_branch_holds_is_of_the_commit_on_the_branch(
    repo: lw.Repository,
) -> None:
    table = lw.open(repo.at().table("birds").uri).update({"seen": "2"}, "id = 2")
    table.branches.create("exp").update({"seen": "3"}, "id = 3")
    repo.branches.create("exp")
    with repo.transaction("exp", "four", adopt=True) as changes:
        changes.table("birds").update({"seen": "4"}, "id = 4")
    assert changed(repo, "exp") == {2: "four", 3: "four", 4: "four"}
    assert changed(repo, "main") == {}


def test_a_branch_has_the_commits_of_its_parent_and_its_own(repo: lw.Repository) -> None:
    seen(repo, "two", 2, "id = 2")
    repo.branches.create("exp")
    seen(repo, "three on exp", 3, "id = 3", "exp")
    seen(repo, "four on main", 4, "id = 4")
    assert changed(repo, "exp") == {2: "two", 3: "three on exp"}
    assert changed(repo, "main") == {2: "two", 4: "four on main"}


def test_what_a_merge_brought_is_of_the_commits_that_it_merged(repo: lw.Repository) -> None:
    repo.branches.create("exp")
    seen(repo, "three on exp", 3, "id = 3", "exp")
    added(repo, "six on exp", 6, 7, branch="exp")
    added(repo, "five on main", 5)
    repo.merge("exp")
    own = {5: "five on main"}
    assert changed(repo) == {3: "three on exp", **own, 6: "six on exp", 7: "six on exp"}
    assert inserted(repo) == {**own, 6: "six on exp", 7: "six on exp"}
    seen(repo, "six on main", 6, "id = 6")
    assert changed(repo)[6] == "six on main"
    assert inserted(repo)[6] == "six on exp"
    cells = repo.blame("birds", "id = 6", cells=True).to_arrow().to_pylist()
    assert {each["_column"]: each["_written"]["commit_message"] for each in cells} == {
        "id": "six on exp",
        "seen": "six on main",
    }


def two_columns(repo: lw.Repository) -> None:
    values = pa.array([0] * 4, pa.int64())
    with repo.transaction("main", "two columns", author="Ann <ann@example.org>") as changes:
        known = {"id": [1, 2, 3, 4], "eggs": values, "height": values}
        changes.create_table("nests", pa.table(known))
    repo.branches.create("exp")


def nest(
    repo: lw.Repository, branch: str, message: str, values: dict[str, str], where: str, **known: Any
) -> None:
    with repo.transaction(branch, message) as changes:
        changes.table("nests").update(values, where, **known)


def cells(repo: lw.Repository, where: str) -> dict[tuple[int, str], str]:
    """The messages of the commits that wrote cells, but for those of the first commit."""
    found = repo.blame("nests", where, show=["id"], cells=True).to_arrow().to_pylist()
    assert all(each["_written"]["exact"] for each in found)
    said = {(row["id"], row["_column"]): row["_written"]["commit_message"] for row in found}
    return {cell: message for cell, message in said.items() if message != "two columns"}


def nests(repo: lw.Repository, **asked: Any) -> dict[int, str]:
    found = repo.blame("nests", show=["id"], **asked).to_arrow().to_pylist()
    return {each["id"]: each["_changed"]["commit_message"] for each in found}


@pytest.mark.parametrize("way", ["rows", "columns"])
def test_cells_of_one_row_that_two_sides_changed_are_of_the_commits_that_wrote_them(
    repo: lw.Repository, way: str
) -> None:
    two_columns(repo)
    nest(repo, "exp", "eggs on exp", {"eggs": "5"}, "id in (2, 3)", rewrite=way)
    nest(repo, "main", "height on main", {"height": "7"}, "id = 2", rewrite=way)
    repo.merge("exp", message="both")
    assert cells(repo, "id in (2, 3)") == {
        (2, "eggs"): "eggs on exp",
        (2, "height"): "height on main",
        (3, "eggs"): "eggs on exp",
    }
    begun = "two columns"
    assert nests(repo) == {1: begun, 2: "both", 3: "eggs on exp", 4: begun}
    assert nests(repo, columns=["eggs"])[2] == "eggs on exp"
    assert nests(repo, columns=["height"])[2] == "height on main"


def test_a_cell_that_a_merge_made_of_both_sides_is_of_the_merge(repo: lw.Repository) -> None:
    two_columns(repo)
    nest(repo, "exp", "on exp", {"eggs": "5", "height": "6"}, "id = 2")
    nest(repo, "main", "on main", {"eggs": "3"}, "id = 2")
    rule = lw.Resolve(columns={"eggs": "ours.eggs + theirs.eggs"})
    repo.merge("exp", message="the sum", resolve=rule)
    assert cells(repo, "id = 2") == {(2, "eggs"): "the sum", (2, "height"): "on exp"}


def test_a_cell_is_followed_through_merges_of_merges_and_new_names(repo: lw.Repository) -> None:
    two_columns(repo)
    repo.branches.create("deep", "exp")
    nest(repo, "deep", "eggs on deep", {"eggs": "5"}, "id = 2")
    nest(repo, "exp", "height on exp", {"height": "7"}, "id = 2")
    repo.merge("deep", branch="exp", message="deep into exp")
    with repo.transaction("main", "another name") as changes:
        changes.table("nests").rename_column("eggs", "laid")
    nest(repo, "main", "id on main", {"id": "20"}, "id = 2")
    repo.merge("exp", message="exp into main")
    assert cells(repo, "id = 20") == {
        (20, "id"): "id on main",
        (20, "laid"): "eggs on deep",
        (20, "height"): "height on exp",
    }


def test_a_merge_of_a_merge_leads_to_the_first_line(repo: lw.Repository) -> None:
    repo.branches.create("exp")
    added(repo, "seven on exp", 7, branch="exp")
    repo.branches.create("deep", "exp")
    added(repo, "six on deep", 6, branch="deep")
    added(repo, "eight on exp", 8, branch="exp")
    repo.merge("deep", branch="exp")
    added(repo, "five on main", 5)
    repo.merge("exp")
    assert inserted(repo) == {
        5: "five on main",
        6: "six on deep",
        7: "seven on exp",
        8: "eight on exp",
    }


def test_a_squashed_merge_is_a_commit_of_its_own(repo: lw.Repository) -> None:
    repo.branches.create("exp")
    seen(repo, "three on exp", 3, "id = 3", "exp")
    added(repo, "five on main", 5)
    repo.merge("exp", squash=True, message="all of exp")
    assert changed(repo) == {3: "all of exp", 5: "five on main"}


def test_what_a_revert_brought_back_is_of_the_commit_that_first_wrote_it(
    repo: lw.Repository,
) -> None:
    seen(repo, "two", 2, "id = 2")
    seen(repo, "more", 9, "id in (2, 3)")
    repo.revert("HEAD")
    assert changed(repo) == {2: "two"}


def test_a_table_that_is_not_there_is_not_found(repo: lw.Repository) -> None:
    with pytest.raises(lw.NotFoundError, match="birds"):
        repo.blame("brids")
    with pytest.raises(lw.InvalidInputError, match="nix"):
        repo.blame("birds", "nix = 1")


def logged(repo: lw.Repository, where: str, *revisions: str, **asked: Any) -> list[str]:
    return [each.message for each in repo.log(*revisions, table="birds", where=where, **asked)]


def test_the_log_of_rows_has_the_commits_that_changed_them(repo: lw.Repository) -> None:
    seen(repo, "two", 2, "id = 2")
    seen(repo, "two again, and three", 2, "id in (2, 3)")
    added(repo, "five", 5)
    with repo.transaction("main", "no five") as changes:
        changes.table("birds").delete("id = 5")
    assert logged(repo, "id = 2") == ["two", "begin"]
    assert logged(repo, "id = 3") == ["two again, and three", "begin"]
    assert logged(repo, "id = 5") == ["no five", "five"]
    assert logged(repo, "seen = 0 and id = 3") == ["two again, and three", "begin"]
    assert logged(repo, "seen = 2") == ["two again, and three", "two"]
    assert logged(repo, "true", limit=2) == ["no five", "five"]
    assert logged(repo, "id = 2", "HEAD~3") == ["two", "begin"]
    assert logged(repo, "id = 77") == []


def test_a_merge_that_took_rows_over_did_not_change_them(repo: lw.Repository) -> None:
    repo.branches.create("exp")
    seen(repo, "three on exp", 3, "id = 3", "exp")
    added(repo, "five on main", 5)
    repo.merge("exp")
    assert logged(repo, "id = 3") == ["three on exp", "begin"]
    assert logged(repo, "id = 5") == ["five on main"]


def test_a_state_without_the_column_has_no_such_row(repo: lw.Repository) -> None:
    with repo.transaction("main", "a column") as changes:
        changes.table("birds").add_columns({"size": "id * 10"})
    seen(repo, "two", 2, "id = 2")
    assert logged(repo, "size = 20") == ["two"]


def test_a_condition_that_is_wrong_is_refused_at_once(repo: lw.Repository) -> None:
    for where, what in (("nix = 1", "nix"), ("id =", "SQL"), ("_rowaddr = 1", "_rowaddr")):
        with pytest.raises(lw.InvalidInputError, match=what):
            repo.log(table="birds", where=where)
    with pytest.raises(lw.InvalidInputError, match="table="):
        repo.log(where="id = 1")
