"""A table's next state, made from an older version, from the work on another branch, or from a part
of that work.

Each function gives a stage on the newest version of the branch, which a transaction then commits.
A stage can only follow the version it was made for or, for the work of a branch, one that it was
judged against as well.
"""

from __future__ import annotations

import uuid as uuids
from dataclasses import dataclass

from lancewood.engine.commit import CommitPolicy, commit
from lancewood.engine.location import Location
from lancewood.engine.snapshot import Snapshot, load_snapshot, same_indices
from lancewood.engine.staging import Stage
from lancewood.format.manifest import content_digest
from lancewood.jobs.publish.composing import Publication
from lancewood.jobs.publish.preparing import prepare, prepare_again, publishing
from lancewood.jobs.publish.work import Work
from lancewood.jobs.runner import LocalRunner
from lancewood.model.ids import Version
from lancewood.repo.landing import restoring


def restored(head: Snapshot, source: Snapshot, message: str) -> Stage:
    """The state ``source`` of the same branch after its newest version."""
    stage = Stage(head, message=message)
    stage.commit(restoring(head, source), CommitPolicy(serializable=True))
    return stage


def clear(head: Snapshot, fork: Version) -> None:
    """Return a table to an older version, as a new one."""
    source = load_snapshot(head.location, version=fork)
    mine, theirs = head.manifest, source.manifest
    is_same = content_digest(mine.message) == content_digest(theirs.message)
    if not is_same or not same_indices(mine, theirs):
        transaction = restoring(head, source, message="what was given up goes")
        commit(head.location, head.manifest, head.scheme, transaction)


@dataclass(frozen=True, slots=True)
class JudgedWork:
    """Work that does not conflict with a version; nothing was written for it."""

    head: Snapshot
    publication: Publication

    def stage(self, message: str) -> Stage:
        """The work after that version, with the files that it needs."""
        stage = Stage(self.head, message=message)
        work = self.publication.work
        stage.compose(publishing(work, str(uuids.uuid4()), {}), self.publication)
        return stage


def judge_published(main: Location, work: Work) -> JudgedWork | None:
    """The work of a branch, judged against the newest version of its target; None if it changes
    nothing. Raises ConflictError."""
    publication, newest = prepare(main, work, LocalRunner())
    if publication is None:
        return None
    publication.plan(newest.manifest)
    return JudgedWork(newest, publication)


def judge_repeated(main: Location, work: Work, head: Snapshot) -> JudgedWork | None:
    """A part of a branch's work, judged against a version with the content that the part began
    with; None if it changes nothing. Raises ConflictError."""
    publication = prepare_again(main, work, head, LocalRunner())
    if publication is None:
        return None
    publication.plan(head.manifest)
    return JudgedWork(head, publication)
