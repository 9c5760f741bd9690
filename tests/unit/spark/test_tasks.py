"""Rows of the driver as frames, and tasks out of frames, without a Spark."""

from __future__ import annotations

import gc
from typing import Any

import pyarrow as pa
import pytest

from lancewood.spark.tasks import frame_of, leading_keys, messages_of


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


@pytest.mark.parametrize("frozen", [0, 1000])
def test_after_its_first_task_a_worker_does_not_look_through_all_modules_again(
    monkeypatch: pytest.MonkeyPatch, frozen: int
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(gc, "get_freeze_count", lambda: frozen)
    monkeypatch.setattr(gc, "freeze", lambda: calls.append("freeze"))
    assert list(messages_of(iter([batch_of_tasks()]))) == [(7, b"seven")]
    assert calls == ["freeze"] * (not frozen)


def batch_of_tasks() -> pa.RecordBatch:
    return pa.record_batch({"task": pa.array([7], pa.int32()), "message": [b"seven"]})


@pytest.mark.parametrize("count", [1, 2, 7, 1000])
def test_each_partition_has_a_key_of_its_own(count: int) -> None:
    assert len(set(leading_keys(count))) == count


def test_keys_lead_where_the_hash_of_spark_does() -> None:
    """``hash(0)`` to ``hash(3)`` are what Spark's SQL answers."""
    hashes = [933211791, -559580957, 1765031574, -1823081949]
    keys = leading_keys(3)
    assert [hashes[key] % 3 for key in keys if key < 4] == [
        number for number, key in enumerate(keys) if key < 4
    ]
    assert min(keys) == 0
