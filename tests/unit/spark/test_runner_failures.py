"""Texts of Spark's exceptions, and what we make of them."""

from __future__ import annotations

import pickle

import pytest

from lancewood.errors import FormatError, InvalidInputError, LancewoodError, StorageError
from lancewood.spark.running.failures import (
    TracebackFrame,
    as_our_error,
    our_error,
    python_error,
    raised_by,
)

PYTHON = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/x/answers.py", line 11, in work
    raise OSError("first")
OSError: first

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/x/answers.py", line 12, in work
    raise {kind}("{why}")
{kind}: {why}
 SQLSTATE: 38000
\tat org.apache.spark.api.python.BasePythonRunner(PythonRunner.scala:1097)
"""
STAGE = """An error occurred while calling o57.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: {why}
Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:2856)
Caused by: java.lang.Exception: inner
"""


def test_error_of_ours_stays_what_it_is() -> None:
    error = FormatError("broken", file="f")
    assert as_our_error(error, "w") is error


@pytest.mark.parametrize("kind", [StorageError, FormatError])
def test_our_class_is_found_again_in_the_text(kind: type[LancewoodError]) -> None:
    text = PYTHON.format(kind=f"lancewood.errors.{kind.__name__}", why="the store is gone")
    error = as_our_error(RuntimeError(text), "reading")
    assert type(error) is kind
    assert (error.message, error.facts) == ("the store is gone", {"what": "reading"})


def test_exception_of_python_is_told_by_class_and_text_and_where_it_was_raised() -> None:
    text = PYTHON.format(kind="some.module.Odd", why="row 7")
    error = as_our_error(RuntimeError(text), "reading")
    assert error.message == (
        "reading failed on Spark: Odd: row 7; raised by work() at /x/answers.py line 12"
    )
    assert pickle.loads(pickle.dumps(error)).facts["calls"] == (("/x/answers.py", 12, "work"),)


def test_what_a_library_raised_is_told_by_who_called_it() -> None:
    library = "/v/lib/python3.11/site-packages/PIL/Image.py"
    calls = [TracebackFrame("/x/steps.py", 7, "thumbnail"), TracebackFrame(library, 3_000, "open")]
    assert raised_by(calls) == "; raised by thumbnail() at /x/steps.py line 7"
    assert raised_by(calls[1:]) == f"; raised by open() at {library} line 3000"
    assert raised_by([]) == ""


def test_missing_package_is_told_with_the_way_out() -> None:
    text = PYTHON.format(kind="ModuleNotFoundError", why="No module named 'lancewood'")
    message = str(as_our_error(RuntimeError(text), "w"))
    assert message.startswith(
        "w failed on Spark: ModuleNotFoundError: No module named 'lancewood'."
    )
    assert "PYSPARK_PYTHON" in message


def test_name_of_another_class_is_not_taken_for_ours() -> None:
    for kind in ("lancewood.errors.Exception", "lancewood.errors.found_in", "other.StorageError"):
        error = as_our_error(RuntimeError(PYTHON.format(kind=kind, why="x")), "w")
        assert type(error) is LancewoodError


def test_failed_stage_is_told_without_stacks() -> None:
    why = "Task 1 in stage 3.0 failed 4 times, most recent failure: Lost task 1.3 (executor 2)"
    error = as_our_error(RuntimeError(STAGE.format(why=why)), "w")
    assert str(error) == f"w failed on Spark: {why}"


def test_results_that_are_too_large_are_told_with_the_way_out() -> None:
    why = (
        "Total size of serialized results of 9 tasks (1024.9 MiB) is bigger than "
        "spark.driver.maxResultSize (1024.0 MiB)."
    )
    message = str(as_our_error(RuntimeError(STAGE.format(why=why)), "w"))
    assert "Raise spark.driver.maxResultSize" in message


def test_text_without_words_is_told_by_the_class() -> None:
    assert str(as_our_error(KeyError(), "w")) == "w failed on Spark: KeyError"


def test_text_of_many_lines_is_kept_together_and_short() -> None:
    text = PYTHON.format(kind="ValueError", why="one\ntwo")
    assert python_error(text) == ("ValueError", "one\ntwo")
    long = PYTHON.format(kind="ValueError", why="x" * 5000)
    assert len(str(as_our_error(RuntimeError(long), "w"))) < 1000


def test_text_without_a_traceback_has_no_exception_of_python() -> None:
    assert python_error("nothing of that kind") is None
    assert python_error("Traceback (most recent call last):\n  File") is None


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("lancewood.errors.StorageError: the disk is full", StorageError),
        ("lancewood.errors.InvalidInputError: no", InvalidInputError),
        ("lancewood.errors.Any: no", None),
        ("RuntimeError: lancewood.errors.StorageError: quoted", None),
    ],
)
def test_an_error_of_ours_is_found_in_what_spark_says(text: str, kind: type | None) -> None:
    found = our_error(
        f"Job aborted: Traceback (most recent call last):\n  File x\n{text}\n\n\tat org.apache"
    )
    assert found is None if kind is None else type(found) is kind
    assert our_error("Job aborted") is None
