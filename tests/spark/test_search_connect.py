"""Search over Spark Connect: the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancewood as lw

pytest.importorskip("pyspark", reason="pyspark is not installed")

from lancewood.spark import search

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark-connect"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]


def test_every_row_finds_its_neighbours_over_connect(connected: Any, tmp_path: Path) -> None:
    vectors = pa.array([[each, 0.0] for each in range(50)], pa.list_(pa.float32(), 2))
    table = lw.create(tmp_path / "t.lance", pa.table({"id": range(50), "near": vectors}))
    asked = [("a", [7.2, 0.0]), ("b", [30.9, 0.0])]
    frame = connected.createDataFrame(asked, "q string, v array<double>")
    found = search(connected, table.uri, frame, k=2, columns=["id"], where="id % 2 = 1")
    rows = [(each.q, each._rank, each.id) for each in found.collect()]
    assert sorted(rows) == [("a", 1, 7), ("a", 2, 9), ("b", 1, 31), ("b", 2, 29)]
