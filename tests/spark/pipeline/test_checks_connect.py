"""The same checks over Spark Connect, where plans are made in a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.spark.pipeline.checks_scene import Scene

pytest.importorskip("pyspark", reason="pyspark is not installed")
pytest.importorskip("grpc", reason="what Spark Connect needs is not installed")

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark-connect")]

CHECKS = """
[[checks]]
sql = "SELECT b.id FROM published.animals b JOIN animals a ON a.id = b.id + 1"
[[checks]]
table = "animals"
unique = ["id"]
[[checks]]
table = "animals"
columns = ["mother"]
references = { table = "animals", columns = ["id"] }
"""


def test_checks_run_over_connect(sessions: Any, tmp_path: Path) -> None:
    spark = sessions.use("connect")
    before = pa.table({"id": [1, 2], "mother": pa.array([None, 1], pa.int64())})
    now = pa.table({"id": [1, 2, 3, 3], "mother": [None, 1, 2, 7]})
    scene = Scene(spark, tmp_path, {"animals": before}, {"animals": now})
    sql, unique, references = scene.run(CHECKS)
    assert sorted(sql.sample) == [("1",), ("2",), ("2",)]
    assert (unique.failing_rows, unique.sample) == (2, (("3", "2"),))
    assert references.sample == (("3", "7"),)
    assert spark.catalog.listTables() == []
