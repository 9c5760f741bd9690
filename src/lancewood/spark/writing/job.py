"""A planned write: what executors run, and how the driver ends it, with a commit or without.

The transaction's uuid is fixed from the start, so that a commit whose answer was lost is found
again. Nothing is deleted on doubt: what no proof allows removing is left to cleanup, by age.
"""

from __future__ import annotations

import uuid as uuids
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from lancewood.engine.commit import CommitPolicy
from lancewood.engine.homes import discard, new_data_files
from lancewood.engine.snapshot import Snapshot, load_snapshot
from lancewood.errors import (
    AlreadyExistsError,
    BatchAppliedError,
    CommitUnknownError,
    ConflictError,
    LancewoodError,
    RetryableConflictError,
)
from lancewood.format.schema import encode_schema
from lancewood.jobs.counts import RowCounts
from lancewood.model.applied import AppliedBatch
from lancewood.model.fragment import Fragment
from lancewood.model.operations import Append, Overwrite
from lancewood.model.transaction import Transaction
from lancewood.proto import table_pb2
from lancewood.rules.applied import is_applied
from lancewood.spark.writing.answers import NOTHING, Answers, decode_answers
from lancewood.spark.writing.trace import Trace, read_again
from lancewood.spark.writing.work import WriteWork
from lancewood.spark.writing.written import Written

Mode: TypeAlias = Literal["append", "overwrite", "error", "ignore"]


def new_uuid() -> str:
    return str(uuids.uuid4())


@dataclass(frozen=True)
class WriteJob:
    """One write to one table. Made by ``plan_write``; it pickles, and is small when it does."""

    work: WriteWork | None
    """What executors do; None if there is nothing to do: the batch is in the table already, or it
    is to be left alone."""
    base: Snapshot = field(repr=False)
    """The version that it was planned on; version 0 for a table that is not there."""
    mode: Mode
    properties: Mapping[str, str] = field(default_factory=dict)
    applied: AppliedBatch | None = None
    serializable: bool = False
    bases: tuple[table_pb2.BasePath, ...] = field(default=(), repr=False)
    """What a new table declares."""
    uuid: str = field(default_factory=new_uuid)
    is_whole: bool = field(default=True, repr=False)
    """Whether the base has its fragments; they do not travel."""

    def __getstate__(self) -> dict[str, Any]:
        if self.is_new:
            return dict(self.__dict__)
        return {**self.__dict__, "base": self.base.bare(), "is_whole": False}

    @property
    def uri(self) -> str:
        return self.base.place.uri

    @property
    def is_new(self) -> bool:
        """Whether the commit makes the table."""
        return self.base.manifest.version == 0

    @property
    def is_skipped(self) -> bool:
        """Whether there is nothing to do; ``commit`` says so without a new version."""
        return self.work is None

    def run(self, batches: Iterable[pa.RecordBatch]) -> bytes:
        """On an executor: write the rows of a partition, as Spark hands them over.

        The answer is for ``commit`` and ``abort``. Raises StorageError, and what is not ours, for
        Spark to try again; other errors are answers, and ``commit`` raises them.
        """
        return NOTHING if self.work is None else self.work.run(batches)

    def commit(self, answers: Sequence[bytes | None]) -> Written:
        """On the driver: make what was written visible, all at once, or raise what a task answered.

        A commit that is proven to have failed removes its files. Called again with the same
        answers it does not add the rows twice, and raises CommitUnknownError unless the first
        one landed. Raises AlreadyExistsError or RetryableConflictError if another writer made the
        table meanwhile.
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
            base = self._whole()
            if not was_tried:
                self.work.check_there(found.fragments)
            after = base.commit(self._transaction(self.work, found), self._policy)
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
        """The answer where there is nothing to commit: the version that it was planned on."""
        return self._skipped(self.base)

    def abort(self, answers: Sequence[bytes | None]) -> None:
        """On the driver: remove the files of a job that will not be committed, best effort.

        Spark also calls this after a commit that raised. Files are removed only if no commit has
        begun and none has landed: one that began has removed what it could prove to be nobody's,
        and the manifest of one that was cut off may still be on its way.
        """
        try:
            found = decode_answers(answers)
            if self._trace.was_tried() or not self._trace.is_absent():
                return
        except LancewoodError:
            return
        self._discard(found.fragments)

    @property
    def _policy(self) -> CommitPolicy:
        # A table can be made once only, whatever others do.
        return CommitPolicy(serializable=self.serializable or self.is_new, applied=self.applied)

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

    def _whole(self) -> Snapshot:
        """The base with its fragments; raises NotFoundError if it is not there any more."""
        return self.base if self.is_whole else read_again(self.base)

    @property
    def _trace(self) -> Trace:
        return Trace(self.base, self.uuid)

    def _settle(self, refused: LancewoodError) -> Written | None:
        """What a refused commit means: a write that was not needed, or None for one that failed."""
        if isinstance(refused, BatchAppliedError):
            return self._skipped(load_snapshot(self.base.place))
        if not self.is_new or not isinstance(refused, ConflictError):
            return None
        there = load_snapshot(self.base.place)
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
            uri=self.uri,
            branch=there.manifest.branch,
            version=there.manifest.version,
            skipped=True,
        )

    def _discard(self, fragments: Sequence[Fragment]) -> None:
        head = self.base.manifest
        if self.is_new:
            head = head.bare()
            head.message.base_paths.extend(self.bases)
        discard(self.base.place, head, new_data_files(fragments))


def table_exists(uri: str) -> AlreadyExistsError:
    return AlreadyExistsError(
        f"there is a table at {uri} already: write with mode 'append' or 'overwrite', leave it "
        "alone with 'ignore', or drop it first",
        uri=uri,
    )
