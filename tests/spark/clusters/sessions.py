"""One session at a time, on the kind of Spark that is asked for.

A process has one Spark context at most, so the next session ends the one before. Servers are
started when they are first needed and live until ``close``. Knows nothing of tables.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.spark.clusters.kinds import CONNECT, LOCAL, LOCAL_CLUSTER, STANDALONE
from tests.spark.clusters.processes import ROOT, Server, start_connect, start_standalone
from tests.spark.environment import NOTHING_COMPILED, QUICK_START, python_path
from tests.spark.needs import why_not

from lancewood.spark import abilities, session

_MASTERS = {LOCAL: "local[2,3]", LOCAL_CLUSTER: "local-cluster[2,1,1024]"}
_SQL = {"spark.sql.shuffle.partitions": "2"}
_STARTED_HERE = {
    "spark.driver.extraJavaOptions": QUICK_START,
    "spark.executor.extraJavaOptions": QUICK_START,
    "spark.executor.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.executorEnv.PYTHONPATH": os.pathsep.join([python_path(), str(ROOT / "src")]),
}


class Sessions:
    """The session of this process, and the servers that it may need."""

    def __init__(self) -> None:
        # A Java that is started here hands it on to its Pythons.
        os.environ["PYTHONPATH"] = python_path()
        self._logs = Path(tempfile.mkdtemp(prefix="lancewood-clusters-"))
        self._servers: list[Server] = []
        self._masters = dict(_MASTERS)
        self._running: Any = None
        self._what: tuple[str, dict[str, str]] | None = None

    def use(self, mode: str, conf: Mapping[str, str] | None = None) -> Any:
        """A session on one of ``kinds.KINDS``, with more settings if they are given."""
        wanted = (mode, dict(conf or {}))
        if self._what != wanted:
            self.stop()
            here = {} if mode == CONNECT else {**NOTHING_COMPILED, **_STARTED_HERE}
            conf = {**_SQL, **here, **wanted[1]}
            self._running = session(self.master(mode), conf=conf)
            self._what = wanted
        return self._running

    def close(self) -> None:
        """End the session and every server."""
        try:
            self.stop()
        finally:
            for each in reversed(self._servers):
                each.end()
            shutil.rmtree(self._logs, ignore_errors=True)

    def master(self, mode: str) -> str:
        """Where such a Spark is; a server is started if need be. Skips where there can be none."""
        if mode == CONNECT and not abilities.CONNECT.is_in(abilities.release_here()):
            pytest.skip(why_not(abilities.CONNECT))
        if mode not in self._masters:
            if mode == STANDALONE:
                self._masters[mode] = start_standalone(self._logs, self._servers)
            else:
                self._masters[mode] = start_connect(self._logs, self._servers)
        return self._masters[mode]

    def stop(self) -> None:
        """End the session; the next one is started anew."""
        running, self._running, self._what = self._running, None, None
        if running is not None:
            running.stop()
