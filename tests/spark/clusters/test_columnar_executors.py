"""The columnar door in executors that are processes of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.spark.clusters.kinds import LOCAL_CLUSTER, on

import lancewood as lw

pytest.importorskip("pyspark", reason="pyspark is not installed")

from tests.spark.needs import HAS_SOURCES
from tests.spark.ways import with_the_door

from lancewood.spark import read
from lancewood.spark.columnar import why_closed

pytestmark = [pytest.mark.spark, with_the_door]


@pytest.mark.parametrize("kind", [on(LOCAL_CLUSTER)])
def test_columns_are_read_where_the_tasks_run(sessions: Any, kind: str, tmp_path: Path) -> None:
    spark = sessions.use(kind)
    rows = pa.table({"n": range(1000), "s": [f"text {n}" for n in range(1000)]})
    made = lw.create(
        tmp_path / "t.lance",
        rows,
        layout=lw.Layout(max_rows_per_file=300),
        access=lw.Access(fsync=False),
    )
    assert why_closed(spark) is None
    frames = [read(spark, made.uri)]
    if HAS_SOURCES:
        frames.append(spark.read.format("lance").load(made.uri))
    for frame in frames:
        assert [each.s for each in frame.where("n > 997").collect()] == ["text 998", "text 999"]
        assert (frame.count(), frame.where("n < 5").count()) == (1000, 5)
        assert frame.selectExpr("sum(n)").collect()[0][0] == 499_500
    secret = {"aws_secret_access_key": "planted-secret"}
    assert (
        read(spark, made.uri, access=lw.Access(storage_options=secret)).where("n = 1").count() == 1
    )
