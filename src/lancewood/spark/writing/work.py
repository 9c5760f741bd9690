"""What an executor does for a write: it writes the rows of a partition into new files, and answers.

It reads no manifest, lists nothing and commits nothing: until the driver commits, nothing refers to
the files. Run twice, it writes other files. The answer has the new fragments, a few hundred bytes
per file, or the error.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from google.protobuf.message import DecodeError

from lancewood.data.align import align_schema
from lancewood.data.file_root import FileRoot
from lancewood.data.writer import write_fragments
from lancewood.engine.base import FileLimits
from lancewood.errors import FormatError, LancewoodError, NotFoundError, StorageError
from lancewood.jobs.job import RowCounts
from lancewood.model.fragment import Fragment
from lancewood.model.schema import Schema
from lancewood.proto import table_pb2
from lancewood.spark.types import Writing

ANSWER = "answer"
ANSWER_DDL = f"{ANSWER} binary"
"""The output of ``write_task``, as Spark DDL."""
_FRAGMENTS, _ERROR = b"F", b"E"
NOTHING = _FRAGMENTS
"""The answer of a task that had no rows."""


@dataclass(frozen=True, slots=True)
class Written:
    """The result of one write."""

    uri: str
    branch: str | None
    """None on main."""
    version: int
    """The new version; for a skipped write, the newest one that was seen."""
    counts: RowCounts = field(default_factory=RowCounts)
    files: int | None = 0
    """New data files; None for a merge, which does not count them."""
    bytes: int | None = 0
    """Their size."""
    skipped: bool = False
    """Nothing was written: the table has the batch already, there was nothing to do, or mode is
    "ignore" and there is a table."""


@dataclass(frozen=True)
class WriteWork:
    """What all partitions share; small, and pickles."""

    writing: Writing
    schema: Schema
    """The table's, with the ids of its fields."""
    file_roots: tuple[FileRoot, ...] = field(repr=False)
    file_version: str
    limits: FileLimits

    def run(self, batches: Iterable[pa.RecordBatch]) -> bytes:
        """Write and sync the rows; return the answer for the driver.

        An error that another attempt would meet again is an answer as well. Failures of the store,
        and errors that are not ours, are raised so that Spark tries again; then no file is left.
        """
        rows = self.writing.schema
        try:
            reader = pa.RecordBatchReader.from_batches(rows, self._converted(batches))
            alignment = align_schema(self.schema, rows)
            fragments = write_fragments(
                reader,
                alignment.schema,
                alignment=alignment,
                file_roots=self.file_roots,
                file_version=self.file_version,
                max_rows=self.limits.max_rows,
                max_bytes=self.limits.max_bytes,
            )
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
            file_root = next(each for each in self.file_roots if each.base_id == file.base_id)
            try:
                file_root.store.head(file_root.key(file.path))
            except NotFoundError as gone:
                raise NotFoundError(
                    f"data file {file.path} of this write to {file_root.store.uri} is gone: the "
                    "write was aborted, the table dropped, or a cleanup took it; write anew",
                    path=file.path,
                ) from gone

    def _converted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for each in batches:
            if each.num_rows:
                yield self.writing.convert(each)


def write_task(work: WriteWork, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For mapInArrow: one row with the answer."""
    answer = work.run(batches)
    yield pa.record_batch({ANSWER: pa.array([answer], pa.binary())})


@dataclass(frozen=True, slots=True)
class Answers:
    """What all tasks answered."""

    fragments: tuple[Fragment, ...]
    """In task order, without ids."""
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
            fragments += _fragments(rest)
        elif kind == _ERROR:
            errors.append(pickle.loads(rest))
        else:
            raise FormatError(f"a task answered {bytes(each[:20])!r}, which is no answer of a task")
    return Answers(tuple(fragments), tuple(errors))


def _fragments(rest: bytes) -> list[Fragment]:
    try:
        listed = table_pb2.FragmentList.FromString(rest)
    except DecodeError as cause:
        raise FormatError("a task answered with fragments that cannot be decoded") from cause
    return [Fragment(each) for each in listed.fragments]
