"""The benchmark of items checks what it measures."""

from __future__ import annotations

import pytest
from bench import items
from bench.__main__ import BENCHMARKS


def test_work_that_was_not_done_is_not_passed_over() -> None:
    with pytest.raises(RuntimeError, match="3 items were to be done, and 2 were"):
        items._check(2, 3)


def test_rates_are_items_a_second() -> None:
    assert items._rates((500.0, 250.0), 100) == (200.0, 400.0)
    assert BENCHMARKS["items"] is items.run
