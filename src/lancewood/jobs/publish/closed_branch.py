"""Closing a branch for its publication, reopening it, keeping its record, and beginning it anew.

The mark that closes a branch is written before the target's commit and names it. So a later writer
can tell whether that commit landed, and continue if it did not: work is published once, however
often it is tried. After its work was published, or is not wanted any more, a branch begins anew
from its parent (``reset``): a new version of it is a clone of the parent's, as the first one was.
Versions from before stay, and so do tags on them.

The record of a branch keeps the parent's version from being cleaned up: for us by the parent's
version in it, for pylance by the last step of the descent (tried with 14.0.2). If record and
versions of the branch disagree, the versions are right.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

from lancewood.engine.commit import CommitPolicy, PutIfAbsent
from lancewood.engine.location import Location
from lancewood.engine.snapshot import (
    At,
    Snapshot,
    branch_location,
    load_snapshot,
    main_location,
    open_revision,
    resolve,
)
from lancewood.engine.versions import list_versions, load_branch, load_transaction_of, read_refs
from lancewood.engine.write import claim_ids, version_after, write_clone_after
from lancewood.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    FormatError,
    IncompatibleConflictError,
    InvalidInputError,
    LancewoodError,
    NotFoundError,
    RetryableConflictError,
)
from lancewood.format.refs import BRANCHES_DIR, branch_key, decode_branch, encode_branch
from lancewood.jobs.publish.branch_work import load_work, only_marks
from lancewood.model.ids import Version
from lancewood.model.lines import has_own_ids, holds
from lancewood.model.refs import Branch, BranchName, BranchPoint, branch_name, called
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
    try:
        _mark_again(branch, closing, None, policy, "opened again: it could not be published")
    except RetryableConflictError:
        if find_closing(load_snapshot(branch.location)) == closing:
            raise


def note_landed(branch: Snapshot, closing: Closing, version: Version, policy: CommitPolicy) -> None:
    """Add the target's version to the mark, so that it is known even after a cleanup of the target.
    Best effort: the work is published."""
    text = f"published as version {version} of {called(closing.onto)}"
    with contextlib.suppress(LancewoodError):
        _mark_again(branch, closing, replace(closing, landed=version), policy, text)


def _mark_again(
    branch: Snapshot, closing: Closing, mark: Closing | None, policy: CommitPolicy, message: str
) -> None:
    """Replace the mark ``closing`` of a branch, if it has that one."""
    newest = load_snapshot(branch.location)
    if find_closing(newest) == closing:
        entries = {PUBLISHED_KEY: None if mark is None else mark.encode()}
        operation = UpdateConfig(config=MapUpdate(entries))
        transaction = Transaction.new(newest.manifest.version, operation, message=message)
        relaxed = CommitPolicy(may_be_closed=True, clock=policy.clock, retry=policy.retry)
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


def reset(snapshot: Snapshot, name: str, at: At, *, force: bool) -> Snapshot:
    """The branch at its new beginning: the parent's newest version, or the one that is asked for.

    Raises IncompatibleConflictError for a branch with work that was neither published nor merged,
    unless ``force`` gives that up.
    """
    branch = branch_name(name)
    if branch is None:
        raise InvalidInputError("main has no parent that it could begin anew from")
    main = main_location(snapshot)
    for _ in LOST_RACES:
        head = open_revision(main, branch=branch)
        source = _source(main, branch, at)
        is_merged = has_own_ids(head.manifest) and holds(source.manifest, head.manifest)
        if not force and not is_merged:
            _check_published(main, head)
        try:
            return begin_anew(main, source, head, branch)
        except AlreadyExistsError:
            continue
    raise RetryableConflictError(
        f"{called(branch)} moved {LOST_RACES.attempts} times while it was to begin anew; reset it "
        "when nobody writes to it",
        branch=str(branch),
    )


def begin_anew(
    main: Location, source: Snapshot, head: Snapshot, branch: BranchName, *, own_ids: bool = True
) -> Snapshot:
    """A version of the branch right after ``head`` that is a clone of the source.

    ``own_ids`` is as ``create_branch`` has it. Raises AlreadyExistsError if somebody wrote after
    ``head``.
    """
    PutIfAbsent().check_trust(head.location.store)
    version = version_after(source, head)
    ids = claim_ids(main, source, branch, version) if own_ids else None
    done = write_clone_after(source, head, branch=branch, ids=ids)
    mend_record(main.store, done, source.manifest.version, source.manifest.size)
    _check_alone(head, done)
    return done


def _source(main: Location, branch: BranchName, at: At) -> Snapshot:
    record = load_branch(main.store, branch)
    if record is None:
        raise NotFoundError(f"branch {str(branch)!r} of {main.uri} not found", branch=str(branch))
    newest = load_snapshot(branch_location(main, record.parent_branch))
    source = resolve(newest, at)
    if source.manifest.branch != record.parent_branch:
        raise InvalidInputError(
            f"{called(branch)} was made from {called(record.parent_branch)}, and cannot begin anew "
            f"from {called(source.manifest.branch)}; make another branch",
            branch=str(branch),
        )
    return source


def _check_published(main: Location, head: Snapshot) -> None:
    """Raises IncompatibleConflictError if a reset would leave work behind."""
    closing = find_closing(head)
    name = called(head.manifest.branch)
    if closing is None:
        steps = load_work(head).steps
        if steps:
            raise _unpublished(
                f"{name} has work that was not published (since version "
                f"{steps[0].version}); publish or merge it first",
                head,
            )
        return
    late = written_late(head, closing)
    if late is not None:
        raise _unpublished(
            f"{name} has versions from after it was published (since version {late}); bring them "
            "over with append or merge",
            head,
        )
    parent = None if closing.onto is None else BranchName.found(closing.onto)
    if find_landed(branch_location(main, parent).store, closing) is None:
        raise _unpublished(f"the publishing of {name} was cut off; publish it again", head)


def _unpublished(text: str, head: Snapshot) -> IncompatibleConflictError:
    return IncompatibleConflictError(
        f"{text}, or give the work up with force=True",
        branch=head.manifest.branch,
        version=head.manifest.version,
    )


def _check_alone(head: Snapshot, done: Snapshot) -> None:
    """Raises IncompatibleConflictError if somebody wrote a version while the branch was reset."""
    before, after = head.manifest.version, done.manifest.version
    between = [
        each for each in list_versions(head.location.store).versions if before < each < after
    ]
    if between:
        raise IncompatibleConflictError(
            f"{called(head.manifest.branch)} begins anew at version {after}, but somebody wrote "
            f"version {between[0]} meanwhile, which is not in it; look at that version",
            version=between[0],
        )
