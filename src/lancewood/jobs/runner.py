"""Who runs the tasks of a job. Here: threads of this process.

A runner knows nothing of tables. It gives the results in the order of the tasks, so that a job
never depends on which of them was faster.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, TypeVar

from lancewood.engine.base import WORKERS, check_number

T = TypeVar("T")
R = TypeVar("R")
Progress = Callable[[str, int, int], None]
"""Told what is done, how many tasks are finished, and how many there are."""


class Runner(Protocol):
    """Runs the tasks of a job."""

    @property
    def slots(self) -> int:
        """How many tasks run at once: a job makes a few times as many."""

    def run(
        self,
        work: Callable[[T], R],
        tasks: Sequence[T],
        *,
        what: str,
        leftover: Callable[[R], object] | None = None,
    ) -> Iterator[R]:
        """The result of every task, in their order.

        ``work`` and the tasks pickle: a function of a module, or a ``functools.partial`` of one.
        ``what`` names the work for people ("finding rows"). The first error stops the others and
        is raised; so does leaving the iterator. ``leftover`` is then told the results of tasks that
        finished, but whose turn never came, as far as the runner has them.
        """


def for_small_work(runner: Runner) -> Runner:
    """Who runs what takes less time than a cluster takes to begin a job: a runner that would begin
    one has a ``nearby``, and others do it themselves."""
    nearby: Runner = getattr(runner, "nearby", runner)
    return nearby


class LocalRunner:
    """Threads of this process; for work that the codec and Arrow do without the interpreter."""

    def __init__(self, workers: int = WORKERS, progress: Progress | None = None) -> None:
        """Raises InvalidInputError for a number of threads that is none."""
        self._workers = check_number("workers", workers, least=1)
        self._progress = progress

    @property
    def slots(self) -> int:
        return self._workers

    def run(
        self,
        work: Callable[[T], R],
        tasks: Sequence[T],
        *,
        what: str,
        leftover: Callable[[R], object] | None = None,
    ) -> Iterator[R]:
        total = len(tasks)
        if total == 1 or self._workers == 1:
            for done, task in enumerate(tasks):
                self._tell(what, done, total)
                yield work(task)
            self._tell(what, total, total)
            return
        self._tell(what, 0, total)
        with ThreadPoolExecutor(self._workers, thread_name_prefix="lancewood-job") as pool:
            waiting: deque[Future[R]] = deque()
            try:
                for done, result in enumerate(_in_order(pool, work, tasks, waiting, self._workers)):
                    self._tell(what, done + 1, total)
                    yield result
            finally:
                begun = [each for each in waiting if not each.cancel()]
                if leftover is not None:
                    for each in begun:
                        if each.exception() is None:
                            leftover(each.result())

    def _tell(self, what: str, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(what, done, total)


def _in_order(
    pool: ThreadPoolExecutor,
    work: Callable[[T], R],
    tasks: Sequence[T],
    waiting: deque[Future[R]],
    workers: int,
) -> Iterator[R]:
    """Results in order; at most twice as many tasks are handed out as can run at once."""
    for task in tasks:
        if len(waiting) >= 2 * workers:
            yield waiting.popleft().result()
        waiting.append(pool.submit(work, task))
    while waiting:
        yield waiting.popleft().result()
