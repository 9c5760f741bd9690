"""Which version wrote what is there: the table of cases, and what is refused."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.breadth import daily
from tests.pylance import lance

import lancewood as lw
from lancewood.engine.location import Location
from lancewood.engine.snapshot import load_snapshot
from lancewood.jobs.blame import rows as blame_rows
from lancewood.store.locate import open_store
from lancewood.testing.faults import HeldStore

ROWS = pa.table({"id": range(8), "name": [f"n{each}" for each in range(8)], "x": [0.5] * 8})


@pytest.fixture
def table(tmp_path: Path) -> lw.Table:
    return lw.create(tmp_path / "t.lance", ROWS, layout=lw.Layout(max_rows_per_file=4))


def row(number: int) -> pa.Table:
    return pa.table({"id": [number], "name": [f"n{number}"], "x": [0.5]})


def changed(table: lw.Table, **asked: Any) -> dict[int, Any]:
    """The versions that last changed rows, by id, but for those of version 1; with the branch where
    it is not main."""
    rows = table.blame(show=["id"], **asked).to_arrow().to_pylist()
    assert all(each["_changed"]["exact"] for each in rows)
    found = {each["id"]: said(each["_changed"]) for each in rows}
    return {number: version for number, version in sorted(found.items()) if version != 1}


def inserted(table: lw.Table) -> dict[int, Any]:
    rows = table.blame(show=["id"]).to_arrow().to_pylist()
    return {each["id"]: said(each["_inserted"]) for each in rows if said(each["_inserted"]) != 1}


def said(found: dict[str, Any]) -> Any:
    branch, version = found["branch"], found["version"]
    return version if branch == "main" else (branch, version)


def cells(table: lw.Table, number: int) -> dict[str, Any]:
    """The versions that wrote the cells of a row."""
    rows = table.blame(f"id = {number}", cells=True).to_arrow().to_pylist()
    assert all(each["_written"]["exact"] for each in rows)
    return {each["_column"]: said(each["_written"]) for each in rows}


def test_rows_that_nobody_changed_were_written_by_the_first_version(table: lw.Table) -> None:
    assert changed(table) == inserted(table) == {}
    assert cells(table, 3) == {"id": 1, "name": 1, "x": 1}


def test_what_is_known_of_the_version_is_said(table: lw.Table) -> None:
    table = table.update({"x": "1.5"}, "id = 3", message="three is larger")
    (found,) = table.blame("id = 3").to_arrow().to_pylist()
    moments = {int(each.version): each.timestamp for each in table.versions()}
    assert found["_changed"] == {
        "version": 2,
        "branch": "main",
        "time": moments[2],
        "operation": "Update",
        "message": "three is larger",
        "exact": True,
    }
    assert (found["_inserted"]["version"], found["_inserted"]["message"]) == (1, None)
    assert found["_inserted"]["time"] == moments[1]


@pytest.mark.parametrize("rewrite", ["rows", "columns"])
def test_an_update_changed_the_rows_whose_values_it_changed(table: lw.Table, rewrite: Any) -> None:
    table = table.update({"x": "1.5"}, "id in (3, 4)", rewrite=rewrite)
    table = table.update({"x": "1.5"}, "id in (4, 5)", rewrite=rewrite)
    assert changed(table) == {3: 2, 4: 2, 5: 3}
    assert inserted(table) == {}
    assert cells(table, 4) == {"id": 1, "name": 1, "x": 2}


def test_a_row_that_was_deleted_and_inserted_again_is_a_new_one(table: lw.Table) -> None:
    table = table.delete("id = 3").append(row(3))
    assert changed(table) == inserted(table) == {3: 3}


def test_an_overwrite_makes_new_rows(table: lw.Table) -> None:
    assert changed(table.overwrite(ROWS)) == dict.fromkeys(range(8), 2)


def test_a_compaction_changes_no_row(table: lw.Table) -> None:
    table = table.update({"x": "1.5"}, "id = 3").append(row(8)).delete("id = 0").compact()
    assert changed(table) == {3: 2, 8: 3}
    assert changed(table.update({"x": "2.5"}, "id = 8").compact()) == {3: 2, 8: table.version + 1}


def test_new_renamed_and_cast_columns_change_no_row(table: lw.Table) -> None:
    table = table.update({"x": "1.5"}, "id = 3").add_columns({"y": "x * 2"})
    table = table.rename_column("name", "called").cast_column("x", pa.float32())
    assert changed(table) == {3: 2}
    assert cells(table, 3) == {"id": 1, "called": 1, "x": 2, "y": 3}
    assert changed(table, columns=["y"]) == dict.fromkeys(range(8), 3)


def test_only_the_columns_that_are_asked_for_count(table: lw.Table) -> None:
    table = table.update({"x": "1.5"}, "id = 3").update({"name": "'kite'"}, "id in (3, 4)")
    assert changed(table, columns=["x"]) == {3: 2}
    assert changed(table, columns=["name", "x"]) == {3: 3, 4: 3}
    (found,) = table.blame("id = 3", columns=["x"]).to_arrow().to_pylist()
    assert found["x"] == 1.5


def test_a_restored_row_was_written_by_who_wrote_it_first(table: lw.Table) -> None:
    table = table.update({"x": "1.5"}, "id = 3").update({"x": "2.5"}, "id in (3, 4)")
    table = table.delete("id = 5").restore(version=2)
    assert changed(table) == {3: 2}
    assert cells(table, 5) == {"id": 1, "name": 1, "x": 1}
    assert changed(table.update({"x": "2.5"}, "id = 4")) == {3: 2, 4: 6}


def test_rows_from_before_the_fork_were_written_by_the_parent(table: lw.Table) -> None:
    table = table.update({"x": "1.5"}, "id = 3")
    branch = table.branches.create("exp")
    assert changed(branch) == {3: 2}
    branch = branch.update({"x": "2.5"}, "id = 4").append(row(8))
    table.update({"x": "9.5"}, "id in (4, 5)")
    deep = branch.branches.create("deep").update({"name": "'auk'"}, "id in (4, 6)")
    assert changed(branch) == {3: 2, 4: ("exp", 3), 8: ("exp", 4)}
    assert changed(deep) == {3: 2, 4: ("deep", 5), 6: ("deep", 5), 8: ("exp", 4)}
    assert cells(deep, 4) == {"id": 1, "name": ("deep", 5), "x": ("exp", 3)}
    assert inserted(deep) == {8: ("exp", 4)}


def test_a_branch_that_began_anew_has_the_writers_of_its_parent(table: lw.Table) -> None:
    branch = table.branches.create("exp").update({"x": "2.5"}, "id = 4")
    table = table.update({"x": "1.5"}, "id = 3").update({"x": "1.5"}, "id = 4")
    table.branches.reset("exp", force=True)
    branch = lw.open(table.uri, branch="exp").update({"x": "3.5"}, "id = 5")
    assert changed(branch) == {3: 2, 4: 3, 5: ("exp", branch.version)}


def test_a_published_branch_is_one_version_of_its_parent(table: lw.Table) -> None:
    branch = table.branches.create("exp").update({"x": "2.5"}, "id = 4").append(row(8))
    table = table.update({"x": "1.5"}, "id = 3")
    table.branches.publish("exp")
    table = lw.open(branch.uri.split("/tree/")[0])
    assert changed(table) == {3: 2, 4: table.version, 8: table.version}


def test_rows_that_pylance_merged_in_count_by_value(table: lw.Table) -> None:
    table = table.update({"x": "1.5"}, "id = 3")
    merged: Any = lance.dataset(table.uri)
    values = pa.table({"id": [3, 4, 9], "name": ["n3", "n4", "n9"], "x": [1.5, 7.5, 7.5]})
    merging = merged.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merging.execute(values)
    table = lw.open(table.uri)
    assert changed(table) == {3: 2, 4: 3, 9: 3}
    assert inserted(table) == {9: 3}


def test_values_of_every_kind_are_compared(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            ("id", pa.int64()),
            pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"}),
            ("vector", pa.list_(pa.float32(), 2)),
            ("struct", pa.struct([("a", pa.int64()), ("b", pa.string())])),
            ("word", pa.dictionary(pa.int8(), pa.string())),
        ]
    )
    rows = pa.table(
        {
            "id": [1, 2],
            "blob": [b"a" * 100, None],
            "vector": [[1, 2], [3, 4]],
            "struct": [{"a": 1, "b": None}, None],
            "word": pa.array(["x", "y"]).dictionary_encode().cast(schema.field("word").type),
        },
        schema,
    )
    table = lw.create(tmp_path / "t.lance", rows, layout=lw.Layout(file_version="2.1"))
    table = table.update({"id": "id"}, "id = 1").update({"id": "3"}, "id = 2").compact()
    assert changed(table) == {3: 3}
    assert cells(table, 1) == dict.fromkeys(schema.names, 1)
    assert cells(table, 3) == {**dict.fromkeys(schema.names, 1), "id": 3}


def in_place(uri: str, ids: list[int], value: float, at: int = 0) -> None:
    """New values through pylance's fragments, which marks no row."""
    dataset: Any = lance.dataset(uri)
    part = pa.table({"id": ids, "x": [value] * len(ids)})
    image, fields = dataset.get_fragment(at).update_columns(part, left_on="id", right_on="id")
    update: Any = lance.LanceOperation.Update
    operation = update(
        updated_fragments=[image], fields_modified=fields, update_mode="rewrite_columns"
    )
    lance.LanceDataset.commit(uri, operation, read_version=dataset.version)


