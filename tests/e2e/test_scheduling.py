"""The page on scheduling is true: its commands are commands of ``lw``, its units are units, its
codes are those that there are, and its tasks do in Airflow what the page says.

Airflow is not installed: what its files ask of it is handed to them, so that they are run.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from configparser import RawConfigParser
from itertools import chain
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from tests.e2e.test_docs import FENCE, FILE, ROOT
from typer.testing import CliRunner

from lancewood.cli.commands.pipeline import _NOT_PUBLISHED
from lancewood.cli.failing import ExitCode
from lancewood.cli.main import app
from lancewood.pipeline.report.facts import Ending

PAGE = (ROOT / "docs" / "scheduling.md").read_text()
BLOCKS = FENCE.findall(PAGE)
COMMAND = re.compile(r"lw (run .*?)(?: 2>>.*)?['\"]?,?$", re.MULTILINE)
DAY = "2026-05-04"


class Refused(Exception):
    """Airflow's exception for what is not tried again."""


@pytest.fixture
def operators(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """A stand-in for Airflow; what its operators are given, and functions of its tasks."""
    made = list[dict[str, Any]]()

    def task(**settings: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            return lambda *given: made.append({**settings, "does": function, "given": given})

        return decorate

    @contextlib.contextmanager
    def dag(*_: str, **settings: Any) -> Iterator[None]:
        made.append(settings)
        yield

    modules: dict[str, dict[str, Any]] = {
        "airflow": {},
        "airflow.sdk": {"DAG": dag, "dag": lambda **_: lambda function: function, "task": task},
        "airflow.exceptions": {"AirflowFailException": Refused},
        "airflow.providers.standard.operators.bash": {
            "BashOperator": lambda **given: made.append(given)
        },
    }
    for name, content in modules.items():
        module = ModuleType(name)
        module.__dict__.update(content)
        monkeypatch.setitem(sys.modules, name, module)
    return made


def _file(name: str) -> str:
    [text] = [text for _, text in BLOCKS if (named := FILE.match(text)) and named[1] == name]
    return str(text)


def _units() -> dict[str, str]:
    """The units of systemd on the page, by name."""
    units = [text for kind, text in BLOCKS if kind == "ini"]
    return {text.partition("\n")[0].rpartition("/")[2]: text for text in units}


def _commands() -> list[str]:
    scheduled = "".join(text for kind, text in BLOCKS if kind in ("cron", "ini", "python"))
    return [
        re.sub(r"\$\(date .*?\)|\{\{ ds \}\}", DAY, each) for each in COMMAND.findall(scheduled)
    ]


def test_every_scheduled_command_is_one_of_lw_with_the_id_of_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(_commands()) == 3
    for command in _commands():
        arguments = [each.removeprefix("/srv/zoo/") for each in shlex.split(command)]
        assert arguments == ["run", "labels.toml", "--run-id", f"labels-{DAY}"]
        result = CliRunner().invoke(app, arguments, prog_name="lw")
        assert "labels.toml" in result.output
        assert result.exit_code == ExitCode.NOT_FOUND, "there is no such file here"


def test_the_codes_that_systemd_does_not_try_again_are_those_of_which_somebody_is_told() -> None:
    rows = re.findall(r"^\| ([\d, ]+) \| .* \| (.*) \|$", PAGE, re.MULTILINE)
    final = [codes.split(", ") for codes, advice in rows if "tell somebody" in advice]
    known = {str(code.value) for code in ExitCode}
    assert {code for codes, _ in rows for code in codes.split(", ")} <= known
    service = RawConfigParser(strict=True)
    service.optionxform = str  # type: ignore[assignment, method-assign]
    service.read_string(_units()["labels.service"])
    assert {*service["Service"]["RestartPreventExitStatus"].split()} == {*chain(*final)}


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_systemd_finds_no_fault_with_the_units(tmp_path: Path) -> None:
    for name, text in _units().items():
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *(str(tmp_path / name) for name in _units())],
        capture_output=True,
        text=True,
        check=False,
    )
    assert [line for line in done.stderr.splitlines() if "labels" in line] == []


def test_airflow_gets_the_command_with_its_retries(operators: list[dict[str, Any]]) -> None:
    exec(compile(_file("labels_dag.py"), "labels_dag.py", "exec"), {})
    dag, load = operators
    assert dag["max_active_runs"] == 1
    assert load["bash_command"].endswith("--run-id labels-{{ ds }}")
    assert load["retries"] == 3


@pytest.mark.parametrize("ending", [each for each in Ending if each is not Ending.DRY_RUN])
def test_a_task_of_airflow_is_done_where_lw_ends_with_0_and_refused_otherwise(
    operators: list[dict[str, Any]], ending: Ending, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(file: str, *, run_id: str) -> SimpleNamespace:
        assert (file, run_id) == ("/srv/zoo/labels.toml", f"labels-{DAY}")
        return SimpleNamespace(ending=ending, commit="c", run=run_id, folder="f")

    monkeypatch.setattr("lancewood.pipeline.run", run)
    exec(compile(_file("labels_task.py"), "labels_task.py", "exec"), {})
    [load] = operators
    if ending not in (*_NOT_PUBLISHED, Ending.FAILED):
        assert load["does"](*load["given"], ds=DAY) == "c"
    else:
        with pytest.raises(Refused, match=f"labels-{DAY}: {ending}, see f"):
            load["does"](*load["given"], ds=DAY)


def test_a_task_of_airflow_with_a_wrong_file_is_refused(operators: list[dict[str, Any]]) -> None:
    exec(compile(_file("labels_task.py"), "labels_task.py", "exec"), {})
    with pytest.raises(Refused, match=r"there is no file .*labels\.toml"):
        operators[0]["does"]("labels.toml", ds=DAY)
