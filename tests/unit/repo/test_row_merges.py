"""Tables that both sides changed are merged, picked and reverted by rows; pylance is the judge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.errors import FormatError, InvalidInputError, NotFoundError
from lancewood.jobs.merge.decisions import Decision
from lancewood.repo.outcome import TableDone

pytestmark = pytest.mark.usefixtures("unsynced")
MERGED = (("birds", TableDone.MERGED),)
REF = "refs/lancewood/merges/main/exp"


@pytest.fixture
def repo(tmp_path: Path, unsynced: None) -> lw.Repository:
    """One table of three rows, and a branch exp at the same commit."""
    made = lw.Repository.init(tmp_path / "r")
    with made.transaction("main", "begin") as changes:
        names = pa.table({"id": [1, 2, 3], "name": ["auk", "owl", "tit"], "seen": [0, 0, 0]})
        changes.create_table("birds", names)
    made.branches.create("exp")
    return made


def update(repo: lw.Repository, branch: str, where: str, **values: str) -> lw.Committed:
    with repo.transaction(branch, f"{branch}: {values}") as changes:
        changes.table("birds").update(values, where)
    return changes.result


def rows(repo: lw.Repository, branch: str = "main") -> list[tuple[Any, ...]]:
    """What pylance sees on a branch of the table, and the repository in its commit."""
    found = lance.dataset(repo.path / "tables/birds.lance")
    if branch != "main":
        found = found.checkout_version((branch, None))
    found.validate()
    seen = [
        sorted(tuple(row.values()) for row in each.to_pylist())
        for each in (found.to_table(), repo.at(branch).table("birds").to_arrow())
    ]
    assert seen[0] == seen[1]
    return seen[0]


def files(repo: lw.Repository) -> dict[str, bytes]:
    return {str(each): each.read_bytes() for each in repo.path.rglob("*") if each.is_file()}


@pytest.mark.parametrize(("name", "into"), [("exp", "main"), ("main", "exp")])
def test_different_cells_of_one_row_go_together_in_any_direction(
    repo: lw.Repository, name: str, into: str
) -> None:
    update(repo, "exp", "id = 1", name="'gull'")
    update(repo, "main", "id = 1", seen="7")
    before = files(repo)
    assert repo.merge(name, branch=into, dry_run=True).done == MERGED
    assert files(repo) == before
    assert repo.merge(name, branch=into).done == MERGED
    assert rows(repo, into) == [(1, "gull", 7), (2, "owl", 0), (3, "tit", 0)]
    assert not repo.merge(name, branch=into).is_new
    assert repo.status().is_clean


def test_conflicts_are_shown_decided_one_by_one_and_merged(repo: lw.Repository) -> None:
    update(repo, "exp", "id < 3", name="'there'")
    update(repo, "main", "id < 3", name="'here'")
    tip = repo.at("main").hash
    with pytest.raises(lw.MergeConflictError, match="'birds': both sides changed 2 rows"):
        repo.merge("exp")
    (found,) = repo.conflicts("exp").values()
    first, second = sorted(found.to_arrow().to_pylist(), key=lambda each: each["ours"]["id"])
    repo.resolve("exp", "birds", [{"_conflict": first["_conflict"], "take": "theirs"}])
    assert [each.count() for each in repo.conflicts("exp").values()] == [1]
    with pytest.raises(lw.MergeConflictError, match="changed 1 row"):
        repo.merge("exp")
    assert repo.at("main").hash == tip
    repo.resolve("exp", "birds", [{"_conflict": second["_conflict"], "name": "both"}])
    assert len(repo.decisions("exp")["birds"]) == 2
    assert repo.merge("exp").done == MERGED
    assert rows(repo) == [(1, "there", 0), (2, "both", 0), (3, "tit", 0)]
    assert repo.decisions("exp") == {}
    assert [*repo.marks.list("merges/")] == []


def test_a_side_is_kept_for_the_conflicts_that_match(repo: lw.Repository) -> None:
    update(repo, "exp", "id < 3", name="'there'")
    update(repo, "main", "id < 3", name="'here'")
    with pytest.raises(NotFoundError, match="no table 'none' in these commits; there is birds"):
        repo.conflicts("exp", table="none")
    repo.resolve("exp", "birds", "theirs", where="base.name = 'owl'")
    (left,) = repo.conflicts("exp", table="birds")["birds"].to_arrow().to_pylist()
    assert left["ours"]["id"] == 1
    for where, resolve, why in (
        ("ours.id = 7", "ours", "no conflict of table 'birds' matches"),
        ("true", {"name": "ours"}, "where goes with a side"),
        ("nope", "ours", "nope"),
    ):
        with pytest.raises(InvalidInputError, match=why):
            repo.resolve("exp", "birds", resolve, where=where)
    done = repo.merge("exp", resolve="ours")
    ((table, counts),) = done.merged
    assert (table, counts.branch, counts.updated, counts.resolved) == ("birds", "exp", 1, 2)
    assert rows(repo) == [(1, "here", 0), (2, "there", 0), (3, "tit", 0)]


def test_rows_of_a_file_that_nobody_filled_in_decide_nothing(repo: lw.Repository) -> None:
    update(repo, "exp", "id < 3", name="'there'")
    update(repo, "main", "id < 3", name="'here'")
    names = repo.conflicts("exp")["birds"].names()
    empty = {"_conflict": names, "take": pa.nulls(2, pa.string())}
    with pytest.raises(InvalidInputError, match="no row of the decisions has a side"):
        repo.resolve("exp", "birds", pa.table(empty))
    repo.resolve("exp", "birds", pa.table(empty | {"take": ["theirs", None]}))
    assert repo.conflicts("exp", resolve=pa.table(empty))["birds"].names() == names[1:]


@pytest.mark.parametrize("way", ["merge", "cherry_pick"])
def test_both_may_not_change_a_table_if_that_is_a_conflict(repo: lw.Repository, way: str) -> None:
    update(repo, "exp", "id = 1", name="'there'")
    update(repo, "main", "id = 2", name="'here'")
    before = files(repo)
    with pytest.raises(lw.MergeConflictError, match="'birds': both sides changed it"):
        getattr(repo, way)("exp", detect="tables")
    assert files(repo) == before
    resolve: Any = "ours"
    if way == "merge":
        repo.resolve("exp", "birds", "theirs")
        assert repo.merge("exp", detect="tables", dry_run=True).is_new
        assert repo.forget_decisions("exp")
        resolve = {"birds": lw.Resolve(rows="ours")}
    getattr(repo, way)("exp", detect="tables", resolve=resolve)
    assert rows(repo) == [(1, "there", 0), (2, "here", 0), (3, "tit", 0)]


def test_what_the_call_says_counts_more_than_what_was_kept(repo: lw.Repository) -> None:
    update(repo, "exp", "true", name="'there'", seen="1")
    update(repo, "main", "true", name="'here'", seen="2")
    repo.resolve("exp", "birds", {"seen": "ours.seen + theirs.seen"})
    repo.resolve("exp", "birds", "ours")
    assert repo.decisions("exp")["birds"][1] == Decision({"rows": "ours"})
    repo.merge("exp", resolve="theirs")
    assert rows(repo) == [(each, "there", 3) for each in (1, 2, 3)]


@pytest.fixture
def two(repo: lw.Repository) -> lw.Repository:
    """A second table, with another column, and cells of both that main and exp changed."""
    with repo.transaction("main", "nests") as changes:
        changes.create_table("nests", pa.table({"id": [1], "eggs": [0], "name": ["old"]}))
    repo.merge("main", branch="exp")
    for branch, many in (("main", "2"), ("exp", "3")):
        with repo.transaction(branch, branch) as changes:
            changes.table("birds").update({"seen": many}, "id = 1")
            changes.table("nests").update({"eggs": many})
    return repo


@pytest.mark.parametrize("verb", ["merge", "cherry_pick"])
def test_a_rule_counts_in_the_tables_that_have_its_column(two: lw.Repository, verb: str) -> None:
    rules = {"seen": "ours.seen + theirs.seen", "eggs": "greatest(ours.eggs, theirs.eggs)"}
    getattr(two, verb)("exp", resolve=rules)
    assert rows(two)[0] == (1, "auk", 5)
    assert two.at().table("nests").to_arrow()["eggs"].to_pylist() == [3]


def test_values_count_in_the_tables_that_have_their_column(two: lw.Repository) -> None:
    found = two.conflicts("exp")
    ((bird,), (nest,)) = (found[each].names() for each in ("birds", "nests"))
    decided = [{"_conflict": bird, "seen": 7}, {"_conflict": nest, "eggs": 8}]
    two.merge("exp", resolve=decided)
    assert rows(two)[0] == (1, "auk", 7)
    assert two.at().table("nests").to_arrow()["eggs"].to_pylist() == [8]


def test_a_rule_for_a_column_that_one_side_dropped_counts_in_other_tables(
    two: lw.Repository,
) -> None:
    with two.transaction("exp", "drop") as changes:
        changes.table("nests").drop_columns(["name"])
    update(two, "exp", "id = 2", name="'there'")
    update(two, "main", "id = 2", name="'here'")
    rules = {"name": "theirs", "seen": "ours", "eggs": "ours"}
    two.merge("exp", resolve=lw.Resolve(columns=rules, schema={"name": "drop"}))
    assert rows(two)[:2] == [(1, "auk", 2), (2, "there", 0)]


@pytest.mark.parametrize(
    "resolve",
    [
        {"wings": "ours", "*": "theirs"},
        lw.Resolve(rows="ours", schema={"wings": "keep"}),
        [{"_conflict": "0" * 16, "wings": 2}],
    ],
)
@pytest.mark.parametrize("verb", ["merge", "conflicts", "cherry_pick"])
def test_a_rule_for_a_column_that_no_table_has_is_refused(
    two: lw.Repository, verb: str, resolve: Any
) -> None:
    before = files(two)
    with pytest.raises(InvalidInputError, match=r"'wings', which is no .* at birds, nests"):
        getattr(two, verb)("exp", resolve=resolve)
    assert files(two) == before
    with pytest.raises(InvalidInputError, match="looked at nests"):
        two.conflicts("exp", table="nests", resolve={"seen": "ours"})


def test_a_decision_on_a_row_that_has_changed_since_decides_nothing(repo: lw.Repository) -> None:
    update(repo, "exp", "id = 1", name="'there'")
    update(repo, "main", "id = 1", name="'here'")
    (shown,) = repo.conflicts("exp")["birds"].to_arrow().to_pylist()
    repo.resolve("exp", "birds", [{"_conflict": shown["_conflict"], "take": "theirs"}])
    update(repo, "exp", "id = 1", name="'elsewhere'")
    with pytest.raises(lw.MergeConflictError, match="1 decision did not apply; conflicts") as told:
        repo.merge("exp")
    assert told.value.facts["stale"] == 1
    assert repo.conflicts("exp")["birds"].decided() == set()
    assert repo.forget_decisions("exp")
    assert not repo.forget_decisions("exp")


def test_decisions_that_apply_in_no_table_are_counted(two: lw.Repository) -> None:
    found = {table: each.names()[0] for table, each in two.conflicts("exp").items()}
    for table, name in found.items():
        two.resolve("exp", table, [{"_conflict": name, "take": "ours"}])
    stale = [{"_conflict": "0" * 16, "take": "ours"}]
    two.resolve("exp", "nests", stale)
    done = two.merge("exp", resolve=[{"_conflict": "1" * 16, "take": "ours"}], dry_run=True)
    assert (done.stale, done.merged) == (2, ())
    given = [{"_conflict": each, "take": "theirs"} for each in found.values()]
    done = two.merge("exp", resolve=given)
    assert done.stale == 1
    assert [(table, each.stale) for table, each in done.merged] == [("birds", 0), ("nests", 1)]
    done = two.revert("HEAD~1", resolve=lw.Resolve(rows="theirs", decisions=stale))
    assert (done.is_new, done.stale) == (True, 1)


def test_a_decision_that_cannot_be_kept_or_used_is_refused(repo: lw.Repository) -> None:
    update(repo, "exp", "id = 1", name="'there'")
    update(repo, "main", "id = 1", name="'here'")
    with pytest.raises(InvalidInputError, match="either rules or decided rows"):
        repo.resolve("exp", "birds", None)
    with pytest.raises(InvalidInputError, match="resolve is"):
        repo.resolve("exp", "birds", "mine")
    repo.resolve("exp", "birds", [{"_conflict": "0" * 16, "seen": 2}])
    with repo.transaction("exp", "drop") as changes:
        changes.table("birds").drop_columns(["seen"])
    with pytest.raises(lw.LancewoodError, match="'seen', which is not there"):
        repo.merge("exp")
    repo.forget_decisions("exp")
    git = repo._context.git
    assert git.refs.move(REF, None, repo.at("main").hash, why="hostile", by=repo.at().commit.author)
    assert repo.decisions("exp") == {}, "a commit without decisions"
    repo.forget_decisions("exp")
    entry = repo.snapshot({"decisions/birds/0001.json": b"{"}, "hostile", branch="exp").hash
    assert entry is not None
    assert git.refs.move(REF, None, entry, why="hostile", by=repo.at().commit.author)
    with pytest.raises(FormatError, match=r"decisions/birds/0001\.json in commit"):
        repo.merge("exp")


@pytest.mark.parametrize(
    ("table", "resolve", "why"),
    [
        ("bird", "ours", "there is no table 'bird' in these commits; did you mean birds"),
        ("birds", {"wings": "ours"}, "'wings', which is no column of table 'birds': they are id"),
        ("birds", lw.Resolve(schema={"wings": "keep", "name": "keep"}), "names 'wings', which"),
        ("birds", [{"_conflict": "0" * 16, "wings": 2, "seen": 3}], "names 'wings', which"),
    ],
)
def test_a_decision_about_what_is_not_there_is_not_kept(
    repo: lw.Repository, table: str, resolve: Any, why: str
) -> None:
    with pytest.raises(lw.LancewoodError, match=why):
        repo.resolve("exp", table, resolve)
    assert repo._context.git.refs.read(REF) is None
    with repo.transaction("exp", "wings") as changes:
        changes.table("birds").add_columns({"wings": "2"})
        changes.create_table("bird", pa.table({"id": [1]}))
    repo.resolve("exp", table, resolve)
    assert [*repo.decisions("exp")] == [table]


def test_a_side_decides_lines_of_files_as_well(repo: lw.Repository) -> None:
    repo.snapshot({"note": b"there\n"}, "there", branch="exp")
    repo.snapshot({"note": b"here\n"}, "here", branch="main")
    with pytest.raises(lw.LancewoodError, match="'note'"):
        repo.merge("exp")
    repo.merge("exp", resolve="theirs")
    assert repo.at("main").read("note") == b"there\n"


def test_a_commit_is_picked_onto_a_table_that_is_something_else(repo: lw.Repository) -> None:
    update(repo, "exp", "id = 2", seen="5")
    update(repo, "exp", "id = 1", name="'gull'")
    update(repo, "main", "id = 1", seen="7")
    with repo.transaction("main", "more") as changes:
        changes.table("birds").delete("id = 3")
    before = files(repo)
    assert repo.cherry_pick("exp", dry_run=True).done == MERGED
    assert files(repo) == before
    assert repo.cherry_pick("exp").done == MERGED
    assert rows(repo) == [(1, "gull", 7), (2, "owl", 0)]
    assert not repo.cherry_pick("exp").is_new
    repo.merge("exp")
    assert rows(repo) == [(1, "gull", 7), (2, "owl", 5)]


def test_what_was_changed_here_as_well_is_a_conflict_of_a_pick(repo: lw.Repository) -> None:
    update(repo, "exp", "id = 1", name="'there'")
    update(repo, "main", "id = 1", name="'here'")
    tip = repo.at("main").hash
    with pytest.raises(lw.MergeConflictError, match="'exp' cannot be picked for 'main'"):
        repo.cherry_pick("exp")
    assert repo.at("main").hash == tip
    repo.cherry_pick("exp", resolve="theirs")
    assert rows(repo) == [(1, "there", 0), (2, "owl", 0), (3, "tit", 0)]


def test_conflicts_of_a_pick_and_of_a_revert_are_shown_and_decided(two: lw.Repository) -> None:
    update(two, "main", "id = 2", seen="1")
    update(two, "main", "id = 2", seen="4")
    two.resolve("exp", "birds", "ours")
    before = files(two)
    picked = two.conflicts("exp", verb="cherry_pick")
    (bird,) = picked["birds"].to_arrow().to_pylist()
    assert [*picked] == ["birds", "nests"]
    assert [bird[side]["seen"] for side in ("base", "ours", "theirs")] == [0, 2, 3]
    (only,) = two.conflicts("HEAD~1", verb="revert", table="birds").items()
    assert only[0] == "birds"
    (back,) = only[1].to_arrow().to_pylist()
    assert [back[side]["seen"] for side in ("base", "ours", "theirs")] == [1, 4, 0]
    assert two.conflicts("HEAD", verb="revert") == {}
    with pytest.raises(InvalidInputError, match="verb"):
        two.conflicts("exp", verb="rebase")  # type: ignore[arg-type]
    with pytest.raises(lw.MergeConflictError, match=r"conflicts\('HEAD~1', verb='revert'\) shows"):
        two.revert("HEAD~1")
    assert files(two) == before
    two.revert("HEAD~1", resolve=[{"_conflict": back["_conflict"], "take": "theirs"}])
    assert rows(two)[1] == (2, "owl", 0)
    nest = picked["nests"].names()
    decided = {"_conflict": [bird["_conflict"], *nest], "take": ["theirs", "theirs"]}
    two.cherry_pick("exp", resolve=decided)
    assert rows(two)[0] == (1, "auk", 3)


def test_a_commit_is_reverted_under_later_ones(repo: lw.Repository) -> None:
    with repo.transaction("main", "delete and change") as changes:
        changes.table("birds").delete("id = 3")
        changes.table("birds").update({"seen": "4"}, "id = 1")
    update(repo, "main", "id = 1", name="'gull'")
    assert repo.revert("HEAD~1").done == MERGED
    assert rows(repo) == [(1, "gull", 0), (2, "owl", 0), (3, "tit", 0)]
    update(repo, "main", "id = 1", name="'tern'")
    with pytest.raises(lw.MergeConflictError, match="cannot be reverted"):
        repo.revert("HEAD~2")
    repo.revert("HEAD~2", resolve="theirs")
    assert rows(repo)[0] == (1, "auk", 0)


def test_a_merge_of_rows_meets_a_writer_from_outside(
    repo: lw.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    update(repo, "exp", "id = 1", name="'gull'")
    update(repo, "main", "id = 1", seen="7")
    from lancewood.repo.merge import merge as merging

    real, is_first = merging._Merging._committed, [True]

    def committed(self: merging._Merging, *given: Any) -> Any:
        if is_first.pop() if is_first else False:
            lw.open(repo.path / "tables/birds.lance").update({"seen": "8"}, "id = 1")
        return real(self, *given)

    monkeypatch.setattr(merging._Merging, "_committed", committed)
    repo.merge("exp")
    assert rows(repo)[0] == (1, "gull", 8)


def test_rows_that_were_picked_on_two_branches_are_one_when_these_are_merged(
    repo: lw.Repository,
) -> None:
    repo.branches.create("other")
    with repo.transaction("exp", "more") as changes:
        changes.table("birds").append(pa.table({"id": [4], "name": ["jay"], "seen": [0]}))
    update(repo, "other", "id = 2", seen="2")
    for branch in ("main", "other"):
        repo.cherry_pick("exp", branch=branch)
    assert repo.merge("other").done == MERGED
    assert rows(repo) == [(1, "auk", 0), (2, "owl", 2), (3, "tit", 0), (4, "jay", 0)]
    assert repo.merge("exp").is_new
    assert rows(repo) == [(1, "auk", 0), (2, "owl", 2), (3, "tit", 0), (4, "jay", 0)]


def test_a_branch_without_work_since_takes_that_of_one_that_is_no_child_of_it(
    repo: lw.Repository,
) -> None:
    update(repo, "exp", "id = 1", seen="1")
    repo.merge("exp")
    repo.branches.create("other")
    update(repo, "other", "id = 2", seen="2")
    assert repo.merge("other", branch="exp").done == MERGED
    assert rows(repo, "exp") == [(1, "auk", 1), (2, "owl", 2), (3, "tit", 0)]
    assert not repo.merge("other", branch="exp").is_new


def test_a_dropped_column_comes_back_with_its_values_where_rows_changed_since(
    repo: lw.Repository,
) -> None:
    with repo.transaction("main", "drop") as changes:
        changes.table("birds").drop_columns(["seen"])
    dropped = repo.at("main").hash
    update(repo, "main", "id = 1", name="'gull'")
    with repo.transaction("main", "more") as changes:
        changes.table("birds").append(pa.table({"id": [4], "name": ["jay"]}))
    assert repo.revert(dropped).done == MERGED
    assert rows(repo) == [(1, "gull", 0), (2, "owl", 0), (3, "tit", 0), (4, "jay", None)]


def test_a_merge_tells_which_indices_cover_less_and_what_to_do(repo: lw.Repository) -> None:
    with repo.transaction("main", "an index") as changes:
        changes.table("birds").indices.create("id", kind="BTREE", name="by_id")
    repo.branches.create("later", at="main")
    with repo.transaction("later", "another index, and rows") as changes:
        birds = changes.table("birds")
        birds.append(pa.table({"id": [77], "name": ["roc"], "seen": [0]}))
        birds.indices.create("name", kind="BTREE", name="by_name")
    update(repo, "main", "id = 1", seen="7")
    update(repo, "later", "id = 1", name="'gull'")
    decided = lw.Resolve(decisions={"_conflict": ["0" * 16], "take": ["ours"]})
    done = repo.merge("later", resolve={"birds": decided})
    assert done.uncovered_indices == (("birds", ("by_id",)),)
    assert done.left_out_indices == (("birds", ("by_name",)),)
    assert done.notes == (
        "1 decision did not apply: its conflict is not there any more",
        "indices of birds that do not cover what came: by_id: indices.extend() does it",
        "indices of birds whose parts did not come: by_name: indices.extend() covers the rows by "
        "an index that is here, indices.create() builds another one",
    )
    table = lw.open(repo.path / "tables/birds.lance")
    table.indices.extend("by_id")
    assert {each.name: each.rows_uncovered for each in table.latest().indices.list()} == {
        "by_id": 0
    }


def test_a_merge_that_leaves_nothing_to_do_has_no_notes(repo: lw.Repository) -> None:
    update(repo, "exp", "id = 1", name="'gull'")
    update(repo, "main", "id = 1", seen="7")
    assert repo.merge("exp").notes == ()


def test_a_kept_value_is_for_a_column_that_is_called_as_a_part_of_conflicts(
    tmp_path: Path, unsynced: None
) -> None:
    repo = lw.Repository.init(tmp_path / "lake")
    with repo.transaction("main", message="day 1") as changes:
        changes.create_table("birds", pa.table({"id": [1, 2], "_kind": [0, 0], "take": [0, 0]}))
    repo.branches.create("exp")
    for branch, value in (("main", 1), ("exp", 2)):
        with repo.transaction(branch, message="day 2") as changes:
            changes.table("birds").update({"_kind": str(value), "take": str(value)})
    first, second = repo.conflicts("exp")["birds"].to_arrow().to_pylist()
    given = [{"_conflict": first["_conflict"], "take": "ours", "_kind": 7, "merged.take": 8}]
    repo.resolve("exp", "birds", given)
    given = [{"_conflict": second["_conflict"], "take": "theirs", "_kind": 9}]
    ((_, counts),) = repo.merge("exp", resolve=given).merged
    assert (counts.resolved, counts.stale) == (2, 0)
    found = repo.at().table("birds").to_arrow().sort_by("id").select(["_kind", "take"])
    assert found.to_pylist() == [{"_kind": 7, "take": 8}, {"_kind": 9, "take": 2}]
