"""An executor that is killed in the middle of a read: every row is there once, through every door,
and none of its processes is left."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.spark.clusters.conftest import Faulty
from tests.spark.clusters.faults import Fault, reach
from tests.spark.ways import WAYS, by_way

import lancewood as lw
from lancewood.spark import read

ROWS = 20_000
FRAGMENTS = 4
PATIENCE = 30.0
WORKER = b"lancewood.spark.worker_server"


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> lw.Table:
    """Enough rows that a task has several batches of them."""
    path = tmp_path_factory.mktemp("killed-reads") / "t.lance"
    ids = pa.array(range(ROWS), pa.int64())
    rows = pa.table({"id": ids, "text": [f"text {each}" for each in range(ROWS)]})
    return lw.create(path, rows, layout=lw.Layout(max_rows_per_file=ROWS // FRAGMENTS)).delete(
        "id % 10 = 3"
    )


def some_way_in(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Hands on what a task reads; a fault may wait at its third batch."""
    for number, batch in enumerate(batches):
        if number == 2:
            reach("read", "")
        yield batch


def orphans() -> list[int]:
    """Workers of ours whose executor is gone."""
    found = []
    for each in Path("/proc").iterdir():
        if each.name.isdecimal():
            try:
                is_worker = WORKER in (each / "cmdline").read_bytes().split(b"\0")
                parent = (each / "stat").read_text().rpartition(")")[2].split()[1]
            except OSError:  # it has just ended
                continue
            if is_worker and parent == "1":
                found.append(int(each.name))
    return found


@pytest.mark.spark
@pytest.mark.xdist_group("spark-local-cluster")
@pytest.mark.sliced(2)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("door", ["fast", pytest.param("familiar", marks=pytest.mark.campaign)])
def test_rows_of_an_executor_that_was_killed_are_read_again(
    dying: Faulty, table: lw.Table, door: str, way: str
) -> None:
    spark: Any = dying.spark
    with by_way(spark, way):
        if door == "fast":
            frame = read(spark, table.uri)
        else:
            frame = spark.read.format("lance").load(table.uri)
    told = frame.where("id >= 10").mapInArrow(some_way_in, frame.schema)
    dying.faults.arm(*[Fault("read", "kill", attempt=0)] * 2)
    found = told.selectExpr("count(*)", "sum(id)", "count(DISTINCT text)").collect()[0]
    assert dying.faults.left() < 2, "no executor was killed"
    kept = [each for each in range(10, ROWS) if each % 10 != 3]
    assert found[:] == (len(kept), sum(kept), len(kept))
    until = time.monotonic() + PATIENCE
    while orphans() and time.monotonic() < until:
        time.sleep(0.1)
    assert not orphans()
