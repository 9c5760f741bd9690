"""Clusters whose executors fail where a test says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.spark.clusters.faults import DIRECTORY, Faults


class Faulty(NamedTuple):
    """A session, and the faults that wait in its executors."""

    spark: Any
    faults: Faults


SMALL_BATCHES = {"spark.sql.execution.arrow.maxRecordsPerBatch": "500"}
"""A task writes several times before it is done."""

SPECULATING = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "100ms",
}


@pytest.fixture(scope="session")
def fault_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("faults")


@pytest.fixture
def dying(sessions: Any, fault_directory: Path) -> Iterator[Faulty]:
    """Two executors with a Java each, which may be killed."""
    yield from _faulty(sessions, fault_directory, "local-cluster", {})


@pytest.fixture
def speculating(sessions: Any, fault_directory: Path) -> Iterator[Faulty]:
    """Two executors on two hosts; a slow task is run a second time."""
    yield from _faulty(sessions, fault_directory, "standalone", SPECULATING)


def _faulty(sessions: Any, directory: Path, mode: str, more: dict[str, str]) -> Iterator[Faulty]:
    settings = {
        "spark.python.daemon.module": "tests.spark.clusters.faulty_daemon",
        f"spark.executorEnv.{DIRECTORY}": str(directory),
        **SMALL_BATCHES,
        **more,
    }
    faults = Faults(directory)
    faults.clear()
    yield Faulty(sessions.use(mode, settings), faults)
    faults.clear()
