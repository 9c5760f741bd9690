"""Where segments are built: with the runner that was given, or here where it would take longer to
begin a job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.jobs.index import building


class Counted(lw.LocalRunner):
    """Threads that say what they did."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[str] = []

    def run(self, work: Any, tasks: Any, *, what: str, leftover: Any = None) -> Any:
        self.done.append(what)
        return super().run(work, tasks, what=what, leftover=leftover)


class Cluster(Counted):
    """One for which it takes a while to begin a job."""

    def __init__(self) -> None:
        super().__init__()
        self.nearby = Counted()


@pytest.fixture
def table(tmp_path: Path) -> lw.Table:
    return lw.create(
        tmp_path / "t", pa.table({"n": range(400)}), layout=lw.Layout(max_rows_per_file=100)
    )


def test_zones_of_a_few_values_are_found_here(table: lw.Table) -> None:
    cluster = Cluster()
    after = table.indices.create("n", "ZONEMAP", runner=cluster)
    assert (cluster.done, cluster.nearby.done) == ([], ["indexing"])
    after = after.append(pa.table({"n": range(100)})).indices.extend(runner=cluster)
    assert not cluster.done
    assert after.indices.list()[0].rows_uncovered == 0
    assert after.count_rows("n = 7") == 2


def test_many_values_and_other_kinds_are_for_the_cluster(
    table: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster()
    table = table.indices.create("n", "BTREE", name="tree", runner=cluster)
    monkeypatch.setattr(building, "SMALL_ZONED_BYTES", table.stats().bytes)
    table = table.indices.create("n", "ZONEMAP", name="zones", runner=cluster)
    assert (cluster.done, cluster.nearby.done) == (["indexing", "indexing"], [])


def test_zones_are_found_here_only_without_other_work(table: lw.Table) -> None:
    for kind in ("BTREE", "ZONEMAP"):
        table = table.indices.create("n", kind, name=kind)
    cluster = Cluster()
    table = table.append(pa.table({"n": range(100)})).indices.extend(runner=cluster)
    assert "indexing" in cluster.done
    assert {each.rows_uncovered for each in table.indices.list()} == {0}


def test_small_segments_become_one_here(table: lw.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "LEAST_BYTES", 0)
    cluster = Cluster()
    after = table.indices.create("n", "BTREE", runner=cluster)
    assert (cluster.done, cluster.nearby.done) == (["indexing"], ["merging"])
    assert after.count_rows("n = 7") == 1
    monkeypatch.setattr(building, "SMALL_BYTES", 0)
    table.indices.create("n", "BTREE", name="other", runner=cluster)
    assert cluster.done == ["indexing", "indexing", "merging"]


def test_a_runner_that_is_not_a_cluster_does_all_of_it(table: lw.Table) -> None:
    threads = Counted()
    table.indices.create("n", "ZONEMAP", runner=threads)
    assert threads.done == ["indexing"]
