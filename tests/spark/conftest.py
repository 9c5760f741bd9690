"""A running Spark for the tests that need one, of the kind that they need.

``spark`` is a classic session on two threads. ``any_spark`` is a session on each of four kinds in
turn; a worker of pytest-xdist has all tests of a cluster, because starting one takes seconds. A
process has one session at a time: a module asks for the one or for the other.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.quick import durations
from tests.spark.clusters.kinds import CONNECT, KINDS, LOCAL, on
from tests.spark.ways import WAYS, by_way

NOT_OURS = (
    "ignore:PySpark does not yet fully support pandas:FutureWarning",
    "ignore:lance is not fork-safe:UserWarning",
    "ignore:unclosed <socket:ResourceWarning",
    "ignore:distutils Version classes are deprecated:DeprecationWarning",
    "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning",
)
"""What PySpark and lance warn about whatever is done; older PySparks leave sockets open. A
session silences it for a process, but pytest forgets that after each test."""
THREADS = "spark"
"""The group of tests that need a session on threads, and may name it."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group and order the tests before pytest-xdist reads the groups.

    Tests on a kind of cluster, or on Connect, are one group. Those of a session on threads are a
    group for each file: a worker that takes several of them keeps its session. A test that starts
    all it needs itself is in no group. Groups of one file are last, those that take longest first,
    so that no worker is left alone with a long one.
    """
    seconds = durations.read(durations.FILE.read_text())
    here = Path(__file__).parent
    places = dict[pytest.Item, tuple[bool, float]]()
    for item in items:
        places[item] = (False, 0.0)
        if here not in item.path.parents:
            continue
        for each in NOT_OURS:
            item.add_marker(pytest.mark.filterwarnings(each))
        mark = item.get_closest_marker("xdist_group")
        needs_session = "sessions" in getattr(item, "fixturenames", ())
        if mark.args == (THREADS,) if mark is not None else needs_session:
            item.add_marker(pytest.mark.xdist_group(f"{THREADS}-{item.path.stem}"))
            file = item.nodeid.partition("::")[0]
            places[item] = (True, -seconds.get(file, 0.0))
    items.sort(key=places.__getitem__)


@pytest.fixture(scope="session")
def sessions() -> Iterator[Any]:
    """Where sessions come from: ``sessions.use("standalone")``."""
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    from tests.spark.clusters.sessions import Sessions

    from lancewood.errors import UnsupportedError
    from lancewood.spark.java import find_java

    try:
        find_java(os.environ)
    except UnsupportedError as missing:
        pytest.skip(str(missing))
    found = Sessions()
    yield found
    found.close()


@pytest.fixture(scope="module")
def spark(sessions: Any) -> Any:
    """A classic session on two threads of this machine."""
    return sessions.use(LOCAL)


@pytest.fixture(params=WAYS)
def both_ways(request: pytest.FixtureRequest, spark: Any) -> Iterator[None]:
    """Frames of that session get their rows in one way after the other."""
    with by_way(spark, request.param):
        yield


@pytest.fixture(scope="session", params=[on(each) for each in KINDS])
def mode(request: pytest.FixtureRequest) -> str:
    """One kind of Spark after the other."""
    return str(request.param)


@pytest.fixture
def any_spark(sessions: Any, mode: str) -> Any:
    """A session on that kind."""
    if mode == CONNECT:
        pytest.importorskip("grpc", reason="what Spark Connect needs is not installed")
    return sessions.use(mode)


@pytest.fixture(scope="module")
def connected(sessions: Any) -> Any:
    """A session of a server of Spark Connect. Tests with it are of one group: "spark-connect"."""
    pytest.importorskip("grpc", reason="what Spark Connect needs is not installed")
    return sessions.use("connect")
