"""How much of a broad test runs every day: a slice of its cases, or all in ``make campaigns``."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import cast

import pytest

_Param = type(pytest.param())
_PLACES: dict[int, dict[tuple[int, ...], int]] = {}
"""Of the values of a list, by the list's id, the place of each, by the ids of what a test gets of
it: grids have thousands of cases, and values that take long to compare."""
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
        given = tuple(id(left.pop(each)) for each in names)
        if id(values) not in _PLACES:
            places = _PLACES[id(values)] = dict[tuple[int, ...], int]()
            for place, value in enumerate(values):
                places.setdefault(_ids(value, len(names)), place)
        yield _PLACES[id(values)][given]
    for name in left:
        yield item.callspec.indices[name]


def _ids(value: object, names: int) -> tuple[int, ...]:
    """Of what a test gets of a value, also where ``pytest.param`` says more of it."""
    if isinstance(value, _Param):
        return tuple(map(id, value.values))
    return (id(value),) if names == 1 else tuple(map(id, cast("Iterable[object]", value)))
