"""What travels to executors is small: no task carries the table, or data that is not its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.counted import counts_of

import lancewood as lw
from lancewood.jobs.runner import LocalRunner, Runner
from lancewood.spark.running.answers import dumps, loads

pytest.importorskip("pyspark", reason="pyspark is not installed")

FRAGMENTS, ROWS = 150, 4
LEAST_MANIFEST = FRAGMENTS * 60
"""In bytes: whoever carries all fragments carries more."""


class Measuring(LocalRunner):
    """Sends everything through pickle, as Spark does, and notes how much that is."""

    def __init__(self) -> None:
        super().__init__(workers=2)
        self.work: dict[str, int] = {}
        self.tasks: dict[str, list[int]] = {}

    def run(
        self,
        work: Callable[[Any], Any],
        tasks: Sequence[Any],
        *,
        what: str,
        leftover: Callable[[Any], object] | None = None,
    ) -> Iterator[Any]:
        pickled = dumps(work)
        self.work[what] = len(pickled)
        messages = [dumps(each) for each in tasks]
        self.tasks.setdefault(what, []).extend(map(len, messages))
        for each in messages:
            yield loads(dumps(loads(pickled)(loads(each))))


def source(rows: int) -> pa.Table:
    texts = pa.array(["x" * 200] * rows)
    return pa.table({"id": pa.array(range(rows), pa.int64()), "x": [0.5] * rows, "s": texts})


@pytest.fixture
def table(tmp_path: Path) -> lw.Table:
    rows = FRAGMENTS * ROWS
    return lw.create(
        tmp_path / "t.lance",
        source(rows),
        layout=lw.Layout(max_rows_per_file=ROWS),
        access=lw.Access(fsync=False),
    )


def _move(table: lw.Table, runner: Runner) -> None:
    table = table.add_base(str(Path(table.uri).parent / "cold"), name="cold", is_dataset_root=False)
    table.move_fragments(base="cold", where="id < 100", runner=runner)


def _detach(table: lw.Table, runner: Runner) -> None:
    table.clone(Path(table.uri).parent / "shallow.lance").detach(runner=runner)


JOBS: dict[str, Callable[[lw.Table, Runner], object]] = {
    "delete": lambda table, runner: table.delete("id % 3 = 0", runner=runner),
    "update": lambda table, runner: table.update({"x": "x + 1"}, "id % 3 = 0", runner=runner),
    "add columns": lambda table, runner: table.add_columns({"y": "x + 1"}, runner=runner),
    "cast": lambda table, runner: table.cast_column("id", pa.int32(), runner=runner),
    "compact": lambda table, runner: table.compact(target_rows=100, runner=runner),
    "verify": lambda table, runner: table.verify(runner=runner),
    "clone": lambda table, runner: table.clone(
        Path(table.uri).parent / "deep.lance", deep=True, runner=runner
    ),
    "move": _move,
    "detach": _detach,
    "cleanup": lambda table, runner: table.cleanup(older_than=timedelta(0), runner=runner),
}


@pytest.mark.sliced(2)
@pytest.mark.parametrize("job", JOBS)
def test_no_work_carries_the_list_of_fragments(table: lw.Table, job: str) -> None:
    runner = Measuring()
    JOBS[job](table, runner)
    assert runner.work
    assert max(runner.work.values()) < LEAST_MANIFEST
    assert all(size < 30_000 for sizes in runner.tasks.values() for size in sizes)


def test_merge_sends_keys_to_all_tasks_and_each_row_to_one(table: lw.Table) -> None:
    runner = Measuring()
    rows = source(FRAGMENTS * ROWS + 1_000)
    merged = table.merge(rows, on="id", runner=runner)
    assert (counts_of(merged, lw.RowCounts).updated, counts_of(merged, lw.RowCounts).inserted) == (
        FRAGMENTS * ROWS,
        1_000,
    )
    assert merged.to_arrow().sort_by("id").equals(rows)
    assert runner.work["matching keys"] < rows.nbytes / 5
    assert runner.work["writing rows"] < LEAST_MANIFEST
    assert rows.nbytes < sum(runner.tasks["writing rows"]) < 1.5 * rows.nbytes


def test_merge_that_deletes_sends_no_rows_of_the_source(table: lw.Table) -> None:
    runner = Measuring()
    rows = source(FRAGMENTS * ROWS)
    merged = table.merge(rows, on="id", matched="delete", not_matched="ignore", runner=runner)
    assert counts_of(merged, lw.RowCounts).deleted == FRAGMENTS * ROWS
    assert sum(runner.tasks["writing rows"]) < rows.nbytes / 2
