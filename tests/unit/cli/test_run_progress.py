"""What a person sees of a run on stderr, and what a log gets of it."""

from __future__ import annotations

import io

import pytest

from lancewood.cli.commands.pipeline import run_progress
from lancewood.pipeline.report.facts import Listener, RunFacts


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def stderr(monkeypatch: pytest.MonkeyPatch, made: io.StringIO) -> io.StringIO:
    """Called by the test itself: between a fixture and its test pytest takes stderr back."""
    monkeypatch.setattr("sys.stderr", made)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    return made


def a_run(listener: Listener) -> None:
    listener.begun("load photos")
    listener.moved("load photos", 3, 8)
    listener.ended("load photos", 2.5, rows=1_204, bytes=5 << 20, files=2)
    listener.moved("load photos", 8, 8)
    listener.noted("main moved: once more")
    listener.begun("check")
    listener.over(RunFacts("p", "r", "repo", "main", "run/r", ""))


def test_a_terminal_gets_a_bar_for_the_stage_that_works(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = stderr(monkeypatch, Terminal())
    with run_progress(wanted=True) as listener:
        listener.begun("load photos")
        listener.moved("load photos", 3, 8)
    assert "load photos" in terminal.getvalue()
    assert "3 of 8 tasks" in terminal.getvalue()


def test_a_terminal_gets_a_line_for_each_stage_that_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = stderr(monkeypatch, Terminal())
    with run_progress(wanted=True) as listener:
        a_run(listener)
    seen = terminal.getvalue()
    assert "1,204 rows, 5.0 MiB, 2 files, 2.5 s" in seen
    assert "main moved: once more" in seen


def test_a_log_gets_one_line_for_each_stage_that_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    log = stderr(monkeypatch, io.StringIO())
    with run_progress(wanted=True) as listener:
        a_run(listener)
    assert log.getvalue() == (
        "load photos: 1,204 rows, 5.0 MiB, 2 files, 2.5 s\nmain moved: once more\n"
    )


@pytest.mark.parametrize("made", [Terminal(), io.StringIO()])
def test_nobody_hears_of_a_run_whose_answer_is_json(
    made: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = stderr(monkeypatch, made)
    with run_progress(wanted=False) as listener:
        assert type(listener) is Listener
        a_run(listener)
    assert seen.getvalue() == ""


@pytest.mark.parametrize("made", [Terminal(), io.StringIO()])
def test_names_cannot_make_a_terminal_do_things(
    made: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = stderr(monkeypatch, made)
    with run_progress(wanted=True) as listener:
        listener.begun("load [red]\x1b]0;owned\x07")
        listener.ended("load [red]\x1b]0;owned\x07", 1.0)
        listener.noted("[bold]\x1b]0;owned\x07")
    assert "\x1b]0;" not in seen.getvalue()
    assert "[red]\\x1b]0;owned\\x07" in seen.getvalue()
    assert "[bold]\\x1b]0;owned\\x07" in seen.getvalue()


def test_a_stage_that_failed_leaves_no_line_in_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    log = stderr(monkeypatch, io.StringIO())

    def failing() -> None:
        with run_progress(wanted=True) as listener:
            listener.begun("load photos")
            raise ValueError("no such file")

    with pytest.raises(ValueError, match="no such file"):
        failing()
    assert log.getvalue() == ""
