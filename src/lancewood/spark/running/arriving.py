"""The answers of a Spark job on the driver: each as soon as its task is done, or in task order.

A classic session sends answers through an accumulator, the only thing that Spark brings to the
driver while a job runs. Over Connect the rows of a result arrive partition by partition. Either way
a task may answer twice, and only its first answer counts. If a job ends early, the results of
finished tasks go to ``leftover``, which cleans up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import uuid4
from weakref import WeakKeyDictionary

import pyarrow as pa

from lancewood.errors import LancewoodError
from lancewood.spark.abilities import TAGGED_THREADS, release_here
from lancewood.spark.running.answers import SCHEMA, result_of
from lancewood.spark.running.failures import as_our_error
from lancewood.spark.tasks import Spread, is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
