"""Spark's own count of its tasks, while a job runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lancewood.pipeline.report.facts import Listener, following

pytestmark = pytest.mark.spark

PATIENCE = 60.0


class Hearing(Listener):
    """Writes down what it hears, and then lets the tasks go on."""

    def __init__(self, gate: Path) -> None:
        self.heard: list[tuple[str, int, int]] = []
        self._gate = gate

    def moved(self, stage: str, done: int, total: int) -> None:
        self.heard.append((stage, done, total))
        self._gate.touch()


def test_tasks_are_told_while_they_run(spark: Any, tmp_path: Path) -> None:
    gate = tmp_path / "open"

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        until = time.monotonic() + PATIENCE
        while not gate.exists() and time.monotonic() < until:
            time.sleep(0.01)
        yield from batches

    listener = Hearing(gate)
    with following(spark, listener, "load photos"):
        rows = spark.range(0, 3, 1, 3).mapInArrow(wait, "id long").collect()
    assert len(rows) == 3
    assert listener.heard[0] == ("load photos", 0, 3)
    assert listener.heard[-1] == ("load photos", 3, 3)


def test_an_error_of_the_block_comes_through(spark: Any, tmp_path: Path) -> None:
    listener = Hearing(tmp_path / "open")

    def failing() -> None:
        with following(spark, listener, "check"):
            raise ValueError("no such column")

    with pytest.raises(ValueError, match="no such column"):
        failing()
    assert listener.heard == []
