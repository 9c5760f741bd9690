"""Preparing a publication: the work of a branch, judged by everything since on its target.

If the target restored a version from since the fork, what it took back counts as not having
happened. Nothing is written: publishing commits the result (``publish``), a repository stages it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from lancewood.engine.location import Location
from lancewood.engine.rows import LiveRows, RowFacts, distinct, stretches_of
from lancewood.engine.schema import related_columns
from lancewood.engine.snapshot import Snapshot, branch_location, load_snapshot
from lancewood.engine.versions import (
    load_manifest,
    load_transaction_of,
    missing_transaction,
    versions_since,
)
from lancewood.errors import FormatError, IncompatibleConflictError, NotFoundError
from lancewood.format.manifest import content_digest
from lancewood.jobs.compose.files import FilesToCopy
from lancewood.jobs.compose.next_version import BRANCH_PROPERTY, BRANCH_VERSION_PROPERTY
from lancewood.jobs.publish.branch_work import (
    HELD_PROPERTY,
    BranchWork,
    FragmentDiff,
    check_restored,
    diff_fragments,
    encode_held,
    exact_marks,
    has_exact_marks,
    is_head_same,
    needs_exact_marks,
)
from lancewood.jobs.publish.publication import Publication
from lancewood.jobs.runner import Runner
from lancewood.model.fragment import Fragment
from lancewood.model.ids import Version, is_detached
from lancewood.model.lines import has_own_ids, held_by, line_of
from lancewood.model.refs import called
from lancewood.model.transaction import (
    MARKS_PROPERTY,
    Restore,
    Transaction,
)
from lancewood.rules.features import check_open
from lancewood.rules.lineage import recorded
from lancewood.rules.three_way import same_fields


class LandedError(Exception):
    """The commit of this work was found on the target: it has landed already."""

    def __init__(self, version: Version) -> None:
        super().__init__(str(version))
        self.version = version


def prepare(
    main: Location,
    work: BranchWork,
    runner: Runner,
    *,
    by_reference: bool = False,
    uuid: str | None = None,
    closes: bool = False,
) -> tuple[Publication | None, Snapshot]:
    """The publication, judged up to the target's newest version, and that version; None if the
    work has no effect.

    ``closes`` says that the branch hands out no more row ids. Raises ConflictError if work and
    target conflict, and LandedError if a version of the target has the identity ``uuid``.
    """
    check_restored(work)
    location = branch_location(main, work.parent)
    newest = load_snapshot(location)
    diff = _diff(work)
    if diff is None:
        if work.keeps_ids:
            _check_apart(work, newest)
        return None, newest
    check_open(newest.manifest)
    target, claims = _at_fork(newest, work), None if closes else main
    copies = FilesToCopy(work.head, newest)
    publication = Publication(work, target, diff, copies, runner, claims, by_reference)
    _judge_all(publication, newest, work.fork, uuid)
    if work.keeps_ids:
        _check_apart(work, newest)
        _check_once(work, diff, target, newest)
    return publication, newest


def prepare_again(
    main: Location, work: BranchWork, onto: Snapshot, runner: Runner
) -> Publication | None:
    """The publication of work on a version with the same content as the one where it began; None if
    the work has no effect."""
    check_restored(work)
    diff = _diff(work)
    if diff is None:
        return None
    check_open(onto.manifest)
    return Publication(work, onto, diff, FilesToCopy(work.head, onto), runner, main)


def publishing(work: BranchWork, uuid: str, properties: Mapping[str, str]) -> Transaction:
    """The transaction for the work, with its identity and its origin."""
    told = {
        BRANCH_PROPERTY: work.branch,
        BRANCH_VERSION_PROPERTY: str(work.head.manifest.version),
        HELD_PROPERTY: encode_held(work.held),
    }
    if has_exact_marks(work):
        told[MARKS_PROPERTY] = "exact"
    if not same_fields(work.first.manifest.fields, work.head.manifest.fields):
        found = related_columns(work.first, work.head)
        if not found.unknown:  # else its versions do not tell which columns the branch cast
            told |= recorded(found.ids)
    told |= properties
    return Transaction(work.fork, uuid, tuple(each.operation for each in work.steps), told)


def _diff(work: BranchWork) -> FragmentDiff | None:
    diff = diff_fragments(work.first.manifest, work.head.manifest)
    if needs_exact_marks(work):
        diff = diff.with_marks(exact_marks(work, diff))
    is_same = is_head_same(work.first.manifest, work.head.manifest)
    return None if is_same and not (diff.added or diff.changed or diff.removed) else diff


def _check_apart(work: BranchWork, newest: Snapshot) -> None:
    """Raise IncompatibleConflictError if branch and target hold the same since the fork, because
    one of them was merged into the other, or a third into both: rows would be there twice."""
    then, now = held_by(work.first.manifest), held_by(newest.manifest)
    for line, reached in held_by(work.head.manifest).items():
        least = then[line].version if line in then else 0
        if reached.version > least and line in now and now[line].version > least:
            raise IncompatibleConflictError(
                f"{called(work.branch)} cannot be published onto {called(work.parent)}: both hold "
                f"work of {called(reached.branch)} since the fork, which was merged; merge "
                f"{called(work.branch)} as well",
                branch=work.branch,
                version=newest.manifest.version,
            )


def _check_once(work: BranchWork, diff: FragmentDiff, target: Snapshot, newest: Snapshot) -> None:
    """Raise IncompatibleConflictError if both brought the same rows since the fork, as picking one
    commit for both does, or taking the same delete back: their ids would be there twice."""
    if newest.manifest.version == target.manifest.version or not diff.added:
        return
    mine = _live_rows(work.head, diff.added)
    theirs = _live_rows(newest, diff_fragments(target.manifest, newest.manifest).added)
    old = _live_rows(work.first, (*diff.removed, *(each.then for each in diff.changed)))
    sides = (mine, theirs, old)
    ids = distinct(np.concatenate([e for each in sides for e in (each.firsts, each.ends)]))
    if ((mine.find(ids) >= 0) & (theirs.find(ids) >= 0) & (old.find(ids) < 0)).any():
        raise IncompatibleConflictError(
            f"{called(work.branch)} cannot be published onto {called(work.parent)}: both brought "
            f"the same rows since the fork; merge {called(work.branch)}",
            branch=work.branch,
            version=newest.manifest.version,
        )


def _live_rows(state: Snapshot, fragments: Iterable[Fragment]) -> LiveRows:
    parts = (stretches_of(RowFacts(state, each)) for each in fragments)
    return LiveRows.of(parts, state.manifest.name)


def _at_fork(newest: Snapshot, work: BranchWork) -> Snapshot:
    """The target's version that the branch began from."""
    try:
        manifest = load_manifest(newest.location.store, work.fork, newest.scheme)
    except NotFoundError as cause:
        raise NotFoundError(
            f"{called(work.branch)} began at version {work.fork} of {called(work.parent)}, "
            "which is gone: what changed there since cannot be told. Bring the rows over with "
            "append or merge",
            version=work.fork,
        ) from cause
    one, other = manifest.message, work.first.manifest.message
    held = held_by(work.first.manifest).get(line_of(manifest).id)
    is_begun = one.next_row_id == other.next_row_id
    if has_own_ids(work.first.manifest):
        is_begun = held is not None and held.version == work.fork
    same = (
        same_fields(manifest.fields, work.first.manifest.fields)
        and is_begun
        and one.max_fragment_id == other.max_fragment_id
        and len(one.fragments) == len(other.fragments)
    )
    if not same:
        raise FormatError(
            f"version {work.fork} of {called(work.parent)} is not the one that "
            f"{called(work.branch)} began as: the parent was made anew since",
            version=work.fork,
        )
    return Snapshot(newest.location, manifest, newest.scheme)


