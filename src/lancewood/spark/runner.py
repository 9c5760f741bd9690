"""Executors run the tasks of a job: the ``Runner`` of jobs, on a Spark session.

Works on classic sessions and over Connect. The work travels once, in the function; every task has
a partition of its own. Knows nothing of tables, and commits nothing: a job does that on the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from lancewood.errors import InvalidInputError, UnsupportedError
from lancewood.jobs.runner import LocalRunner, Progress
from lancewood.spark.running.answers import MOST_BYTES, Shared, answer_tasks, dumps
from lancewood.spark.running.arriving import Answering, Arriving, in_order
from lancewood.spark.tasks import Spread, check_running, is_connect, slots, spread

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")
R = TypeVar("R")

_MOST_TASKS = 10_000
_MOST_MESSAGE_BYTES = 256 << 20
_MOST_WORK_OVER_CONNECT = 96 << 20
"""A plan travels in one message, for which Spark allows 128 MB."""
_FAILURES_BY_DEFAULT = 4


def runner(spark: SparkSession, *, progress: Progress | None = None) -> SparkRunner:
    """What runs the tasks of a job on executors: for ``runner=`` of any verb of a table.

    ``progress`` is called on the driver, in the thread that waits for the job: at the start, and
    each time a task is done. The executors need lancewood and what a function of yours imports;
    functions of a script or notebook travel by value.
    """
    return SparkRunner(spark, progress)


class SparkRunner:
    """Tasks on executors.

    An error that another attempt cannot mend ends the job and is raised as itself. A StorageError,
    or an exception that is none of ours, is tried again as often as Spark is set to
    (``spark.task.maxFailures``); then it is raised, the latter as a LancewoodError with its text.
    Leaving the iterator cancels the Spark job. Several runs at once are fine.
    """

    def __init__(self, spark: SparkSession, progress: Progress | None = None) -> None:
        """Raises InvalidInputError for what is no session, or no function."""
        if not hasattr(spark, "createDataFrame"):
            raise InvalidInputError(f"runner takes a SparkSession, got {spark!r}")
        if progress is not None and not callable(progress):
            raise InvalidInputError(f"progress takes a function, got {progress!r}")
        self._spark = spark
        self._progress = progress

    @property
    def slots(self) -> int:
        return slots(self._spark)

    @property
    def nearby(self) -> LocalRunner:
        """Threads of the driver: a job of two tasks that do nothing takes longer than some work."""
        return LocalRunner(progress=self._progress)

    def run(
        self,
        work: Callable[[T], R],
        tasks: Sequence[T],
        *,
        what: str,
        leftover: Callable[[R], object] | None = None,
    ) -> Iterator[R]:
        total = len(tasks)
        self._tell(what, 0, total)
        if not total:
            return
        check_running(self._spark)
        with _sending(what):
            shared = Shared.of(work, last_attempt(self._spark))
        if is_connect(self._spark) and len(shared.work) > _MOST_WORK_OVER_CONNECT:
            raise UnsupportedError(
                f"{what}: the tasks share {len(shared.work) >> 20} MB of data, and over Spark "
                f"Connect {_MOST_WORK_OVER_CONNECT >> 20} MB can travel. Give the data as a "
                "DataFrame to lancewood.spark.write, or use a classic session",
                what=what,
            )
        before = 0
        for messages in _waves(tasks, what):
            arriving = self._begun(shared, messages, what)
            on_done = partial(self._tell_more, what, before, total)
            yield from in_order(arriving, what, leftover, on_done)
            before += len(messages)

    def _begun(self, shared: Shared, messages: Sequence[bytes], what: str) -> Arriving:
        """A Spark job for some tasks."""
        frame, answering = self._planned(spread(self._spark, messages), shared)
        return Arriving(self._spark, frame, answering, tasks=len(messages), what=what)

    def _planned(self, tasks: Spread, shared: Shared) -> tuple[DataFrame | Spread, Answering]:
        """What is done with the tasks, and who answers then."""
        return tasks, partial(answer_tasks, shared)

    def _tell_more(self, what: str, before: int, total: int, done: int) -> None:
        self._tell(what, before + done, total)

    def _tell(self, what: str, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(what, done, total)


def last_attempt(spark: SparkSession) -> int | None:
    """The number of the attempt, from 0, after which Spark gives a task up; None if that cannot be
    told."""
    try:
        master = spark.conf.get("spark.master", "") or ""
        failures = spark.conf.get("spark.task.maxFailures", str(_FAILURES_BY_DEFAULT))
        return last_attempt_of(master, failures or "")
    except Exception:  # a session may not tell its settings, and can do without
        return None


def last_attempt_of(master: str, failures: str) -> int | None:
    """The number of the last attempt, by the settings for the master and for failures: a ``local``
    master names the failures itself."""
    if master == "local" or (master.startswith("local[") and master.endswith("]")):
        _, _, failures = master.rstrip("]").partition(",")
        failures = failures.strip() or "1"
    return int(failures) - 1 if failures.isdigit() and int(failures) else None


@contextmanager
def _sending(what: str) -> Iterator[None]:
    """Raises InvalidInputError for what does not pickle: it may fail at that in any way."""
    try:
        yield
    except Exception as cause:
        raise InvalidInputError(
            f"{what}: a function, or what it holds, cannot travel to executors: "
            f"{type(cause).__name__}: {cause}. Keep out of it what belongs to this process, such "
            "as a session, a lock or an open file",
            what=what,
        ) from cause


def _waves(tasks: Sequence[Any], what: str) -> Iterator[list[bytes]]:
    """The tasks, pickled, in waves of which neither the driver nor Spark holds too much."""
    wave: list[bytes] = []
    size = 0
    for task in tasks:
        with _sending(what):
            message = dumps(task)
        if len(message) > MOST_BYTES:
            raise UnsupportedError(
                f"{what}: a task is {len(message)} bytes long, {MOST_BYTES} can travel; run the "
                "job with a LocalRunner, or on fewer fragments at a time",
                what=what,
            )
        if wave and (len(wave) >= _MOST_TASKS or size + len(message) > _MOST_MESSAGE_BYTES):
            yield wave
            wave, size = [], 0
        wave.append(message)
        size += len(message)
    if wave:
        yield wave
