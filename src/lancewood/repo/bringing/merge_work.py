"""The work on a table's branch that a merge publishes, and whether it is what the merge means.

A merge is about what changed since the commits parted; publishing brings what was written since the
table's branch was made. Mostly that is the same. Where it is not, a part would come twice, or be
left out, and the merge is refused. Reads, and writes nothing.
"""

from __future__ import annotations

from lancewood.catalog.pin import Pin
from lancewood.engine.revisions import branch_place, main_place
from lancewood.engine.sameness import same_content
from lancewood.engine.snapshot import Snapshot, load_snapshot
from lancewood.engine.versions import versions_since
from lancewood.errors import IncompatibleConflictError, RetryableConflictError
from lancewood.format.manifest_digest import content_digest
from lancewood.jobs.publishing.holding import Held
from lancewood.jobs.publishing.work import Work, load_work_onto
from lancewood.model.ids import Version, is_detached
from lancewood.model.manifest import Manifest
from lancewood.model.operations import Clone, Operation, Overwrite, Restore
from lancewood.model.refs import BranchName, called
from lancewood.repo.grounds import Grounds
from lancewood.repo.landing.landed import pinned_state


def find_work(
    grounds: Grounds, head: Snapshot, base: Pin | None, target: BranchName | None
) -> Work:
    """The work up to a version, for a branch of the table that it comes from; ``base`` is what both
    commits had in common of the table.

    Raises IncompatibleConflictError where that is not all that changed since, or more.
    """
    work = load_work_onto(head, target)
    if base is None:
        return work
    known = pinned_state(grounds, base)
    version = known.manifest.version
    _check_new(base, version, work)
    if base.branch != target or version > work.fork:
        _check_same(known, work)
    elif version < work.fork:  # what came in between is the target's own
        _check_not_back(load_snapshot(grounds.place(base)), work)
    return work


def writes_over(work: Work) -> bool:
    """Whether the work replaces what the table held: a new one of its name does."""
    return any(isinstance(each.operation, Overwrite) for each in work.steps)


def check_only_committed(name: str, work: Work, target: Manifest) -> None:
    """Raise RetryableConflictError if the target has something that it had not where the work
    began: rows that somebody wrote beside the repository."""
    if target.version == work.fork:
        return
    parent = branch_place(main_place(work.head), work.parent)
    fork = load_snapshot(parent, version=work.fork).manifest
    if content_digest(fork.message) != content_digest(target.message):
        raise RetryableConflictError(
            f"somebody wrote to table {name!r} beside the repository: its {called(work.parent)} is "
            f"at version {target.version}, and what is committed is version {work.fork}. commit() "
            "takes that in, reset() gives it up; then try again",
            table=name,
        )


def _check_new(base: Pin, version: Version, work: Work) -> None:
    if base.branch is None:
        return
    merged = Held(base.branch, Version(version - 1), version)
    if any(each.meets(merged) for each in work.own):
        raise IncompatibleConflictError(
            f"its {called(base.branch)} went on after it was merged up to version {version}, and "
            "is published as a whole only: that work would be there twice. Make a fresh branch of "
            "what is merged, and cherry-pick what is new, or write its rows there again"
        )


def _check_same(base: Snapshot, work: Work) -> None:
    if not same_content(base, work.first):
        raise IncompatibleConflictError(
            f"its {called(work.branch)} began at version {work.fork} of {called(work.parent)}, "
            "which is not what both sides had in common: it was taken back there first, and "
            "publishing brings only what was written since. Take it back on both, or write the "
            "rows again on a fresh branch"
        )


def _check_not_back(target: Snapshot, work: Work) -> None:
    """The target must still have what it had when the branch was made of it."""
    for version in versions_since(target.place.store, work.fork, target.scheme).versions:
        operations = target.transaction_of(version).operations
        if any(_goes_behind(each, work.fork) for each in operations):
            raise IncompatibleConflictError(
                f"its {called(work.branch)} began at version {work.fork} of {called(work.parent)}, "
                f"which went back behind that in version {version}; make the change again on a "
                "fresh branch"
            )


def _goes_behind(operation: Operation, fork: Version) -> bool:
    if isinstance(operation, Restore):
        return operation.version < fork or is_detached(operation.version)
    return isinstance(operation, Clone)
