"""A real process that dies without a word, at every store call of an append."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
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
lw.Table(Snapshot(Location(Mortal(DiskStore(uri))), old.manifest, old.scheme)).append(
    pa.table({"a": [3, 4]})
)
"""


def test_a_killed_append_leaves_the_old_version_or_the_new_one(uri: str) -> None:
    lw.create(uri, pa.table({"a": [1, 2]}))
    rows, deaths = 2, 0
    for at in range(1, 30):
        done = subprocess.run([sys.executable, "-c", CHILD, uri, str(at)], timeout=60, check=False)
        dataset = judged(uri)
        assert lw.open(uri).count_rows() == dataset.count_rows()
        assert dataset.count_rows() in (rows, rows + 2)
        rows = dataset.count_rows()
        if done.returncode == 0:
            break
        assert done.returncode == -9
        deaths += 1
    assert deaths >= 4
    assert lw.open(uri).append(pa.table({"a": [5]})).count_rows() == rows + 1
