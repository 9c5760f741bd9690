"""The results of a Spark job on the driver, in the order of its tasks.

Answers come in any order; here each waits for its turn. When a job ends early, what finished is
handed to whoever cleans up. Knows no frames, and not what a result is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from lancewood.spark.running.answers import result_of
from lancewood.spark.running.arriving import Arriving

Leftover: TypeAlias = Callable[[Any], object]
"""Told the results of tasks that finished, but whose turn never came."""


def in_order(
    arriving: Arriving,
    what: str,
    leftover: Leftover | None,
    on_done: Callable[[int], object] | None = None,
) -> Iterator[Any]:
    """The result of every task of a job, as soon as its turn comes.

    ``on_done`` is called with the number of tasks that are done, each time one is. Raises the error
    of a task, or of the job. Then, and when somebody leaves the iterator, the job is cancelled.
    """
    waiting: dict[int, Any] = {}
    turn = done = 0
    try:
        for task, answer in arriving:
            waiting[task] = result_of(answer, what)
            done += 1
            if on_done is not None:
                on_done(done)
            while turn in waiting:
                turn += 1
                yield waiting.pop(turn - 1)
        arriving.join()
    except BaseException:
        late = [answer for _, answer in arriving.stop()]
        if leftover is not None:
            for result in (*waiting.values(), *_results(late, what)):
                leftover(result)
        raise


def all_in_order(arriving: Arriving, what: str, leftover: Leftover | None) -> list[Any]:
    """The results of all tasks at once; where one fails, ``leftover`` is told all the others."""
    done: list[Any] = []
    try:
        for each in in_order(arriving, what, leftover):
            done.append(each)
    except BaseException:
        if leftover is not None:
            for each in done:
                leftover(each)
        raise
    return done


def _results(answers: list[bytes], what: str) -> Iterator[Any]:
    for each in answers:
        try:
            yield result_of(each, what)
        except Exception:  # one error is being raised already
            continue
