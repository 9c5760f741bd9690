"""How much of a broad test runs every day: a slice of its cases, or all in ``make campaigns``; and
which tests take turns from commit to commit."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import cast
from zlib import crc32

import pytest

_Param = type(pytest.param())
_PLACES: dict[int, dict[tuple[int, ...], int]] = {}
"""Of the values of a list, by the list's id, the place of each, by the ids of what a test gets of
it: grids have thousands of cases, and values that take long to compare."""
EVERY_CASE = os.environ.get("LANCEWOOD_EVERY_CASE") == "1"
SLICED = "sliced(parts, at=0): one of so many parts of the cases; all with LANCEWOOD_EVERY_CASE=1"
CAMPAIGN = "campaign: long, and shown by a shorter test every day; runs with LANCEWOOD_EVERY_CASE=1"
TURN = os.environ.get("LANCEWOOD_TURN", "")
"""The hash of a commit, by which ``make test`` chooses a half of the tests that take turns; without
it all of them run."""
_HERE = Path(__file__).parent
_IN_TURNS = tuple(_HERE / each for each in ("spark", "interop", "laws", "histories"))
"""Folders of which ``make test`` takes a half of each file: they cost most, ``tests/unit`` asks
nearly the same of each room, and laws draw the same examples every day."""
_ALWAYS = (
    *(_HERE / "spark" / each for each in ("clusters", "test_columnar.py", "test_secrets.py")),
    *(_HERE / "spark" / "pipeline" / each for each in ("test_crash.py", "test_cluster.py")),
    _HERE / "interop" / "test_git_killed_processes.py",
    _HERE / "interop" / "test_manifest_stores.py",
    _HERE / "interop" / "test_together.py",
)
"""What kills processes or lets several write at once, and what keeps secrets."""


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


def not_their_turn(items: Sequence[pytest.Item], turn: str = TURN) -> set[pytest.Item]:
    """The tests whose turn another commit is: of a file every other one, with all of its cases.

    One and the same commit has the same tests each time. A file with a single test runs always.
    """
    if not turn or EVERY_CASE:
        return set()
    tests = defaultdict[Path, dict[str, int]](dict)
    for each in items:
        if takes_turns(each.path):
            tests[each.path].setdefault(_name(each), len(tests[each.path]))
    half = int(turn[:8], 16)
    return {
        each
        for each in items
        if len(tests.get(each.path, ())) > 1
        # The first half of some files goes with the second of others: they cost about the same.
        and (tests[each.path][_name(each)] + crc32(each.path.name.encode()) + half) % 2
    }


def takes_turns(path: Path) -> bool:
    """Whether the tests of a file do, if there are several."""
    above = {path, *path.parents}
    return not above.isdisjoint(_IN_TURNS) and above.isdisjoint(_ALWAYS)


def _name(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]