def _judge_all(publication: Publication, newest: Snapshot, fork: Version, uuid: str | None) -> None:
    """Judge every version of the target since the fork, up to the newest."""
    store, scheme = newest.location.store, newest.scheme
    there = {*versions_since(store, fork, scheme).versions}
    standing: list[tuple[Version, Transaction]] = []
    for version in map(Version, range(fork + 1, newest.manifest.version + 1)):
        if version in there:
            theirs = load_transaction_of(store, version, scheme)
        else:
            theirs = missing_transaction(version, f"version {version} was cleaned up")
        if uuid is not None and theirs.uuid == uuid:
            raise LandedError(version)
        back = _taken_back(newest, version, theirs, fork)
        if back is None:
            standing.append((version, theirs))
            continue
        standing = [each for each in standing if each[0] <= back]
        publication.pass_over()
    for version, theirs in standing:
        publication.judge(theirs, version)


def _taken_back(
    newest: Snapshot, restoring: Version, theirs: Transaction, fork: Version
) -> Version | None:
    """The version since the fork that the version ``restoring`` restored completely, or None."""
    (operation, *others) = theirs.operations
    if others or not isinstance(operation, Restore):
        return None
    version = operation.version
    if version < fork or version >= restoring or is_detached(version):
        return None
    store, scheme = newest.location.store, newest.scheme
    try:
        then = load_manifest(store, version, scheme).message
        now = load_manifest(store, restoring, scheme).message
    except NotFoundError:
        return None
    is_same = [*then.base_paths] == [*now.base_paths] and content_digest(then) == content_digest(
        now
    )
    return version if is_same else None
