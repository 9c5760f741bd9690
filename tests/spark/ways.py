"""The two ways in which a read gets into Spark: columns through Java, or rows through Python.

``LANCEWOOD_SPARK_COLUMNAR=0`` chooses for all tests of a run; here a test has both in one session.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from lancewood.spark.columnar.door import SETTING, VARIABLE, why_closed

COLUMNAR, PYTHON = "columnar", "python"
WAYS = (COLUMNAR, PYTHON)
with_the_door = pytest.mark.skipif(
    os.environ.get(VARIABLE) == "0", reason="the columnar door is switched off"
)
"""For tests of that door, and of what it shows."""
without_the_door = pytest.mark.skipif(
    os.environ.get(VARIABLE) != "0",
    reason="this needs a Java that never saw the columnar door: `make test` starts one apart",
)


@contextmanager
def by_way(spark: Any, way: str) -> Iterator[None]:
    """Frames that are made meanwhile are read in that way. Skips a test where it is not there."""
    with configured(spark, {SETTING: str(way == COLUMNAR).lower()}):
        reason = why_closed(spark)
        if way == COLUMNAR and reason is not None:
            pytest.skip(f"there is no columnar door: {reason}")
        yield


@contextmanager
def configured(spark: Any, settings: Mapping[str, str]) -> Iterator[None]:
    """Settings of the session for a while."""
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)
