"""Which rows and cells differ between two revisions: the table of cases, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.pylance import lance
from typer.testing import CliRunner

import lancewood as lw
from lancewood.cli.main import app
from lancewood.engine.location import Location
from lancewood.engine.snapshot import load_snapshot
from lancewood.store.locate import open_store
from lancewood.testing.faults import HeldStore

ROWS = pa.table({"id": range(8), "name": [f"n{each}" for each in range(8)], "x": [0.5] * 8})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    made = str(tmp_path / "t.lance")
    lw.create(made, ROWS, layout=lw.Layout(max_rows_per_file=4))
    return made


def more(*ids: int) -> pa.Table:
    return pa.table({"id": ids, "name": [f"n{each}" for each in ids], "x": [0.5] * len(ids)})


def told(found: lw.Diff) -> dict[str, list[Any]]:
    """The ids of rows by what became of them; of updated ones the columns, too."""
    rows = found.to_arrow().to_pylist()
    return {
        "deleted": sorted(each["before"]["id"] for each in rows if each["_change"] == "deleted"),
        "inserted": sorted(each["after"]["id"] for each in rows if each["_change"] == "inserted"),
        "updated": sorted(
            (each["after"]["id"], each["_columns"]) for each in rows if each["_change"] == "updated"
        ),
    }


def nothing() -> dict[str, list[Any]]:
    return {"deleted": [], "inserted": [], "updated": []}


# The table of cases


def test_a_diff_with_one_revision_is_from_it_to_now_in_every_door(uri: str) -> None:
    table = lw.open(uri)
    after = table.append(more(20)).update({"x": "9.0"}, "id = 3")
    expected = {"deleted": [], "inserted": [20], "updated": [(3, ["x"])]}
    assert told(after.diff(1)) == expected
    found = lw.sql(
        "SELECT _change, before.id AS a, after.id AS b FROM diff('t', 1)", tables={"t": after}
    )
    rows = sorted(found.to_arrow().to_pylist(), key=lambda each: each["b"])
    assert [tuple(each.values()) for each in rows] == [("updated", 3, 3), ("inserted", None, 20)]
    shown = CliRunner().invoke(app, ["table", "diff", uri, "1", "--stat"]).stdout
    assert shown.startswith("1 row inserted, 1 updated")


def test_rows_of_a_branch_are_the_same_where_they_were_published_and_moved(uri: str) -> None:
    exp = lw.open(uri).branches.create("exp").append(more(20, 21)).update({"x": "2.0"}, "id = 20")
    lw.open(uri).append(more(30))
    main = lw.open(uri).branches.publish("exp").compact(target_rows=100)
    assert len(main._snapshot.manifest.fragments) == 1
    assert told(exp.diff("main")) == {**nothing(), "deleted": [30]}
    later = main.update({"x": "3.0"}, "id = 21")
    assert told(later.diff("exp")) == {**nothing(), "inserted": [30], "updated": [(21, ["x"])]}


def test_rows_that_two_lines_gave_the_same_ids_are_different_ones(uri: str) -> None:
    lance.dataset(uri).create_branch("theirs")
    lw.open(uri, branch="theirs").append(more(20))
    main = lw.open(uri).append(more(30)).compact(target_rows=100)
    assert told(main.diff("theirs")) == {**nothing(), "deleted": [20], "inserted": [30]}


def test_rows_are_deleted_inserted_and_updated_with_both_states(uri: str) -> None:
    table = lw.open(uri).update({"name": "'new'"}, "id = 3").delete("id = 5").append(more(9))
    found = table.diff(1, table.version)
    assert found.to_arrow().to_pylist() == [
        {
            "_change": "deleted",
            "_rowid": 5,
            "_columns": None,
            "before": {"id": 5, "name": "n5", "x": 0.5},
            "after": None,
        },
        {
            "_change": "inserted",
            "_rowid": 8,
            "_columns": None,
            "before": None,
            "after": {"id": 9, "name": "n9", "x": 0.5},
        },
        {
            "_change": "updated",
            "_rowid": 3,
            "_columns": ["name"],
            "before": {"id": 3, "name": "n3", "x": 0.5},
            "after": {"id": 3, "name": "new", "x": 0.5},
        },
    ]
    assert found.stat() == lw.DiffStat(1, 1, 1, unchanged=6, cells={"name": 1})
    assert found.counts == lw.RowCounts(inserted=1, updated=1, deleted=1)
    assert not found.schema


@pytest.mark.parametrize("who", ["ours", "pylance"])
def test_compaction_on_either_side_or_both_changes_no_row(uri: str, who: str) -> None:
    def compact(branch: str | None) -> None:
        if who == "ours":
            lw.open(uri, branch=branch).compact(target_rows=100)
        else:
            at = lance.dataset(uri)
            at = at if branch is None else at.checkout_version((branch, None))
            at.optimize.compact_files(target_rows_per_fragment=100)

    lw.open(uri).delete("id = 1").branches.create("exp")
    compact(None)
    table = lw.open(uri)
    assert told(table.diff("exp")) == nothing()
    assert table.diff("exp").counts == lw.RowCounts()
    compact("exp")
    assert told(table.diff("exp")) == nothing()
    lw.open(uri, branch="exp").update({"x": "9.0"}, "id = 2")
    assert told(table.diff("exp"))["updated"] == [(2, ["x"])]
    assert told(table.diff("main:1", "main:2")) == {**nothing(), "deleted": [1]}


def test_a_new_column_changes_no_row_also_beside_an_update(uri: str) -> None:
    table = lw.open(uri)
    table.branches.create("exp")
    after = table.add_columns({"y": "x * 2"})
    assert told(after.diff(1, after.version)) == nothing()
    assert [each.name for each in after.diff(1, after.version).schema.added] == ["y"]
    lw.open(uri, branch="exp").update({"name": "'other'"}, "id = 6")
    found = after.diff("exp")
    assert told(found)["updated"] == [(6, ["name"])]
    assert [each.name for each in found.schema.added] == ["y"]
    (row,) = found.to_arrow().to_pylist()
    assert ("y" in row["before"], row["after"]["y"]) == (False, 1.0)


def test_a_null_column_a_rename_and_a_drop_change_no_row(uri: str) -> None:
    table = lw.open(uri).add_columns([pa.field("z", pa.int32())])
    table = table.rename_column("name", "title").drop_columns(["x"])
    found = table.diff(1, table.version)
    assert told(found) == nothing()
    assert found.schema.renamed == (("name", "title"),)
    assert [each.name for each in found.schema.dropped] == ["x"]
    table = table.compact(target_rows=100).update({"title": "'t'"}, "id = 0")
    assert told(table.diff(1, table.version))["updated"] == [(0, ["title"])]
    assert table.diff(1, table.version, columns=["name"]).stat().cells == {"title": 1}


def test_a_cast_changes_no_row_but_an_update_of_it_does(uri: str) -> None:
    table = lw.open(uri).cast_column("id", pa.int32())
    found = table.diff(1, table.version)
    assert told(found) == nothing()
    assert [(old.type, new.type) for old, new in found.schema.retyped] == [(pa.int64(), pa.int32())]
    table = table.update({"id": "id + 100"}, "id = 7")
    assert told(table.diff(1, table.version))["updated"] == [(107, ["id"])]
    assert table.diff(table.version, 1).stat().cells == {"id": 1}


def test_another_column_under_the_name_of_a_dropped_one_is_compared_by_value(uri: str) -> None:
    table = lw.open(uri).drop_columns(["x"]).compact(target_rows=100)
    table = table.add_columns({"x": "CASE WHEN id < 2 THEN 0.5 ELSE 1.5 END"})
    assert told(table.diff(1, table.version))["updated"] == [(each, ["x"]) for each in range(2, 8)]


@pytest.mark.parametrize("stable", [True, False])
def test_moved_files_are_the_same_files(tmp_path: Path, stable: bool) -> None:
    table = lw.create(
        tmp_path / "t", ROWS, layout=lw.Layout(stable_row_ids=stable, max_rows_per_file=4)
    )
    table = table.add_base(str(tmp_path / "cold"), name="cold")
    table = table.move_fragments([0, 1], base="cold").delete("id = 7")
    found = table.diff(1, table.version)
    assert found.counts == lw.RowCounts(deleted=1, updated=0 if stable else 7)
    assert told(found) == {**nothing(), "deleted": [7]}


def test_a_restored_version_gives_rows_back(uri: str) -> None:
    table = lw.open(uri).delete("id < 4").update({"x": "1.0"}, "id = 6").restore(1)
    assert told(table.diff(1, table.version)) == nothing()
    assert told(table.diff(3, table.version)) == {
        "deleted": [],
        "inserted": [0, 1, 2, 3],
        "updated": [(6, ["x"])],
    }


def test_an_overwrite_is_paired_by_key_where_there_is_one(uri: str) -> None:
    fresh = pa.concat_tables([ROWS.slice(1), more(20)])
    fresh = fresh.set_column(1, "name", pc.if_else(pc.equal(fresh["id"], 4), "new", fresh["name"]))
    table = lw.open(uri).overwrite(fresh)
    assert table.diff(1, table.version).stat() == lw.DiffStat(inserted=8, deleted=8, unchanged=0)
    found = table.diff(1, table.version, on="id")
    assert told(found) == {"deleted": [0], "inserted": [20], "updated": [(4, ["name"])]}
    assert found.updated.to_arrow()["_rowid"].to_pylist() == [None]
    assert found.stat().unchanged == 6


def test_a_published_branch_is_the_same_as_what_it_became(uri: str) -> None:
    table = lw.open(uri)
    table.branches.create("exp")
    lw.open(uri, branch="exp").append(more(30, 31)).delete("id = 0")
    table.append(more(40))
    after = table.latest().branches.publish("exp")
    assert told(after.diff("exp")) == {"deleted": [], "inserted": [40], "updated": []}


def test_versions_from_before_a_reset_can_be_compared(uri: str) -> None:
    table = lw.open(uri)
    table.branches.create("exp")
    old = lw.open(uri, branch="exp").append(more(30))
    table.append(more(40))
    new = table.branches.reset("exp", force=True).append(more(50))
    found = table.diff(f"exp:{old.version}", f"exp:{new.version}")
    assert told(found) == {"deleted": [30], "inserted": [40, 50], "updated": []}


def test_rows_of_two_branches_with_the_same_ids_are_different_rows(uri: str) -> None:
    table = lw.open(uri)
    table.branches.create("exp")
    lw.open(uri, branch="exp").append(more(30, 31)).compact(target_rows=100)
    mine = table.append(more(40)).compact(target_rows=100)
    assert told(mine.diff("exp")) == {"deleted": [30, 31], "inserted": [40], "updated": []}


def test_columns_that_pylance_wrote_in_place_without_a_mark_are_found(uri: str) -> None:
    dataset = lance.dataset(uri)
    fragment = dataset.get_fragment(0)
    values = pa.table({"_rowid": pa.array([1, 2], pa.uint64()), "name": ["one", "n2"]})
    changed, fields = fragment.update_columns(values, left_on="_rowid", right_on="_rowid")
    operation = lance.LanceOperation.Update(
        updated_fragments=[changed], fields_modified=fields, update_mode="rewrite_columns"
    )
    lance.LanceDataset.commit(uri, operation, read_version=dataset.version)
    assert told(lw.open(uri).diff(1, 2))["updated"] == [(1, ["name"])]


def test_a_detached_version_is_compared_too(uri: str) -> None:
    fragments = lance.fragment.write_fragments(more(60), uri)
    operation = lance.LanceOperation.Append(fragments)
    made = lance.LanceDataset.commit(uri, operation, read_version=1, detached=True)
    table = lw.open(uri).append(more(70))
    found = table.diff(made.version)
    assert told(found) == {"deleted": [60], "inserted": [70], "updated": []}


# Without stable row ids


@pytest.fixture
def plain(tmp_path: Path) -> lw.Table:
    return lw.create(
        tmp_path / "p.lance", ROWS, layout=lw.Layout(stable_row_ids=False, max_rows_per_file=4)
    )


def test_without_ids_rows_of_the_same_files_are_the_same(plain: lw.Table) -> None:
    gone = plain.delete("id = 2")
    assert told(gone.diff(1, 2)) == {**nothing(), "deleted": [2]}
    column = gone.update({"name": "'new'"}, "id = 6", rewrite="columns")
    assert told(column.diff(2, 3)) == {**nothing(), "updated": [(6, ["name"])]}
    assert told(column.append(more(9)).diff(3, 4)) == {**nothing(), "inserted": [9]}


def test_without_ids_moved_rows_need_a_key(plain: lw.Table) -> None:
    after = plain.delete("id = 2").compact(target_rows=100)
    with pytest.raises(lw.UnsupportedError, match=r"no stable row ids.*on="):
        after.diff(1, after.version).stat()
    assert told(after.diff(1, after.version, on=["id"])) == {**nothing(), "deleted": [2]}


def test_a_key_that_two_rows_have_is_told(tmp_path: Path) -> None:
    rows = pa.table({"k": ["a", "b", "b"]})
    one = lw.create(tmp_path / "a.lance", pa.table({"k": ["a"]}))
    other = lw.create(tmp_path / "b.lance", rows)
    for sides in ((one, other), (other, one)):
        found = lw.diff(*sides, on="k")
        with pytest.raises(
            lw.InvalidInputError, match=r"two rows of .*b\.lance have the key k = 'b'"
        ):
            found.stat()


# Two tables


def test_two_tables_are_compared_by_key(tmp_path: Path) -> None:
    lw.create(tmp_path / "monday.lance", ROWS)
    changed = pa.concat_tables([more(11), ROWS.slice(2, 3), more(7, 6)])
    lw.create(tmp_path / "tuesday.lance", changed)
    found = lw.diff(tmp_path / "monday.lance", tmp_path / "tuesday.lance", on="id")
    assert told(found) == {"deleted": [0, 1, 5], "inserted": [11], "updated": []}
    assert found.stat().unchanged == 5
    with pytest.raises(lw.InvalidInputError, match=r"share no history.*on="):
        lw.diff(tmp_path / "monday.lance", tmp_path / "tuesday.lance")


@pytest.mark.parametrize("said", ["table", "path", "text", "uri", "revision"])
def test_a_side_of_a_diff_may_be_another_table(tmp_path: Path, said: str) -> None:
    monday, tuesday = tmp_path / "monday.lance", tmp_path / "tuesday.lance"
    earlier = lw.create(monday, more(1, 2, 3))
    later = lw.create(tuesday, more(2, 3, 4)).update({"x": "1.5"}, "id = 3")
    side: Any = {
        "table": earlier,
        "path": monday,
        "text": str(monday),
        "uri": monday.as_uri(),
        "revision": f"{monday}@main:1",
    }[said]
    expected = {"deleted": [1], "inserted": [4], "updated": [(3, ["x"])]}
    assert told(later.diff(side, on="id")) == expected
    assert told(earlier.diff(1, later, on="id")) == expected
    assert told(later.diff(side, tuesday, on="id")) == expected
    with pytest.raises(lw.InvalidInputError, match="share no history: say by which columns"):
        later.diff(side)


def test_another_version_of_the_table_is_compared_by_row_ids(uri: str) -> None:
    one = lw.open(uri)
    two = one.update({"x": "9.0"}, "id = 3").append(more(20))
    expected = {"deleted": [], "inserted": [20], "updated": [(3, ["x"])]}
    for side in (one, f"{uri}@main:1"):
        assert told(two.diff(side)) == expected
        assert told(one.diff(side, two)) == expected


def test_a_text_is_a_revision_before_it_is_a_path(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    other = lw.create("exp/two.lance", more(70))
    table = lw.open(uri)
    assert told(table.diff("exp/two.lance", on="id"))["deleted"] == [70]
    table.branches.create("exp/two.lance").append(more(20))
    assert told(table.diff("exp/two.lance")) == {**nothing(), "deleted": [20]}
    assert told(table.diff(other, on="id"))["deleted"] == [70]


@pytest.mark.parametrize("said", ["nope", "no/such", "nope.lance"])
def test_a_text_that_is_neither_revision_nor_path_is_told_as_a_revision(
    uri: str, said: str
) -> None:
    with pytest.raises(lw.NotFoundError) as revision:
        lw.open(uri, at=said)
    with pytest.raises(lw.NotFoundError) as side:
        lw.open(uri).diff(said)
    assert str(side.value) == str(revision.value)


def test_a_uri_without_a_table_is_told_as_such(uri: str, tmp_path: Path) -> None:
    with pytest.raises(lw.NotFoundError, match=r"gone\.lance"):
        lw.open(uri).diff((tmp_path / "gone.lance").as_uri())
    with pytest.raises(lw.NotFoundError, match=r"gone\.lance"):
        lw.open(uri).diff(tmp_path / "gone.lance")


def test_a_declared_primary_key_is_used(tmp_path: Path) -> None:
    key = pa.field("id", pa.int64(), False, {"lance-schema:unenforced-primary-key": "true"})
    rows = ROWS.cast(pa.schema([key, *list(ROWS.schema)[1:]]))
    one = lw.create(tmp_path / "a.lance", rows)
    other = lw.create(tmp_path / "b.lance", rows.slice(3))
    assert told(lw.diff(one, other)) == {**nothing(), "deleted": [0, 1, 2]}
    after = one.delete("id = 4").append(rows.slice(4, 1))
    assert told(after.diff(1, after.version)) == nothing()


def test_a_key_with_a_null_pairs_nothing(tmp_path: Path) -> None:
    rows = pa.table({"k": [1, None], "v": ["a", "b"]})
    one, other = (lw.create(tmp_path / f"{each}.lance", rows) for each in "ab")
    assert lw.diff(one, other, on="k").stat() == lw.DiffStat(1, 0, 1, unchanged=1)


# What is asked for


def test_columns_are_those_that_are_compared_and_shown(uri: str) -> None:
    table = lw.open(uri).update({"name": "'new'"}, "id = 3").update({"x": "1.0"}, "id < 2")
    found = table.diff(1, table.version, columns=["id", "x"])
    assert [each["after"] for each in found.to_arrow().to_pylist()] == [
        {"id": 0, "x": 1.0},
        {"id": 1, "x": 1.0},
    ]
    assert found.stat().cells == {"x": 2}


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("before.x < after.x", [0, 1]),
        ("id = 3", [3]),
        ("_change = 'deleted'", [5]),
        ("id > 4 AND x = 0.5", [5, 9]),
        ("before IS NULL", [9]),
        ("after.name = 'new'", [3]),
    ],
)
def test_where_is_asked_about_both_states(uri: str, where: str, expected: list[int]) -> None:
    table = lw.open(uri).update({"name": "'new'"}, "id = 3").update({"x": "1.0"}, "id < 2")
    table = table.delete("id = 5").append(more(9))
    found = table.diff(1, table.version, where=where)
    rows = found.to_arrow().to_pylist()
    assert sorted((each["after"] or each["before"])["id"] for each in rows) == expected
    stat = found.stat()
    assert stat.inserted + stat.updated + stat.deleted == len(expected)
    assert stat.unchanged is None


def test_a_bare_column_is_the_later_one_even_where_it_is_null(uri: str) -> None:
    table = lw.open(uri).update({"name": "NULL"}, "id = 3").delete("id = 5")
    found = table.diff(1, table.version, where="name IS NULL")
    assert told(found) == {**nothing(), "updated": [(3, ["name"])]}
    assert told(table.diff(1, table.version, where="name = 'n5'"))["deleted"] == [5]


def test_kinds_of_changes(uri: str) -> None:
    table = lw.open(uri).update({"x": "1.0"}, "id = 3").delete("id = 5").append(more(9))
    whole = table.diff(1, table.version)
    for kind in ("inserted", "updated", "deleted"):
        only = table.diff(1, table.version, change=kind)
        assert only.to_arrow() == getattr(whole, kind).to_arrow()
        assert set(only.to_arrow()["_change"].to_pylist()) == {kind}
        assert getattr(only.stat(), kind) == 1
    assert table.diff(1, 2, change=["inserted", "deleted"]).stat() == lw.DiffStat()


def test_cells_have_the_key_whichever_columns_are_compared(uri: str) -> None:
    table = lw.open(uri).overwrite(ROWS.set_column(2, "x", pa.array([0.5] * 7 + [1.5])))
    found = table.diff(1, table.version, columns=["x"], on="id", where="x > 1")
    assert found.cells().to_arrow().to_pylist() == [
        {"_rowid": None, "id": 7, "column": "x", "before": "0.5", "after": "1.5"}
    ]
    assert found.to_arrow()["after"].to_pylist() == [{"x": 1.5}]


def test_rows_and_cells_become_frames_of_pandas_and_polars(uri: str) -> None:
    found = lw.open(uri).diff(1, lw.open(uri).update({"x": "id + 0.5"}, "id > 5").version)
    assert found.to_pandas()["_change"].tolist() == ["updated", "updated"]
    assert found.cells().to_pandas()["after"].tolist() == ["6.5", "7.5"]
    assert found.to_polars()["_columns"].to_list() == [["x"], ["x"]]
    assert found.cells().to_polars()["column"].to_list() == ["x", "x"]


def test_cells_are_told_one_by_one(uri: str) -> None:
    table = lw.open(uri).update({"x": "2.5", "name": "'new'"}, "id = 3")
    found = table.diff(1, table.version, on="id").cells()
    assert found.to_arrow().to_pylist() == [
        {"_rowid": 3, "id": 3, "column": "name", "before": '"n3"', "after": '"new"'},
        {"_rowid": 3, "id": 3, "column": "x", "before": "0.5", "after": "2.5"},
    ]
    assert pa.table(found) == found.to_arrow()
    assert json.loads(found.to_arrow()["after"][0].as_py()) == "new"


def test_cells_do_not_come_with_two_columns_of_one_name(tmp_path: Path) -> None:
    table = lw.create(tmp_path / "t.lance", pa.table({"column": [1], "x": [1]}))
    found = table.update({"x": "2"}).diff(1, 2, on="column")
    with pytest.raises(lw.InvalidInputError, match="the key has column of its own"):
        found.cells()
    assert found.to_arrow().num_rows == 1


def test_a_diff_is_an_arrow_stream_and_says_how_it_compares(uri: str) -> None:
    table = lw.open(uri).update({"x": "1.0"}, "id = 3")
    found = table.diff(1, table.version)
    assert pa.table(found) == found.to_arrow()
    said = found.explain()
    assert "both come from version 1 of main" in said
    assert "1 are the same" in said
    assert "in id, name, x: 1" in said
    assert repr(found).startswith("<Diff from version 1 of main of ")


# Bad input


@pytest.mark.parametrize(
    ("ask", "kind", "match"),
    [
        (lambda t: t.diff("nope"), lw.NotFoundError, "nope"),
        (lambda t: t.diff(1, "exp:99"), lw.NotFoundError, "exp"),
        (lambda t: t.diff(1, 7), lw.NotFoundError, "7"),
        (lambda t: t.diff(1, columns=["naem"]), lw.InvalidInputError, "did you mean 'name'"),
        (lambda t: t.diff(1, on=["nope"]), lw.InvalidInputError, "nope"),
        (lambda t: t.diff(1, on="x"), lw.InvalidInputError, "cannot be a key"),
        (lambda t: t.diff(1, where="nope = 1"), lw.InvalidInputError, "nope"),
        (lambda t: t.diff(1, where="id +"), lw.InvalidInputError, "id"),
        (lambda t: t.diff(1, change="changed"), lw.InvalidInputError, "deleted, inserted, updated"),
        (lambda t: t.diff(True), lw.InvalidInputError, "at takes"),
    ],
)
def test_what_cannot_be_is_refused_at_once(
    uri: str, ask: Callable[[lw.Table], Any], kind: type[Exception], match: str
) -> None:
    with pytest.raises(kind, match=match):
        ask(lw.open(uri))


def test_a_column_of_one_side_cannot_be_compared(uri: str) -> None:
    table = lw.open(uri).add_columns({"y": "x"})
    with pytest.raises(lw.InvalidInputError, match=r"'y' is in version 2 .* version 1 .* has none"):
        table.diff(1, 2, columns=["y"])


def test_a_version_that_was_cleaned_up_is_told_so(uri: str) -> None:
    table = lw.open(uri).append(more(9)).append(more(10))
    table.cleanup(keep_versions=1, in_flight=timedelta(0))
    with pytest.raises(lw.NotFoundError, match="version 1"):
        table.diff(1)


# Values


def test_blobs_are_compared_by_their_bytes(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            ("id", pa.int64()),
            pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"}),
        ]
    )
    first = pa.table({"id": [1, 2, 3, 4], "blob": [b"a" * 100, b"b" * 100, None, b"d"]}, schema)
    then = pa.table({"id": [3, 2, 1, 4], "blob": [b"", b"x" * 100, b"a" * 100, b"dd"]}, schema)
    one, other = (
        lw.create(tmp_path / str(at), each, layout=lw.Layout(file_version="2.1"))
        for at, each in enumerate((first, then))
    )
    found = lw.diff(one, other, on="id")
    assert found.stat().cells == {"blob": 3}
    assert sorted(each["after"]["id"] for each in found.to_arrow().to_pylist()) == [2, 3, 4]


def test_structs_are_compared_by_the_fields_that_both_have(tmp_path: Path) -> None:
    table = lw.create(
        tmp_path / "t", pa.table({"id": [1, 2], "s": [{"x": 1, "y": 1}, {"x": 2, "y": 2}]})
    )
    after = table.drop_columns(["s.y"]).delete("id = 7").update({"id": "20"}, "id = 2")
    assert told(after.diff(1, after.version)) == {**nothing(), "updated": [(20, ["id"])]}
    assert told(after.diff(after.version, 1)) == {**nothing(), "updated": [(2, ["id"])]}


def test_a_field_inside_a_struct_that_got_another_name_is_the_same(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2], "s": [{"x": 1, "y": 1}, {"x": 2, "y": 2}]})
    table = lw.create(tmp_path / "t", rows).rename_column("s.y", "z")
    after = table.update({"id": "20"}, "id = 2")
    assert told(after.diff(1, after.version)) == {**nothing(), "updated": [(20, ["id"])]}


def test_keys_of_types_that_do_not_go_together_are_told(tmp_path: Path) -> None:
    one = lw.create(tmp_path / "a.lance", pa.table({"k": ["x"]}))
    other = lw.create(tmp_path / "b.lance", pa.table({"k": [1]}))
    found = lw.diff(one, other, on="k")
    with pytest.raises(lw.InvalidInputError, match=r"key of .*a\.lance \(k: .*string\) cannot"):
        found.stat()


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_every_kind_of_value_is_compared(tmp_path: Path, version: str) -> None:
    nan = float("nan")
    rows = pa.table(
        {
            "id": [1, 2, 3],
            "f": [nan, 0.0, None],
            "v": pa.array([[1.0, 2.0], [3.0, nan], None], pa.list_(pa.float32(), 2)),
            "l": [["a"], [], ["b", "c"]],
            "d": pa.array(["x", "y", "x"]).dictionary_encode(),
            "t": pa.array([1, 2, 3], pa.timestamp("us", "UTC")),
        }
    )
    other = rows.set_column(1, "f", pa.array([nan, -0.0, 1.0]))
    other = other.set_column(3, "l", pa.array([["a"], ["z"], ["b", "c"]]))
    other = other.set_column(4, "d", pa.array(["y", "y", "x"]).dictionary_encode())
    tables = [
        lw.create(tmp_path / str(at), each, layout=lw.Layout(file_version=version))
        for at, each in enumerate((rows, other))
    ]
    found = lw.diff(*tables, on="id")
    assert told(found)["updated"] == [(1, ["d"]), (2, ["l"]), (3, ["f"])]


def test_many_versions_in_between_cost_nothing(uri: str) -> None:
    table = lw.open(uri).update({"x": "1.0"}, "id = 3")
    for number in range(60):
        table = table.set_config({"number": str(number)})
    store = HeldStore(open_store(uri))
    opened = lw.Table(load_snapshot(Location(store)))
    first = len(store.calls)
    assert opened.diff(1, opened.version).stat() == lw.DiffStat(
        updated=1, unchanged=7, cells={"x": 1}
    )
    assert len(store.calls) - first < 10
