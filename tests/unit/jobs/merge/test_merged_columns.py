"""Columns that both sides changed, in merges of rows: no cell is lost, and pylance reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.errors import MergeConflictError, UnsupportedError

POINT = pa.struct([("x", pa.int64()), ("y", pa.int64())])
NAMES = ("id", "label", "n", "p")


def rows(*ids: int) -> pa.Table:
    points = [{"x": each, "y": -each} for each in ids]
    labels = [f"b{each}" for each in ids]
    numbers = pa.array(ids, pa.int32())
    return pa.table([pa.array(ids, pa.int64()), labels, numbers, pa.array(points, POINT)], NAMES)


@pytest.fixture(params=[1, 100], ids=["many fragments", "one fragment"])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> lw.Table:
    uri = str(tmp_path / "t")
    return lw.create(
        uri,
        rows(1, 2, 3),
        layout=lw.Layout(max_rows_per_file=request.param),
        access=lw.Access(fsync=False),
    )


def read(table: lw.Table) -> dict[int, dict[str, Any]]:
    """The rows of main as pylance has them, by id."""
    dataset = lance.dataset(table.uri)
    dataset.validate()
    return {each.pop("id"): each for each in dataset.to_table().to_pylist()}


def column(table: lw.Table, name: str) -> dict[int, Any]:
    return {number: row[name] for number, row in read(table).items()}


def keep(**columns: Any) -> lw.Resolve:
    return lw.Resolve(schema={name.replace("__", "."): "keep" for name in columns})


def test_a_column_that_theirs_dropped_and_ours_changed_is_kept_in_every_row(
    table: lw.Table,
) -> None:
    theirs = table.branches.create("exp").drop_columns(["label"]).update({"n": "50"}, "id = 2")
    theirs.append(rows(9).drop_columns(["label"]))
    ours = table.update({"label": "'z'"}, "id = 1")
    with pytest.raises(MergeConflictError, match="'label'"):
        ours.branches.merge("exp")
    merged = ours.branches.merge("exp", resolve=keep(label=True))
    assert column(merged, "label") == {1: "z", 2: "b2", 3: "b3", 9: None}
    assert column(merged, "n") == {1: 1, 2: 50, 3: 3, 9: 9}


def test_a_column_that_ours_dropped_and_theirs_changed_comes_back_in_every_row(
    table: lw.Table,
) -> None:
    table.branches.create("exp").update({"label": "'z'"}, "id = 1")
    ours = table.drop_columns(["label"]).update({"n": "50"}, "id = 2")
    ours = ours.append(rows(9).drop_columns(["label"]))
    merged = ours.branches.merge("exp", resolve=keep(label=True))
    assert column(merged, "label") == {1: "z", 2: "b2", 3: "b3", 9: None}
    assert column(merged, "n") == {1: 1, 2: 50, 3: 3, 9: 9}


def test_a_side_for_all_columns_keeps_what_it_changed_and_decides_the_others(
    table: lw.Table,
) -> None:
    table.branches.create("exp").drop_columns(["label"]).rename_column("n", "theirs")
    ours = table.update({"label": "'z'"}, "id = 1").rename_column("n", "ours")
    merged = ours.branches.merge("exp", resolve=lw.Resolve(schema="ours"))
    assert column(merged, "label") == {1: "z", 2: "b2", 3: "b3"}
    assert "ours" in merged.schema.names


@pytest.mark.parametrize("who", ["ours", "theirs"])
def test_a_field_that_one_side_adds_inside_a_struct_keeps_its_values(
    table: lw.Table, who: str
) -> None:
    branch = table.branches.create("exp")
    if who == "ours":
        branch.update({"n": "50"}, "id = 1")
        ours = table.add_columns({"p.z": "id * 100"})
    else:
        branch.add_columns({"p.z": "id * 100"})
        ours = table.update({"n": "50"}, "id = 1")
    merged = ours.branches.merge("exp")
    assert {number: each["z"] for number, each in column(merged, "p").items()} == {
        1: 100,
        2: 200,
        3: 300,
    }
    assert column(merged, "n")[1] == 50


def test_a_field_inside_a_struct_that_a_side_dropped_is_kept_in_every_row(table: lw.Table) -> None:
    table.branches.create("exp").drop_columns(["p.y"]).update({"n": "50"}, "id = 1")
    ours = table.update({"label": "'q'"}, "id = 2")
    merged = ours.branches.merge("exp", resolve=keep(p__y=True))
    assert column(merged, "p") == {each: {"x": each, "y": -each} for each in (1, 2, 3)}


def test_a_struct_is_taken_from_the_side_that_is_said_with_all_its_values(table: lw.Table) -> None:
    table.branches.create("exp").add_columns({"p.w": "id * 3"}).update({"n": "50"}, "id = 1")
    ours = table.drop_columns(["p.y"]).update({"label": "'q'"}, "id = 1")
    merged = ours.branches.merge("exp", resolve=lw.Resolve(schema="theirs"))
    assert column(merged, "p") == {n: {"x": n, "y": -n, "w": 3 * n} for n in (1, 2, 3)}
    assert (column(merged, "n")[1], column(merged, "label")[1]) == (50, "q")


def test_a_change_of_one_field_is_none_of_another_that_was_dropped(table: lw.Table) -> None:
    table.branches.create("exp").drop_columns(["p.y"])
    ours = table.add_columns({"p.z": "id * 100"}).drop_columns(["p.z"])
    merged = ours.branches.merge("exp")
    assert column(merged, "p")[1] == {"x": 1}


@pytest.mark.parametrize("path", ["label", "p.x"])
def test_nulls_that_theirs_forbids_are_a_conflict_with_those_of_ours(
    table: lw.Table, path: str
) -> None:
    table.branches.create("exp")
    dataset = lance.dataset(table.uri).checkout_version(("exp", None))
    dataset.alter_columns({"path": path, "nullable": False})
    new = rows(9).to_pylist()
    new[0].update({"label": None, "p": {"x": None, "y": 1}})
    ours = table.rename_column("label", "title")
    ours = ours.append(
        pa.Table.from_pylist(new, rows(9).schema).rename_columns(["id", "title", "n", "p"])
    )
    with pytest.raises(MergeConflictError, match="has nulls here, forbids nulls there"):
        ours.branches.merge("exp")


def test_rows_of_which_no_column_would_be_left_are_refused(table: lw.Table) -> None:
    table.branches.create("exp").add_columns({"q": "id * 2"}).drop_columns(list(NAMES))
    ours = table.append(rows(9))
    with pytest.raises(UnsupportedError, match="keep one of them"):
        ours.branches.merge("exp")
    assert set(read(table)) == {1, 2, 3, 9}


def test_a_file_of_ours_with_nothing_but_a_dropped_column_goes(table: lw.Table) -> None:
    table.branches.create("exp").drop_columns(["n"]).add_columns({"s": "id * 2"})
    ours = table.add_columns({"q": "id"}).cast_column("n", pa.float64())
    merged = ours.branches.merge("exp", resolve=lw.Resolve(schema="theirs"))
    assert read(merged)[2].keys() == {"label", "p", "q", "s"}
