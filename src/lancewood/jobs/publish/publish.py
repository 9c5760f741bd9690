"""Publishing a branch: its work becomes one commit on its parent, exactly once.

    1  judge and plan, and refuse what would be refused
    2  close the branch: a mark names the commit to come
    3  bring the files that the target takes over
    4  commit on the target, under the identity that the mark names
    5  record on the branch which version that became, if possible

A writer that finds a closed branch checks whether that commit landed, and continues with 3 if it
did not. A conflict in 4 is final, so the branch is opened again; after any other failure it stays
closed. While the target refers to files below the branch, a guard tag keeps the branch: both
implementations refuse to delete a branch with a tag, and keep the files of a tagged version.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, replace

from lancewood.engine.commit import CommitPolicy, commit
from lancewood.engine.location import Location
from lancewood.engine.snapshot import (
    Snapshot,
    branch_location,
    load_snapshot,
    main_location,
    open_revision,
)
from lancewood.errors import (
    CommitUnknownError,
    ConflictError,
    InvalidInputError,
    LancewoodError,
    NotFoundError,
    RetryableConflictError,
)
from lancewood.format.refs import encode_tag, tag_key
from lancewood.jobs.compose.next_version import BRANCH_PROPERTY, BRANCH_VERSION_PROPERTY
from lancewood.jobs.counts import Published
from lancewood.jobs.job import CommitOptions
from lancewood.jobs.publish.branch_work import BranchWork, load_work
from lancewood.jobs.publish.closed_branch import (
    check_nothing_is_late,
    close,
    find_closing,
    find_landed,
    mend_record,
    note_landed,
    reopen,
)
from lancewood.jobs.publish.prepare import LandedError, prepare, publishing
from lancewood.jobs.publish.publication import Publication
from lancewood.jobs.refs.tags import PUBLISH_GUARD
from lancewood.jobs.runner import Runner
from lancewood.model.ids import Version
from lancewood.model.refs import BranchName, Tag, TagName, branch_name, called
from lancewood.model.table_config import Closing
from lancewood.rules.features import is_closed
from lancewood.store.base import Store

__all__ = ["BRANCH_PROPERTY", "BRANCH_VERSION_PROPERTY", "Published", "publish"]


def publish(
    snapshot: Snapshot,
    name: str,
    onto: str | None,
    *,
    adopt: bool,
    commit_options: CommitOptions,
    runner: Runner,
    dry_run: bool = False,
) -> tuple[Snapshot, Published]:
    """The target's version with the work of a branch, and what was done for it.

    Raises ConflictError if the work conflicts with what happened on the target; then nothing has
    changed. A dry run ends after the first step, with the target as it is.
    """
    branch = branch_name(name)
    if branch is None:
        raise InvalidInputError("main has no parent that it could be published onto")
    asked = None if onto is None else (branch_name(onto),)
    main = main_location(snapshot)
    last: ConflictError | None = None
    for _ in range(commit_options.retry.attempts):
        head = open_revision(main, branch=branch)
        task = _Publishing(main, branch, asked, adopt, commit_options, runner, dry_run)
        try:
            found, told = task.run(head)
            return found, replace(told, is_dry_run=dry_run)
        except _HeadMovedError as moved:
            last = moved.conflict
    assert last is not None
    raise RetryableConflictError(
        f"{called(branch)} moved {commit_options.retry.attempts} times while it was to be "
        f"closed; publish it when nobody writes to it. The last conflict: {last.message}",
        branch=str(branch),
    ) from last


class _HeadMovedError(Exception):
    """The branch moved before it was closed."""

    def __init__(self, conflict: ConflictError) -> None:
        super().__init__(conflict.message)
        self.conflict = conflict


@dataclass
class _Publishing:
    """One attempt to publish a branch."""

    main: Location
    branch: BranchName
    asked: tuple[BranchName | None] | None
    """The branch that the caller names as the target; None for none."""
    adopt: bool
    commit_options: CommitOptions
    runner: Runner
    dry_run: bool

    def run(self, head: Snapshot) -> tuple[Snapshot, Published]:
        closing = find_closing(head)
        if closing is not None:
            return self._go_on(head, closing)
        work = load_work(head)
        self._check_target(work.parent)
        try:
            publication, newest = self._prepare(work)
            if publication is not None:
                publication.plan(newest.manifest)
        except ConflictError as conflict:
            # The conflict may be with the same work, just published by another writer.
            if load_snapshot(head.location).manifest.version != head.manifest.version:
                raise _HeadMovedError(conflict) from conflict
            raise
        if publication is None:
            return newest, Published(self.branch, head.manifest.version, True, 0, is_new=False)
        if self.dry_run:
            return newest, self._planned(publication, newest)
        closing = Closing(
            onto=work.parent,
            uuid=str(uuid.uuid4()),
            head=head.manifest.version,
            fork=work.fork,
            after=newest.manifest.version,
        )
        try:
            close(head, closing, self.commit_options.policy)
        except RetryableConflictError as conflict:
            raise _HeadMovedError(conflict) from conflict
        return self._finish(publication, newest, closing)

    def _go_on(self, head: Snapshot, closing: Closing) -> tuple[Snapshot, Published]:
        """Finish an interrupted publication, or find that it landed."""
        parent = None if closing.onto is None else BranchName.found(closing.onto)
        self._check_target(parent)
        target = branch_location(self.main, parent)
        landed = find_landed(target.store, closing)
        if landed is not None:
            check_nothing_is_late(head, closing)
            return self._done(target, landed, closing)
        work = load_work(load_snapshot(head.location, version=closing.head))
        try:
            publication, newest = self._prepare(work, closing)
        except ConflictError:
            if not self.dry_run and not is_closed(load_snapshot(target).manifest):
                reopen(head, closing, self.commit_options.policy)
            raise
        except LandedError as found:
            return self._done(target, found.version, closing)
        if publication is None:
            if not self.dry_run:
                reopen(head, closing, self.commit_options.policy)
            return newest, Published(self.branch, closing.head, True, 0, is_new=False)
        if self.dry_run:
            return newest, self._planned(publication, newest)
        return self._finish(publication, newest, closing)

    def _done(
        self, target: Location, version: Version, closing: Closing
    ) -> tuple[Snapshot, Published]:
        try:
            found = load_snapshot(target, version=version)
        except NotFoundError:  # cleaned up since; what came after it holds the work
            found = load_snapshot(target)
        is_forward = version == closing.fork + 1
        return found, Published(self.branch, closing.head, is_forward, 0, is_new=False)

    def _planned(self, publication: Publication, newest: Snapshot) -> Published:
        """What publishing would do on top of the target's newest version."""
        publication.plan(newest.manifest)
        return self._told(publication, publication.copies.planned)

    def _told(self, publication: Publication, adopted: int) -> Published:
        head, is_forward = publication.work.head.manifest, publication.is_fast_forward
        return Published(self.branch, head.version, is_forward, adopted, publication.left_out)

    def _check_target(self, parent: BranchName | None) -> None:
        if self.asked is not None and self.asked[0] != parent:
            raise InvalidInputError(
                f"{called(self.branch)} was made from {called(parent)}, and can be published onto "
                f"that only, not onto {called(self.asked[0])}; publish it there first, then "
                f"{called(parent)} further on",
                branch=str(self.branch),
            )

    def _prepare(
        self, work: BranchWork, closing: Closing | None = None
    ) -> tuple[Publication | None, Snapshot]:
        if not self.dry_run:
            mend_record(self.main.store, work.first, work.fork)
        identity = None if closing is None else closing.uuid
        refers = not self.adopt
        return prepare(
            self.main, work, self.runner, by_reference=refers, uuid=identity, closes=True
        )

    def _finish(
        self, publication: Publication, newest: Snapshot, closing: Closing
    ) -> tuple[Snapshot, Published]:
        work, policy = publication.work, self.commit_options.policy
        try:
            publication.compose(newest.manifest)
            if publication.is_referring:
                place_guard(self.main.store, work.head, closing.uuid)
            done = commit(
                newest.location,
                newest.manifest,
                newest.scheme,
                publishing(work, closing.uuid, self.commit_options.properties),
                CommitPolicy(clock=policy.clock, retry=policy.retry),
                publication,
            )
        except CommitUnknownError as unknown:
            unknown.add_note(self._what_now())
            raise
        except LancewoodError as error:
            publication.copies.discard()
            if publication.is_refused:
                if not self.adopt:
                    self.main.store.delete([tag_key(_guard_name(closing.uuid))])
                reopen(work.head, closing, policy)
            else:
                error.add_note(self._what_now())
            raise
        note_landed(work.head, closing, done.version, policy)
        landed = Snapshot(newest.location, done, newest.scheme)
        return landed, self._told(publication, publication.brought)

    def _what_now(self) -> str:
        return f"{called(self.branch)} stays closed; publish it again to go on"


def place_guard(main: Store, head: Snapshot, uuid: str) -> None:
    """Tag the published version; an existing tag is the same one."""
    branch = head.manifest.branch
    assert branch is not None, "asked of a branch"
    now = time.time_ns()
    tag = Tag(
        name=_guard_name(uuid),
        branch=BranchName.found(branch),
        version=Version(head.manifest.version),
        manifest_size=head.manifest.size,
        created_at_ns=now,
        updated_at_ns=now,
    )
    main.put_new(tag_key(tag.name), encode_tag(tag))


def _guard_name(uuid: str) -> TagName:
    return TagName(f"{PUBLISH_GUARD}{uuid}")
