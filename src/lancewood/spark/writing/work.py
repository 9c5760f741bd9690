"""How the rows of a frame are written: executors write those of a partition into new files, and
answer.

An executor reads no manifest, lists nothing and commits nothing: until the driver commits, nothing
refers to the files. Run twice, it writes other files. The answer has the new fragments, a few
hundred bytes per file, or the error.

Spark bounds the batches that it hands to Python by rows and by bytes, and for the second it
measures the batch after every row: on narrow rows that takes longer than all the rest. Here the
bound by bytes is lifted for frames whose rows cannot be large, and kept for all others.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import pyarrow as pa
from google.protobuf.message import DecodeError

from lancewood.engine.schema import missing_columns
from lancewood.engine.snapshot import Snapshot
from lancewood.engine.write import FileWriter, PlannedWrite
from lancewood.errors import (
    FormatError,
    InvalidInputError,
    LancewoodError,
    NotFoundError,
    StorageError,
)
from lancewood.format.schema import to_arrow_schema
from lancewood.jobs.counts import RowCounts
from lancewood.model.fragment import Fragment
from lancewood.proto import table_pb2
from lancewood.spark.running.failures import our_error
from lancewood.spark.tasks import keep_loaded
from lancewood.spark.types import Writing, kept_columns, leaf_type, named_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

ANSWER = "answer"
ANSWER_DDL = f"{ANSWER} binary"
"""The output of ``write_task``, as Spark DDL."""
_FRAGMENTS, _ERROR = b"F", b"E"
NOTHING = _FRAGMENTS
"""The answer of a task that had no rows."""
ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
ADVISED_BYTES = "8m"
NO_BOUND = str((1 << 31) - 1)
"""What Spark takes for no bound: it then measures nothing."""

NUMBER_ROWS = 10_000
TEXT_ROWS = 2_048
"""A batch of Arrow's holds 2 GiB of text: a megabyte for each of these rows."""
_FIXED = (pa.types.is_primitive, pa.types.is_decimal, pa.types.is_null)
"""Arrow types whose values all take the same few bytes."""

_NOT_CHOSEN = frozenset({ADVISED_BYTES, "64MB", "67108864b"})
"""Bounds by bytes that nobody chose: Lancewood's advice and Spark's default. Others are kept."""


@dataclass(frozen=True, slots=True)
class Written:
    """The result of one write."""

    uri: str
    branch: str | None
    """None on main."""
    version: int
    """The new version; for a skipped write and a dry run the newest one that was seen, 0 if there
    is no table yet."""
    counts: RowCounts | None = field(default_factory=RowCounts)
    """What became of rows; None for a dry run that would have to compute rows to know."""
    files: int | None = 0
    """New data files; None for a merge, which does not count them, and where a dry run does not
    know."""
    bytes: int | None = 0
    """Size of the new data files."""
    skipped: bool = False
    """Nothing was written: the table has the batch already, there was nothing to do, or mode is
    "ignore" and there is a table."""
    dry_run: bool = False
    """Everything was checked, and nothing written."""


def as_written(
    after: Snapshot, counts: RowCounts, files: int | None = None, size: int | None = None
) -> Written:
    """The result of a write that made this version."""
    manifest = after.manifest
    return Written(after.location.uri, manifest.branch, manifest.version, counts, files, size)


def as_skipped(there: Snapshot, *, dry_run: bool = False) -> Written:
    """The result of a write that was not needed."""
    uri, manifest = there.location.uri, there.manifest
    return Written(uri, manifest.branch, manifest.version, skipped=True, dry_run=dry_run)


def as_planned(
    before: Snapshot, counts: RowCounts | None = None, files: int | None = None
) -> Written:
    """The result of a dry run that would write."""
    uri, manifest = before.location.uri, before.manifest
    return Written(uri, manifest.branch, manifest.version, counts, files, None, dry_run=True)


