"""The kinds of Spark that suites run on, as parameters of tests."""

from __future__ import annotations

from typing import Any

import pytest

LOCAL, LOCAL_CLUSTER, STANDALONE, CONNECT = "local", "local-cluster", "standalone", "connect"
KINDS = (LOCAL, LOCAL_CLUSTER, STANDALONE, CONNECT)
"""Threads; processes with a Java each; a master and two workers; a server elsewhere."""


def on(kind: str) -> Any:
    """A parameter that keeps the tests of a kind together, in one worker of pytest-xdist.

    What a master and two workers add to a local cluster is shown every day by a task that is
    speculated there; the other tests have them in campaigns.
    """
    group = "spark" if kind == LOCAL else f"spark-{kind}"
    marks = [pytest.mark.spark, pytest.mark.xdist_group(group)]
    return pytest.param(kind, marks=[*marks, pytest.mark.campaign] if kind == STANDALONE else marks)


elsewhere = pytest.mark.parametrize(
    "mode", [on(each) for each in KINDS if each != LOCAL], indirect=True
)
"""For what the other modules show on threads: the clusters, and Connect."""
