"""Executors run the tasks of a job: the ``Runner`` of jobs, on a Spark session.

Works on classic sessions and over Connect. The work travels once, in the function; every task has
a partition of its own. Knows nothing of tables, and commits nothing: a job does that on the driver.

A classic session sends answers through an accumulator, the only thing that Spark brings to the
driver while a job runs. Over Connect the rows of a result arrive partition by partition. Either way
a task may answer twice, and only its first answer counts. If a job ends early, the results of
finished tasks go to ``leftover``, which cleans up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from uuid import uuid4
from weakref import WeakKeyDictionary

import pyarrow as pa

from lancewood.errors import InvalidInputError, LancewoodError, UnsupportedError
from lancewood.jobs.runner import LocalRunner, Progress
from lancewood.spark.abilities import TAGGED_THREADS, release_here
from lancewood.spark.running.answers import (
    MOST_BYTES,
    SCHEMA,
    Shared,
    answer_tasks,
    dumps,
    result_of,
)
from lancewood.spark.running.failures import as_our_error
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
        def tell(before: int, done: int) -> None:
            if self._progress is not None:
                self._progress(what, before + done, len(tasks))

        tell(0, 0)
        if not tasks:
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
            frame, answering = self._planned(spread(self._spark, messages), shared)
            arriving = Arriving(self._spark, frame, answering, tasks=len(messages), what=what)
            yield from in_order(arriving, what, leftover, partial(tell, before))
            before += len(messages)

    def _planned(self, tasks: Spread, shared: Shared) -> tuple[DataFrame | Spread, Answering]:
        """What is done with the tasks, and who answers then."""
        return tasks, partial(answer_tasks, shared)


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


Answering: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""Runs on an executor: rows of ``answers.SCHEMA`` for a partition."""
_Letter: TypeAlias = tuple[int, int, int, bytes]
Leftover: TypeAlias = Callable[[Any], object]
"""Called with the results of finished tasks whose turn never came."""
_PATIENCE = 0.2
_MOST_ROUNDS = 150
_mails: WeakKeyDictionary[Any, _Mail] = WeakKeyDictionary()
_lock = threading.Lock()


