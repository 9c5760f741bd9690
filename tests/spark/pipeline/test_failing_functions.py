"""A Python function that raises in a run: which it was, where, and in which stage."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.spark.environment import of_a_quick_shell
from tests.spark.needs import needs

from lancewood.errors import LancewoodError
from lancewood.pipeline import RunFacts, run
from lancewood.pipeline.running.publishing import FACTS
from lancewood.spark.abilities import ARROW_FUNCTIONS

CODE = """
import pyarrow as pa


def length(name):
    return measured(name)


def measured(name):
    if name == "eel":
        raise ValueError("eels have no length")
    return len(name)


def lengths(names: pa.Array) -> pa.Array:
    raise ValueError("nobody counts\\nbeyond one line")


def with_length(animals):
    from pyspark.sql import functions as F

    return animals.withColumn("length", F.udf(measured, "int")("name"))


def gives_up(animals):
    columns = {}
    return animals.select(columns["length"])
"""
FILE = """
[pipeline]
name = "zoo"
repository = "repo"

[sources.animals]
format = "csv"
path = "in"
schema = "id LONG, name STRING"

[functions.length_of]
python = "zoo_code:length"
returns = "int"

[functions.lengths]
python = "zoo_code:lengths"
returns = "int"
"""
SQL = '[steps.measured]\nsql = "SELECT id, {}(name) AS length FROM animals"\n'
APPEND = '[[targets]]\ntable = "animals"\nfrom = "measured"\nmode = "append"\n'
MERGE = '[[targets]]\ntable = "animals"\nfrom = "measured"\nmode = "merge"\non = ["id"]\n'
PLAIN = '[[targets]]\ntable = "animals"\nfrom = "animals"\nmode = "append"\n'
FILL = '[[targets]]\ntable = "animals"\nmode = "add-columns"\ncolumns = {{ n = "{}(name)" }}\n'
PYTHON = '[steps.measured]\npython = "zoo_code:{}"\ninputs = ["animals"]\n'


@needs(ARROW_FUNCTIONS)
@pytest.mark.parametrize(
    ("text", "spot", "raised", "line", "stage"),
    [
        (SQL.format("length_of") + APPEND, "targets[0]", "measured", 11, "load animals"),
        (SQL.format("lengths") + MERGE, "targets[0]", "lengths", 16, "load animals"),
        (PYTHON.format("with_length") + APPEND, "targets[0]", "measured", 11, "load animals"),
        (PYTHON.format("gives_up") + APPEND, "steps.measured", "gives_up", 27, "analyse"),
        (PLAIN + FILL.format("length_of"), "targets[1]", "measured", 11, "load animals"),
    ],
)
def test_the_last_line_and_the_report_name_step_file_and_line_and_the_timeline_its_stage(
    spark: Any, tmp_path: Path, text: str, spot: str, raised: str, line: int, stage: str
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("1,ant\n2,eel\n")
    (tmp_path / "zoo_code.py").write_text(CODE)
    (tmp_path / "zoo.toml").write_text(FILE + text)
    with pytest.raises(LancewoodError) as failed:
        run(tmp_path / "zoo.toml", run_id="r1", spark=spark)
    message = failed.value.message
    assert message.startswith("zoo.toml line ")
    assert f": {spot}" in message
    step = ", in step measured" if 'from = "measured"' in text and stage != "analyse" else ""
    location = f"; raised by {raised}() at {tmp_path / 'zoo_code.py'} line {line}{step}"
    assert message.splitlines()[-1].endswith(location)
    facts = failed.value.facts[FACTS]
    assert isinstance(facts, RunFacts)
    assert facts.error == message
    assert (facts.stages[-1].name, facts.stages[-1].is_failed) == (stage, True)
    assert facts.stages[-1].seconds > 0
    assert not any(each.is_failed for each in facts.stages[:-1])
    page = (Path(facts.folder) / "report.html").read_text().replace("<wbr>", "")
    assert f"{raised}() at {tmp_path / 'zoo_code.py'} line {line}" in page
    told = json.loads((Path(facts.folder) / "report.json").read_text())
    assert told["stages"][-1]["is_failed"] is True


@needs(ARROW_FUNCTIONS)
@pytest.mark.campaign
def test_the_shell_prints_no_java(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("1,ant\n2,eel\n")
    (tmp_path / "zoo_code.py").write_text(CODE)
    (tmp_path / "zoo.toml").write_text(FILE + SQL.format("length_of") + APPEND)
    done = subprocess.run(
        [sys.executable, "-m", "lancewood", "run", "zoo.toml", "--master", "local[1]"],
        cwd=tmp_path,
        env=of_a_quick_shell(),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 15, done.stderr
    assert "eels have no length; raised by measured() at" in done.stderr.splitlines()[-1]
    assert "--verbose" in done.stderr.splitlines()[-1]
    assert "\tat " not in done.stderr
    assert "ERROR" not in done.stderr
