"""Merging one branch of a table into another, in whatever direction, as one version.

What a version holds of other branches is in its configuration, so that a branch can be merged
again and again, and only what is new since comes over. The version is planned on the newest one of
the target, and anew if somebody else changed what the plan rests on. One put decides: before it
there are only files that nobody names, after it the merge is done, and asking for it again finds
that nothing is left. The branch that is merged is never written to.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace

from lancewood.engine.base import check_choice
from lancewood.engine.commit import CommitPolicy, commit
from lancewood.engine.location import Location
from lancewood.engine.snapshot import (
    Snapshot,
    main_location,
    merge_bases,
    open_revision,
    remaining_bases,
    vector_of,
)
from lancewood.errors import (
    CommitUnknownError,
    InvalidInputError,
    LancewoodError,
    MergeConflictError,
    RetryableConflictError,
    UnsupportedError,
)
from lancewood.jobs.compose.next_version import BRANCH_PROPERTY, BRANCH_VERSION_PROPERTY
from lancewood.jobs.counts import Merged
from lancewood.jobs.diff import nothing_before
from lancewood.jobs.job import CommitOptions
from lancewood.jobs.merge.merge_bases import Bases
from lancewood.jobs.merge.resolve import Resolve
from lancewood.jobs.merge.row_merge import Detect, PreparedMerge, RowMerge, state_name
from lancewood.jobs.runner import Runner
from lancewood.model.ids import Version
from lancewood.model.lines import (
    LINE_KEY,
    MERGED_KEY,
    Line,
    has_own_ids,
    history_of,
    holds,
    merged_into,
)
from lancewood.model.manifest import ManifestHead
from lancewood.model.refs import MAIN, BranchName, branch_name, called
from lancewood.model.transaction import Transaction
from lancewood.rules.features import check_open

BASES_PROPERTY = "lancewood.bases"
"""What both sides of a merge come from, for people: ``main:7 exp:3``."""


@dataclass(frozen=True)
class BranchMerge:
    """A branch of a table that is to be merged into another one; None is main."""

    main: Location
    name: BranchName | None
    into: BranchName | None
    resolve: Resolve
    detect: Detect = "cells"

    @classmethod
    def asked(
        cls,
        snapshot: Snapshot,
        name: str,
        into: str | None,
        resolve: object = None,
        detect: Detect = "cells",
    ) -> BranchMerge:
        """From the arguments of a caller; without ``into`` the branch of the snapshot is meant.

        Raises InvalidInputError for a branch into itself, and for rules that cannot be.
        """
        source = branch_name(name)
        own = snapshot.manifest.branch
        if into is not None:
            target = branch_name(into)
        else:
            target = None if own is None else BranchName.found(own)
        if source == target:
            raise InvalidInputError(
                f"{called(source)} cannot be merged into itself; into= names another branch"
            )
        check_choice("detect", detect, Detect)
        return cls(main_location(snapshot), source, target, Resolve.of(resolve), detect)

    def row_merge(self) -> RowMerge | None:
        """The merge of the two newest versions; None if ours holds all of theirs.

        Raises UnsupportedError for a table or branch whose rows have no ids of their own, and
        NotFoundError if what both come from is gone, and cannot be told from a merge that brought
        it.
        """
        ours, theirs = (open_revision(self.main, branch=each) for each in (self.into, self.name))
        if holds(ours.manifest, theirs.manifest):
            return None
        bases, steps = remaining_bases(ours, theirs)
        if not bases:
            raise InvalidInputError(
                f"{called(self.into)} and {called(self.name)} of {self.main.uri} have no version "
                "in common, and cannot be merged"
            )
        for each in (ours, theirs):
            _check_ids(each, bases[0])
        base = Bases.of(
            bases, merge_bases, nothing_before, lambda state: history_of(state.manifest)
        ).followed_by(steps)
        rebuilt = frozenset(state_name(each.after) for each in steps)
        return RowMerge(base, ours, theirs, self.resolve, self.detect, self.main.uri, rebuilt)

    def nothing(self) -> RowMerge:
        """A merge without rows, for the shape of one where ours holds all of theirs."""
        ours = open_revision(self.main, branch=self.into)
        return RowMerge(Bases(ours), ours, ours, self.resolve, self.detect, self.main.uri)

    def run(
        self, commit_options: CommitOptions, runner: Runner, *, dry_run: bool = False
    ) -> tuple[Snapshot, Merged]:
        """The target's version with the work of the branch, and what was done for it.

        Raises MergeConflictError if there are conflicts that nothing decides, and
        RetryableConflictError if others were faster too often. Nothing has changed then.
        """
        for attempt in range(commit_options.retry.attempts):
            if attempt:
                commit_options.retry.pause(attempt)
            row_merge = self.row_merge()
            if row_merge is None:
                ours, theirs = (
                    open_revision(self.main, branch=each) for each in (self.into, self.name)
                )
                name, until = str(self.name or MAIN), theirs.manifest.version
                return ours, Merged(name, until, is_new=False)
            if not dry_run:
                row_merge.ours.check_writable()
                check_open(row_merge.ours.manifest)
            try:
                return self._once(row_merge, commit_options, runner, dry_run=dry_run)
            except RetryableConflictError as conflict:
                last = conflict
        raise RetryableConflictError(
            f"{called(self.into)} moved {commit_options.retry.attempts} times while "
            f"{called(self.name)} was merged into it; merge when fewer writers are active. The "
            f"last conflict: {last.message}",
            **last.facts,
        ) from last

    def _once(
        self, row_merge: RowMerge, commit_options: CommitOptions, runner: Runner, *, dry_run: bool
    ) -> tuple[Snapshot, Merged]:
        """One attempt, onto one version of the target."""
        ours, theirs = row_merge.ours, row_merge.theirs
        is_ruled = self.detect != "tables" or row_merge.resolve.rows is not None
        if not is_ruled and not row_merge.is_fast_forward:
            raise MergeConflictError(
                f"both sides changed {self.main.uri} since they parted, and detect='tables' "
                "makes that a conflict",
                conflicts=1,
            )
        prepared = PreparedMerge(row_merge, runner, writes=not dry_run)
        config = merged_config(ours.manifest, theirs)
        version = prepared.version(config, moves_on=not has_own_ids(ours.manifest))
        name = str(self.name or MAIN)
        if not prepared.brings:
            told = prepared.told(name, 0, version.uncovered_indices, dry_run=dry_run)
            return ours, replace(told, is_new=False)
        try:
            done = version.plan(ours.manifest)
            if dry_run:
                planned, uncovered = version.copies.planned, version.uncovered_indices
                return ours, prepared.told(name, planned, uncovered, dry_run=True)
            properties = {
                BRANCH_PROPERTY: name,
                BRANCH_VERSION_PROPERTY: str(theirs.manifest.version),
                BASES_PROPERTY: " ".join(row_merge.base_names),
                **version.properties,
                **commit_options.properties,
            }
            number, identity = ours.manifest.version, str(uuid.uuid4())
            transaction = Transaction(number, identity, (done.operation,), properties)
            policy = commit_options.policy
            strict = CommitPolicy(clock=policy.clock, retry=policy.retry)
            manifest = commit(
                ours.location, ours.manifest, ours.scheme, transaction, strict, version
            )
        except CommitUnknownError:
            raise
        except LancewoodError:
            version.copies.discard()
            prepared.discard()
            raise
        after = Snapshot(ours.location, manifest, ours.scheme)
        return after, prepared.told(name, version.brought, version.uncovered_indices)


def merged_config(ours: ManifestHead, theirs: Snapshot) -> dict[str, str]:
    """What the configuration of ours says once it holds theirs as well. A line without row ids of
    its own gets an identity with it, and hands out ids of its own from there on."""
    config = {MERGED_KEY: merged_into(ours, vector_of(theirs))}
    if not has_own_ids(ours):
        config[LINE_KEY] = Line(uuid.uuid4().hex, Version(ours.version + 1), ours.branch).encode()
    return config


def _check_ids(state: Snapshot, base: Snapshot) -> None:
    """Raise UnsupportedError if rows of a state may have ids that other rows have. A line without
    ids of its own has none that are, as long as it handed out none since the base."""
    head = state.manifest
    if not head.has_stable_row_ids:
        raise UnsupportedError(
            f"{state.location.uri} has no stable row ids, so that it is not known which rows are "
            "the same on two branches; publish the branch, or bring its rows over with merge() by "
            "a key"
        )
    if not has_own_ids(head) and head.next_row_id != base.manifest.next_row_id:
        raise UnsupportedError(
            f"{called(head.branch)} was made by another program, or by an older Lancewood, and "
            "gave its rows the ids that others have; publish it, then reset it: from there on it "
            "can be merged",
            branch=head.branch,
        )
