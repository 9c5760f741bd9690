"""Beginning a branch anew from its parent, after its work was published or is not wanted any more.

A new version of the branch is a clone of the parent's, as the first one was. Versions from before
stay, and so do tags on them.
"""

from __future__ import annotations

from lancewood.engine.commit import PutIfAbsent
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
from lancewood.engine.versions import list_versions, load_branch
from lancewood.engine.write import claim_ids, version_after, write_clone_after
from lancewood.errors import (
    AlreadyExistsError,
    IncompatibleConflictError,
    InvalidInputError,
    NotFoundError,
    RetryableConflictError,
)
from lancewood.jobs.publish.closing import find_closing, find_landed, mend_record, written_late
from lancewood.jobs.publish.work import load_work
from lancewood.model.lines import has_own_ids, holds
from lancewood.model.refs import BranchName, branch_name, called
from lancewood.store.retry import LOST_RACES


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
        if not force and not _is_merged(source, head):
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


def _is_merged(source: Snapshot, head: Snapshot) -> bool:
    """Whether all work of the branch is in the version that it begins anew from."""
    return has_own_ids(head.manifest) and holds(source.manifest, head.manifest)


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
