"""Closing a branch for its publication, reopening it, and keeping its record up to date.

The mark that closes a branch is written before the target's commit and names it. So a later writer
can tell whether that commit landed, and continue if it did not: work is published once, however
often it is tried.

The record of a branch keeps the parent's version from being cleaned up: for us by the parent's
version in it, for pylance by the last step of the descent (tried with 14.0.2). If record and
versions of the branch disagree, the versions are right.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

from lancewood.engine.commit import CommitPolicy
from lancewood.engine.snapshot import Snapshot, load_snapshot
from lancewood.engine.versions import list_versions, load_transaction_of, read_refs
from lancewood.errors import (
    CommitUnknownError,
    FormatError,
    IncompatibleConflictError,
    LancewoodError,
    NotFoundError,
    RetryableConflictError,
)
from lancewood.format.refs import BRANCHES_DIR, branch_key, decode_branch, encode_branch
from lancewood.jobs.publish.work import only_marks
from lancewood.model.ids import Version
from lancewood.model.refs import Branch, BranchName, BranchPoint, called
from lancewood.model.table_config import PUBLISHED_KEY, Closing, reset_version
from lancewood.model.transaction import (
    Clone,
    MapUpdate,
    MissingTransaction,
    Operation,
    Transaction,
    UpdateConfig,
)
from lancewood.store.base import ReplaceOutcome, Store
from lancewood.store.retry import LOST_RACES


def find_closing(head: Snapshot) -> Closing | None:
    """The mark of a closed branch; None for an open one.

    pylance copies the mark into a branch that it makes from a closed one; there it does not count.
    """
    closing = Closing.found_in(head.manifest.config, head.manifest.name)
    if closing is None:
        return None
    operations = (each for _, steps in _since(head, closing.head) for each in steps)
    return None if any(isinstance(each, Clone) for each in operations) else closing


def written_late(head: Snapshot, closing: Closing) -> Version | None:
    """The first version after the published one that is more than a mark."""
    late = [v for v, steps in _since(head, closing.head) if not all(map(only_marks, steps))]
    return late[-1] if late else None


def check_nothing_is_late(head: Snapshot, closing: Closing) -> None:
    """Raise IncompatibleConflictError if the branch was written to after it was closed."""
    late = written_late(head, closing)
    if late is not None:
        raise IncompatibleConflictError(
            f"{called(head.manifest.branch)} was published, and somebody wrote to it afterwards "
            f"(since version {late}), which cannot be published any more; bring that over with "
            "append or merge, then reset the branch with force=True",
            branch=head.manifest.branch,
            version=late,
        )


def _since(head: Snapshot, published: Version) -> Iterator[tuple[Version, tuple[Operation, ...]]]:
    """Versions and operations after a version, newest first, back to the branch's beginning."""
    for version in map(Version, range(head.manifest.version, published, -1)):
        operations = load_transaction_of(head.location.store, version, head.scheme).operations
        yield version, operations
        if any(isinstance(each, Clone) for each in operations):
            return


def close(head: Snapshot, closing: Closing, policy: CommitPolicy) -> Snapshot:
    """Close the branch right after ``head``; raises RetryableConflictError if it has moved."""
    operation = UpdateConfig(config=MapUpdate({PUBLISHED_KEY: closing.encode()}))
    transaction = Transaction.new(
        head.manifest.version, operation, message=f"closed: published onto {called(closing.onto)}"
    )
    is_marked = PUBLISHED_KEY in head.manifest.config  # copied by pylance from another branch
    strict = CommitPolicy(
        serializable=True, may_be_closed=is_marked, clock=policy.clock, retry=policy.retry
    )
    return head.commit(transaction, strict)


