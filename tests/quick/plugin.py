"""A plugin of pytest that runs a plan: cheapest parts first, and nothing after the deadline.

The plan is the file in ``LANCEWOOD_QUICK``, from where the processes of pytest-xdist have it too.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.quick.durations import whole_test

VARIABLE = "LANCEWOOD_QUICK"
_GROUPED = "tests/spark/"
"""Tests of Spark come last and stay in their order: in another one, sessions would end early."""


class Order(NamedTuple):
    """The names of the parts to run in their order, those to leave out, and when to stop."""

    chosen: list[str]
    left_out: list[str]
    deadline: float

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self._asdict()))


def pytest_configure(config: pytest.Config) -> None:
    order = Order(**json.loads(Path(os.environ[VARIABLE]).read_text()))
    config.pluginmanager.register(Quick(order))


class Quick:
    def __init__(self, order: Order) -> None:
        self._places = {name: place for place, name in enumerate(order.chosen)}
        self._left_out = {*order.left_out}
        self._deadline = order.deadline

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        chosen = [(place, item) for item in items if (place := self._place(item)) is not None]
        chosen.sort(key=lambda pair: pair[0])
        kept = {item for _, item in chosen}
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = [item for _, item in chosen]

    def _place(self, item: pytest.Item) -> int | None:
        """Where a test is in the order, or None if it is left out."""
        test = whole_test(item.nodeid)
        part = test if test in self._places or test in self._left_out else test.partition("::")[0]
        if part not in self._places:
            return None
        return len(self._places) if test.startswith(_GROUPED) else self._places[part]

    def pytest_runtest_setup(self) -> None:
        if time.time() > self._deadline:
            pytest.skip("the time of `make quick` was over")
