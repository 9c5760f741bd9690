"""How many rows there may be, and how far that may be from what there was."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.unit.pipeline.run_scene import Scene

from lancewood.pipeline.checks.manifest_checks import judge_counts
from lancewood.pipeline.checks.running import KINDS, kind_of, run_checks
from lancewood.pipeline.definition.model import Check, RowsCheck, Spot

SPOT = Spot("zoo.toml", "checks[0]")


def rows(**said: float) -> RowsCheck:
    return RowsCheck("n", SPOT, False, "photos", **said)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("check", "now", "before", "is_passed"),
    [
        (rows(least=3), 3, None, True),
        (rows(least=3), 2, None, False),
        (rows(most=3), 3, 100, True),
        (rows(most=3), 4, 100, False),
        (rows(least_change=-0.1), 9, 10, True),
        (rows(least_change=-0.1), 899, 1000, False),
        (rows(most_change=0.1), 11, 10, True),
        (rows(most_change=0.1), 1101, 1000, False),
        (rows(least_change=0), 10, 10, True),
        (rows(least_change=0.3), 13, 10, True),
        (rows(most_change=0.1), 5000, None, True),
        (rows(most_change=0.1), 5000, 0, True),
        (rows(least=10, most_change=0.1), 5, None, False),
    ],
)
def test_bounds_are_part_of_what_is_allowed(
    check: RowsCheck, now: int, before: int | None, is_passed: bool
) -> None:
    assert judge_counts(check, now, before).is_passed is is_passed


@pytest.mark.parametrize(
    ("now", "before", "found"),
    [
        (1204, 1168, "1,204 rows, 3.08 % more than before"),
        (90, 100, "90 rows, 10 % fewer than before"),
        (1, 1, "1 row, as many as before"),
        (5000, 100, "5,000 rows, 4,900 % more than before"),
        (7, None, "7 rows; the table is new: the change is not judged"),
        (7, 0, "7 rows; there were no rows before: the change is not judged"),
    ],
)
def test_figure_is_told(now: int, before: int | None, found: str) -> None:
    assert judge_counts(rows(least_change=-1.0), now, before).found == found


@pytest.mark.parametrize(
    ("check", "now", "before", "found"),
    [
        (rows(least=10), 3, None, "3 rows, fewer than 10"),
        (rows(least=10, most_change=0.5), 3, None, "3 rows, fewer than 10"),
        (rows(most=2000), 3000, 1500, "3,000 rows, more than 2,000, 100 % more than before"),
    ],
)
def test_a_bound_that_does_not_hold_is_told(
    check: RowsCheck, now: int, before: int | None, found: str
) -> None:
    assert judge_counts(check, now, before).found == found


def test_what_is_asked_is_told_in_words() -> None:
    asked = kind_of(rows()).asked
    assert asked(rows(least=1, most=2000)) == ("photos has at least 1 row and at most 2,000 rows")
    assert asked(rows(least=3, most=3)) == "photos has exactly 3 rows"
    assert asked(rows(least_change=-0.1, most_change=0.5)) == (
        "photos has at most 10 % fewer rows than before and at most 50 % more rows than before"
    )
    assert asked(rows(least_change=0.0)) == "photos has at least as many rows as before"
    assert asked(rows(most_change=-0.1)) == "photos has at least 10 % fewer rows than before"


def test_every_kind_of_check_is_known() -> None:
    # A class with slots is made twice, so they are told by their names.
    assert {each.__name__ for each in KINDS} == {each.__name__ for each in Check.__subclasses__()}


def test_a_check_runs_on_a_client_of_connect_alone_which_has_no_py4j(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    monkeypatch.setitem(sys.modules, "py4j.protocol", None)
    scene = Scene.at(tmp_path, checks=(rows(least=3),))
    found: list[Any] = []

    def look(context: Any) -> list[Any]:
        found.extend(run_checks(None, scene.pipeline, context, tmp_path / "kept"))  # type: ignore[arg-type]
        return found

    scene.checks = look
    scene.run()
    assert [(each.name, each.is_passed) for each in found] == [("n", False)]
