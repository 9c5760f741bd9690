"""What all changes of a table share: the shape of a job, the commit loop, gathering the results of
tasks, counts.

A change is planned, which is all of a dry run, or prepared and committed. The commit itself rebases
what can be rebased; on any other conflict the change is prepared again on the newest version, a
bounded number of times. Files of an attempt that is known not to have landed are removed; in doubt
they stay.

Fragments are packed into tasks: one task per fragment would be too many for a table of small
fragments and write as many tiny files; one task for all would keep only one core busy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, TypeVar

from lancewood.engine.commit import CommitPolicy
from lancewood.engine.location import NewFile
from lancewood.engine.schema import related_columns
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import (
    CommitUnknownError,
    IncompatibleConflictError,
    InvalidInputError,
    LancewoodError,
    RetryableConflictError,
)
from lancewood.jobs.runner import Runner
from lancewood.model.fragment import Fragment
from lancewood.model.table_config import AppliedBatch
from lancewood.model.transaction import Operation, Transaction, commit_properties, operation_text
from lancewood.rules.lineage import moved_names
from lancewood.rules.three_way import same_fields
from lancewood.store.retry import JOBS, Retry

T = TypeVar("T")
R = TypeVar("R")
W = TypeVar("W", bound="WrittenFiles")
TASKS_PER_SLOT = 4
MOST_FRAGMENTS = 1_000
"""Number of fragments in one task, so that its message stays small."""
AT_ONCE = 4
"""Fragments that a task works on concurrently: most of the time of a small one is waiting."""


@dataclass(frozen=True, slots=True)
class Change(Generic[R]):
    """What one execution wants to commit, and its result."""

    operation: Operation | None
    """The operation to commit; None: there is nothing to do, and no new version."""
    result: R
    files: tuple[NewFile, ...] = ()
    """Files written for it."""
    serializable: bool = False
    """Whether the change depends on rows that it does not touch: it may only follow the version
    that it was prepared for, and is prepared again for a newer one."""


@dataclass(frozen=True, slots=True)
class CommitOptions:
    """What is said about the commit of any change: ``commit=`` of every verb that changes a table.

    ``app`` and ``batch`` load a batch of rows once: the version also notes it, and a batch that is
    there already, or comes before one that is, is a BatchAppliedError. Raises InvalidInputError for
    a message or property that is not text, and for an app without a batch.
    """

    message: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    """Texts kept with the version, the message among them."""
    serializable: bool = False
    """Refuse if the table changed at all since the version that the change is based on."""
    app: str | None = None
    """Who loads the rows."""
    batch: int | None = None
    """The running number of the batch among those of the app."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "properties", commit_properties(self.message, self.properties))
        AppliedBatch.asked_for(self.app, self.batch)

    @property
    def policy(self) -> CommitPolicy:
        """How hard one commit tries, and what it refuses."""
        applied = AppliedBatch.asked_for(self.app, self.batch)
        return CommitPolicy(serializable=self.serializable, applied=applied)

    @property
    def retry(self) -> Retry:
        """How often the change is prepared again for a newer version."""
        return JOBS

    @classmethod
    def of(
        cls,
        commit: CommitOptions | None,
        message: str | None = None,
        *,
        takes_batch: bool = False,
        takes_serializable: bool = True,
    ) -> CommitOptions:
        """From ``commit=`` and its shortcut ``message=``; raises InvalidInputError where both give
        a message, and for what this change does not take."""
        if commit is None:
            return cls(message)
        if not isinstance(commit, CommitOptions):
            raise InvalidInputError(
                f"commit takes lancewood.CommitOptions(message=…), got {commit!r}"
            )
        if commit.app is not None and not takes_batch:
            raise InvalidInputError(
                "app and batch are for changes of rows and new columns, and this change is none: "
                "leave them out"
            )
        if commit.serializable and not takes_serializable:
            raise InvalidInputError(
                "serializable is for changes of one version of a table, and this verb has rules of "
                "its own for what others commit meanwhile: leave it out"
            )
        if message is None:
            return commit
        if commit.message is not None:
            raise InvalidInputError(
                f"the commit has two messages, {message!r} and {commit.message!r}: say one"
            )
        return replace(commit, message=message)


def execute(
    snapshot: Snapshot,
    prepare: Callable[[Snapshot], Change[R]],
    commit_options: CommitOptions | None = None,
    *,
    uuid: str | None = None,
) -> tuple[Snapshot, R]:
    """The version after the change (the same one if there was nothing to do), and its result.

    ``prepare`` is called with the version to change: first the caller's, after a conflict the
    newest. Raises RetryableConflictError after too many conflicts, or after the first one if the
    change is serializable. If work must not be repeated, ``prepare`` itself raises: see
    ``jobs.columns``. ``uuid`` is the identity of the transaction, by default a new one for every
    attempt.
    """
    commit_options = commit_options or CommitOptions()
    limit = 1 if commit_options.policy.serializable else commit_options.retry.attempts
    started = commit_options.retry.clock()
    for execution in range(limit):
        if execution:
            commit_options.retry.pause(execution)
            newest = snapshot.newest()
            _check_names(snapshot, newest)
            snapshot = newest
        if not commit_options.policy.may_be_closed:
            snapshot.check_open()
        snapshot.check_new(commit_options.policy.applied)
        change = prepare(snapshot)
        if change.operation is None:
            return snapshot, change.result
        transaction = Transaction.new(
            snapshot.manifest.version, change.operation, properties=commit_options.properties
        )
        if uuid is not None:
            transaction = replace(transaction, uuid=uuid)
        policy = commit_options.policy
        if change.serializable:
            policy = replace(policy, serializable=True)
        try:
            return snapshot.commit(transaction, policy), change.result
        except CommitUnknownError:
            raise
        except RetryableConflictError as conflict:
            snapshot.discard(change.files)
            last = conflict
        except LancewoodError:
            snapshot.discard(change.files)
            raise
    if limit == 1:
        raise last
    seconds = commit_options.retry.clock() - started
    raise RetryableConflictError(
        f"{operation_text(transaction.operation)} on {snapshot.location.uri} was executed {limit} "
        f"times in {seconds:.1f} s, and each time another writer was faster; run it again when "
        f"fewer are active. The last conflict: {last.message}",
        **{**last.facts, "attempts": limit, "seconds": seconds},
    ) from last


