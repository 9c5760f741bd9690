"""A planned write: what executors run, and how the driver ends it, with a commit or without.

The uuid of the transaction is fixed from the start, so that a commit whose answer was lost can be
found again. Files are deleted only if it is proven that no version refers to them; the rest is left
to cleanup, which goes by age.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from uuid import uuid4

import pyarrow as pa

from lancewood.engine.commit import CommitPolicy, find_landed
from lancewood.engine.location import discard, new_data_files
from lancewood.engine.snapshot import Snapshot, load_snapshot
from lancewood.engine.versions import load_manifest
from lancewood.errors import (
    AlreadyExistsError,
    BatchAppliedError,
    CommitUnknownError,
    ConflictError,
    LancewoodError,
    NotFoundError,
    RetryableConflictError,
)
from lancewood.format.layout import transaction_key, transaction_name
from lancewood.format.schema import encode_schema
from lancewood.jobs.job import RowCounts
from lancewood.model.applied import AppliedBatch
from lancewood.model.fragment import Fragment
from lancewood.model.operations import Append, Overwrite
from lancewood.model.transaction import Transaction
from lancewood.proto import table_pb2
from lancewood.rules.applied import is_applied
from lancewood.spark.batches import batches_for
from lancewood.spark.running.failures import our_error
from lancewood.spark.writing.work import (
    ANSWER_DDL,
    NOTHING,
    Answers,
    WriteWork,
    Written,
    decode_answers,
    write_task,
)
from lancewood.store.base import is_there

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Mode: TypeAlias = Literal["append", "overwrite", "error", "ignore"]


@dataclass(frozen=True, slots=True)
class Trace:
    """What a transaction leaves in a table: whether its commit began, and whether it landed."""

    base: Snapshot
    """The version that it builds on."""
    uuid: str

    def was_tried(self) -> bool:
        """Whether a commit began: its first step writes the transaction file.

        Raises StorageError if the store does not answer.
        """
        name = transaction_name(self.base.manifest.version, self.uuid)
        return is_there(self.base.location.store, transaction_key(name))

    def has_landed(self) -> bool:
        """Whether a version was made by the transaction.

        Raises CommitUnknownError or StorageError if that is unknown.
        """
        base = self.base
        return find_landed(base.location, base.scheme, self.uuid, base.manifest.version) is not None

    def is_absent(self) -> bool:
        """Whether it is proven that no version was made by the transaction.

        A table or branch that was deleted and made again proves nothing: a version of the earlier
        one may have been published elsewhere.
        """
        try:
            if self.has_landed():
                return False
            read_again(self.base)
        except LancewoodError:
            return False
        return True

    def has_failed(self) -> bool:
        """Whether it is proven that a commit began and made no version."""
        try:
            return self.was_tried() and self.is_absent()
        except LancewoodError:
            return False


def read_again(base: Snapshot) -> Snapshot:
    """The version that a job was planned on, with its fragments, as it is now.

    Raises NotFoundError if it is gone, or if another one has its number.
    """
    then, uri = base.manifest, base.location.uri
    if not then.version:
        return base
    try:
        now = load_manifest(base.location.store, then.version, base.scheme)
    except NotFoundError as gone:
        raise NotFoundError(
            f"version {then.version} of {uri}, on which this write was planned, is gone: the "
            "table or branch was dropped or renamed, or a cleanup took the version; plan it anew",
            version=then.version,
        ) from gone
    if (now.transaction_file, now.timestamp_ns) != (then.transaction_file, then.timestamp_ns):
        raise NotFoundError(
            f"version {then.version} of {uri} is not the one that this write was planned on: the "
            "table was dropped and made again; plan it anew",
            version=then.version,
        )
    return Snapshot(base.location, now, base.scheme)


def write_rows(df: DataFrame, work: WriteWork) -> list[bytes]:
    """Write all rows of a frame, once; return the answers of its partitions, in order.

    Raises our error if a task raised it at every attempt. Errors of the frame itself stay Spark's
    own exceptions, which its owner knows.
    """
    plan = df.mapInArrow(partial(write_task, work), ANSWER_DDL)
    try:
        with batches_for(df):
            return [bytes(each[0]) for each in plan.collect()]
    except Exception as failure:
        known = our_error(str(failure))
        if known is None:
            raise
        raise known from failure


@dataclass(frozen=True)
class WriteJob:
    """One write to one table. Made by ``plan_write``; pickles, and is then small."""

    work: WriteWork | None
    """What executors do; None if there is nothing to do, because the table has the batch already
    or is to be left alone."""
    base: Snapshot = field(repr=False)
    """The version that it was planned on; version 0 if there is no table."""
    mode: Mode
    properties: Mapping[str, str] = field(default_factory=dict)
    applied: AppliedBatch | None = None
    serializable: bool = False
    bases: tuple[table_pb2.BasePath, ...] = field(default=(), repr=False)
    """The base paths that a new table declares."""
    uuid: str = field(default_factory=lambda: str(uuid4()))
    is_whole: bool = field(default=True, repr=False)
    """Whether ``base`` has its fragments, which are not pickled."""

    def __getstate__(self) -> dict[str, Any]:
        if self.is_new:
            return dict(self.__dict__)
        return {**self.__dict__, "base": self.base.bare(), "is_whole": False}

    @property
    def uri(self) -> str:
        return self.base.location.uri

    @property
    def is_new(self) -> bool:
        """Whether the commit makes the table."""
        return self.base.manifest.version == 0

    @property
    def is_skipped(self) -> bool:
        """Whether there is nothing to do; then ``commit`` makes no version."""
        return self.work is None

    def run(self, batches: Iterable[pa.RecordBatch]) -> bytes:
        """On an executor: write the rows of a partition; the answer is for ``commit`` and
        ``abort``.

        Raises StorageError, and errors that are not ours, so that Spark tries again. Other errors
        are answers, which ``commit`` raises.
        """
        return NOTHING if self.work is None else self.work.run(batches)

    def commit(self, answers: Sequence[bytes | None]) -> Written:
        """On the driver: make all that was written visible at once, or raise what a task answered.

        A commit that is proven to have failed removes its files. A second call with the same
        answers does not add the rows twice, and raises CommitUnknownError unless the first one
        landed. Raises AlreadyExistsError or RetryableConflictError if another writer made the table
        meanwhile.
        """
        if self.work is None:
            return self._skipped(self.base)
        found = decode_answers(answers)
        if found.errors:
            self.abort(answers)
            raise found.errors[0]
        was_tried = self._trace.was_tried()
        if was_tried and not self._trace.has_landed():
            raise CommitUnknownError(
                f"this write to {self.uri} was committed before, and no version is its: the files "
                "may be gone, or the commit is still on its way. Look at the newest versions, then "
                "write anew",
                uuid=self.uuid,
            )
        try:
            base = self.base if self.is_whole else read_again(self.base)
            if not was_tried:
                self.work.check_there(found.fragments)
            # A table can be made only once, whatever others do.
            serializable = self.serializable or self.is_new
            policy = CommitPolicy(serializable=serializable, applied=self.applied)
            after = base.commit(self._transaction(self.work, found), policy)
        except CommitUnknownError:
            raise
        except LancewoodError as refused:
            if not was_tried and self._trace.has_failed():
                self._discard(found.fragments)
            skipped = self._settle(refused)
            if skipped is None:
                raise
            return skipped
        return Written(
            uri=self.uri,
            branch=after.manifest.branch,
            version=after.manifest.version,
            counts=RowCounts(inserted=found.rows),
            files=found.files,
            bytes=found.bytes,
        )

    def left_alone(self) -> Written:
        """The result if there is nothing to commit: the version that was planned on."""
        return self._skipped(self.base)

    def abort(self, answers: Sequence[bytes | None]) -> None:
        """On the driver: remove the files of a job that will not be committed, as far as possible.

        Spark also calls this after a commit that raised. Files are removed only if no commit began
        and none landed: one that began has removed what it could, and if it was cut off, its
        manifest may still arrive.
        """
        try:
            found = decode_answers(answers)
            if self._trace.was_tried() or not self._trace.is_absent():
                return
        except LancewoodError:
            return
        self._discard(found.fragments)

    def _transaction(self, work: WriteWork, answers: Answers) -> Transaction:
        operation: Append | Overwrite
        if self.mode == "overwrite" or self.is_new:
            operation = Overwrite(
                answers.fragments,
                tuple(encode_schema(work.schema)),
                work.schema.metadata,
                initial_bases=self.bases,
                file_version=work.file_version,
            )
        else:
            operation = Append(answers.fragments)
        return Transaction(self.base.manifest.version, self.uuid, (operation,), self.properties)

    @property
    def _trace(self) -> Trace:
        return Trace(self.base, self.uuid)

    def _settle(self, refused: LancewoodError) -> Written | None:
        """The result if a refused commit was not needed; None if it failed."""
        if isinstance(refused, BatchAppliedError):
            return self._skipped(load_snapshot(self.base.location))
        if not self.is_new or not isinstance(refused, ConflictError):
            return None
        there = load_snapshot(self.base.location)
        if self.mode == "ignore" or is_applied(there.manifest.config, self.applied):
            return self._skipped(there)
        if self.mode == "error":
            raise table_exists(self.uri) from refused
        raise RetryableConflictError(
            f"another writer made a table at {self.uri} while this one was writing the first rows "
            f"of it; run the {self.mode} again, on the table that is there now",
            uri=self.uri,
            version=there.manifest.version,
        ) from refused

    def _skipped(self, there: Snapshot) -> Written:
        return Written(
            uri=self.uri, branch=there.manifest.branch, version=there.manifest.version, skipped=True
        )

    def _discard(self, fragments: Sequence[Fragment]) -> None:
        head = self.base.manifest
        if self.is_new:
            head = head.bare()
            head.message.base_paths.extend(self.bases)
        discard(self.base.location, head, new_data_files(fragments))


def table_exists(uri: str) -> AlreadyExistsError:
    return AlreadyExistsError(
        f"there is a table at {uri} already: write with mode 'append' or 'overwrite', leave it "
        "alone with 'ignore', or drop it first",
        uri=uri,
    )
