"""Rows of the driver as frames, and tasks out of frames, without a Spark."""

from __future__ import annotations

import gc
from typing import Any

import pyarrow as pa
import pytest

from lancewood.spark.tasks import Spread, frame_of, leading_keys, messages_of, spread


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


class Frames:
    """A session whose ranges are lists, and what was asked of it."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.numbers: list[range] = []

    def range(self, start: int, end: int, step: int, parts: int) -> Any:
        self.asked.append(f"range {end} in {parts}")
        share = end // parts
        self.numbers = [range(at * share, (at + 1) * share, step) for at in range(parts)]
        return self

    def where(self, condition: str) -> Any:
        mask = int(condition.split("&")[1].split(")")[0])
        self.numbers = [part[:1] for part in self.numbers]
        assert all(not part.start & mask for part in self.numbers)
        self.asked.append("where")
        return self

    def selectExpr(self, *columns: str) -> Any:
        self.asked.append(f"select {len(columns)}")
        return self

    def mapInArrow(self, run: Any, schema: str) -> Any:
        self.asked.append(run.__name__)
        batches = ([pa.record_batch({"id": list(part)})] if part else [] for part in self.numbers)
        return [list(run(iter(each))) for each in batches]


def answers(batches: Any) -> Any:
    return (
        pa.record_batch({"answer": [f"{task} {text!r}"]}) for task, text in messages_of(batches)
    )


@pytest.mark.parametrize("count", [1, 3, 8])
@pytest.mark.parametrize("size", [0.0, 1e5, 48e6, 1e15])
def test_each_partition_runs_its_own_task_however_large_the_result_is_to_be(
    count: int, size: float
) -> None:
    session: Any = Frames()
    tasks: Spread = spread(session, [b"m%d" % each for each in range(count)], size)
    found: Any = tasks.mapInArrow(answers, "answer string")
    texts = [[batch["answer"][0].as_py() for batch in part] for part in found]
    assert texts == [[f"{each} b'm{each}'"] for each in range(count)]
    rows = int(session.asked[0].split()[1])
    assert session.asked[-1] == "answers"
    assert (
        rows == count if not size else min(size, 1 << 30) / 2 <= rows * 58 <= 2 * size + 58 * count
    )


def test_without_a_message_nothing_is_run() -> None:
    session: Any = Frames()
    found: Any = spread(session, [], 1e9).mapInArrow(answers, "answer string")
    assert found == [[]]
