"""The base of all verbs on a table, and the verbs that lead from one version to another."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Self, TypeVar

from lancewood.engine.snapshot import (
    At,
    Snapshot,
    check_contradictions,
    load_snapshot,
    main_location,
    open_revision,
    resolve,
    same_branch,
)
from lancewood.engine.versions import VersionInfo, iterate_versions
from lancewood.errors import InvalidInputError
from lancewood.jobs.counts import Counts
from lancewood.jobs.job import CommitOptions, Job
from lancewood.jobs.runner import LocalRunner, Runner
from lancewood.model.refs import called
from lancewood.model.transaction import Operation, Restore, Transaction

C = TypeVar("C", bound=Counts)


class Handle:
    """One version of a table."""

    def __init__(self, snapshot: Snapshot, counts: Counts = None) -> None:
        self._snapshot = snapshot
        self._counts = counts

    @property
    def counts(self) -> Counts:
        """What the write that returned this handle did (rows inserted, updated, …), or would do
        if it was a dry run; None for an opened handle or a write that counts nothing."""
        return self._counts

    def _after(self, snapshot: Snapshot, counts: Counts = None) -> Self:
        """The handle on the version after a write."""
        return type(self)(snapshot, counts)

    def _run(self, job: Job[C], commit_options: CommitOptions, *, dry_run: bool) -> Self:
        """The handle after a job; a dry run only plans it, and gives this version."""
        if dry_run:
            return self._after(self._snapshot, job.dry_run(self._snapshot, commit_options))
        return self._after(*job.run(self._snapshot, commit_options))

    def _commit(
        self, operation: Operation, commit_options: CommitOptions, *, dry_run: bool
    ) -> Self:
        """The handle after an operation without files; a dry run only judges and builds it."""
        transaction = Transaction.new(
            self._snapshot.manifest.version, operation, properties=commit_options.properties
        )
        if dry_run:
            self._snapshot.check_commit(transaction, commit_options.policy)
            return self._after(self._snapshot)
        return self._after(self._snapshot.commit(transaction, commit_options.policy))


class TravelVerbs(Handle):
    """Checkout, latest, versions, restore."""

    def checkout(
        self,
        *,
        branch: str | None = None,
        version: int | None = None,
        tag: str | None = None,
        as_of: datetime | str | None = None,
        at: At = None,
    ) -> Self:
        """The table at another version, named as for ``lancewood.open``.

        A version or a moment (the highest version not later than it) is one of this handle's
        branch, unless ``branch`` is given. A branch alone is its newest version.
        """
        check_contradictions(branch, version, tag, as_of, at)
        found = self._found(branch, version, tag, as_of, at)
        return self._after(self._snapshot.together(found))

    def _found(
        self,
        branch: str | None,
        version: int | None,
        tag: str | None,
        as_of: datetime | str | None,
        at: At,
    ) -> Snapshot:
        if at is not None:
            return resolve(self._snapshot, at)
        if branch is None and tag is None:
            if version is not None:
                return same_branch(self._snapshot, version)
            if as_of is None:
                raise InvalidInputError(
                    "checkout needs branch=, version=, tag=, as_of= or at=; latest() is the newest"
                )
            return load_snapshot(self._snapshot.location, as_of=as_of)
        location = main_location(self._snapshot)
        return open_revision(location, branch=branch, version=version, tag=tag, as_of=as_of)

    def latest(self) -> Self:
        """The newest version of this handle's branch."""
        return self._after(self._snapshot.newest())

    def versions(self, limit: int | None = None) -> Iterator[VersionInfo]:
        """All versions of this handle's branch, newest first, including those after this one.

        Each is opened only when the iterator reaches it.
        """
        return iterate_versions(self._snapshot.location.store, limit)

    def restore(
        self,
        version: int | None = None,
        *,
        tag: str | None = None,
        at: At = None,
        dry_run: bool = False,
        message: str | None = None,
        commit: CommitOptions | None = None,
    ) -> Self:
        """Make an older version of the branch (by default this one) the newest again, as a new
        version.

        It is named as for ``checkout``; a tag or text that leads to another branch is refused.
        """
        target = self._snapshot
        if version is not None or tag is not None or at is not None:
            check_contradictions(None, version, tag, None, at)
            target = self._found(None, version, tag, None, at)
        here, there = self._snapshot.manifest.branch, target.manifest.branch
        if there != here:
            raise InvalidInputError(
                f"version {target.manifest.version} is on {called(there)}, and {called(here)} is "
                f"to be restored: restore {called(there)}, or make a branch at that version"
            )
        commit_options = CommitOptions.of(commit, message)
        newest = self._after(self._snapshot.newest())
        after = newest._commit(Restore(target.manifest.version), commit_options, dry_run=dry_run)
        return self._after(self._snapshot) if dry_run else after


def runner_or_threads(runner: Runner | None) -> Runner:
    """The given runner, or threads of this process; raises InvalidInputError if it cannot run."""
    if runner is None:
        return LocalRunner()
    if not callable(getattr(runner, "run", None)):
        raise InvalidInputError(
            "runner must have a run() method, as LocalRunner(workers=4) and "
            f"lancewood.spark.runner(spark) have, got {runner!r}"
        )
    return runner
