"""Indices that executors build: pylance asks them as those that threads build."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.counted import counts_of
from tests.pylance import judged

import lancewood as lw
from lancewood.jobs.index import building
from lancewood.spark import runner

pytest.importorskip("pyspark", reason="pyspark is not installed")

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]
ROWS = 1_200


def rows(first: int, stop: int) -> pa.Table:
    numbers = range(first, stop)
    vectors = pa.array([[n % 7, n % 11, n % 13, n] for n in numbers], pa.list_(pa.float32(), 4))
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "words": [f"word{n % 9} and more" for n in numbers],
            "v": vectors,
        }
    )


def test_executors_build_extend_and_optimize(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "LEAST_BYTES", 0)
    monkeypatch.setattr(building, "SMALL_BYTES", 0)
    told: list[tuple[str, int, int]] = []
    executors = runner(spark, progress=lambda *each: told.append(each))
    table = lw.create(tmp_path / "t", rows(0, ROWS), layout=lw.Layout(max_rows_per_file=200))
    for column, kind in {"id": "BTREE", "words": "INVERTED", "v": "IVF_PQ"}.items():
        table = table.indices.create(column, kind, runner=executors)
    assert {what for what, _, _ in told} == {"training", "indexing", "merging"}
    assert max(total for what, _, total in told if what == "indexing") > 1
    table = table.append(rows(ROWS, ROWS + 100)).indices.extend(runner=executors)
    assert counts_of(table, lw.IndexCounts).rows == 100
    table = table.indices.optimize(runner=executors)
    for each in table.indices.list():
        assert (each.rows_covered, each.rows_uncovered, each.segments) == (ROWS + 100, 0, 1)
    dataset = judged(table.uri)
    asked = dataset.scanner(columns=["id"], filter="id IN (7, 1250)")
    assert "@id_idx(" in asked.explain_plan(True)
    assert sorted(asked.to_table()["id"].to_pylist()) == [7, 1250]
    text = {"query": "word3", "columns": ["words"]}
    assert dataset.to_table(full_text_query=text).num_rows == table.count_rows("id % 9 = 3")
    near = {"column": "v", "q": [3.0, 5.0, 7.0, 1250.0], "k": 3, "refine_factor": 100}
    brute = dataset.to_table(columns=["id"], nearest={**near, "use_index": False})
    assert dataset.to_table(columns=["id"], nearest=near) == brute


def test_zones_of_a_small_table_are_found_on_the_driver(spark: Any, tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    executors = runner(spark, progress=lambda *each: told.append(each))
    table = lw.create(tmp_path / "t", rows(0, ROWS), layout=lw.Layout(max_rows_per_file=200))
    tracker = spark.sparkContext.statusTracker()
    before = {*tracker.getJobIdsForGroup()}
    table = table.indices.create("id", "ZONEMAP", name="zones", runner=executors)
    assert {*tracker.getJobIdsForGroup()} == before
    assert told == [("indexing", 0, 1), ("indexing", 1, 1)]
    assert table.indices.list()[0].rows_covered == ROWS
    table.indices.create("id", "BTREE", runner=executors)
    assert {*tracker.getJobIdsForGroup()} > before
