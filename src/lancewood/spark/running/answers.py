"""What an executor does with a task of a job, and how its answer travels home.

Work and tasks come pickled, by value where they are not of a module; answers go the same way. An
error that another attempt cannot mend is an answer, too: it arrives as itself, and Spark does not
try again. Others are raised for Spark to retry, and become an answer with the last attempt. Knows
nothing of tables, nor of sessions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa

from lancewood.errors import LancewoodError, StorageError, UnsupportedError
from lancewood.spark.tasks import messages_of

SCHEMA = "task int, part int, parts int, answer binary"
_ARROW = pa.schema(
    [
        ("task", pa.int32()),
        ("part", pa.int32()),
        ("parts", pa.int32()),
        ("answer", pa.binary()),
    ]
)
PART_BYTES = 2 << 20
"""Longer answers travel in parts: Spark Connect and Arrow do not carry rows of any length."""
MOST_BYTES = 1 << 30
"""Java holds no array of more than twice as much."""


@dataclass(frozen=True, slots=True)
class Shared:
    """What all tasks of a job have in common, pickled, and when a failure is final."""

    work: bytes = field(repr=False)
    """The pickled work; nobody prints it, as it may hold credentials."""
    digest: bytes
    last_attempt: int | None
    """The number of the attempt after which Spark gives up; None if that is not known."""

    @classmethod
    def of(cls, work: Callable[[Any], Any], last_attempt: int | None) -> Shared:
        pickled = dumps(work)
        return cls(pickled, hashlib.sha256(pickled).digest(), last_attempt)


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception that is none of ours, and was raised in the last attempt."""

    summary: str
    """Class and message of the exception."""
    cause: bytes | None
    """The exception itself, where it pickles."""


def dumps(value: object) -> bytes:
    """Pickled; functions and classes of a script or notebook by value."""
    from pyspark import cloudpickle

    pickled: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    return pickled


def loads(pickled: bytes) -> Any:
    """What was pickled, here or by an executor of ours."""
    from pyspark import cloudpickle

    return cloudpickle.loads(pickled)


def answer_tasks(shared: Shared, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On an executor: the answers to the tasks of a partition, as rows."""
    for number, message in messages_of(batches):
        yield from as_rows(number, answered(shared, partial(_called, message)))


def _called(message: bytes, work: Callable[[Any], object]) -> object:
    return work(loads(message))


def as_rows(number: int, answer: bytes) -> Iterator[pa.RecordBatch]:
    """An answer as rows of ``SCHEMA``."""
    starts = range(0, len(answer), PART_BYTES)
    for part, at in enumerate(starts):
        columns = [
            pa.array([number], pa.int32()),
            pa.array([part], pa.int32()),
            pa.array([len(starts)], pa.int32()),
            pa.array([answer[at : at + PART_BYTES]], pa.binary()),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=_ARROW)


def answered(shared: Shared, call: Callable[[Any], object]) -> bytes:
    """What becomes of the work: its result or an error, pickled.

    Raises what Spark is to try again.
    """
    try:
        answer = dumps((True, call(_work(shared))))
        if len(answer) > MOST_BYTES:
            raise UnsupportedError(
                f"a task has {len(answer)} bytes to tell, {MOST_BYTES} can travel; run the job "
                "with a LocalRunner, or on fewer fragments at a time"
            )
        return answer
    except Exception as error:
        if is_final(error) or is_last_attempt(shared.last_attempt):
            return dumps((False, _sent_file_root(error)))
        raise


def is_final(error: Exception) -> bool:
    """Whether another attempt would end the same way."""
    return isinstance(error, LancewoodError) and not isinstance(error, StorageError)


def is_last_attempt(last: int | None) -> bool:
    """On an executor: whether Spark gives up if this attempt fails."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return last is not None and context is not None and context.attemptNumber() >= last


def result_of(answer: bytes, what: str) -> Any:
    """On the driver: the result of a task; raises the error that it ended with."""
    try:
        is_done, value = loads(answer)
    except Exception as cause:  # somebody's result may fail at this in any way
        raise LancewoodError(
            f"{what}: what a task answered does not unpickle on the driver: "
            f"{type(cause).__name__}: {cause}. The driver needs the packages of the executors",
            what=what,
        ) from cause
    if is_done:
        return value
    if isinstance(value, Failure):
        raise _made(value, what)
    raise value


def _sent_file_root(error: Exception) -> LancewoodError | Failure:
    try:
        pickled = dumps(error)
        loads(pickled)
    except Exception:  # somebody's exception may fail at this in any way
        pickled = None
    if isinstance(error, LancewoodError) and pickled is not None:
        return error
    return Failure(f"{type(error).__name__}: {error}", pickled)


def _made(failure: Failure, what: str) -> LancewoodError:
    error = failed(what, failure.summary)
    if failure.cause is not None:
        try:
            error.__cause__ = loads(failure.cause)
        except Exception:  # of a module that the driver does not have
            return error
    return error


def failed(what: str, why: str) -> LancewoodError:
    """The error for work that failed on executors for a reason that is none of ours."""
    return LancewoodError(f"{what} failed on an executor: {why}", what=what)


_known: tuple[bytes, Any] | None = None


def _work(shared: Shared) -> Any:
    """The work, unpickled once for the tasks that a Python worker does one after the other."""
    global _known
    if _known is None or _known[0] != shared.digest:
        _known = None
        _known = shared.digest, loads(shared.work)
    return _known[1]
