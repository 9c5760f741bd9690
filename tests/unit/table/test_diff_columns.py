"""Columns that were dropped, added again, renamed and cast between two revisions: what of their
cells differs, beside what pylance reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.pylance import lance

import lancewood as lw

ROWS = pa.table({"id": range(6), "x": range(6)})


def written(tmp_path: Path, rows: pa.Table, name: str = "t", **options: Any) -> Any:
    uri = str(tmp_path / f"{name}.lance")
    return lance.write_dataset(rows, uri, enable_stable_row_ids=True, **options)


def between(made: Any, first: int = 1, **options: Any) -> lw.Diff:
    return lw.open(made.uri).diff(first, made.version, **options)


@pytest.mark.parametrize("is_compacted", [False, True])
def test_a_column_that_was_dropped_and_added_without_values_has_lost_them(
    tmp_path: Path, is_compacted: bool
) -> None:
    made = written(tmp_path, ROWS, max_rows_per_file=3)
    made.drop_columns(["x"])
    made.add_columns(pa.field("x", pa.int64()))
    made.delete("id = 2")
    if is_compacted:
        made.optimize.compact_files(materialize_deletions_threshold=0)
    assert made.to_table()["x"].null_count == 5
    assert between(made).stat() == lw.DiffStat(0, 5, 1, 0, {"x": 5})
    back = lw.open(made.uri).diff(made.version, 1).stat()
    assert back == lw.DiffStat(1, 5, 0, 0, {"x": 5})


def test_a_field_of_a_struct_that_was_dropped_and_added_without_values_has_lost_them(
    tmp_path: Path,
) -> None:
    made = written(tmp_path, pa.table({"id": [1, 2], "s": [{"a": 1, "b": 2}, {"a": 3, "b": 4}]}))
    made.drop_columns(["s.a"])
    made.add_columns(pa.field("s", pa.struct([pa.field("a", pa.int64())])))
    assert made.to_table()["s"].to_pylist() == [{"b": 2, "a": None}, {"b": 4, "a": None}]
    assert between(made).stat().cells == {"s": 2}


def test_fields_of_a_struct_that_swap_their_names_are_the_same_fields(tmp_path: Path) -> None:
    rows = [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    made = written(tmp_path, pa.table({"id": [1, 2], "v": [1, 1], "s": rows}))
    for old, new in (("a", "c"), ("b", "a"), ("c", "b")):
        made.alter_columns({"path": f"s.{old}", "name": new})
    made.update({"v": "2"}, "id = 2")
    assert between(made).stat() == lw.DiffStat(0, 1, 0, 1, {"v": 1})


def test_a_field_that_was_renamed_after_a_restore_is_the_same_field(tmp_path: Path) -> None:
    made = written(tmp_path, pa.table({"id": [1, 2], "s": [{"a": 1, "b": 2}, {"a": 3, "b": 4}]}))
    made.restore()
    made.alter_columns({"path": "s.a", "name": "c"})
    lw.open(made.uri).update({"s.c": "9"})
    made = lance.dataset(made.uri)
    assert between(made).stat() == lw.DiffStat(0, 2, 0, 0, {"s": 2})


def test_a_column_whose_new_name_was_taken_back_is_the_same_column(tmp_path: Path) -> None:
    made = written(tmp_path, ROWS)
    made.delete("id = 5")
    made.alter_columns({"path": "x", "name": "y"})
    table = lw.open(made.uri).restore(1)
    changed = pa.table({"id": range(6), "x": [0, 1, 20, 3, 4, 5]})
    table = table.merge(changed, on=["id"])
    assert table.diff(3, table.version).stat() == lw.DiffStat(1, 1, 0, 4, {"x": 1})


def test_names_that_were_taken_back_twice_are_followed(tmp_path: Path) -> None:
    table = lw.open(written(tmp_path, ROWS).uri).rename_column("x", "y").restore(1)
    table = table.rename_column("x", "z")
    since = table.version
    table = table.restore(3)
    table = table.merge(pa.table({"id": range(6), "x": [0, 1, 20, 3, 4, 5]}), on=["id"])
    assert table.diff(since, table.version).stat() == lw.DiffStat(0, 1, 0, 5, {"x": 1})
    assert table.diff(2, table.version).stat() == lw.DiffStat(0, 1, 0, 5, {"x": 1})


def test_versions_that_were_given_up_do_not_matter(tmp_path: Path) -> None:
    table = lw.open(written(tmp_path, ROWS).uri).overwrite(pa.table({"id": [1], "q": ["a"]}))
    table = table.restore(1).rename_column("x", "y").update({"y": "9"}, rewrite="rows")
    assert table.diff(1, table.version).stat() == lw.DiffStat(0, 6, 0, 0, {"y": 6})
    assert table.diff(2, table.version, on=["id"]).stat().cells == {}


def test_an_id_that_another_column_had_meanwhile_is_not_that_column(tmp_path: Path) -> None:
    made = written(tmp_path, ROWS, max_rows_per_file=3)
    made.drop_columns(["x"])
    made.optimize.compact_files()
    made.add_columns({"z": "id * 2"})
    number, since = made.lance_schema.fields()[-1].id(), made.version
    table = lw.open(made.uri).restore(1)
    assert table._snapshot.schema.by_name["x"].id == number
    table = table.merge(pa.table({"id": range(6), "x": [9] * 6}), on=["id"])
    assert table.diff(since, table.version).stat().cells == {}


def test_a_column_that_was_cast_and_renamed_is_the_same_column(tmp_path: Path) -> None:
    made = written(tmp_path, ROWS)
    made.alter_columns({"path": "x", "data_type": pa.int32()})
    made.alter_columns({"path": "x", "name": "y"})
    made.update({"y": "9"}, "id = 2")
    assert between(made).stat() == lw.DiffStat(0, 1, 0, 5, {"y": 1})
    assert lw.open(made.uri).diff(made.version, 1).stat() == lw.DiffStat(0, 1, 0, 5, {"x": 1})
    made.add_columns({"x": "id * 2"})
    assert between(made).stat().cells == {"y": 1}


def test_columns_that_were_cast_and_swap_their_names_are_the_same_columns(tmp_path: Path) -> None:
    made = written(tmp_path, ROWS.append_column("y", pa.array(range(10, 16))))
    for each in ("x", "y"):
        made.alter_columns({"path": each, "data_type": pa.int32()})
    for old, new in (("x", "z"), ("y", "x"), ("z", "y")):
        made.alter_columns({"path": old, "name": new})
    assert between(made).stat() == lw.DiffStat(0, 0, 0, 6, {})
    made.update({"y": "99"}, "id = 2")
    assert between(made).stat().cells == {"y": 1}


def test_a_column_that_was_cast_and_has_the_name_of_a_dropped_one_is_not_that(
    tmp_path: Path,
) -> None:
    made = written(tmp_path, ROWS.append_column("y", pa.array(range(10, 16))))
    made.drop_columns(["y"])
    made.alter_columns({"path": "x", "data_type": pa.int32()})
    made.alter_columns({"path": "x", "name": "y"})
    assert between(made).stat() == lw.DiffStat(0, 0, 0, 6, {})


def test_a_new_column_is_not_one_that_was_dropped(tmp_path: Path) -> None:
    made = written(tmp_path, ROWS)
    made.drop_columns(["x"])
    made.add_columns({"y": "id + 7"})
    assert between(made).stat() == lw.DiffStat(0, 0, 0, 6, {})


def test_fields_of_structs_of_two_tables_are_the_same_by_name_alone(tmp_path: Path) -> None:
    one = written(tmp_path, pa.table({"id": [1], "s": [{"a": 1, "b": 2}]}), "one")
    other = written(tmp_path, pa.table({"id": [1], "s": [{"a": 1, "c": 7}]}), "other")
    assert not lw.diff(one.uri, other.uri, on="id").stat()


def test_a_value_that_does_not_fit_the_later_type_changes_no_other(tmp_path: Path) -> None:
    moments = pa.array([1000, 1, None], pa.timestamp("ns"))
    made = written(tmp_path, pa.table({"id": [1, 2, 3], "x": moments}))
    made.alter_columns({"path": "x", "data_type": pa.timestamp("us")})
    found = between(made).to_arrow()["after"].to_pylist()
    assert [each["id"] for each in found] == [2]


def test_a_condition_sees_deleted_rows_of_a_column_that_was_cast(tmp_path: Path) -> None:
    made = written(tmp_path, pa.table({"id": [1, 2, 3], "x": pa.array([10, 20, 30], pa.int32())}))
    made.alter_columns({"path": "x", "data_type": pa.int64()})
    made.delete("id > 1")
    found = between(made, where="x = 20").to_arrow()["before"].to_pylist()
    assert found == [{"id": 2, "x": 20}]


@pytest.mark.parametrize("columns", [[1], [None], ["x", "x"], 5])
def test_columns_that_are_no_different_names_are_refused(tmp_path: Path, columns: Any) -> None:
    made = written(tmp_path, ROWS)
    with pytest.raises(lw.InvalidInputError, match=r"columns takes a list|asked for twice"):
        between(made, columns=columns)


@pytest.mark.parametrize("change", [5, b"inserted", [None], ["inserted", "gone"]])
def test_kinds_of_change_that_there_are_not_are_refused(tmp_path: Path, change: Any) -> None:
    made = written(tmp_path, ROWS)
    with pytest.raises(lw.InvalidInputError, match="change"):
        between(made, change=change)


def test_rows_of_a_fragment_whose_files_were_all_replaced_without_a_mark_are_compared(
    tmp_path: Path,
) -> None:
    made = written(tmp_path, pa.table({"v": range(6), "w": range(6)}), max_rows_per_file=3)
    fresh = pa.table({"_rowid": pa.array([1], pa.uint64()), "v": [100], "w": [50]})
    fragment, modified = made.get_fragments()[0].update_columns(fresh)
    change = lance.LanceOperation.Update(
        updated_fragments=[fragment], fields_modified=modified, update_mode="rewrite_columns"
    )
    made = lance.LanceDataset.commit(made.uri, change, read_version=1)
    assert made.to_table()["v"].to_pylist() == [0, 100, 2, 3, 4, 5]
    assert between(made).stat() == lw.DiffStat(0, 1, 0, 5, {"v": 1, "w": 1})


def test_a_cast_that_rounds_changes_no_row_in_either_direction(tmp_path: Path) -> None:
    made = written(tmp_path, pa.table({"id": [1, 2], "x": [0.1, 0.2]}))
    made.alter_columns({"path": "x", "data_type": pa.float32()})
    made.update({"x": "0.5"}, "id = 2")
    for found in (between(made), lw.open(made.uri).diff(made.version, 1)):
        assert found.stat() == lw.DiffStat(0, 1, 0, 1, {"x": 1})


@pytest.mark.parametrize("stable", [True, False])
def test_a_column_with_the_id_that_a_field_of_a_struct_had_is_a_new_one(
    tmp_path: Path, stable: bool
) -> None:
    rows = pa.table({"id": [1, 2], "s": [{"a": 5}, {"a": 6}]})
    table = lw.create(tmp_path / "t", rows, layout=lw.Layout(stable_row_ids=stable))
    table = table.overwrite(pa.table({"id": [1, 2], "b": [7, 8], "a": [5, 9]}))
    assert [each.id for each in table.fields] == [0, 1, 2]
    for one, other in ((1, 2), (2, 1)):
        assert table.diff(one, other, on="id").stat() == lw.DiffStat(0, 0, 0, 2, {})
    assert [each.name for each in table.diff(1, 2, on="id").schema.added] == ["b", "a"]
