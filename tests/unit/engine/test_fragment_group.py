"""Small fragments in groups: which go together, and what is known of their rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.small_sizes import small_sizes

import lancewood as lw
from lancewood.data.wanted import WantedColumns
from lancewood.engine.rows import group_scan as fragment_group
from lancewood.engine.rows.facts import RowFacts, small_fragments
from lancewood.engine.rows.group_scan import FragmentGroup, grouped
from lancewood.model.schema import CREATED_AT, LAST_UPDATED_AT, ROW_ADDRESS, ROW_ID


@pytest.fixture
def table(tmp_path: Path) -> lw.Table:
    """Ten fragments of ten rows, of two versions, in some of which rows are deleted."""
    made = lw.create(
        tmp_path / "t",
        pa.table({"n": range(50)}),
        layout=lw.Layout(max_rows_per_file=10),
        access=lw.Access(fsync=False),
    ).append(pa.table({"n": range(50, 100)}), layout=lw.Layout(max_rows_per_file=10))
    made.delete("n IN (3, 4, 77) OR n BETWEEN 60 AND 68")
    return made.latest()


def sizes(table: lw.Table, first: int | None = None) -> list[int]:
    reader = small_fragments(table._snapshot, WantedColumns(table._snapshot.schema))
    groups = list(grouped(table.fragments, reader, first=first))
    assert [each.id for group in groups for each in group] == [each.id for each in table.fragments]
    return [len(each) for each in groups]


def test_neighbours_go_together_as_far_as_a_batch_holds_them(
    table: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sizes(table) == [10]
    monkeypatch.setattr(fragment_group, "_MOST_FRAGMENTS", 4)
    assert sizes(table) == [4, 4, 2]
    with small_sizes(group_rows=35):
        assert sizes(table) == [3, 3, 3, 1]
    with small_sizes(group_held=160):
        assert sizes(table) == [2] * 5


def test_groups_grow_for_one_who_may_not_want_them_all(table: lw.Table) -> None:
    assert sizes(table, first=1) == [1, 2, 4, 3]


def test_what_is_not_small_stays_by_itself(table: lw.Table) -> None:
    wide = table.append(pa.table({"n": range(500)})).append(pa.table({"n": range(5)}))
    with small_sizes(rows=100):
        assert sizes(wide) == [10, 1, 1]
    with small_sizes(stored=0):
        assert sizes(wide) == [1] * 12


def test_dictionaries_are_not_joined(tmp_path: Path) -> None:
    column = pa.array(["a", "b", "a"]).dictionary_encode()
    made = lw.create(tmp_path / "d", pa.table({"d": column}), layout=lw.Layout(max_rows_per_file=1))
    assert sizes(made) == [1, 1, 1]


@pytest.mark.parametrize("stable", [True, False])
def test_a_group_knows_of_its_rows_what_each_fragment_knows(tmp_path: Path, stable: bool) -> None:
    made = lw.create(
        tmp_path / "t",
        pa.table({"n": range(50)}),
        layout=lw.Layout(stable_row_ids=stable, max_rows_per_file=10),
    )
    made.append(pa.table({"n": range(50, 70)}), layout=lw.Layout(max_rows_per_file=10))
    made.latest().update({"n": "n + 1000"}, "n % 4 = 1")
    made.latest().delete("n IN (3, 4) OR n BETWEEN 60 AND 68")
    snapshot = made.latest()._snapshot
    fragments = list(snapshot.manifest.fragments)
    group = FragmentGroup(
        snapshot, fragments, small_fragments(snapshot, WantedColumns(snapshot.schema))
    )
    positions = np.arange(0, group.rows.num_rows, 3)
    names = [ROW_ADDRESS, ROW_ID, *([CREATED_AT, LAST_UPDATED_AT] if stable else [])]
    for name in names:
        expected = [
            value
            for number, offsets in group.by_fragment(positions)
            for value in RowFacts(snapshot, fragments[number]).column_at(name, offsets).to_pylist()
        ]
        assert group.column(name, positions).to_pylist() == expected
    assert group.live is not None
    live = made.latest().scan(with_row_address=True).to_arrow()
    assert group.addresses(group.live).tolist() == live.column(ROW_ADDRESS).to_pylist()
    with pytest.raises(ValueError, match="no_such"):
        group.column("no_such", positions)


def test_without_columns_nothing_is_opened(
    table: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*call: object) -> None:
        raise AssertionError("a file was opened")

    monkeypatch.setattr("lancewood.data.open_files.open_reader", refuse)
    assert table.count_rows("_rowaddr % 2 = 0") == 44
