"""How far Spark is: its tasks are counted while a stage of a run works, and reported to a listener.

Looks at all jobs that begin on the session meanwhile; what other threads run on it at the same time
is counted too. Over Spark Connect there is nobody to ask, and nothing is reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Protocol

from lancewood.pipeline.report.facts import Listener
from lancewood.spark.tasks import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EVERY_SECONDS = 0.25


class Tracker(Protocol):
    """What is asked of Spark's ``StatusTracker``."""

    def getActiveJobsIds(self) -> Sequence[int]: ...

    def getJobInfo(self, jobId: int) -> Any: ...

    def getStageInfo(self, stageId: int) -> Any: ...


@contextmanager
def following(spark: SparkSession, listener: Listener, stage: str) -> Iterator[None]:
    """Tell the listener how many tasks are done of those that are known, while the block runs."""
    if is_connect(spark):
        yield
        return
    tally = TaskTally(spark.sparkContext.statusTracker())
    is_over = Event()
    thread = Thread(target=_watch, args=(tally, listener, stage, is_over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


class TaskTally:
    """The tasks of all jobs that began after the first look. What is done never grows less."""

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker
        self._older = set(tracker.getActiveJobsIds())
        self._running: dict[int, tuple[int, int]] = {}
        self._finished = 0
        self._told = (0, 0)

    def look(self) -> tuple[int, int] | None:
        """Tasks done, and tasks known; None if that was reported before."""
        active = [each for each in self._tracker.getActiveJobsIds() if each not in self._older]
        for job in [each for each in self._running if each not in active]:
            self._finished += self._settled(job)
        for job in active:
            self._running[job] = self._tasks(job)
        done = self._finished + sum(done for done, _ in self._running.values())
        known = self._finished + sum(known for _, known in self._running.values())
        done = max(done, self._told[0])
        now = done, max(known, done)
        if now == self._told:
            return None
        self._told = now
        return now

    def _settled(self, job: int) -> int:
        """The tasks of a job that is over. Stages whose results were there already ran none."""
        done, _ = self._tasks(job)
        before, _ = self._running.pop(job)
        return max(done, before)

    def _tasks(self, job: int) -> tuple[int, int]:
        info = self._tracker.getJobInfo(job)
        stages = (
            [] if info is None else [self._tracker.getStageInfo(each) for each in info.stageIds]
        )
        found = [each for each in stages if each is not None]
        return sum(each.numCompletedTasks for each in found), sum(each.numTasks for each in found)


def _watch(tally: TaskTally, listener: Listener, stage: str, is_over: Event) -> None:
    is_last = False
    while not is_last:
        is_last = is_over.wait(_EVERY_SECONDS)
        try:
            found = tally.look()
        except Exception:  # a session that ends meanwhile: whoever uses it hears of that
            return
        if found is not None:
            listener.moved(stage, *found)
