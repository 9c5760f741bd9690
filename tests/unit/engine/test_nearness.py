"""Scans of chosen homes: which fragments are near, and what comes of the others."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.engine.location.base_paths import NewBase
from lancewood.engine.rows.nearness import FileRoots, Nearness
from lancewood.model.fragment import DataFile, Fragment
from lancewood.model.ids import BaseId, FieldId
from lancewood.model.schema import Field, Schema

ROWS = pa.table({"a": pa.array(range(40), pa.int64()), "s": ["x"] * 40})


def file_of(fields: list[int], number: int | None) -> DataFile:
    ids = [FieldId(each) for each in fields]
    file_root = None if number is None else BaseId(number)
    return DataFile.make(f"{number}.lance", ids, [*range(len(ids))], (2, 2), 1, file_root)


@pytest.mark.parametrize(
    ("files", "wanted", "file_roots", "expected"),
    [
        ([([0, 1], None)], [0], [None], Nearness.ALL),
        ([([0, 1], None)], [0], [0], Nearness.NONE),
        ([([0, 1], 0)], [0], [None], Nearness.NONE),
        ([([0, 1], 0)], [5], [0], Nearness.ALL),
        ([([0], 0), ([1], 1)], [0], [0], Nearness.ALL),
        ([([0], 0), ([1], 1)], [1], [0], Nearness.NONE),
        ([([0], 0), ([1], 1)], [0, 1], [0], Nearness.SOME),
        ([([0], 0), ([1], 1)], [0, 1], [0, 1], Nearness.ALL),
        ([([0], 0), ([1], 1)], [], [0], Nearness.SOME),
        ([([0, -2], 0), ([1], None)], [1], [None], Nearness.ALL),
        ([([0], 0), ([1], 1)], [0, 1], [], Nearness.NONE),
    ],
)
def test_a_fragment_is_near_if_all_that_is_read_of_it_is(
    files: list[tuple[list[int], int | None]],
    wanted: list[int],
    file_roots: list[int | None],
    expected: Nearness,
) -> None:
    fragment = Fragment.make([file_of(*each) for each in files], 1)
    schema = Schema(tuple(Field(FieldId(each), f"c{each}", "int64") for each in wanted))
    chosen = frozenset(None if each is None else BaseId(each) for each in file_roots)
    assert FileRoots(schema, chosen).nearness(fragment) is expected


@pytest.fixture
def spread(tmp_path: Path) -> lw.Table:
    """Fragments 0 and 3 at home, 1 in cold, 2 in flat; column c of fragment 1 is at home."""
    cold = lw.BasePath(tmp_path / "cold", name="cold", is_dataset_root=True)
    bases: list[NewBase] = [cold, tmp_path / "flat"]
    table = lw.create(
        tmp_path / "t", ROWS, layout=lw.Layout(bases=bases, into="all", max_rows_per_file=10)
    )
    return table.add_columns({"c": "a * 2"})


@pytest.mark.parametrize(
    ("columns", "where", "bases", "numbers"),
    [
        (["a"], None, "cold", [1]),
        (["a"], None, ["cold", 2], [1, 2]),
        (["a"], None, [None], [0, 3]),
        (["a"], None, "all", [0, 1, 2, 3]),
        (["c"], None, [None], [0, 1, 2, 3]),
        (["a", "c"], None, "cold", []),
        (["a", "c"], None, ["cold", None], [0, 1, 3]),
        (["c"], "a >= 0", "cold", []),
        (["c"], "a >= 0", ["cold", None], [0, 1, 3]),
        (["a"], "a IN (3, 15, 35)", [None], [0, 3]),
        ([], None, "cold", []),
        (["_rowid"], None, [None], [0, 3]),
    ],
)
def test_a_scan_reads_only_fragments_that_are_near(
    spread: lw.Table, columns: list[str], where: str | None, bases: Any, numbers: list[int]
) -> None:
    scan = spread.scan(columns, where, in_bases=bases, with_row_address=True)
    rows = scan.to_arrow()
    assert sorted({each >> 32 for each in rows["_rowaddr"].to_pylist()}) == numbers
    assert scan.count() == rows.num_rows
    assert pickle.loads(pickle.dumps(spread)).scan(columns, where, in_bases=bases).count() == len(
        rows
    )
    again = spread.scan(columns, where, in_bases=bases, limit=7, offset=2)
    assert again.to_arrow().num_rows == again.count() == min(7, max(0, rows.num_rows - 2))


def test_explain_says_what_is_left_out(spread: lw.Table) -> None:
    said = spread.scan(["a", "c"], in_bases=["cold", None], where="a > 1").explain()
    assert "3 of 4 fragments (1 more, only partly in those roots, left out)" in said
    assert "in the own root and cold" in said
    assert "left out" not in spread.scan(["a"], in_bases="cold").explain()
    assert "in the own root" in repr(spread.scan(["a"], in_bases=[None]))
    both = spread.scan(["a"], fragment_ids=[0, 1], in_bases="cold")
    assert "1 of 2 fragments" in both.explain()
    assert both.to_arrow()["a"].to_pylist() == list(range(10, 20))


def test_a_scan_of_every_home_looks_at_no_fragment(
    spread: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*args: object) -> Nearness:
        raise AssertionError("a fragment was looked at")

    monkeypatch.setattr(FileRoots, "nearness", never)
    assert spread.scan(in_bases="all").count() == 40
    assert spread.scan(in_bases=[None, 1, 2]).count() == 40


def test_a_scan_of_a_home_that_is_not_there_is_refused_at_once(spread: lw.Table) -> None:
    with pytest.raises(lw.InvalidInputError, match="base path 'hot' not found"):
        spread.scan(in_bases=["hot"])
