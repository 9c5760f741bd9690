"""The runner on Spark, as far as it needs no Spark."""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from lancewood.errors import InvalidInputError, UnsupportedError
from lancewood.spark import runner as make_runner
from lancewood.spark.runner import _waves, last_attempt_of

pytest.importorskip("pyspark", reason="pyspark is not installed")


@pytest.mark.parametrize(
    ("master", "failures", "last"),
    [
        ("local", "4", 0),
        ("local[2]", "4", 0),
        ("local[*]", "4", 0),
        ("local[2,3]", "4", 2),
        ("local[*, 5]", "4", 4),
        ("local-cluster[2,1,1024]", "4", 3),
        ("spark://host:7077", "8", 7),
        ("", "4", 3),
        ("yarn", "", None),
        ("yarn", "0", None),
    ],
)
def test_last_attempt_is_told_by_the_settings(master: str, failures: str, last: int | None) -> None:
    assert last_attempt_of(master, failures) == last


def test_what_is_no_session_is_refused() -> None:
    nothing: Any = "local[2]"
    with pytest.raises(InvalidInputError, match="takes a SparkSession"):
        make_runner(nothing)


def test_progress_that_cannot_be_called_is_refused() -> None:
    class Session:
        createDataFrame = None

    session: Any = Session()
    progress: Any = "loud"
    with pytest.raises(InvalidInputError, match="progress takes a function"):
        make_runner(session, progress=progress)


class Stopped:
    """What is left of a classic session that was stopped."""

    createDataFrame = None
    sparkContext = SimpleNamespace(_jsc=None)


def context(*, is_stopped: bool) -> SimpleNamespace:
    java = SimpleNamespace(isStopped=lambda: is_stopped)
    return SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: java))


@pytest.mark.parametrize("left", [Stopped.sparkContext, context(is_stopped=True)])
def test_session_that_was_stopped_is_told(left: Any) -> None:
    session: Any = Stopped()
    session.sparkContext = left
    steps = make_runner(session)
    with pytest.raises(InvalidInputError, match="was stopped: make another one"):
        list(steps.run(abs, [1], what="w"))
    with pytest.raises(InvalidInputError, match="was stopped: make another one"):
        _ = steps.slots


def test_what_does_not_pickle_is_refused_before_anything_runs() -> None:
    session: Any = Stopped()
    session.sparkContext = context(is_stopped=False)
    lock = threading.Lock()
    cases: list[tuple[Any, Any]] = [(lambda _: lock, 1), (abs, lock)]
    for work, task in cases:
        steps = make_runner(session).run(work, [task], what="sorting")
        with pytest.raises(InvalidInputError, match=r"sorting: .* cannot travel .*lock"):
            list(steps)


def test_tasks_are_handed_out_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    room = sys.modules["lancewood.spark.runner"]
    monkeypatch.setattr(room, "dumps", lambda task: task)
    monkeypatch.setattr(room, "_MOST_TASKS", 3)
    monkeypatch.setattr(room, "_MOST_MESSAGE_BYTES", 10)
    tasks = [b"a", b"b", b"c", b"d", b"12345678", b"x" * 20, b"y"]
    assert list(_waves(tasks, "w")) == [
        [b"a", b"b", b"c"],
        [b"d", b"12345678"],
        [b"x" * 20],
        [b"y"],
    ]


def test_task_that_cannot_travel_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["lancewood.spark.runner"], "MOST_BYTES", 100)
    with pytest.raises(UnsupportedError, match=r"^w: a task is .* bytes long, 100 can travel"):
        list(_waves([b"x" * 200], "w"))
