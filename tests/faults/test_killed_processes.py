"""A real process that dies without a word, at every store call of an append and of statements."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from tests.breadth import daily
from tests.pylance import judged

import lancewood as lw

CHILD = """
import os, signal, sys
import pyarrow as pa
import lancewood as lw
from lancewood.engine.location import Location
from lancewood.engine.snapshot import Snapshot
from lancewood.store.disk import DiskStore
from lancewood.testing.faults import WatchedStore

uri, at = sys.argv[1], int(sys.argv[2])

class Mortal(WatchedStore):
    calls = 0

    def _call(self, verb, key, action):
        Mortal.calls += 1
        if Mortal.calls == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return action()

old = lw.open(uri)._snapshot
table = lw.Table(Snapshot(Location(Mortal(DiskStore(uri))), old.manifest, old.scheme))
if len(sys.argv) > 3:
    lw.sql(sys.argv[3], tables={"t": table})
else:
    table.append(pa.table({"a": [3, 4]}))
"""


def test_a_killed_append_leaves_the_old_version_or_the_new_one(uri: str) -> None:
    lw.create(uri, pa.table({"a": [1, 2]}))
    rows, deaths = 2, 0
    for at in range(1, 30, daily(2, of=1)):
        done = subprocess.run([sys.executable, "-c", CHILD, uri, str(at)], timeout=60, check=False)
        dataset = judged(uri)
        assert lw.open(uri).count_rows() == dataset.count_rows()
        assert dataset.count_rows() in (rows, rows + 2)
        rows = dataset.count_rows()
        if done.returncode == 0:
            break
        assert done.returncode == -9
        deaths += 1
    assert deaths >= daily(3, of=4)
    assert lw.open(uri).append(pa.table({"a": [5]})).count_rows() == rows + 1


@pytest.mark.sliced(3)
@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE t SET a = a + 2 WHERE a < 3",
        "DELETE FROM t WHERE a * 1 = 2; INSERT INTO t SELECT max(a) + 3 FROM t",
        "MERGE INTO t USING (VALUES (1), (4)) AS v(b) ON a = b WHEN MATCHED THEN DELETE "
        "WHEN NOT MATCHED THEN INSERT",
    ],
)
def test_a_killed_script_leaves_what_one_of_its_statements_left(tmp_path: Path, sql: str) -> None:
    states = [[1, 2]]
    uri = str(tmp_path / "whole.lance")
    lw.create(uri, pa.table({"a": [1, 2]}))
    for each in sql.split(";"):
        lw.sql(each, tables={"t": uri})
        states.append(sorted(lw.open(uri).to_arrow()["a"].to_pylist()))
    deaths = 0
    for at in range(1, 60, daily(4, of=1)):
        uri = str(tmp_path / f"{at}.lance")
        lw.create(uri, pa.table({"a": [1, 2]}))
        command = [sys.executable, "-c", CHILD, uri, str(at), sql]
        done = subprocess.run(command, timeout=60, check=False)
        rows = sorted(judged(uri).to_table()["a"].to_pylist())
        assert rows in states
        assert sorted(lw.open(uri).to_arrow()["a"].to_pylist()) == rows
        if done.returncode == 0:
            assert rows == states[-1]
            break
        assert done.returncode == -9
        deaths += 1
        rest = sql.split(";")[states.index(rows) :]
        if rest:
            lw.sql(";".join(rest), tables={"t": uri})
        assert sorted(judged(uri).to_table()["a"].to_pylist()) == states[-1]
    assert deaths >= 2
