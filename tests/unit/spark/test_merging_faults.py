"""A failure, a lost answer or a death at every store call of a merge of a frame.

Afterwards the table is old or new, both implementations read it, and the merge can be done again.
The frame has one partition: of those that Spark has staged when another fails nobody is told.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from tests.breadth import daily
from tests.unit.spark.local_join import Frame, LocalJoin

import lancewood as lw
from lancewood.engine.location.location import Location
from lancewood.engine.snapshot.snapshot import Snapshot
from lancewood.jobs.job import execute
from lancewood.jobs.merge_into.source import Choices
from lancewood.spark.merge_into.merge import FrameMerge
from lancewood.store.disk import DiskStore
from lancewood.testing.faults import FaultyStore, Killed, Mode

pytest.importorskip("pyspark", reason="pyspark is not installed")

MOST_CALLS = 120
NEW = pa.table({"k": range(7, 12), "v": [f"new {n}" for n in range(7, 12)]})


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lancewood.store.retry.time.sleep", lambda seconds: None)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table where somebody has changed rows since version 2; the merge begins there."""
    uri = str(tmp_path_factory.mktemp("merges") / "t.lance")
    data = pa.table({"k": range(10), "v": [f"old {n}" for n in range(10)]})
    table = lw.create(
        uri, data, layout=lw.Layout(max_rows_per_file=4), access=lw.Access(fsync=False)
    ).delete("k = 2")
    table.update({"v": "'theirs'"}, "k = 8", rewrite="rows")
    return uri


def merge(table: lw.Table) -> str:
    frame: Any = Frame(NEW, travels=False)
    job = FrameMerge(frame, table._snapshot, Choices(on="k"), LocalJoin(travels=False))
    try:
        execute(table._snapshot, job.prepare)
    except Killed:
        return "dead"
    except lw.CommitUnknownError:
        return "unknown"
    except lw.StorageError:
        return "failed"
    finally:
        with suppress(Killed):
            job.close()
    return "done"


def seen(uri: str) -> list[tuple[int, str]]:
    table, theirs = lw.open(uri), lance.dataset(uri)
    theirs.validate()
    assert table.version == theirs.version
    rows = theirs.to_table().to_pylist()
    assert sorted(rows, key=repr) == sorted(table.to_arrow().to_pylist(), key=repr)
    return sorted((each["k"], each["v"]) for each in rows)


def data_files(uri: str) -> set[str]:
    return {each.name for each in Path(uri, "data").iterdir()}


@pytest.mark.sliced(3)
@pytest.mark.parametrize("mode", ["before", "after", "kill", "kill-after"])
def test_a_merge_is_old_or_new_whatever_call_goes_wrong(
    template: str, tmp_path: Path, mode: Mode
) -> None:
    before = seen(template)
    after = sorted({**dict(before), **{n: f"new {n}" for n in range(7, 12)}}.items())
    outcomes = set()
    for at in range(1, MOST_CALLS, daily(5, of=1)):
        uri = str(tmp_path / f"{at}.lance")
        shutil.copytree(template, uri)
        there = data_files(uri)
        store = FaultyStore(DiskStore(uri, fsync=False), at=at, mode=mode)
        opened = lw.open(uri, version=2)._snapshot
        outcome = merge(lw.Table(Snapshot(Location(store), opened.manifest, opened.scheme)))
        outcomes.add(outcome)
        found = seen(uri)
        where = (at, outcome, store.calls[-1])
        assert found in (before, after), where
        assert outcome != "done" or found == after, where
        assert outcome != "failed" or found == before, where
        if outcome == "failed" and mode == "before" and store.calls[at - 1][0] != "delete":
            assert data_files(uri) == there, where
        if outcome == "dead":
            assert merge(lw.open(uri, access=lw.Access(fsync=False))) == "done", where
            assert seen(uri) == after, where
        if len(store.calls) < at:
            break
        shutil.rmtree(uri)
    else:
        pytest.fail("the merge never came to its end")
    assert at > 10
    assert ("dead" in outcomes) == mode.startswith("kill")
