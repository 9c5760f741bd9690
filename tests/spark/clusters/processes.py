"""Spark's own servers as processes of this machine: a master with workers, a Connect server.

They listen on loopback only, on ports that the system chose, and end with whoever started them.
Knows how to start and to end them. Knows nothing of sessions and tables.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import pyspark
from tests.spark.environment import NOTHING_COMPILED, QUICK_START, python_path

from lancewood.spark.java import find_java

HERE = "127.0.0.1"
HOME = Path(pyspark.__file__).parent
ROOT = Path(__file__).resolve().parents[3]
"""Where executors find functions of the tests."""

_END_WITH_PARENT = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 15); os.execv(sys.argv[1], sys.argv[1:])"
)
_PATIENCE = 120.0
_POLL = 0.05


class Server:
    """One process of Spark's, and what its log says."""

    def __init__(
        self, name: str, command: list[str], logs: Path, *, memory: str, host: str = HERE
    ) -> None:
        self._log = logs / f"{name}.log"
        self._out: IO[bytes] = self._log.open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-c", _END_WITH_PARENT, *command],
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=subprocess.STDOUT,
            env=_environment(memory, host),
            cwd=logs,
            start_new_session=True,
        )

    def wait_for(self, pattern: str) -> re.Match[str]:
        """The first place in the log where the pattern is found."""
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until:
            text = self._log.read_text(errors="replace")
            found = re.search(pattern, text)
            if found:
                return found
            if self._process.poll() is not None:
                break
            time.sleep(_POLL)
        self.end()
        raise RuntimeError(f"{self._log.name}: no {pattern!r} in\n{text[-3000:]}")

    def end(self) -> None:
        """End it and the processes that it started."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self._process.pid, number)
            except ProcessLookupError:
                break
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                continue
        self._process.wait()
        self._out.close()


def start_standalone(logs: Path, started: list[Server]) -> str:
    """A master and two workers of one core each; the master's address.

    The workers have addresses of their own, because Spark speculates on another host only.
    """
    spark_class = str(HOME / "bin" / "spark-class")
    ports = ["--port", "0", "--webui-port", "0"]
    command = [spark_class, "org.apache.spark.deploy.master.Master", "--host", HERE, *ports]
    master = Server("master", command, logs, memory="256m")
    started.append(master)
    address = master.wait_for(r"Starting Spark master at (spark://\S+)")[1]
    workers = []
    for host in (HERE, "127.0.0.2"):
        limits = ["--cores", "1", "--memory", "1g", "--work-dir", str(logs / f"work-{host}")]
        command = [spark_class, "org.apache.spark.deploy.worker.Worker", "--host", host, *ports]
        command += [*limits, address]
        workers.append(Server(f"worker-{host}", command, logs, host=host, memory="256m"))
    started.extend(workers)
    for each in workers:
        each.wait_for("Successfully registered with master")
    return address


def start_connect(logs: Path, started: list[Server], more: Mapping[str, str] | None = None) -> str:
    """A server of Spark Connect with two threads, and with more settings; its address."""
    settings = {
        **NOTHING_COMPILED,
        "spark.connect.grpc.binding.address": HERE,
        "spark.connect.grpc.binding.port": "0",
        "spark.driver.bindAddress": HERE,
        "spark.driver.host": HERE,
        "spark.driver.extraJavaOptions": QUICK_START,
        "spark.sql.warehouse.dir": str(logs / "warehouse"),
        "spark.ui.enabled": "false",
        **(more or {}),
    }
    options = [each for name, value in settings.items() for each in ("--conf", f"{name}={value}")]
    command = [str(HOME / "bin" / "spark-submit"), "--master", "local[2,3]", *options]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    server = Server("connect", command, logs, memory="1g")
    started.append(server)
    return "sc://" + server.wait_for(r"Spark Connect server started at: \S*?(127\.0\.0\.1:\d+)")[1]


def _environment(memory: str, host: str) -> dict[str, str]:
    quick = {"SPARK_DAEMON_MEMORY": memory, "SPARK_DAEMON_JAVA_OPTS": QUICK_START}
    return {
        **os.environ,
        **quick,
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": host,
        "SPARK_NO_DAEMONIZE": "1",
        "JAVA_HOME": str(find_java(os.environ).home),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": python_path(),
    }
