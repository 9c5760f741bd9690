"""The doctor tries a session, on this machine and on a server of Spark Connect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.spark.environment import of_a_quick_shell

from lancewood.spark.doctor import Trial, run_trial
from lancewood.version import RELEASE

pytest.importorskip("pyspark", reason="pyspark is not installed")

PYTHON = ".".join(map(str, sys.version_info[:2]))


@pytest.mark.spark
def test_doctor_tries_a_local_session_and_leaves_nothing_behind(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lancewood", "spark", "doctor", "--run", "--json"],
        cwd=tmp_path,
        env=of_a_quick_shell(TMPDIR=str(tmp_path)),
        capture_output=True,
        text=True,
        timeout=840,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert document["ok"]
    seen = {each["name"]: each for each in document["checks"]}
    assert seen["worker"]["figure"].startswith(f"python {PYTHON}, lancewood")
    assert sys.executable in seen["worker"]["figure"]
    assert "1000 rows written and read back" in seen["table"]["figure"]
    assert not list(tmp_path.glob("lancewood-doctor-*"))


@pytest.mark.campaign
@pytest.mark.spark
@pytest.mark.xdist_group("spark-connect")
def test_doctor_tries_a_connect_server_and_removes_its_table(sessions: Any, tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="what Spark Connect needs is not installed")
    address = sessions.master("connect")
    report = run_trial(Trial(address, str(tmp_path)), os.environ)
    assert report["driver"]["lancewood"] == RELEASE
    assert [each["lancewood"] for each in report["workers"]] == [RELEASE]
    assert "1000 rows written and read back" in report["table"]
    assert not list(tmp_path.iterdir())
    assert run_trial(Trial(address), os.environ)["table"] is None