def test_rows_that_were_changed_in_place_without_a_mark_are_found(table: lw.Table) -> None:
    table = table.update({"x": "1.5"}, "id = 3", rewrite="columns")  # 2
    in_place(table.uri, [1, 2], 2.5)  # 3
    in_place(table.uri, [2, 3], 2.5)  # 4: the row 2 has this value already
    for number in range(20, 26):
        table = lw.open(table.uri).append(row(number))
    in_place(table.uri, [0], 0.5)  # 11: nothing new
    table = lw.open(table.uri).compact()
    found = changed(table)
    assert {number: found[number] for number in found if number < 20} == {1: 3, 2: 3, 3: 4}
    assert cells(table, 3) == {"id": 1, "name": 1, "x": 4}
    back = table.restore(version=3)
    assert changed(back) == {1: 3, 2: 3, 3: 2}


def test_versions_that_were_cleaned_up_are_told_by_their_marks(table: lw.Table) -> None:
    table = table.update({"x": "1.5"}, "id = 3").append(row(8)).update({"x": "2.5"}, "id = 4")
    table = table.update({"x": "2.5"}, "id in (4, 5)")
    table.cleanup(older_than=timedelta(0), in_flight=timedelta(0))
    found = {each["id"]: each for each in table.blame(show=["id"]).to_arrow().to_pylist()}
    facts = {number: said(each["_changed"]) for number, each in found.items()}
    assert facts == {0: 1, 1: 1, 2: 1, 3: 2, 4: 5, 5: 5, 6: 1, 7: 1, 8: 3}
    assert not any(each["_changed"]["exact"] for each in found.values())
    assert found[3]["_changed"]["time"] is None
    assert found[3]["_changed"]["operation"] is None
    assert found[5]["_changed"]["operation"] == "Update"
    newer = table.append(row(9)).update({"x": "7.5"}, "id = 4")
    exact = {
        each["id"]: said(each["_changed"])
        for each in newer.blame(show=["id"]).to_arrow().to_pylist()
        if each["_changed"]["exact"]
    }
    assert exact == {4: 7, 9: 6}


