"""An executor that is killed in the middle, a task that fails, a task that is run twice: rows are
there once, as the local runner and pylance see them, and what is left behind is found by age."""

from __future__ import annotations

import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from tests.spark.clusters.conftest import Faulty
from tests.spark.clusters.faults import Fault

import lancewood as lw
from lancewood.spark import runner, write
from lancewood.spark.tasks import arrow_of

ROWS = 4000
AGE = timedelta(days=8)


def made(uri: Path, files: int = 4) -> lw.Table:
    """A table of some fragments."""
    table = lw.create(
        uri, pa.table({"id": pa.array([], pa.int64()), "n": pa.array([], pa.int64())})
    )
    each = ROWS // files
    for start in range(0, ROWS, each):
        ids = pa.array(range(start, start + each), pa.int64())
        table = table.append(pa.table({"id": ids, "n": ids}))
    return table


def numbers(spark: Any, start: int, stop: int) -> Any:
    """Rows in four partitions, each told from the others by its id."""
    return spark.range(start, stop, 1, 4).selectExpr("id", "id * 2 AS n")


def rows_of(uri: Path) -> list[dict[str, Any]]:
    """What pylance reads, row ids included, and it is content with the table."""
    dataset: Any = lance.dataset(str(uri))
    dataset.validate()
    return sorted(dataset.to_table(with_row_id=True).to_pylist(), key=lambda row: row["_rowid"])


def without_ids(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted(tuple(row[name] for name in row if name != "_rowid") for row in rows)


def orphans(uri: Path) -> set[Path]:
    """Files below data/ that the newest version does not name."""
    named = {file.path for each in lw.open(uri).fragments for file in each.files}
    return {each for each in (uri / "data").iterdir() if each.name not in named}


@pytest.mark.spark
@pytest.mark.xdist_group("spark-local-cluster")
class TestKilled:
    """On two executors of a Java each; a task has four attempts."""

    def test_write_has_its_rows_once_and_cleanup_takes_the_half_file_by_age(
        self, dying: Faulty, tmp_path: Path
    ) -> None:
        uri = tmp_path / "numbers.lance"
        made(uri)
        dying.faults.arm(Fault("write", "kill", under=str(uri)))
        done = write(numbers(dying.spark, ROWS, 2 * ROWS), uri, mode="append")
        assert dying.faults.left() == 0
        assert (done.counts, done.files) == (lw.RowCounts(inserted=ROWS), 4)
        before = [(each, each) for each in range(ROWS)]
        assert without_ids(rows_of(uri)) == before + [(n, 2 * n) for n in range(ROWS, 2 * ROWS)]

        left = orphans(uri)
        assert left, "the executor was killed in the middle of a file"
        assert lw.open(uri).cleanup().data_files == 0
        assert orphans(uri) == left
        for each in left:
            os.utime(each, times=(time.time() - AGE.total_seconds(),) * 2)
        held = dying.faults.hold("close", under=str(uri))
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(write, numbers(dying.spark, 2 * ROWS, 3 * ROWS), uri, "append")
            with held.reached():
                lw.open(uri).cleanup()
                assert not left & orphans(uri)
                assert orphans(uri), "a running job has a file that no version names"
            running.result()
        assert not orphans(uri)
        assert [row["id"] for row in rows_of(uri)] == list(range(3 * ROWS))

    @pytest.mark.campaign
    def test_task_that_fails_twice_has_its_rows_once(self, dying: Faulty, tmp_path: Path) -> None:
        uri = tmp_path / "numbers.lance"
        failing = [Fault("close", "fail", partition=1, attempt=each) for each in (0, 1)]
        dying.faults.arm(*failing)
        frame = numbers(dying.spark, 0, ROWS)
        frame.write.format("lance").mode("append").save(str(uri))
        assert dying.faults.left() == 0
        assert without_ids(rows_of(uri)) == [(n, 2 * n) for n in range(ROWS)]
        assert not orphans(uri), "a task that fails takes its files with it"

    @pytest.mark.campaign
    def test_merge_equals_that_of_the_local_runner(self, dying: Faulty, tmp_path: Path) -> None:
        uri, local = tmp_path / "merged.lance", tmp_path / "local.lance"
        made(uri)
        source = numbers(dying.spark, ROWS // 2, ROWS + ROWS // 2)
        expected = made(local).merge(arrow_of(source), on="id")
        staging = [Fault("close", "pass", under=str(uri))] * source.rdd.getNumPartitions()
        dying.faults.arm(*staging, Fault("close", "kill", under=str(uri)))
        done = write(source, uri, mode="merge", on="id")
        assert dying.faults.left() == 0
        assert done.counts == expected.counts
        assert without_ids(rows_of(uri)) == without_ids(rows_of(local))
        kept = [row for row in rows_of(local) if row["_rowid"] < ROWS]
        assert [row for row in rows_of(uri) if row["_rowid"] < ROWS] == kept

    def test_branch_is_merged_as_by_the_local_runner(self, dying: Faulty, tmp_path: Path) -> None:
        uri, local = tmp_path / "merged.lance", tmp_path / "local.lance"
        table = made(uri)
        table.branches.create("exp").update({"n": "n + 1"}, "id % 3 = 0").delete("id = 8")
        table = table.update({"n": "n + 2"}, "id % 2 = 0")
        shutil.copytree(uri, local)
        rules = lw.Resolve(columns={"n": "ours.n + theirs.n - base.n"}, deletes="lose")
        expected = lw.open(local).branches.merge("exp", resolve=rules)
        dying.faults.arm(Fault("close", "kill", under=str(uri)))
        found = table.branches.merge("exp", resolve=rules, runner=runner(dying.spark))
        assert dying.faults.left() == 0
        assert found.counts == expected.counts
        assert rows_of(uri) == rows_of(local)
        numbers = {row["id"]: row["n"] for row in rows_of(uri)}
        added = {n: n + (n % 3 == 0) + 2 * (n % 2 == 0) for n in range(ROWS)}
        assert numbers == added
        report = lw.open(uri).verify()
        assert not report.problems

    @pytest.mark.campaign
    def test_new_column_equals_that_of_the_local_runner(
        self, dying: Faulty, tmp_path: Path
    ) -> None:
        uri, local = tmp_path / "wider.lance", tmp_path / "local.lance"
        new = {"triple": "id * 3"}
        expected = made(local).delete("id % 7 = 0").add_columns(new)
        table = made(uri).delete("id % 7 = 0")
        dying.faults.arm(Fault("close", "kill", under=str(uri)))
        found = table.add_columns(new, runner=runner(dying.spark))
        assert dying.faults.left() == 0
        assert found.version == expected.version
        assert rows_of(uri) == rows_of(local)


@pytest.mark.spark
@pytest.mark.xdist_group("spark-standalone")
class TestSpeculated:
    """On two executors of two hosts, where slow tasks are speculated."""

    def test_task_that_is_speculated_has_its_rows_once(
        self, speculating: Faulty, tmp_path: Path
    ) -> None:
        uri = tmp_path / "numbers.lance"
        # A worker that has to start first may be overtaken before it comes to the stall.
        write(numbers(speculating.spark, 0, ROWS), tmp_path / "before.lance")
        speculating.faults.arm(Fault("write", "stall", partition=0, attempt=0))
        done = write(numbers(speculating.spark, 0, ROWS), uri)
        assert speculating.faults.left() == 0
        assert done.counts == lw.RowCounts(inserted=ROWS)
        assert without_ids(rows_of(uri)) == [(n, 2 * n) for n in range(ROWS)]
