"""pytest runs what a plan says, and how long tests take is measured."""

from __future__ import annotations

import itertools
import json
import time
from pathlib import Path

import pytest
from tests.quick import __main__ as command
from tests.quick import durations, measure
from tests.quick.changes import Changes
from tests.quick.plugin import VARIABLE, Order

pytest_plugins = ["pytester"]

CASES = """
import pytest

@pytest.mark.parametrize("case", [1, 2])
def test_slow(case):
    pass

def test_more():
    pass

def test_slow_too():
    pass
"""
HOUR = 3600.0


@pytest.fixture
def files(pytester: pytest.Pytester) -> Path:
    """``tests/test_a.py`` and ``tests/test_b.py`` with the same tests."""
    folder = pytester.mkdir("tests")
    for name in ("test_a.py", "test_b.py"):
        (folder / name).write_text(CASES)
    return folder


def _run(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, order: Order
) -> pytest.RunResult:
    order.save(pytester.path / "build" / "order.json")
    monkeypatch.setenv(VARIABLE, str(pytester.path / "build" / "order.json"))
    return pytester.runpytest_inprocess("-v", "-rs", "-p", "tests.quick.plugin", "tests")


def _names(result: pytest.RunResult) -> list[str]:
    return [line.split()[0] for line in result.outlines if " PASSED" in line]


def test_parts_are_run_in_their_order_and_others_are_not(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, files: Path
) -> None:
    chosen = ["tests/test_b.py", "tests/test_a.py::test_slow", "tests/test_b.py::test_slow"]
    left_out = ["tests/test_a.py", "tests/test_b.py::test_slow_too"]
    result = _run(pytester, monkeypatch, Order(chosen, left_out, time.time() + HOUR))
    assert _names(result) == [
        "tests/test_b.py::test_more",
        *("tests/test_a.py::test_slow[1]", "tests/test_a.py::test_slow[2]"),
        *("tests/test_b.py::test_slow[1]", "tests/test_b.py::test_slow[2]"),
    ]
    result.assert_outcomes(passed=5, deselected=3)


def test_tests_of_spark_come_last_and_keep_their_order(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, files: Path
) -> None:
    (files / "spark").mkdir()
    (files / "spark" / "test_s.py").write_text("def test_b(): pass\n\ndef test_a(): pass\n")
    chosen = ["tests/spark/test_s.py::test_a", "tests/spark/test_s.py", "tests/test_a.py"]
    result = _run(pytester, monkeypatch, Order(chosen, [], time.time() + HOUR))
    assert [name.removeprefix("tests/") for name in _names(result)] == [
        *("test_a.py::test_slow[1]", "test_a.py::test_slow[2]"),
        *("test_a.py::test_more", "test_a.py::test_slow_too"),
        *("spark/test_s.py::test_b", "spark/test_s.py::test_a"),
    ]


def test_what_the_time_does_not_suffice_for_is_skipped_and_told(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, files: Path
) -> None:
    result = _run(pytester, monkeypatch, Order(["tests/test_a.py"], [], time.time() - 1))
    result.assert_outcomes(skipped=4, deselected=4)
    result.stdout.fnmatch_lines(["SKIPPED [[]4] *the time of `make quick` was over"])


def test_the_cases_of_a_test_are_measured_together(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, files: Path
) -> None:
    ticks = itertools.count()
    monkeypatch.setattr(measure, "clock", lambda: float(next(ticks)))
    monkeypatch.setenv(measure.VARIABLE, str(pytester.path / "measured"))
    result = pytester.runpytest_inprocess("-p", "tests.quick.measure", "tests/test_a.py")
    result.assert_outcomes(passed=4)
    [part] = [json.loads(path.read_text()) for path in (pytester.path / "measured").iterdir()]
    assert part == {
        "tests/test_a.py::test_slow": 2.0,
        "tests/test_a.py::test_more": 1.0,
        "tests/test_a.py::test_slow_too": 1.0,
    }


def test_waiting_for_a_core_is_not_time_that_a_test_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.quick.measure.time.monotonic", lambda: 100.0)
    monkeypatch.setattr(measure, "_SCHEDULED", tmp_path / "schedstat")
    assert measure.clock() == 100.0
    (tmp_path / "schedstat").write_text("7000000000 30000000000 12\n")
    assert measure.clock() == 70.0


def _listed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *changed: str
) -> str:
    monkeypatch.setattr(command, "changes", lambda *_: Changes("abc", "the merge base", changed))
    monkeypatch.setattr("sys.argv", ["quick", "--list"])
    assert command.main() == 0
    return capsys.readouterr().out


def test_where_nothing_changed_it_says_so_and_runs_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _listed(monkeypatch, capsys).splitlines() == [
        "0 files differ from abc, the merge base",
        "nothing changed: there is nothing to test",
    ]


def test_a_change_of_this_program_has_its_own_tests(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = _listed(monkeypatch, capsys, "tests/quick/plan.py", "README.md")
    assert "changed: README.md (1), tests (1)" in found.splitlines()
    assert found.count("tests/quick/test_plan.py") == 1
    assert "tests/e2e/test_docs.py" in found
    assert "tests/unit/store" not in found


def test_the_measured_tests_are_those_that_there_are() -> None:
    measured = durations.read(durations.FILE.read_text())
    there = [name for name in measured if (command.ROOT / name.partition("::")[0]).exists()]
    assert len(there) > 0.9 * len(measured), "run `make durations`: too many files are not there"
    assert sum(measured[name] for name in there if "::" not in name) > 0