def _check_names(snapshot: Snapshot, newest: Snapshot) -> None:
    """Raise IncompatibleConflictError if the newest version has a name for another column than the
    version that the change was asked of: what the change says by names would be about that one."""
    if same_fields(snapshot.manifest.fields, newest.manifest.fields):
        return
    followed = related_columns(snapshot, newest)
    moved = moved_names(snapshot.schema, newest.schema, followed.ids)
    for names, what in (
        (moved, "are other columns"),
        (followed.unknown, "may have been dropped, or renamed and cast"),
    ):
        if names:
            raise IncompatibleConflictError(
                f"the change was asked of version {snapshot.manifest.version} of "
                f"{newest.location.uri}; in version {newest.manifest.version}, made since, "
                f"{', '.join(map(repr, sorted(names)))} {what}; look at that version, and run it "
                "again there",
                columns=sorted(names),
            )


class Job(ABC, Generic[R]):
    """A change of a table that can be planned and run; both say what it does in the same words."""

    @abstractmethod
    def plan(self, snapshot: Snapshot) -> R:
        """What the job would do to this version. Reads, and writes nothing.

        Raises what ``run`` would raise for arguments that do not fit the table.
        """

    @abstractmethod
    def run(self, snapshot: Snapshot, commit_options: CommitOptions) -> tuple[Snapshot, R]:
        """The version after it (the same one if there is nothing to do), and what it did."""

    def dry_run(self, snapshot: Snapshot, commit_options: CommitOptions) -> R:
        """The plan, unless this version may not be followed by the commit that is asked for."""
        snapshot.check_writable()
        snapshot.check_open()
        snapshot.check_new(commit_options.policy.applied)
        return self.plan(snapshot)


class PreparedJob(Job[R]):
    """A job that is prepared for one version, and again for a newer one where that is needed."""

    @abstractmethod
    def prepare(self, snapshot: Snapshot) -> Change[R]:
        """Do the work for one version: write its files, and say what is to be committed."""

    def run(self, snapshot: Snapshot, commit_options: CommitOptions) -> tuple[Snapshot, R]:
        return execute(snapshot, self.prepare, commit_options)


class LightJob(PreparedJob[R]):
    """A job whose preparation writes nothing, so that it is the plan as well."""

    def plan(self, snapshot: Snapshot) -> R:
        return self.prepare(snapshot).result


class WrittenFiles(Protocol):
    """The result of a task that writes files."""

    @property
    def files(self) -> tuple[NewFile, ...]: ...


def gather(
    runner: Runner, work: Callable[[T], W], tasks: Sequence[T], *, what: str, snapshot: Snapshot
) -> list[W]:
    """The results of all tasks, in their order.

    If a task fails or the job is stopped, the files of finished tasks are removed. Files of a task
    that the runner lost track of stay until a cleanup; nothing refers to them.
    """
    done: list[W] = []
    try:
        for each in runner.run(work, tasks, what=what, leftover=done.append):
            done.append(each)
    except BaseException:
        snapshot.discard(file for each in done for file in each.files)
        raise
    return done


def pack_fragments(
    fragments: Iterable[Fragment],
    slots: int,
    *,
    per_slot: int = TASKS_PER_SLOT,
    least_bytes: int = 0,
) -> Iterator[tuple[Fragment, ...]]:
    """Neighbouring fragments in groups of about the same number of rows, a few for each slot.

    There are fewer groups where their data files would have less than ``least_bytes``: work that
    writes files would write tiny ones otherwise.
    """
    chosen = list(fragments)
    groups, size = max(1, slots) * per_slot, stored_bytes(chosen)
    if least_bytes and size:
        groups = max(1, min(groups, size // least_bytes))
    rows = max(1, sum(each.physical_rows for each in chosen))
    group: list[Fragment] = []
    before = last = 0
    for each in chosen:
        number = (before + each.physical_rows // 2) * groups // rows  # where its middle is
        if group and (number != last or len(group) >= MOST_FRAGMENTS):
            yield tuple(group)
            group = []
        group.append(each)
        before, last = before + each.physical_rows, number
    if group:
        yield tuple(group)


def stored_bytes(fragments: Iterable[Fragment]) -> int:
    """What the data files of fragments take; 0 for those whose writers did not record it."""
    return sum(file.file_size_bytes for each in fragments for file in each.message.files)


def shares(items: Sequence[T], slots: int, most: int) -> list[tuple[T, ...]]:
    """Neighbouring items in groups of one size, at most ``most``, a few groups for each slot."""
    share = -(-len(items) // max(1, slots * TASKS_PER_SLOT))
    return chunks(items, min(max(1, share), most))


def chunks(items: Sequence[T], size: int) -> list[tuple[T, ...]]:
    """Neighbouring items in groups of this size."""
    return [tuple(items[at : at + size]) for at in range(0, len(items), size)]
