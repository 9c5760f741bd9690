"""Python of a pipeline: functions for SQL, and steps from frames to a frame."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.spark.needs import needs
from tests.spark.pipeline.frames_scene import Scene, target, values

from lancewood.errors import InvalidInputError, LancewoodError
from lancewood.pipeline.frames import functions
from lancewood.pipeline.frames.refusals import failed
from lancewood.spark.abilities import ARROW_FUNCTIONS

NUMBERS = '[sources.numbers]\nsql = "SELECT id FROM range(4)"\n'
MODULE = """
import pyarrow as pa
import pyarrow.compute as pc
from zoo_words import END

def shout(text):
    return None if text is None else text.upper() + END

def twice(numbers: pa.Array) -> pa.Array:
    return pc.multiply(numbers, 2)

def half(numbers):
    return pc.divide(numbers, 2)
half.arrow = True

def fails(number):
    raise ValueError("too odd")

def kept(numbers, others, *, least):
    return numbers.where(numbers.id >= least).join(others, "id", "left_anti")

def nothing(numbers):
    numbers.count()

def raises(numbers):
    raise KeyError("no such thing")

def misses(numbers):
    return numbers.select("nope")
"""


@pytest.fixture
def scene(spark: Any, tmp_path: Path) -> Scene:
    scene = Scene(spark, tmp_path / "zoo")
    scene.write("zoo_code.py", MODULE)
    scene.write("zoo_words.py", "END = '!'\n")
    return scene


def function(name: str, returns: str) -> str:
    return f'[functions.{name}]\npython = "zoo_code:{name}"\nreturns = "{returns}"\n'


@needs(ARROW_FUNCTIONS)
def test_sql_calls_functions_on_rows_and_on_arrow_arrays(scene: Scene) -> None:
    text = (
        NUMBERS
        + function("shout", "string")
        + function("twice", "bigint")
        + function("half", "bigint")
        + "[steps.said]\nsql = \"SELECT id, shout(concat('n', id)) AS said, twice(id) AS more, "
        + 'half(id) AS less FROM numbers"\n'
        + target("said")
    )
    with scene.frames(text) as frames:
        frames.check()
        found = sorted(map(tuple, frames.frame("said").collect()))
        assert found == [(n, f"N{n}!", 2 * n, n // 2) for n in range(4)]
        assert scene.spark.catalog.functionExists("twice")
    assert not scene.spark.catalog.functionExists("twice")


def test_function_of_arrays_is_refused_where_spark_has_none(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(functions, "release_of", lambda spark: (4, 0, 5))
    text = NUMBERS + function("twice", "bigint") + target("numbers")
    refused = r"^zoo\.toml line \d+: .*'twice' needs functions of Arrow arrays, .*from 4\.1 on"
    with scene.frames(text) as frames, pytest.raises(InvalidInputError, match=refused):
        frames.check()


def test_name_of_another_function_is_refused(scene: Scene) -> None:
    text = NUMBERS + target("numbers") + function("shout", "string").replace(".shout]", ".upper]")
    with (
        scene.frames(text) as frames,
        pytest.raises(InvalidInputError, match=r"functions\.upper: the session has a function"),
    ):
        frames.check()
    assert scene.spark.sql("SELECT upper('a') AS a").first().a == "A"


def test_type_that_spark_does_not_know_is_refused(scene: Scene) -> None:
    with (
        scene.frames(NUMBERS + target("numbers") + function("shout", "strong")) as frames,
        pytest.raises(InvalidInputError, match=r"functions\.shout\.returns: .*'strong'"),
    ):
        frames.check()


def test_python_step_gets_frames_and_arguments(scene: Scene) -> None:
    text = (
        NUMBERS
        + '[sources.others]\nsql = "SELECT 2L AS id"\n'
        + '[steps.some]\npython = "zoo_code:kept"\ninputs = ["numbers", "others"]\n'
        + "arguments = { least = 1 }\n"
        + '[steps.more]\nsql = "SELECT id * 10 AS id FROM some_rows"\n'
        + target("more")
    ).replace("steps.some]", "steps.some_rows]")
    with scene.frames(text) as frames:
        frames.check()
        assert values(frames.frame("more")) == [10, 30]


@pytest.mark.parametrize(
    ("named", "key", "why"),
    [
        ("nothing", "steps.s.python", "has to return a DataFrame of Spark's, got nothing"),
        ("shout", "steps.s.python", "raised "),
        ("raises", "steps.s.python", "raised KeyError: 'no such thing'; .* raises.* line 26$"),
        ("misses", "steps.s.python", "raised AnalysisException: .*`nope` cannot be resolved"),
        ("kept", "steps.s", "is called with 1 frame and .* missing a required argument: 'others'"),
        ("knothing", "steps.s.python", "did you mean 'nothing'"),
    ],
)
def test_python_step_that_makes_no_frame_is_refused(
    scene: Scene, named: str, key: str, why: str
) -> None:
    text = NUMBERS + f'[steps.s]\npython = "zoo_code:{named}"\ninputs = ["numbers"]\n'
    with (
        scene.frames(text + target("s")) as frames,
        pytest.raises(InvalidInputError, match=rf"^zoo\.toml line \d+: {key}: .*{why}"),
    ):
        frames.check()


def test_function_that_raises_is_an_error_of_the_run_and_no_bad_row(scene: Scene) -> None:
    text = (
        NUMBERS
        + function("fails", "string")
        + '[steps.s]\nsql = "SELECT id, fails(id) AS why FROM numbers"\nbad = "why"\n'
        + "[quarantine]\nmost_rows = 100\n"
        + target("s")
    )
    with scene.frames(text) as frames:
        frames.check()
        with pytest.raises(Exception, match="too odd") as raised:
            frames.frame("s").collect()
        told = failed(frames._pipeline, raised.value, "loading s")
    assert isinstance(told, LancewoodError)
    assert told.message == (
        "loading s failed on Spark: ValueError: too odd; "
        f"raised by fails() at {scene.folder / 'zoo_code.py'} line 17"
    )