def test_a_branch_whose_fork_is_gone_knows_the_number(table: lw.Table) -> None:
    table = table.update({"x": "1.5"}, "id = 3")
    branch = table.branches.create("exp")
    table.update({"x": "2.5"}, "id = 4")
    newest_first = sorted((Path(table.uri) / "_versions").glob("*.manifest"))
    newest_first[1].unlink()
    (found,) = branch.blame("id = 3").to_arrow().to_pylist()
    told = found["_changed"]
    assert (said(told), told["time"], told["operation"]) == (2, None, None)
    (other,) = branch.blame("id = 4").to_arrow().to_pylist()
    assert (said(other["_changed"]), other["_changed"]["exact"]) == (1, True)


def test_a_clone_does_not_know_the_versions_of_its_source(table: lw.Table, tmp_path: Path) -> None:
    table = table.update({"x": "1.5"}, "id = 3")
    table.clone(str(tmp_path / "clone.lance"))
    clone = lw.open(tmp_path / "clone.lance").update({"x": "4.5"}, "id = 5")
    found = {
        each["id"]: each["_changed"] for each in clone.blame(show=["id"]).to_arrow().to_pylist()
    }
    assert found[5]["exact"]
    assert found[5]["version"] == clone.version
    assert not found[3]["exact"]
    assert found[3]["version"] == 2


def test_of_an_empty_table_and_where_no_row_matches_nothing_comes_out(table: lw.Table) -> None:
    for found in (
        table.blame("id > 100"),
        table.delete("true").blame(),
        lw.create(f"{table.uri}.none", ROWS.schema.empty_table()).blame(cells=True),
    ):
        assert found.to_arrow().num_rows == 0
        assert found.to_arrow().schema == found.arrow_schema


