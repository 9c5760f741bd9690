"""What an executor answers, without a Spark around it."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.spark.runner import _Delivery, _Letters, post
from lancewood.spark.running import answers
from lancewood.spark.running.answers import (
    Shared,
    answer_tasks,
    answered,
    dumps,
    result_of,
)

pytest.importorskip("pyspark", reason="pyspark is not installed")


def told(work: Callable[[Any], Any], *, last_attempt: int | None = None) -> bytes:
    return answered(Shared.of(work, last_attempt), lambda known: known(3))


def tasks(*values: object) -> Iterator[pa.RecordBatch]:
    messages = [dumps(each) for each in values]
    numbers = pa.array(range(len(values)), pa.int32())
    yield pa.record_batch({"task": numbers, "message": pa.array(messages, pa.binary())})


def attempt(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend to be the n-th attempt of a task, from 0."""
    import pyspark

    class Context:
        @staticmethod
        def get() -> Context:
            return Context()

        def attemptNumber(self) -> int:
            return number

    monkeypatch.setattr(pyspark, "TaskContext", Context)


def test_result_arrives_as_it_is() -> None:
    assert result_of(told(lambda number: {"n": number}), "w") == {"n": 3}


@pytest.mark.parametrize(
    "error",
    [
        lw.InvalidInputError("no", column="x"),
        lw.NotFoundError("gone", version=3),
        lw.CommitUnknownError("who knows"),
        lw.RetryableConflictError("others were faster"),
    ],
)
def test_error_of_ours_is_an_answer(error: lw.LancewoodError) -> None:
    def fail(number: int) -> None:
        raise error

    with pytest.raises(type(error)) as raised:
        result_of(told(fail), "w")
    assert (raised.value.message, raised.value.facts) == (error.message, error.facts)


@pytest.mark.parametrize("error", [lw.StorageError("busy"), ValueError("odd"), MemoryError()])
def test_error_that_may_pass_is_left_to_spark(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(number: int) -> None:
        raise error

    attempt(1, monkeypatch)
    with pytest.raises(type(error)):
        told(fail, last_attempt=2)
    with pytest.raises(type(error)):
        told(fail, last_attempt=None)


def test_error_of_the_last_attempt_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(number: int) -> None:
        raise lw.StorageError("busy", key="k")

    attempt(2, monkeypatch)
    with pytest.raises(lw.StorageError, match=r"^busy$") as raised:
        result_of(told(fail, last_attempt=2), "w")
    assert raised.value.facts == {"key": "k"}


def test_exception_that_does_not_pickle_is_told_by_its_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Odd(Exception):
        def __reduce__(self) -> Any:
            raise TypeError("never")

    def fail(number: int) -> None:
        raise Odd("row 7")

    attempt(0, monkeypatch)
    with pytest.raises(lw.LancewoodError, match=r"^work failed on an executor: Odd: row 7$"):
        result_of(told(fail, last_attempt=0), "work")


def test_error_of_ours_that_does_not_pickle_is_told_by_its_text() -> None:
    def fail(number: int) -> None:
        raise lw.InvalidInputError("row 7", lock=threading.Lock())

    expected = r"^work failed on an executor: InvalidInputError: row 7$"
    with pytest.raises(lw.LancewoodError, match=expected):
        result_of(told(fail), "work")


def test_answer_that_does_not_unpickle_is_an_error_of_ours() -> None:
    class Odd:
        def __reduce__(self) -> Any:
            return int, ("seven",)

    with pytest.raises(lw.LancewoodError, match=r"^work: .* on the driver: ValueError: ") as raised:
        result_of(told(lambda number: Odd()), "work")
    assert isinstance(raised.value.__cause__, ValueError)


def test_answer_that_cannot_travel_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MOST_BYTES", 100)
    with pytest.raises(lw.UnsupportedError, match="bytes to tell, 100 can travel"):
        result_of(told(lambda number: bytes(1000)), "w")


def test_long_answer_travels_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "PART_BYTES", 10)
    rows = [
        row
        for batch in answer_tasks(Shared.of(lambda n: bytes(n), None), tasks(25, 0))
        for row in batch.to_pylist()
    ]
    for number, length in enumerate((25, 0)):
        mine = [each for each in rows if each["task"] == number]
        assert [each["part"] for each in mine] == list(range(mine[0]["parts"]))
        assert result_of(b"".join(each["answer"] for each in mine), "w") == bytes(length)
    assert all(len(each["answer"]) <= 10 for each in rows)


def test_work_is_unpickled_once_for_the_tasks_of_a_worker() -> None:
    class Counting:
        loaded = 0

        def __setstate__(self, state: object) -> None:
            type(self).loaded += 1

        def __getstate__(self) -> object:
            return {"some": "state"}

        def __call__(self, number: int) -> int:
            return type(self).loaded

    shared = Shared.of(Counting(), None)
    found = [
        result_of(row["answer"], "w")
        for batch in answer_tasks(shared, tasks(1, 2, 3))
        for row in batch.to_pylist()
    ]
    assert found == [found[0]] * 3


def test_work_is_not_shown_since_it_may_hold_credentials() -> None:
    assert "hush" not in repr(Shared.of(partial(pow, "hush"), None))


def test_letters_go_to_the_box_of_their_job_and_late_ones_nowhere() -> None:
    from queue import SimpleQueue

    class Accumulator:
        def __init__(self, param: Any) -> None:
            self.value, self.param = param.zero([]), param

        def add(self, more: Any) -> None:
            self.value = self.param.addInPlace(self.value, more)

    box: SimpleQueue[Any] = SimpleQueue()
    delivery = _Delivery({"job": box})
    there = Accumulator(pickle.loads(pickle.dumps(delivery)))
    assert type(there.param) is _Letters
    shared = Shared.of(abs, None)
    for tag in ("job", "another"):
        assert list(post(there, tag, partial(answer_tasks, shared), tasks(-5))) == []
    assert delivery.addInPlace([], there.value) == []
    number, part, parts, answer = box.get_nowait()
    assert (number, part, parts, result_of(answer, "w")) == (0, 0, 1, 5)
    assert box.empty()