class Arriving:
    """The answers of one job. The job starts when this object is made."""

    def __init__(
        self,
        spark: SparkSession,
        frame: DataFrame | Spread,
        answering: Answering,
        *,
        tasks: int,
        what: str,
    ) -> None:
        """``answering`` is called with every partition of the frame; ``tasks`` is the number of
        answers to expect."""
        from pyspark import InheritableThread

        self._spark = spark
        self._what = what
        self._tag = f"lancewood-{uuid4().hex}"
        self._tasks = tasks
        self._came: SimpleQueue[_Letter | BaseException | None] = SimpleQueue()
        self._parts: dict[int, dict[int, bytes]] = {}
        self._seen: set[int] = set()
        self._is_over = False
        if is_connect(spark):
            collect = partial(self._collect_rows, frame.mapInArrow(answering, SCHEMA))
        else:
            mail = _mail_of(spark)
            mail.boxes[self._tag] = self._came
            posting = partial(post, mail.accumulator, self._tag, answering)
            collect = partial(self._collect_letters, mail, frame.mapInArrow(posting, SCHEMA))
        kept = {"session": spark} if TAGGED_THREADS.is_in(release_here()) else {}
        self._thread = InheritableThread(collect, daemon=True, name=self._tag, **kept)
        self._thread.start()

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Task and answer, in the order of arrival; iterate once.

        Raises a LancewoodError for a job that failed.
        """
        while not self._is_over:
            came = self._came.get()
            if isinstance(came, tuple):
                yield from self._whole(came)
                continue
            self._is_over = True
            if came is not None:
                raise as_our_error(came, self._what) from None
        missing = self._tasks - len(self._seen)
        if missing:
            raise LancewoodError(
                f"{self._what} failed on Spark: {missing} of {self._tasks} tasks gave no answer",
                what=self._what,
            )

    def stop(self) -> list[tuple[int, bytes]]:
        """Cancel the job if it still runs; return the answers that were not yet taken."""
        for _ in range(_MOST_ROUNDS):
            if not self._thread.is_alive():
                break
            # Again and again: what has not begun yet cannot be cancelled.
            self._cancel()
            self._thread.join(_PATIENCE)
        self._is_over = True
        late: list[tuple[int, bytes]] = []
        while not self._came.empty():
            came = self._came.get()
            if isinstance(came, tuple):
                late += self._whole(came)
        return late

    def join(self) -> None:
        """Wait for the end of a job whose answers have all arrived."""
        self._thread.join()

    def _whole(self, letter: _Letter) -> Iterator[tuple[int, bytes]]:
        task, part, parts, content = letter
        if task in self._seen:
            return
        found = self._parts.setdefault(task, {})
        found[part] = content
        if len(found) == parts:
            self._seen.add(task)
            del self._parts[task]
            yield task, b"".join(found[each] for each in range(parts))

    def _cancel(self) -> None:
        try:
            if is_connect(self._spark):
                self._spark.interruptTag(self._tag)
            else:
                self._spark.sparkContext.cancelJobsWithTag(self._tag)
        except Exception:  # a session that was stopped runs nothing any more
            return

    def _collect_letters(self, mail: _Mail, frame: DataFrame) -> None:
        context = self._spark.sparkContext
        try:
            context.addJobTag(self._tag)
            context.setJobDescription(f"lancewood: {self._what}")
            try:
                frame.collect()
            finally:
                context.removeJobTag(self._tag)
            self._came.put(None)
        except BaseException as error:
            self._came.put(error)
        finally:
            mail.boxes.pop(self._tag, None)

    def _collect_rows(self, frame: DataFrame) -> None:
        try:
            self._spark.addTag(self._tag)
            for row in frame.toLocalIterator():
                self._came.put((row.task, row.part, row.parts, bytes(row.answer)))
            self._came.put(None)
        except BaseException as error:
            self._came.put(error)


def post(
    accumulator: Any, tag: str, answering: Answering, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """On an executor of a classic session: send answers by the accumulator, and no rows."""
    for batch in answering(batches):
        for row in batch.to_pylist():
            letter = row["task"], row["part"], row["parts"], row["answer"]
            accumulator.add([(tag, letter)])
    return
    yield  # a generator, as mapInArrow wants one


@dataclass
class _Mail:
    """The one accumulator of a context, and the queues of waiting jobs."""

    accumulator: Any = None
    boxes: dict[str, SimpleQueue[Any]] = field(default_factory=dict)


class _Letters:
    """How letters add up on an executor: as a list."""

    def zero(self, value: object) -> list[tuple[str, _Letter]]:
        return []

    def addInPlace(
        self, value: list[tuple[str, _Letter]], more: list[tuple[str, _Letter]]
    ) -> list[tuple[str, _Letter]]:
        value.extend(more)
        return value


class _Delivery(_Letters):
    """On the driver: put each letter into its queue at once; a late task has none."""

    def __init__(self, boxes: dict[str, SimpleQueue[Any]]) -> None:
        self._boxes = boxes

    def addInPlace(
        self, value: list[tuple[str, _Letter]], more: list[tuple[str, _Letter]]
    ) -> list[tuple[str, _Letter]]:
        for tag, letter in more:
            box = self._boxes.get(tag)
            if box is not None:
                box.put(letter)
        return value

    def __reduce__(self) -> tuple[Any, ...]:
        return _Letters, ()


def _mail_of(spark: SparkSession) -> _Mail:
    context = spark.sparkContext
    with _lock:
        mail = _mails.get(context)
        if mail is None:
            mail = _Mail()
            adding: Any = _Delivery(mail.boxes)
            mail.accumulator = context.accumulator([], adding)
            _mails[context] = mail
        return mail


def in_order(
    arriving: Arriving,
    what: str,
    leftover: Leftover | None,
    on_done: Callable[[int], object] | None = None,
) -> Iterator[Any]:
    """The result of every task of a job, as soon as its turn comes.

    ``on_done`` is called with the number of finished tasks, after each. Raises the error of a task,
    or of the job. The job is cancelled then, and when the iterator is closed early.
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
    """The results of all tasks; if one fails, ``leftover`` gets all the others."""
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