@dataclass(frozen=True)
class WriteWork:
    """What all partitions share; small, and pickles."""

    writing: Writing
    files: FileWriter

    @classmethod
    def of(cls, plan: PlannedWrite, frame: StructType) -> WriteWork:
        """For a frame with these columns; raises InvalidInputError if they do not fit.

        Rows of a table that keeps its columns get its types. A table that is made, or whose columns
        are replaced, has those of the request or of the frame, and a column that the table had
        under the same name keeps its Arrow type if Spark reads that type as the frame's, so vectors
        stay vectors.
        """
        if plan.keeps_columns:
            try:
                writing = Writing(frame, _table_columns(plan, frame))
            except InvalidInputError as refused:
                raise plan.misfit(refused) from None
            return cls(writing, plan.files(writing.schema))
        wanted = plan.request.schema
        if wanted is None and plan.kind == "overwrite":
            wanted = kept_columns(frame, plan.before.arrow_schema)
        writing = Writing(frame, schema=wanted)
        if not len(writing.table):
            raise InvalidInputError("a table needs at least one column, the frame has none")
        return cls(writing, plan.files(writing.schema, writing.table))

    def run(self, batches: Iterable[pa.RecordBatch]) -> bytes:
        """Write and sync the rows; return the answer for the driver.

        An error that another attempt would meet again is an answer as well. Failures of the store,
        and errors that are not ours, are raised so that Spark tries again; then no file is left.
        """
        try:
            rows = (self.writing.convert(batch) for batch in batches if batch.num_rows)
            reader = pa.RecordBatchReader.from_batches(self.writing.schema, rows)
            fragments = self.files.write(reader)
        except StorageError:
            raise
        except LancewoodError as error:
            return encode_error(error)
        return encode_fragments(fragments)

    def check_there(self, fragments: Sequence[Fragment]) -> None:
        """On the driver: raise NotFoundError if what was written is gone.

        Looks at one file only, because an abort or a cleanup removes all files of a job.
        """
        for file in (file for each in fragments[:1] for file in each.files[:1]):
            file_root = next(each for each in self.files.file_roots if each.base_id == file.base_id)
            try:
                file_root.store.head(file_root.key(file.path))
            except NotFoundError as gone:
                raise NotFoundError(
                    f"data file {file.path} of this write to {file_root.store.uri} is gone: the "
                    "write was aborted, the table dropped, or a cleanup took it; write anew",
                    path=file.path,
                ) from gone


def _table_columns(plan: PlannedWrite, frame: StructType) -> pa.Schema:
    """The columns of a table that keeps them, with those that the frame adds."""
    known = plan.before.arrow_schema
    if not plan.request.merge_schema:
        return known
    types = [*known, *(plan.request.schema or ())]
    new = missing_columns(known, pa.schema(named_columns(frame, types)))
    return to_arrow_schema(plan.with_columns(new))


