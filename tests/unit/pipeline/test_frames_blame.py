"""Which step a function that raised is of, told by the names in its traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.pipeline.definition_files import HEAD, SOURCE, TARGET, loaded

from lancewood.errors import LancewoodError, RetryableConflictError, RunFailedError
from lancewood.pipeline.frames.refusals import blamed, steps_to_blame
from lancewood.spark.running.failures import CALLS, TracebackFrame

FILE = (
    HEAD
    + SOURCE
    + TARGET
    + TARGET.replace('"animals"\nfrom = "animals"', '"a"\nfrom = "last"')
    + TARGET.replace('"animals"\nfrom = "animals"', '"b"\nfrom = "other"')
    + '[functions.size_of]\npython = "zoo.code:size"\nreturns = "int"\n'
    + '[steps.first]\nsql = "SELECT id, Size_Of(id) AS n FROM animals"\n'
    + '[steps.last]\npython = "zoo.code:last"\ninputs = ["first"]\n'
    + '[steps.other]\nsql = "SELECT id, `size_of` (id) AS n FROM animals"\n'
    + '[steps.unused]\npython = "zoo.code:unused"\ninputs = ["animals"]\n'
)
SIZE = TracebackFrame("/p/zoo/code.py", 7, "size")
INNER = TracebackFrame("/p/zoo/code.py", 12, "inner")


@pytest.mark.parametrize(
    ("calls", "source", "steps"),
    [
        ([SIZE, INNER], "last", ["first"]),
        ([SIZE, INNER], "other", ["other"]),
        ([SIZE, INNER], None, ["first", "other"]),
        ([INNER], "last", ["last"]),
        ([INNER], "animals", []),
        ([TracebackFrame("/p/zoo/code/__init__.py", 1, "size")], "other", ["other"]),
        ([TracebackFrame("/p/other_code.py", 7, "size")], None, []),
        ([], None, []),
    ],
)
def test_the_step_is_on_the_way_to_the_target_and_has_called_the_function(
    tmp_path: Path, calls: list[TracebackFrame], source: str | None, steps: list[str]
) -> None:
    assert steps_to_blame(loaded(tmp_path, FILE), calls, source) == steps


def test_an_error_names_target_and_step_once_and_a_conflict_stays_what_it_is(
    tmp_path: Path,
) -> None:
    pipeline = loaded(tmp_path, FILE)
    target = pipeline.targets[1]
    told = blamed(pipeline, LancewoodError("odd", **{CALLS: (SIZE,)}), "load a", target)
    assert type(told) is RunFailedError
    assert str(told) == "zoo.toml line 10: targets[1]: odd, in step first"
    again = blamed(pipeline, RunFailedError(str(told)), "load a", target)
    assert str(again) == str(told)
    conflict = RetryableConflictError("somebody was faster")
    assert blamed(pipeline, conflict, "load a", target) is conflict
