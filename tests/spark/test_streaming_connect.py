"""The same streams over Spark Connect, where the query lives in a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.model.table_config import newest_batch

pytest.importorskip("pyspark", reason="pyspark is not installed")
pytest.importorskip("grpc", reason="what Spark Connect needs is not installed")

from tests.spark.needs import needs

from lancewood.spark.abilities import LIMITED_STREAMS

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark-connect")]


@pytest.fixture(scope="module")
def connect(sessions: Any) -> Any:
    return sessions.use("connect")


def rows(*numbers: int) -> pa.Table:
    return pa.table({"k": pa.array(numbers, pa.int64())})


def keys(uri: object) -> list[int]:
    # Not at the top: a process that has loaded pylance must not fork, and Spark's start does.
    import lance

    return sorted(lance.dataset(str(uri)).to_table()["k"].to_pylist())


@pytest.mark.campaign
@needs(LIMITED_STREAMS)
def test_streams_read_and_write_over_connect(connect: Any, tmp_path: Path) -> None:
    source, target = tmp_path / "a.lance", tmp_path / "b.lance"
    lw.create(source, rows(1, 2)).append(rows(3))

    def run() -> str:
        frame = connect.readStream.format("lance").option("maxRowsPerTrigger", 2).load(str(source))
        writer = frame.writeStream.format("lance").trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / "c")).start(str(target))
        query.awaitTermination()
        return str(query.id)

    query = run()
    assert (keys(target), lw.open(target).version) == ([1, 2, 3], 2)
    lw.open(source).append(rows(4))
    assert run() == query
    assert (keys(target), lw.open(target).version) == ([1, 2, 3, 4], 3)


def test_batches_are_merged_over_connect(connect: Any, tmp_path: Path) -> None:
    source, target = str(tmp_path / "a.lance"), str(tmp_path / "b.lance")
    lw.create(source, rows(1, 2))
    lw.create(target, rows(2, 9))

    def apply(batch: Any, number: int) -> None:
        from lancewood.spark import write

        write(batch, target, "merge", on="k", commit=lw.CommitOptions(app="copy", batch=number))

    frame = connect.readStream.format("lance").load(source)
    writer = frame.writeStream.foreachBatch(apply).trigger(availableNow=True)
    writer.option("checkpointLocation", str(tmp_path / "c")).start().awaitTermination()
    assert keys(target) == [1, 2, 9]
    assert newest_batch(lw.open(target).config, "copy") == 0
