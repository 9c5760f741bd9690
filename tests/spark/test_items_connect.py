"""Items over Spark Connect: the same, each snapshot once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.interop.git_judge import check, git

pytest.importorskip("pyspark", reason="pyspark is not installed")

from lancewood import items

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark-connect"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]


@pytest.mark.campaign
def test_items_are_written_once_tagged_and_read_over_connect(
    connected: Any, tmp_path: Path
) -> None:
    rows = [("a", "x", b"1"), ("b/c", "y", b"")]
    df = connected.createDataFrame(rows, "item string, path string, content binary")
    assert items.write(df, tmp_path, run="r").written == 2
    again = items.write(df, tmp_path, run="r", details=True)
    assert again.already == 2
    assert again.details is not None
    assert {row.item for row in again.details.collect()} == {"a", "b/c"}
    again.details.unpersist()
    assert items.tag(connected, tmp_path, "v1").written == 2
    contents = items.read(connected, tmp_path).contents("v1", columns=["item", "path", "content"])
    assert {(row.item, row.path, bytes(row.content)) for row in contents.collect()} == set(rows)
    check(tmp_path / "b/c")
    assert git(tmp_path / "a", "rev-list", "--count", "main") == "1"
