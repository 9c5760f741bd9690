"""What a person sees of long work, and that nobody else sees it."""

from __future__ import annotations

import io

import pytest

from lancewood.cli.progress import reading_rows, task_bars, task_runner


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Called by the test itself: between a fixture and its test pytest takes stderr back."""
    made = Terminal()
    monkeypatch.setattr("sys.stderr", made)
    monkeypatch.setenv("TERM", "xterm")
    return made


def double(number: int) -> int:
    return number * 2


def test_a_runner_shows_a_bar_for_each_kind_of_work(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = at_a_terminal(monkeypatch)
    with task_runner(wanted=True) as runner:
        assert list(runner.run(double, [1, 2, 3], what="doubling")) == [2, 4, 6]
        assert list(runner.run(double, [1], what="doubling again")) == [2]
    assert "doubling " in terminal.getvalue()
    assert "3/3" in terminal.getvalue()
    assert "doubling again" in terminal.getvalue()


def test_rows_of_files_are_shown_with_and_without_a_total(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = at_a_terminal(monkeypatch)
    with task_bars(wanted=True) as tell:
        advance = reading_rows(tell, 30)
        advance(10, 100)
        advance(20, 100)
    assert "30/30" in terminal.getvalue()
    with task_bars(wanted=True) as tell:
        reading_rows(tell, None)(7, 100)
    assert "7/?" in terminal.getvalue()


def test_nothing_is_shown_where_it_is_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = at_a_terminal(monkeypatch)
    with task_runner(wanted=False) as runner:
        assert list(runner.run(double, [1, 2], what="doubling")) == [2, 4]
    assert terminal.getvalue() == ""


def test_nothing_is_shown_where_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.StringIO()
    monkeypatch.setattr("sys.stderr", pipe)
    with task_runner(wanted=True) as runner:
        assert list(runner.run(double, [1, 2], what="doubling")) == [2, 4]
    assert pipe.getvalue() == ""
