"""How much of a broad test runs every day: a slice of its cases, or all in ``make campaigns``."""

from __future__ import annotations

import os

import pytest

EVERY_CASE = os.environ.get("LANCEWOOD_EVERY_CASE") == "1"
SLICED = "sliced(parts): one of so many parts of the cases; all with LANCEWOOD_EVERY_CASE=1"


def is_of_the_day(item: pytest.Item) -> bool:
    """Whether a test runs every day.

    The part is where the places of the values in their lists add up to a multiple: of two
    parts of a grid with an axis of two, each has every pair of values of the other axes.
    """
    mark = item.get_closest_marker("sliced")
    if EVERY_CASE or mark is None:
        return True
    if not isinstance(item, pytest.Function):
        raise TypeError(f"{item.nodeid} has no cases of which a part could be taken")
    return sum(item.callspec.indices.values()) % int(mark.args[0]) == 0
