"""How much of a broad test runs every day: a slice of its cases, or all in ``make campaigns``."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

_Param = type(pytest.param())
_PLAIN: dict[int, list[object]] = {}
"""What tests get of the values of a list, by the list's id: grids have thousands of cases."""
EVERY_CASE = os.environ.get("LANCEWOOD_EVERY_CASE") == "1"
SLICED = "sliced(parts, at=0): one of so many parts of the cases; all with LANCEWOOD_EVERY_CASE=1"
CAMPAIGN = "campaign: long, and shown by a shorter test every day; runs with LANCEWOOD_EVERY_CASE=1"


def daily(some: int, of: int) -> int:
    """How many orders, examples or cases are tried: some every day, more in ``make campaigns``."""
    return of if EVERY_CASE else some


def is_of_the_day(item: pytest.Item) -> bool:
    """Whether a test runs every day: not if it is marked as one of a campaign.

    Of a sliced one those cases run where the places of the values in their lists add up to a
    multiple: of two parts of a grid with an axis of two, each has every pair of values of the other
    axes. A mark for a whole module leaves tests without cases alone.
    """
    if EVERY_CASE or item.get_closest_marker("campaign") is not None:
        return EVERY_CASE
    mark = item.get_closest_marker("sliced")
    if mark is None or not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        return True
    return sum(_places(item)) % int(mark.args[0]) == int(mark.kwargs.get("at", 0))


def _places(item: pytest.Function) -> Iterator[int]:
    """The place of each value in its list; values that one ``parametrize`` gives together have one.

    pytest's own numbers are such places for the parameters of fixtures only: for those of a test
    they count its cases.
    """
    left = dict(item.callspec.params)
    for mark in item.iter_markers("parametrize"):
        names, values = mark.args
        if isinstance(names, str):
            names = [each.strip() for each in names.split(",")]
        taken = [left.pop(each) for each in names]
        given = taken[0] if len(taken) == 1 else tuple(taken)
        if id(values) not in _PLAIN:
            _PLAIN[id(values)] = [*map(_plain, values)]
        yield _PLAIN[id(values)].index(given)
    for name in left:
        yield item.callspec.indices[name]


def _plain(value: object) -> object:
    """What a test gets of a value, also where ``pytest.param`` says more of it."""
    if not isinstance(value, _Param):
        return value
    return value.values[0] if len(value.values) == 1 else tuple(value.values)
