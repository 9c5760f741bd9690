"""Two workers share the tests of Spark so that neither waits for the other at the end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.quick import durations

ROOT = Path(__file__).resolve().parents[2]
GROUPS = """
import json, sys, pytest

class Groups:
    def pytest_collection_finish(self, session):
        for item in session.items:
            marks = sorted({mark.args[0] for mark in item.iter_markers("xdist_group")})
            print("GROUP", json.dumps(["_".join(marks), item.nodeid.partition("::")[0]]))

pytest.main(["--collect-only", "-qq", *sys.argv[1:]], plugins=[Groups()])
"""


def test_clusters_come_first_and_then_files_of_a_session_on_threads_the_longest_first() -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    clusters = ["clusters/test_suites", "clusters/test_unlucky_executors"]
    names = ["test_columns", "test_pushed", *clusters, "test_diff", "test_doctor"]
    done = subprocess.run(
        [sys.executable, "-c", GROUPS, *(f"tests/spark/{name}.py" for name in names)],
        cwd=ROOT,
        env={**os.environ, "LANCEWOOD_TURN": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("GROUP ")]
    groups = dict[str, set[str]]()
    for group, file in (json.loads(line.removeprefix("GROUP ")) for line in lines):
        groups.setdefault(group, set()).add(file)
    threads = [group for group in groups if "spark-test_" in group]
    assert [*groups][-len(threads) :] == threads
    assert {"spark-local-cluster", "spark-standalone", "spark-connect"} <= {*groups}
    assert all(len(groups[group]) == 1 for group in threads)
    measured = durations.read(durations.FILE.read_text())
    seconds = [measured[file] for group in threads for file in groups[group]]
    assert seconds == sorted(seconds, reverse=True)
    assert len(seconds) == 3
