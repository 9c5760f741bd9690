"""A planned write: what executors run, and how the driver ends it, with a commit or without.

Every way to write through Spark has the same steps. ``engine.write.plan_write`` says what the write
is, and ``WriteJob.of`` fits the frame, of which only the schema is needed. ``run`` is called on
executors, once or more for each partition. ``commit`` is called once with their answers; it also
makes a new table together with its rows, so that a failed job leaves none. ``abort`` removes files
that are proven to be unused.

The uuid of the transaction is fixed from the start, so that a commit whose answer was lost can be
found again. Files are deleted only if it is proven that no version refers to them; the rest is left
to cleanup, which goes by age.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4, uuid5

import pyarrow as pa

from lancewood.engine.commit import CommitPolicy, find_landed
from lancewood.engine.location import discard, new_data_files
from lancewood.engine.snapshot import Snapshot, load_snapshot
from lancewood.engine.versions import load_manifest
from lancewood.engine.write import PlannedWrite, table_exists
from lancewood.errors import (
    BatchAppliedError,
    CommitUnknownError,
    ConflictError,
    LancewoodError,
    NotFoundError,
    RetryableConflictError,
)
from lancewood.format.layout import transaction_key, transaction_name
from lancewood.jobs.counts import RowCounts
from lancewood.jobs.job import CommitOptions, execute
from lancewood.jobs.rows.writing import WrittenRows
from lancewood.jobs.runner import LocalRunner, Runner
from lancewood.model.fragment import Fragment
from lancewood.model.table_config import AppliedBatch
from lancewood.model.transaction import Transaction
from lancewood.rules.features import is_applied
from lancewood.spark.tasks import keep_loaded
from lancewood.spark.writing.work import (
    NOTHING,
    Answers,
    WriteWork,
    Written,
    as_skipped,
    as_written,
    decode_answers,
)
from lancewood.store.base import is_there

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def read_again(base: Snapshot) -> Snapshot:
    """The version that a job was planned on, with its fragments, as it is now.

    Raises NotFoundError if it is gone, or if another one has its number.
    """
    then, uri = base.manifest, base.location.uri
    if not then.version or base.unlanded(then.version) is not None:
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


@dataclass(frozen=True)
class WriteJob:
    """One write to one table. Pickles, and is then small."""

    plan: PlannedWrite
    work: WriteWork | None
    """What executors do; None if there is nothing to do, because the table has the batch already
    or is to be left alone."""
    properties: Mapping[str, str]
    serializable: bool = False
    applied: AppliedBatch | None = None
    uuid: str = field(default_factory=lambda: str(uuid4()))
    is_whole: bool = field(default=True, repr=False)
    """Whether ``base`` has its fragments, which are not pickled."""

    @classmethod
    def of(cls, plan: PlannedWrite, frame: StructType, commit_options: CommitOptions) -> WriteJob:
        """The write of rows that have the columns of ``frame``, checked as far as possible.

        Writes nothing except the probe of an object store that is not yet known to be safe to
        commit to.
        """
        work = None if plan.kind == "nothing" else WriteWork.of(plan, frame)
        policy = commit_options.policy
        return cls(plan, work, commit_options.properties, policy.serializable, policy.applied)

    def __getstate__(self) -> dict[str, Any]:
        if self.is_new:
            return dict(self.__dict__)
        bare = replace(self.plan, before=self.base.bare())
        return {**self.__dict__, "plan": bare, "is_whole": False}

    def of_batch(self, applied: AppliedBatch) -> WriteJob:
        """This write as that of one batch of a stream, with a uuid of its own."""
        uuid = uuid5(UUID(self.uuid), f"{applied.batch} {applied.app}")
        return replace(self, applied=applied, uuid=str(uuid))

    @property
    def base(self) -> Snapshot:
        """The version that it was planned on; version 0 if there is no table."""
        return self.plan.before

    @property
    def uri(self) -> str:
        return self.base.location.uri

    @property
    def is_new(self) -> bool:
        """Whether the commit makes the table."""
        return self.plan.kind == "create"

    def run(self, batches: Iterable[pa.RecordBatch]) -> bytes:
        """On an executor: write the rows of a partition; the answer is for ``commit`` and
        ``abort``.

        Raises StorageError, and errors that are not ours, so that Spark tries again. Other errors
        are answers, which ``commit`` raises.
        """
        answer = NOTHING if self.work is None else self.work.run(batches)
        keep_loaded()
        return answer

    def commit(self, answers: Sequence[bytes | None], runner: Runner | None = None) -> Written:
        """On the driver: make all that was written visible at once, or raise what a task answered.

        ``runner`` looks for the rows that are replaced, by default in threads of this process.
        A commit that is proven to have failed removes its files. A second call with the same
        answers does not add the rows twice, and raises CommitUnknownError unless the first one
        landed. Raises AlreadyExistsError or RetryableConflictError if another writer made the table
        meanwhile.
        """
        if self.work is None:
            return as_skipped(self.base)
        found = decode_answers(answers)
        if found.errors:
            self.abort(answers)
            raise found.errors[0]
        was_tried = self._was_tried()
        if was_tried and not self._has_landed():
            raise CommitUnknownError(
                f"this write to {self.uri} was committed before, and no version was made by it: "
                "the files may be gone, or the commit is still on its way. Look at the newest "
                "versions, then write again",
                uuid=self.uuid,
            )
        try:
            base = self.base if self.is_whole else read_again(self.base)
            if not was_tried:
                self.work.check_there(found.fragments)
            after, counts = self._land(base, self.work, found, runner or LocalRunner())
        except CommitUnknownError:
            raise
        except LancewoodError as refused:
            if not was_tried and self._has_failed():
                self._discard(found.fragments)
            skipped = self._settle(refused)
            if skipped is None:
                raise
            return skipped
        if self.plan.kind == "replace" and counts == RowCounts():
            return as_skipped(after)
        return as_written(after, counts, found.files, found.bytes)

    def abort(self, answers: Sequence[bytes | None]) -> None:
        """On the driver: remove the files of a job that will not be committed, as far as possible.

        Spark also calls this after a commit that raised. Files are removed only if no commit began
        and none landed: one that began has removed what it could, and if it was cut off, its
        manifest may still arrive.
        """
        try:
            found = decode_answers(answers)
            if self._was_tried() or not self._is_absent():
                return
        except LancewoodError:
            return
        self._discard(found.fragments)

    def _land(
        self, base: Snapshot, work: WriteWork, answers: Answers, runner: Runner
    ) -> tuple[Snapshot, RowCounts]:
        """The version after the write, and what it did; ``base`` if there was nothing to do."""
        # A table can be made only once, whatever others do.
        serializable = self.serializable or self.is_new
        policy = CommitPolicy(serializable=serializable, applied=self.applied)
        fragments = answers.fragments
        if self.plan.follows_newest:
            written = WrittenRows(self.plan, work.files, fragments, runner)
            applied = self.applied
            options = CommitOptions(
                properties=self.properties,
                serializable=serializable,
                app=None if applied is None else applied.app,
                batch=None if applied is None else applied.batch,
            )
            return execute(base, written.prepare, options, uuid=self.uuid)
        operation = self.plan.operation(work.files, fragments)
        made = Transaction(base.manifest.version, self.uuid, (operation,), self.properties)
        return base.commit(made, policy), RowCounts(inserted=answers.rows)

    def _was_tried(self) -> bool:
        """Whether a commit began: its first step writes the transaction file.

        Raises StorageError if the store does not answer.
        """
        name = transaction_name(self.base.manifest.version, self.uuid)
        return is_there(self.base.location.store, transaction_key(name))

    def _has_landed(self) -> bool:
        """Whether a version was made by the transaction.

        Raises CommitUnknownError or StorageError if that is unknown.
        """
        base = self.base
        return find_landed(base.location, base.scheme, self.uuid, base.manifest.version) is not None

    def _is_absent(self) -> bool:
        """Whether it is proven that no version was made by the transaction.

        A table or branch that was deleted and made again proves nothing: a version of the earlier
        one may have been published elsewhere.
        """
        try:
            if self._has_landed():
                return False
            read_again(self.base)
        except LancewoodError:
            return False
        return True

    def _has_failed(self) -> bool:
        """Whether it is proven that a commit began and made no version."""
        try:
            return self._was_tried() and self._is_absent()
        except LancewoodError:
            return False

    def _settle(self, refused: LancewoodError) -> Written | None:
        """The result if a refused commit was not needed; None if it failed."""
        if isinstance(refused, BatchAppliedError):
            return as_skipped(load_snapshot(self.base.location))
        if not self.is_new or not isinstance(refused, ConflictError):
            return None
        there, mode = load_snapshot(self.base.location), self.plan.request.mode
        if mode == "ignore" or is_applied(there.manifest.config, self.applied):
            return as_skipped(there)
        if mode == "error":
            raise table_exists(self.uri) from refused
        raise RetryableConflictError(
            f"another writer made a table at {self.uri} while this one was writing the first rows "
            f"of it; run the {mode} again, on the table that is there now",
            uri=self.uri,
            version=there.manifest.version,
        ) from refused

    def _discard(self, fragments: Sequence[Fragment]) -> None:
        discard(self.base.location, self.plan.roots, new_data_files(fragments))
