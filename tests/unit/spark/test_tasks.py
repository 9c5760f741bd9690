"""Rows of the driver as frames, without a Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lancewood.spark.tasks import frame_of


class NoLimit:
    """A session where arrow.maxRecordsPerBatch is 0, which PySpark does not expect of a table."""

    def createDataFrame(self, rows: Any, columns: str) -> Any:
        if isinstance(rows, pa.Table):
            rows.to_batches(max_chunksize=0)
        return rows, columns


def test_a_session_without_a_limit_for_batches_gets_its_rows_one_by_one() -> None:
    rows = pa.table({"task": pa.array([0, 1], pa.int32()), "message": [b"a", b"b"]})
    session: Any = NoLimit()
    found: Any = frame_of(session, rows, "task int, message binary")
    assert found == ([(0, b"a"), (1, b"b")], "task int, message binary")