def test_a_row_is_shown_with_its_primary_key(tmp_path: Path) -> None:
    key = pa.field("id", pa.int64(), False, {"lance-schema:unenforced-primary-key": "true"})
    schema = pa.schema([key, pa.field("v", pa.string())])
    table = lw.create(tmp_path / "k.lance", pa.table({"id": [7], "v": ["x"]}, schema=schema))
    assert table.blame().arrow_schema.names == ["_rowid", "id", "_inserted", "_changed"]
    names = ["_rowid", "id", "_column", "_value", "_written"]
    assert table.blame(cells=True).arrow_schema.names == names
    assert table.blame(cells=True).to_arrow()["_value"].to_pylist() == ["7", '"x"']


def test_it_is_an_arrow_stream_of_bounded_batches(
    table: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blame_rows, "_MOST_ROWS", 3)
    table = table.update({"x": "1.5"}, "id = 3")
    batches = list(table.blame(show=["id"]).to_batches())
    assert [each.num_rows for each in batches] == [3, 3, 2]
    assert changed(table) == {3: 2}
    assert pa.RecordBatchReader.from_stream(table.blame(limit=5)).read_all().num_rows == 5
    assert "version 2" in repr(table.blame())


def test_what_cannot_be_asked_is_refused_at_once(table: lw.Table, tmp_path: Path) -> None:
    for asked, what in (
        ({"where": "nix = 1"}, "nix"),
        ({"columns": ["nmae"]}, "name"),
        ({"show": ["nix"]}, "nix"),
        ({"columns": []}, "none"),
        ({"columns": "id"}, "columns"),
        ({"limit": -1}, "limit"),
    ):
        with pytest.raises(lw.InvalidInputError, match=what):
            table.blame(**asked)
    plain = lw.create(tmp_path / "p.lance", ROWS, layout=lw.Layout(stable_row_ids=False))
    with pytest.raises(lw.UnsupportedError, match="no stable row ids"):
        plain.blame()


def test_a_few_rows_of_a_long_history_need_few_calls(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    table = lw.create(uri, ROWS)
    count = daily(120, of=300)
    for number in range(count):
        table = table.update({"x": f"x + {number}"}, f"id = {number % 6}")
    store = HeldStore(open_store(uri))
    opened = lw.Table(load_snapshot(Location(store)))
    first = len(store.calls)
    found = opened.blame("id between 3 and 7", show=["id"]).to_arrow().to_pylist()
    assert {each["id"]: each["_changed"]["version"] for each in found} == {
        3: count - 1,
        4: count,
        5: count + 1,
        6: 1,
        7: 1,
    }
    assert len(store.calls) - first < 12
    opened.cleanup(older_than=timedelta(0), in_flight=timedelta(0))
    first = len(store.calls)
    found = opened.blame(show=["id"]).to_arrow().to_pylist()
    assert {each["id"]: each["_changed"]["version"] for each in found}[3] == count - 1
    assert len(store.calls) - first < 20
    assert {verb for verb, _ in store.calls[first:]} == {"get"}


def test_a_null_in_a_new_column_was_written_by_who_added_the_column(tmp_path: Path) -> None:
    def writers(table: lw.Table, column: str) -> list[tuple[int, int, bool]]:
        found = table.blame(cells=True, show=["id"], columns=[column]).to_arrow().to_pylist()
        return [(e["id"], e["_written"]["version"], e["_written"]["exact"]) for e in found]

    null = pa.field("a", pa.int64())
    made = lw.create(tmp_path / "a.lance", pa.table({"id": [1, 2]})).append(pa.table({"id": [3]}))
    added = made.add_columns(null).append(
        pa.table({"id": [4], "a": [None]}, pa.schema([made.schema.field("id"), null]))
    )
    assert writers(added, "a") == [(1, 3, True), (2, 3, True), (3, 3, True), (4, 4, True)]
    set_ = added.update({"a": "7"}, "id = 2")
    assert sorted(writers(set_, "a")) == [(1, 3, True), (2, 5, True), (3, 3, True), (4, 4, True)]
    assert [each[1] for each in sorted(writers(set_, "id"))] == [1, 1, 2, 4]

    made = lw.create(tmp_path / "b.lance", pa.table({"id": [1, 2], "a": [5, 6]}))
    again = made.drop_columns(["a"]).add_columns(null)
    assert writers(again, "a") == [(1, 3, True), (2, 3, True)]

    made = lw.create(tmp_path / "c.lance", pa.table({"id": [1, 2]}))
    merged = made.append(pa.table({"id": [3], "b": [8]}), merge_schema=True)
    assert writers(merged, "b") == [(1, 2, True), (2, 2, True), (3, 2, True)]