def write_task(work: WriteWork, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For mapInArrow: one row with the answer."""
    answer = work.run(batches)
    keep_loaded()
    yield pa.record_batch({ANSWER: pa.array([answer], pa.binary())})


def write_rows(df: DataFrame, work: WriteWork) -> list[bytes]:
    """Write all rows of a frame, once; return the answers of its partitions, in order.

    Raises our error if a task raised it at every attempt. Errors of the frame itself stay Spark's
    own exceptions, which its owner knows.
    """
    plan = df.mapInArrow(partial(write_task, work), ANSWER_DDL)
    try:
        with batches_of(df.sparkSession, df.schema):
            return [bytes(each[0]) for each in plan.collect()]
    except Exception as failure:
        known = our_error(str(failure))
        if known is None:
            raise
        raise known from failure


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of all tasks of a write, put together."""

    fragments: tuple[Fragment, ...]
    """New fragments in task order, without ids."""
    errors: tuple[LancewoodError, ...]

    @property
    def rows(self) -> int:
        return sum(each.physical_rows for each in self.fragments)

    @property
    def files(self) -> int:
        return sum(len(each.message.files) for each in self.fragments)

    @property
    def bytes(self) -> int:
        return sum(file.file_size_bytes for each in self.fragments for file in each.message.files)


def encode_fragments(fragments: Sequence[Fragment]) -> bytes:
    listed = table_pb2.FragmentList()
    listed.fragments.extend(each.message for each in fragments)
    return _FRAGMENTS + listed.SerializeToString()


def encode_error(error: LancewoodError) -> bytes:
    return _ERROR + pickle.dumps(error)


def is_nothing(answers: Sequence[bytes]) -> bool:
    """Whether no task had rows."""
    return all(each == NOTHING for each in answers)


def answers_in(messages: Sequence[Any]) -> list[bytes | None]:
    """The answers of partitions in the messages that Spark passes to a commit.

    None for a partition that failed or whose answer was lost.
    """
    return [None if each is None else each.answer for each in messages]


def decode_answers(answers: Sequence[bytes | None]) -> Answers:
    """What all tasks answered; None stands for a task without an answer.

    Raises FormatError for anything else. Errors are unpickled, which is safe for answers of our own
    executors.
    """
    fragments: list[Fragment] = []
    errors: list[LancewoodError] = []
    for each in answers:
        if each is None:
            continue
        kind, rest = bytes(each[:1]), bytes(each[1:])
        if kind == _FRAGMENTS:
            try:
                listed = table_pb2.FragmentList.FromString(rest)
            except DecodeError as cause:
                raise FormatError(
                    "a task answered with fragments that cannot be decoded"
                ) from cause
            fragments += map(Fragment, listed.fragments)
        elif kind == _ERROR:
            errors.append(pickle.loads(rest))
        else:
            raise FormatError(f"a task answered {bytes(each[:20])!r}, which is no answer of a task")
    return Answers(tuple(fragments), tuple(errors))


@dataclass(slots=True)
class _Writes:
    """The writes that run in one session."""

    narrow: int = 0
    wide: int = 0
    saved: tuple[str, str] | None = None
    """The session's own bounds, while others are set."""


_lock = Lock()
_writes: WeakKeyDictionary[Any, _Writes] = WeakKeyDictionary()


def rows_at_once(schema: DataType) -> int | None:
    """How many rows can go at once without a look at their bytes; None if that is unknown."""
    from pyspark.sql import types

    if isinstance(schema, types.StructType):
        found = [rows_at_once(each.dataType) for each in schema.fields]
        return None if None in found else min(filter(None, found), default=NUMBER_ROWS)
    if isinstance(schema, types.StringType):
        return TEXT_ROWS
    kind = leaf_type(schema)
    is_fixed = kind is not None and any(each(kind) for each in _FIXED)
    return NUMBER_ROWS if is_fixed else None


@contextmanager
def batches_of(spark: SparkSession, schema: DataType) -> Iterator[None]:
    """Have Spark cut batches as suits rows of this schema, until the block ends.

    The setting is the session's: other jobs that are planned in it meanwhile have it too. A write
    of wide rows at the same time gets the bounds of the session, and a bound by bytes that
    somebody chose is not touched.
    """
    rows = rows_at_once(schema)
    with _lock:
        writes = _writes.setdefault(spark, _Writes())
        if rows is None:
            writes.wide += 1
            _restore(spark, writes)
        else:
            writes.narrow += 1
            _lift(spark, writes, rows)
    try:
        yield
    finally:
        with _lock:
            if rows is None:
                writes.wide -= 1
            else:
                writes.narrow -= 1
                if not writes.narrow:
                    _restore(spark, writes)


def _lift(spark: Any, writes: _Writes, rows: int) -> None:
    if writes.wide:
        return
    own = writes.saved or (spark.conf.get(ROWS), spark.conf.get(BYTES, NO_BOUND))
    if own[1] not in _NOT_CHOSEN:
        return
    now = int(spark.conf.get(ROWS))
    writes.saved = own
    spark.conf.set(ROWS, str(min(rows, now) if now > 0 else rows))
    spark.conf.set(BYTES, NO_BOUND)


def _restore(spark: Any, writes: _Writes) -> None:
    if writes.saved is not None:
        spark.conf.set(ROWS, writes.saved[0])
        spark.conf.set(BYTES, writes.saved[1])
        writes.saved = None
