"""A comparison cut into portions, which have every row once, wherever they are read."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.jobs.diff import Costs, DiffCutting, DiffPortion, DiffRows, DiffTask

ROWS = 400


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> lw.Table:
    rows = pa.table({"id": range(ROWS), "name": [f"n{each}" for each in range(ROWS)]})
    path = tmp_path_factory.mktemp("portions") / "t.lance"
    made = lw.create(
        path, rows, layout=lw.Layout(max_rows_per_file=90), access=lw.Access(fsync=False)
    )
    made = made.update({"name": "'new'"}, "id % 7 = 3").delete("id % 11 = 5")
    return made.append(rows.slice(0, 30)).update({"id": "id + 1000"}, "id > 390", rewrite="columns")


def cutting(rows: DiffRows, opening: int = 0, reaching: int = 0) -> DiffCutting:
    (found,) = rows.plan.comparisons()
    return DiffCutting(found, rows.shape, Costs(2, 3, opening, reaching))


def cut(rows: DiffRows, share: int, opening: int = 0, reaching: int = 0) -> list[DiffPortion]:
    return [*cutting(rows, opening, reaching).portions(share)]


def told(rows: DiffRows, portions: list[DiffPortion]) -> list[dict[str, Any]]:
    """The rows of portions that went to another process."""
    found = []
    for each in pickle.loads(pickle.dumps(portions)):
        sides = rows.plan.one.bare(), rows.plan.other.bare()
        task = DiffTask(rows.shape, each.comparison(*sides, rows.shape))
        found += [row for batch in task.batches(1) for row in batch.to_pylist()]
    return found


def ordered(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(map(str, rows))


@pytest.mark.sliced(2)
@pytest.mark.parametrize("share", [1, 4, 7, 100, 1_000_000])
@pytest.mark.parametrize("opening", [0, 50])
def test_portions_of_any_size_have_every_row_once(
    table: lw.Table, share: int, opening: int
) -> None:
    rows = table.diff(1, table.version)._rows
    portions = cut(rows, share, opening)
    expected = [row for batch in rows.batches() for row in batch.to_pylist()]
    assert ordered(told(rows, portions)) == ordered(expected)
    assert (len(portions) == 1) == (share == 1_000_000)


def test_a_portion_costs_about_its_share(table: lw.Table) -> None:
    rows = table.diff(1, table.version)._rows
    most, whole = rows.most(), cutting(rows)
    assert whole.cost == 2 * most.deleted + 3 * most.inserted + 5 * most.updated
    for each in whole.portions(60):
        spent = sum(
            {"deleted": 2, "inserted": 3, "updated": 5}[kind] * int(at.counts.sum())
            for kind, _, at in each.rows
        )
        assert spent <= 65


def test_rows_here_and_there_cost_more_than_rows_in_a_row(table: lw.Table) -> None:
    rows = table.diff(1, table.version)._rows
    costs = [cutting(rows, 0, each).cost for each in (0, 100)]
    (portion,) = cut(rows, 1 << 20)
    sides = sum(len(at.counts) * (1 + (kind == "updated")) for kind, _, at in portion.rows)
    assert costs[1] == costs[0] + 100 * sides


def test_a_portion_has_only_its_own_fragments_and_ids(table: lw.Table) -> None:
    rows = table.diff(1, table.version, change="deleted")._rows
    portions = cut(rows, 20)
    assert len(portions) > 3
    for each in portions:
        assert not each.after.raws
        assert 1 <= len(each.before.raws) <= 2
        assert all(len(ids) < 100 for _, ids in each.before.ids.values())


def test_no_ids_of_the_earlier_state_travel_where_rows_are_known_by_them(table: lw.Table) -> None:
    rows = table.diff(1, table.version, change="updated")._rows
    (portion,) = cut(rows, 1 << 20)
    assert portion.before.raws
    assert not portion.before.ids
    assert portion.after.ids


def test_neighbours_are_one_stretch(tmp_path: Path) -> None:
    rows = pa.table({"id": range(1_000), "x": range(1_000)})
    table = lw.create(tmp_path / "t.lance", rows).overwrite(rows.set_column(1, "x", rows["id"]))
    found = table.diff(1, 2, on="id")._rows
    (portion,) = cut(found, 1 << 20)
    ((_, _, at),) = portion.rows
    assert at.counts.tolist() == [1_000]


@pytest.mark.sliced(2)
@pytest.mark.parametrize("most", [1, 2, 3, 5])
@pytest.mark.parametrize("share", [13, 90, 1 << 20])
def test_many_stretches_are_many_portions(
    table: lw.Table, most: int, share: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lancewood.jobs.diff.splitting._MOST_STRETCHES", most)
    rows = table.diff(1, table.version)._rows
    portions = cut(rows, share, 5, 7)
    assert all(sum(len(at.counts) for *_, at in each.rows) <= most for each in portions)
    expected = [row for batch in rows.batches() for row in batch.to_pylist()]
    assert ordered(told(rows, portions)) == ordered(expected)


def test_a_table_without_stable_ids_is_cut_as_well(tmp_path: Path) -> None:
    rows = pa.table({"id": range(100), "x": range(100)})
    made = lw.create(
        tmp_path / "t.lance", rows, layout=lw.Layout(stable_row_ids=False, max_rows_per_file=30)
    )
    found = made.delete("id % 9 = 1").append(rows.slice(0, 0)).diff(1, 2)._rows
    expected = [row for batch in found.batches() for row in batch.to_pylist()]
    assert expected
    assert ordered(told(found, cut(found, 10))) == ordered(expected)


def test_a_portion_needs_neither_manifests_nor_deletion_files(
    table: lw.Table, tmp_path: Path
) -> None:
    copy = lw.open(shutil.copytree(table.uri, tmp_path / "t.lance"))
    rows = copy.diff(1, copy.version, where="id > 20")._rows
    expected = [row for batch in rows.batches() for row in batch.to_pylist()]
    portions = cut(rows, 300)
    for each in ("_versions", "_transactions", "_deletions"):
        shutil.rmtree(Path(copy.uri) / each)
    assert ordered(told(rows, portions)) == ordered(expected)
