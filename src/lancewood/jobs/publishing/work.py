"""The work on a branch: what happened there since it left its parent.

Where it left is told by the newest Clone transaction among its versions, not by the record of the
branch. A part of it is a range of its versions; and work on a branch of a branch goes on top of the
other's, seen from further up. Reads transactions; knows nothing of the target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lancewood.engine.revisions import branch_place, main_place
from lancewood.engine.snapshot import Snapshot, load_snapshot
from lancewood.engine.transactions import load_transaction_of
from lancewood.engine.versions import load_manifest
from lancewood.errors import (
    IncompatibleConflictError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
)
from lancewood.jobs.publishing.holding import Held, held_in
from lancewood.model.closing import PUBLISHED_KEY, RESET_KEY
from lancewood.model.exclusive import EXCLUSIVE_KEY
from lancewood.model.ids import Version, is_detached
from lancewood.model.manifest_store import MANIFEST_STORE_KEY
from lancewood.model.operations import (
    Clone,
    MissingTransaction,
    Operation,
    Restore,
    UnknownOperation,
    UpdateConfig,
)
from lancewood.model.refs import MAIN, BranchName, called

MARKS = frozenset({PUBLISHED_KEY, RESET_KEY, EXCLUSIVE_KEY, MANIFEST_STORE_KEY})
"""Keys of the configuration that say who may write to a branch, and where it began anew; they are
the branch's own."""


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
    """The oldest first; what only says who may write is not among them."""
    own: tuple[Held, ...] = ()
    """Which versions of which branches it is; several where branches of branches are passed."""
    brought: tuple[Held, ...] = ()
    """Work of other branches that its versions took over."""
    roots: frozenset[str] = frozenset()
    """Roots of branches that are passed on the way to the parent."""

    @property
    def branch(self) -> str:
        return self.head.manifest.branch or MAIN

    @property
    def held(self) -> tuple[Held, ...]:
        """All work that a version holds which takes this over."""
        return (*self.own, *self.brought)


def load_work(head: Snapshot) -> Work:
    """The work up to a version of a branch.

    Raises NotFoundError where a version or transaction in between is gone, UnsupportedError for an
    operation that is not known, InvalidInputError for what is no branch.
    """
    if head.manifest.branch is None:
        raise InvalidInputError(f"{head.place.uri} is no branch, and has nothing to publish")
    walked = _Walk(head)
    version = walked.back_to(None)
    clone = walked.clone
    assert clone is not None, "a branch begins with one"
    parent = None if clone.ref_name in (None, MAIN) else BranchName.found(str(clone.ref_name))
    return walked.work(version, parent, clone.ref_version)


def load_work_onto(head: Snapshot, target: BranchName | None) -> Work:
    """The same, from where the branch left the target, or the branch that it left did, and so on.

    Raises InvalidInputError if none of them did.
    """
    work = load_work(head)
    main = main_place(head)
    while work.parent != target:
        if work.parent is None:
            raise InvalidInputError(
                f"{called(work.branch)} does not come from {called(target)}, and cannot be "
                "published onto it",
                branch=work.branch,
            )
        above = load_work(load_snapshot(branch_place(main, work.parent), version=work.fork))
        work = Work(
            above.first,
            work.head,
            above.parent,
            above.fork,
            (*above.steps, *work.steps),
            (*above.own, *work.own),
            (*above.brought, *work.brought),
            work.roots | above.roots | {above.head.place.uri},
        )
    return work


def load_part(first: Snapshot, head: Snapshot, target: BranchName | None) -> Work:
    """What happened between two versions of one branch, to be done again on another branch.

    Raises IncompatibleConflictError if the branch began anew in between, and what ``load_work``
    raises.
    """
    walked = _Walk(head)
    walked.back_to(first.manifest.version)
    if walked.clone is not None:
        raise IncompatibleConflictError(
            f"{called(head.manifest.branch)} began anew between versions {first.manifest.version} "
            f"and {head.manifest.version}: they have no ids in common",
            branch=head.manifest.branch,
        )
    return walked.work(first.manifest.version, target, first.manifest.version)


class _Walk:
    """From a version of a branch back, one transaction after the other."""

    def __init__(self, head: Snapshot) -> None:
        self._head = head
        self._steps: list[Step] = []
        self._brought: list[Held] = []
        self.clone: Clone | None = None
        """Where the branch began, if it was passed."""
        self._line = ""

    def back_to(self, end: Version | None) -> Version:
        """Go back to a version, which is left out, or to where the branch began; the version."""
        head = self._head
        version = head.manifest.version
        while version != end:
            transaction = load_transaction_of(head.place.store, version, head.scheme)
            for operation in transaction.operations:
                if isinstance(operation, Clone):
                    self.clone, self._line = operation, transaction.uuid
                    return version
                _check_known(head, version, operation)
                if not only_marks(operation):
                    self._steps.append(Step(version, operation))
            self._brought += held_in(transaction)
            version = Version(version - 1)
        return version

    def work(self, first: Version, parent: BranchName | None, fork: Version) -> Work:
        head = self._head
        begun = head
        if first != head.manifest.version:
            found = load_manifest(head.place.store, first, head.scheme)
            begun = Snapshot(head.place, found, head.scheme)
        own = Held(head.manifest.branch or MAIN, first, head.manifest.version, self._line)
        steps = tuple(reversed(self._steps))
        return Work(begun, head, parent, fork, steps, (own,), tuple(self._brought))


def check_restored(work: Work) -> None:
    """Raises IncompatibleConflictError for a version that was restored from before a reset, or from
    beside the history: its ids of rows and fragments are those of others on the target."""
    for each in work.steps:
        restored = each.operation.version if isinstance(each.operation, Restore) else None
        if restored is None:
            continue
        if restored < work.first.manifest.version or is_detached(restored):
            raise IncompatibleConflictError(
                f"{called(work.branch)} cannot be published onto {called(work.parent)}: in version "
                f"{each.version} it went back to version {restored}, from before it was reset, "
                "whose ids are others' on the target; bring the rows over with overwrite or merge "
                "on a fresh branch",
                branch=work.branch,
                version=each.version,
            )


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


def only_marks(operation: Operation) -> bool:
    """Whether it said of the branch who may write to it, and did nothing else: closed it, opened it
    again, or kept it for a repository."""
    return (
        isinstance(operation, UpdateConfig)
        and len(operation.config.entries) > 0
        and operation.config.entries.keys() <= MARKS
        and not operation.config.replace
        and not operation.table_metadata
        and not operation.touches_schema
    )