def reopen(branch: Snapshot, closing: Closing, policy: CommitPolicy) -> None:
    """Remove the mark, unless another writer did so already."""
    newest = load_snapshot(branch.location)
    if find_closing(newest) != closing:
        return
    transaction = Transaction.new(
        newest.manifest.version,
        UpdateConfig(config=MapUpdate({PUBLISHED_KEY: None})),
        message="opened again: it could not be published",
    )
    relaxed = CommitPolicy(may_be_closed=True, clock=policy.clock, retry=policy.retry)
    try:
        newest.commit(transaction, relaxed)
    except RetryableConflictError:
        if find_closing(load_snapshot(branch.location)) == closing:
            raise


def note_landed(branch: Snapshot, closing: Closing, version: Version, policy: CommitPolicy) -> None:
    """Add the target's version to the mark, so that it is known even after a cleanup of the target.
    Best effort: the work is published."""
    relaxed = CommitPolicy(may_be_closed=True, clock=policy.clock, retry=policy.retry)
    with contextlib.suppress(LancewoodError):
        newest = load_snapshot(branch.location)
        if find_closing(newest) != closing:
            return
        noted = MapUpdate({PUBLISHED_KEY: replace(closing, landed=version).encode()})
        transaction = Transaction.new(
            newest.manifest.version,
            UpdateConfig(config=noted),
            message=f"published as version {version} of {called(closing.onto)}",
        )
        newest.commit(transaction, relaxed)


def find_landed(target: Store, closing: Closing) -> Version | None:
    """The version of the target that holds the work; None if it has not landed.

    Raises CommitUnknownError if a version that may have held it is gone.
    """
    if closing.landed is not None:
        return closing.landed
    found = list_versions(target)
    gone: Version | None = None
    expected = found.newest
    for version in found.versions:
        if version <= closing.after:
            break
        theirs = load_transaction_of(target, version, found.scheme)
        if theirs.uuid == closing.uuid:
            return version
        if isinstance(theirs.operations[0], MissingTransaction):
            gone = version
        if expected is not None and version != expected:
            gone = expected
        expected = Version(version - 1)
    if expected is not None and expected > closing.after:
        gone = expected
    if gone is None:
        return None
    raise CommitUnknownError(
        f"it is not known whether the branch was published onto {target.uri}: version {gone}, "
        "which may have been that, is gone. Look whether its rows are there, then reset the branch "
        "with force=True, or bring them over",
        version=gone,
    )


def mend_record(main: Store, begun: Snapshot, fork: Version, size: int | None = None) -> None:
    """Correct the record of a branch after an interrupted reset; a branch without one is ignored.

    ``begun`` is a version since the branch began at ``fork``, ``size`` that of the parent's
    manifest.
    """
    name = BranchName.found(str(begun.manifest.branch))
    key = branch_key(name)
    for _ in LOST_RACES:
        try:
            etag = main.head(key).etag
            record = decode_branch(name, main.get(key))
        except NotFoundError:
            return
        reset = max(record.reset_in or 0, reset_version(begun.manifest.config)) or None
        if (record.parent_version, record.reset_in) == (fork, reset):
            return
        mended = replace(
            record,
            parent_version=fork,
            manifest_size=record.manifest_size if size is None else size,
            identifier=_descent(main, record.identifier, fork),
            reset_in=None if reset is None else Version(reset),
        )
        data = encode_branch(mended)
        if main.replace(key, data, etag) is ReplaceOutcome.REPLACED:
            return
    raise RetryableConflictError(
        f"the record of {called(name)} changed {LOST_RACES.attempts} times while it was written; "
        "try again",
        branch=str(name),
    )


def _descent(
    main: Store, known: tuple[BranchPoint, ...] | None, fork: Version
) -> tuple[BranchPoint, ...] | None:
    """The descent with another last version; unchanged if branches made from this one repeat it,
    because it identifies them."""
    if not known:
        return known
    for _, each in read_refs(main, BRANCHES_DIR):
        if isinstance(each, FormatError):
            return known
        steps = each.identifier or () if isinstance(each, Branch) else ()
        if len(steps) > len(known) and steps[: len(known)] == known:
            return known
    return (*known[:-1], BranchPoint(fork, known[-1].uuid))
