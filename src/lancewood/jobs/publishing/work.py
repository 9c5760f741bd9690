"""The work on a branch: what happened there since it left its parent.

Where it left is told by the newest Clone transaction among its versions, not by the record of the
branch. Reads transactions; knows nothing of the target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lancewood.engine.snapshot import Snapshot
from lancewood.engine.transactions import load_transaction_of
from lancewood.engine.versions import load_manifest
from lancewood.errors import (
    IncompatibleConflictError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
)
from lancewood.model.closing import PUBLISHED_KEY
from lancewood.model.ids import Version
from lancewood.model.operations import (
    Clone,
    MissingTransaction,
    Operation,
    Restore,
    UnknownOperation,
    UpdateConfig,
)
from lancewood.model.refs import MAIN, BranchName, called


@dataclass(frozen=True, slots=True)
class Step:
    """One operation of the branch, and the version that it made."""

    version: Version
    operation: Operation


@dataclass(frozen=True)
class Work:
    """What a branch did since its fork."""

    first: Snapshot
    """The branch as it began: a clone of the parent's version ``fork``."""
    head: Snapshot
    parent: BranchName | None
    """None is main."""
    fork: Version
    steps: Sequence[Step]
    """The oldest first; closing and opening the branch are not among them."""

    @property
    def branch(self) -> str:
        return self.head.manifest.branch or MAIN


def load_work(head: Snapshot) -> Work:
    """The work up to a version of a branch.

    Raises NotFoundError where a version or transaction in between is gone, UnsupportedError for an
    operation that is not known, InvalidInputError for what is no branch.
    """
    if head.manifest.branch is None:
        raise InvalidInputError(f"{head.place.uri} is no branch, and has nothing to publish")
    steps: list[Step] = []
    version = head.manifest.version
    while True:
        transaction = load_transaction_of(head.place.store, version, head.scheme)
        for operation in transaction.operations:
            if isinstance(operation, Clone):
                return _work(head, version, operation, steps)
            _check_known(head, version, operation)
            if not only_closes(operation):
                steps.append(Step(version, operation))
        version = Version(version - 1)


def check_restored(work: Work) -> None:
    """Raises IncompatibleConflictError for a version that was restored from before a reset: its ids
    of rows and fragments are those of others on the target."""
    for each in work.steps:
        restored = each.operation.version if isinstance(each.operation, Restore) else None
        if restored is not None and restored < work.first.manifest.version:
            raise IncompatibleConflictError(
                f"{called(work.branch)} cannot be published onto {called(work.parent)}: in version "
                f"{each.version} it went back to version {restored}, from before it was reset, "
                "whose ids are others' on the target; bring the rows over with overwrite or merge "
                "on a fresh branch",
                branch=work.branch,
                version=each.version,
            )


def _work(head: Snapshot, version: Version, clone: Clone, steps: list[Step]) -> Work:
    if version == head.manifest.version:
        first = head
    else:
        first = Snapshot(
            head.place, load_manifest(head.place.store, version, head.scheme), head.scheme
        )
    parent = None if clone.ref_name in (None, MAIN) else BranchName.found(str(clone.ref_name))
    return Work(first, head, parent, clone.ref_version, tuple(reversed(steps)))


def _check_known(head: Snapshot, version: Version, operation: Operation) -> None:
    what = f"the work on {called(head.manifest.branch)} cannot be told: version {version}"
    if isinstance(operation, MissingTransaction):
        raise NotFoundError(
            f"{what} has no transaction ({operation.why}), and it is not known what it changed. "
            "Bring its rows over with append or merge",
            version=version,
        )
    if isinstance(operation, UnknownOperation):
        raise UnsupportedError(
            f"{what} has an operation (number {operation.number}) that is not known to this "
            "Lancewood; use a newer one",
            version=version,
        )


def only_closes(operation: Operation) -> bool:
    """Whether it closed the branch, or opened it again, and did nothing else."""
    return (
        isinstance(operation, UpdateConfig)
        and set(operation.config.entries) == {PUBLISHED_KEY}
        and not operation.config.replace
        and not operation.table_metadata
        and not operation.touches_schema
    )
