"""``lw run``: what is asked of a run, what is printed where, and the exit codes. No Spark."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lancewood.cli.commands.pipeline import interruption_noted
from lancewood.cli.failing import ExitCode
from lancewood.cli.groups import load_command
from lancewood.cli.main import RootGroup
from lancewood.errors import InvalidInputError, RunFailedError
from lancewood.pipeline.definition.model import Pipeline
from lancewood.pipeline.report.facts import CheckFacts, Ending, Listener, RunFacts

Lw = Callable[..., Any]
FILE = """
[pipeline]
name = "labels"

[params]
day = "monday"

[sources.labels]
format = "csv"
path = "${day}.csv"
schema = "id LONG"

[[targets]]
table = "labels"
from = "labels"
mode = "append"
"""


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("labels.toml").write_text(FILE)
    return tmp_path / "labels.toml"


class Runs:
    """In place of a run: remembers how it was asked for, and ends as it is told to."""

    def __init__(self) -> None:
        self.ending = Ending.PUBLISHED
        self.error: type[BaseException] | None = None
        self.asked: dict[str, Any] = {}
        self.told = ""

    def __call__(self, pipeline: Pipeline, *, listener: Listener, **asked: Any) -> RunFacts:
        self.asked = {"pipeline": pipeline, **asked}
        if self.told:
            print(self.told)
        listener.ended("load labels", 1.5, rows=3)
        facts = RunFacts(
            pipeline="labels",
            run=asked["run_id"],
            repository="r",
            branch="main",
            run_branch=f"run/{asked['run_id']}",
            started="2026-05-01T00:00:00+00:00",
            ending=self.ending,
            commit="ab" * 32,
            checks=[CheckFacts("<odd>", "sql", None, self.ending is Ending.PUBLISHED)],
        )
        if self.error is None:
            return facts
        if issubclass(self.error, RunFailedError | InvalidInputError):
            facts.ending = Ending.FAILED
            raise self.error("an executor died", run_facts=facts)
        raise self.error


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    made = Runs()
    monkeypatch.setattr("lancewood.cli.commands.pipeline.run", made)
    return made


def test_everything_that_is_said_reaches_the_run(lw_ok: Lw, runs: Runs) -> None:
    words = ["--param", "day=a=b", "--run-id", "x-1", "--dry-run", "--master", "local[1]"]
    lw_ok("run", "labels.toml", *words)
    assert runs.asked["pipeline"].file.name == "labels.toml"
    assert runs.asked["pipeline"].parameters == {"day": "a=b"}
    assert runs.asked["run_id"] == "x-1"
    assert runs.asked["dry_run"] is True
    assert runs.asked["master"] == "local[1]"
    assert runs.asked["full_refresh"] is False
    lw_ok("run", "labels.toml", "--full-refresh")
    assert runs.asked["full_refresh"] is True
    lw_ok("run", "labels.toml", "--full-refresh-table", "a", "--full-refresh-table", "b")
    assert runs.asked["full_refresh"] == ["a", "b"]


def test_people_get_stages_on_stderr_and_the_summary_on_stdout(lw_ok: Lw, runs: Runs) -> None:
    ran = lw_ok("run", "labels.toml", "--run-id", "x-1")
    assert ran.err == "load labels: 3 rows, 1.5 s\n"
    assert ran.out.startswith("labels: published into main in ")
    assert "x-1, commit abababababab" in ran.out


def test_programs_get_one_document_whatever_a_function_prints(lw_ok: Lw, runs: Runs) -> None:
    runs.told = "printed by a step"
    ran = lw_ok("run", "labels.toml", "--json")
    assert ran.out.count("\n") == 1
    assert ran.document["ending"] == "published"
    assert ran.err == "printed by a step\n"


def test_help_tells_the_keys_of_the_json(lw_ok: Lw, runs: Runs) -> None:
    words = " ".join(load_command("run", RootGroup.entries["run"].function).help.split())
    promise = re.search(r"JSON keys: ([a-z_, ]+)\.", words)
    assert promise is not None
    document = lw_ok("run", "labels.toml", "--json").document
    assert list(document) == promise[1].split(", ")
    assert all(f" {each.value}" in words for each in Ending)


@pytest.mark.parametrize(
    "ending", [Ending.CHECKS_FAILED, Ending.TOO_MANY_BAD_ROWS, Ending.REVERTED]
)
@pytest.mark.parametrize("json", [(), ("--json",)])
def test_what_is_not_published_has_an_exit_code_of_its_own(
    lw_run: Lw, runs: Runs, ending: Ending, json: tuple[str, ...]
) -> None:
    runs.ending = ending
    ran = lw_run("run", "labels.toml", *json)
    assert ran.code == int(ExitCode.NOT_PUBLISHED)
    assert not json or ran.document["ending"] == ending.value


@pytest.mark.parametrize(
    "ending", [Ending.NOTHING_NEW, Ending.ALREADY_PUBLISHED, Ending.DRY_RUN, Ending.PUBLISHED]
)
def test_every_other_ending_is_a_success(lw_ok: Lw, runs: Runs, ending: Ending) -> None:
    runs.ending = ending
    lw_ok("run", "labels.toml")


def test_a_run_that_fails_tells_programs_what_it_did_and_what_went_wrong(
    lw_run: Lw, runs: Runs
) -> None:
    runs.error = RunFailedError
    ran = lw_run("run", "labels.toml", "--json", "--report", "out.html")
    assert ran.code == ExitCode.RUN_FAILED
    assert ran.document["ending"] == "failed"
    assert ran.error["type"] == "RunFailedError"
    assert ran.error["exit_code"] == ran.code
    assert Path("out.html").exists()
    plain = lw_run("run", "labels.toml")
    assert (plain.code, plain.out) == (ran.code, "")
    assert "lw: an executor died" in plain.err


def test_an_error_of_the_pipeline_keeps_its_code(lw_run: Lw, runs: Runs) -> None:
    runs.error = InvalidInputError
    assert lw_run("run", "labels.toml").code == ExitCode.INVALID_INPUT


def test_an_interruption_says_how_to_go_on(lw_run: Lw, runs: Runs) -> None:
    runs.error = KeyboardInterrupt
    ran = lw_run("run", "labels.toml", "--param", "day=a b", "--master", "local[1]")
    assert ran.code == ExitCode.INTERRUPTED
    run_id = runs.asked["run_id"]
    again = f"lw run labels.toml --param 'day=a b' --master 'local[1]' --run-id {run_id}"
    assert f"main is as it was, or has the whole run; to go on: {again}" in ran.err
    assert ran.out == ""


def test_what_breaks_over_an_interruption_is_not_logged_and_the_rest_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def stopped() -> None:
        with interruption_noted("main", ["lw", "run", "labels.toml"]):
            logging.error("Exception while sending command.")
            logging.error("something else")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    logging.error("Exception while sending command.")
    assert caplog.messages == ["something else", "Exception while sending command."]


def test_a_run_without_an_id_gets_one(lw_ok: Lw, runs: Runs) -> None:
    lw_ok("run", "labels.toml")
    first = runs.asked["run_id"]
    lw_ok("run", "labels.toml")
    assert re.fullmatch(r"\d{8}T\d{6}Z-[0-9a-f]{6}", first)
    assert runs.asked["run_id"] != first


def test_the_report_goes_where_it_is_asked_for(lw_ok: Lw, runs: Runs) -> None:
    lw_ok("run", "labels.toml", "--report", "out.html")
    page = Path("out.html").read_text()
    assert page.lower().startswith("<!doctype html>")
    assert "&lt;odd&gt;" in page


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["labels.tml"], 3, "did you mean"),
        (["labels.toml", "--param", "dy=x"], 5, "dy"),
        (["labels.toml", "--param", "day"], 2, "KEY=VALUE"),
        (["labels.toml", "--run-id", "a/b"], 5, "run id 'a/b' is not allowed"),
        (["labels.toml", "--report", "no/out.html"], 5, "there is no directory no"),
        (["labels.toml", "--report", "."], 5, "it is a directory"),
        ([], 2, "FILE"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(
    lw_run: Lw, runs: Runs, words: list[str], code: int, told: str
) -> None:
    ran = lw_run("run", *words)
    assert ran.code == code, ran.err
    assert told in ran.err
    assert not runs.asked


def test_a_file_that_is_wrong_is_refused_with_its_line(lw_run: Lw, file: Path, runs: Runs) -> None:
    file.write_text(FILE.replace('"append"', '"apend"'))
    ran = lw_run("run", "labels.toml", "--json")
    assert ran.code == 5
    assert ran.error["message"].startswith("labels.toml line 16: targets[0].mode: 'apend'")
    assert ran.out == ""


def test_the_document_can_be_read_by_others(lw_ok: Lw, runs: Runs) -> None:
    document = lw_ok("run", "labels.toml", "--json").document
    assert json.loads(json.dumps(document)) == document
