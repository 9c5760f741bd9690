"""The slice of a broad test that runs every day has the size that it says, and is spread."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import breadth

pytest_plugins = ["pytester"]

STACKED = """
import pytest

@pytest.fixture(params="mno")
def kind(request):
    return request.param

@pytest.mark.sliced(2)
@pytest.mark.parametrize("one", {ones})
@pytest.mark.parametrize("two", ["x", "y"])
def test_it(one, two, kind):
    pass
"""
TOGETHER = """
import pytest

@pytest.mark.sliced(5)
@pytest.mark.parametrize("one, two", [(one, two) for one in "abcd" for two in "wxyz"])
def test_it(one, two):
    pass
"""
SAID_MORE = """
import pytest

@pytest.mark.sliced(2)
@pytest.mark.parametrize("one", [pytest.param(each, marks=pytest.mark.skip) for each in "ab"])
@pytest.mark.parametrize("two", ["x", "y"])
def test_it(one, two):
    pass
"""

MARKED_WHOLE = """
import pytest

pytestmark = pytest.mark.sliced(2, at=1)

@pytest.mark.parametrize("one", ["a", "b"])
def test_it(one):
    pass

def test_that():
    pass

@pytest.mark.campaign
def test_all():
    pass

@pytest.mark.sliced(1)
@pytest.mark.parametrize("one", ["c", "d"])
def test_more(one):
    pass
"""


def of_the_day(pytester: pytest.Pytester, source: str) -> list[list[str]]:
    """The cases of a test that run every day, each with its values in order."""
    pytester.makeini(f"[pytest]\nmarkers =\n  {breadth.SLICED}\n  {breadth.CAMPAIGN}")
    items = [each for each in pytester.getitems(source) if breadth.is_of_the_day(each)]
    return [sorted(each.name.partition("[")[2].rstrip("]").split("-")) for each in items]


@pytest.fixture(autouse=True)
def every_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(breadth, "EVERY_CASE", False)


@pytest.mark.parametrize("ones", ["ab", "abc"])
def test_half_of_a_grid_has_every_pair_of_values_beside_an_axis_of_two(
    pytester: pytest.Pytester, ones: str
) -> None:
    found = of_the_day(pytester, STACKED.format(ones=[*ones]))
    assert len(found) == len(ones) * 3
    assert {(one, kind) for one, kind, _ in found} == {(a, b) for a in ones for b in "mno"}


def test_values_that_are_given_together_are_one_list(pytester: pytest.Pytester) -> None:
    found = of_the_day(pytester, TOGETHER)
    assert found == [["a", "w"], ["b", "x"], ["c", "y"], ["d", "z"]]


def test_a_value_of_which_more_is_said_has_its_place(pytester: pytest.Pytester) -> None:
    assert sorted(of_the_day(pytester, SAID_MORE)) == [["a", "x"], ["b", "y"]]


def test_a_module_is_sliced_but_for_tests_without_cases_and_other_marks(
    pytester: pytest.Pytester,
) -> None:
    assert sorted(of_the_day(pytester, MARKED_WHOLE)) == [[""], ["b"], ["c"], ["d"]]


IN_TURNS = """
import pytest

@pytest.mark.parametrize("one", ["a", "b"])
def test_first(one):
    pass

def test_second():
    pass

def test_third():
    pass
"""


def names(items: list[pytest.Item], turn: str) -> list[str]:
    """The tests that run at a commit."""
    others = breadth.not_their_turn(items, turn)
    return [each.name for each in items if each not in others]


def test_tests_of_a_file_take_turns_by_commit_with_all_of_their_cases(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = pytester.getitems(IN_TURNS)
    assert len(names(items, "f" * 64)) == 4, "only those of some folders do"
    monkeypatch.setattr(breadth, "_IN_TURNS", (pytester.path,))
    halves = [names(items, "0" * 64), names(items, "f" * 64)]
    assert sorted(halves) == [["test_first[a]", "test_first[b]", "test_third"], ["test_second"]]
    assert names(items, "") == [each.name for each in items]
    for turn in ("0" * 64, "f" * 64):
        assert names(items[:2], turn) == ["test_first[a]", "test_first[b]"], "it is the only one"
    monkeypatch.setattr(breadth, "EVERY_CASE", True)
    assert len(names(items, "f" * 64)) == 4


def test_what_kills_processes_takes_no_turns() -> None:
    here = Path(breadth.__file__).parent
    assert breadth.takes_turns(here / "spark" / "pipeline" / "test_stream.py")
    assert breadth.takes_turns(here / "interop" / "test_types.py")
    for each in (
        "spark/clusters/test_killed_reads.py",
        "unit/store/test_disk.py",
        "spark/pipeline/test_crash.py",
    ):
        assert not breadth.takes_turns(here / each)
    assert all(each.exists() for each in (*breadth._IN_TURNS, *breadth._ALWAYS))
