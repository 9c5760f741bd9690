"""A plugin of pytest that measures how long tests take, for ``make durations``.

What a test waited for a core does not count where the system tells it (Linux): the times are about
the same whatever else runs beside. Each process leaves a file in ``LANCEWOOD_DURATIONS``.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.quick.durations import whole_test

VARIABLE = "LANCEWOOD_DURATIONS"
_SCHEDULED = Path("/proc/self/schedstat")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Measure(Path(os.environ[VARIABLE])))


class Measure:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seconds = defaultdict[str, float](float)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        before = clock()
        try:
            return (yield)
        finally:
            self._seconds[whole_test(item.nodeid)] += clock() - before

    def pytest_sessionfinish(self) -> None:
        if self._seconds:
            self._folder.mkdir(parents=True, exist_ok=True)
            rounded = {test: round(seconds, 4) for test, seconds in self._seconds.items()}
            (self._folder / f"{os.getpid()}.json").write_text(json.dumps(rounded))


def clock() -> float:
    """Seconds, without those in which this thread was ready to run and had no core."""
    waited = int(_SCHEDULED.read_text().split()[1]) / 1e9 if _SCHEDULED.exists() else 0.0
    return time.monotonic() - waited
