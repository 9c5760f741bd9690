"""Compaction: the same rows in fewer fragments, without those that are deleted.

Bins of neighbouring fragments are written anew, then ids are reserved for all new fragments and
one commit puts them in the place of the old ones. A bin that somebody changed meanwhile is left
out of it; if that leaves none, everything is planned again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from pyroaring import BitMap

from lancewood.data.writer import check_columns
from lancewood.engine.homes import new_data_files
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import (
    CommitUnknownError,
    LancewoodError,
    RetryableConflictError,
    UnsupportedError,
)
from lancewood.jobs.compaction.bin import RewrittenBin, rewrite_bin
from lancewood.jobs.compaction.plan import CompactionGoal, FragmentSizes, plan_bins
from lancewood.jobs.counts import CompactionCounts
from lancewood.jobs.execute import Terms
from lancewood.jobs.gathering import gather
from lancewood.jobs.runner import Runner
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId
from lancewood.model.manifest import Manifest
from lancewood.model.operations import ReserveFragments, Rewrite, RewriteGroup
from lancewood.model.transaction import Transaction
from lancewood.rules.indices import check_no_fragment_reuse


def check_compactable(snapshot: Snapshot) -> None:
    """Raise UnsupportedError where rows of the table cannot be written again, before any is read.

    That is so for blobs of the second layout, and while pylance has deferred the remapping of
    indices. FormatError where a fragment is listed twice.
    """
    manifest = snapshot.manifest
    snapshot.check_writable()
    manifest.check_unique_fragments()
    check_no_fragment_reuse(manifest.indices, "a compaction")
    for each in snapshot.schema.walk():
        if each.is_blob_v2:
            raise UnsupportedError(
                f"column {each.name!r} is a blob of the second layout, which Lancewood does not "
                "write; let pylance compact the table",
                column=each.name,
            )
    check_columns(snapshot.schema, manifest.file_version)


@dataclass(frozen=True)
class Compaction:
    """One wish for a compaction."""

    goal: CompactionGoal
    runner: Runner
    terms: Terms

    def run(self, snapshot: Snapshot) -> tuple[Snapshot, CompactionCounts]:
        """The version after it, and what it replaced; the same version if nothing would be gained.

        Raises RetryableConflictError when others were faster again and again, or at once for a
        serializable compaction.
        """
        persistence = self.terms.persistence
        limit = 1 if self.terms.policy.serializable else persistence.executions
        started = persistence.clock()
        for execution in range(limit):
            if execution:
                persistence.pause(execution)
                snapshot = snapshot.newest()
            groups = self._rewritten(snapshot)
            if not groups:
                return snapshot, CompactionCounts()
            try:
                return self._landed(snapshot, groups)
            except RetryableConflictError as conflict:
                last = conflict
        if limit == 1:
            raise last
        seconds = persistence.clock() - started
        raise RetryableConflictError(
            f"{snapshot.place.uri} was compacted {limit} times in {seconds:.1f} s, and each time "
            "other writers changed the same fragments; run it again when fewer are active. The "
            f"last conflict: {last.message}",
            **{**last.facts, "attempts": limit, "seconds": seconds},
        ) from last

    def _rewritten(self, snapshot: Snapshot) -> list[RewriteGroup]:
        """Bins and what was written in their place; the new fragments have no ids yet."""
        check_compactable(snapshot)
        snapshot.check_open()
        bins = self._bins(snapshot.manifest)
        if bins:
            self.terms.policy.publisher.check_trust(snapshot.place.store)
        work = partial(rewrite_bin, snapshot.bare(), self.goal)
        done: Sequence[RewrittenBin] = gather(
            self.runner, work, bins, what="compacting", snapshot=snapshot
        )
        return [RewriteGroup(old, new.new_fragments) for old, new in zip(bins, done, strict=True)]

    def _bins(self, manifest: Manifest) -> list[tuple[Fragment, ...]]:
        bins = plan_bins(FragmentSizes.of(manifest), self.goal)
        return [tuple(manifest.fragments[each.start : each.stop]) for each in bins]

    def _landed(
        self, snapshot: Snapshot, groups: list[RewriteGroup]
    ) -> tuple[Snapshot, CompactionCounts]:
        try:
            base, groups = self._numbered(snapshot, groups)
        except BaseException:
            _discard(snapshot, groups)  # only a commit that was not tried yet would name the files
            raise
        for attempt in range(self.terms.persistence.executions):
            transaction = Transaction.new(
                base.manifest.version, Rewrite(tuple(groups)), properties=self.terms.properties
            )
            try:
                return base.commit(transaction, self.terms.policy), _counted(groups)
            except CommitUnknownError:
                raise
            except RetryableConflictError as conflict:
                last = conflict
            except LancewoodError:
                _discard(snapshot, groups)
                raise
            try:
                newest = snapshot.newest()
                kept, lost = _sifted(snapshot, newest, groups)
                if self.terms.policy.serializable or not kept:
                    break
                self.terms.persistence.pause(attempt)
            except BaseException:
                _discard(snapshot, groups)
                raise
            _discard(snapshot, lost)
            base, groups = newest, kept
        _discard(snapshot, groups)
        raise last

    def _numbered(
        self, snapshot: Snapshot, groups: Sequence[RewriteGroup]
    ) -> tuple[Snapshot, list[RewriteGroup]]:
        """The groups with ids that no one else has, and the version to commit them on."""
        count = sum(len(each.new_fragments) for each in groups)
        if not count:
            return snapshot, list(groups)
        reserve = Transaction.new(snapshot.manifest.version, ReserveFragments(count))
        after = snapshot.commit(reserve, self.terms.policy)
        last = after.manifest.max_fragment_id
        assert last is not None, "fragments were just reserved"
        free = iter(range(last - count + 1, last + 1))
        numbered = [
            RewriteGroup(
                each.old_fragments,
                tuple(new.numbered(FragmentId(next(free))) for new in each.new_fragments),
            )
            for each in groups
        ]
        # A serializable commit tolerates nothing in between, not even our own reservation, which
        # itself was only possible because nothing was in between.
        return (after if self.terms.policy.serializable else snapshot), numbered


def _sifted(
    read: Snapshot, newest: Snapshot, groups: Iterable[RewriteGroup]
) -> tuple[list[RewriteGroup], list[RewriteGroup]]:
    """The groups that could just as well have been read from the newest version, and the others."""
    is_same_schema = read.manifest.message.fields == newest.manifest.message.fields
    coverage = [each.fragments for each in newest.manifest.indices]
    kept: list[RewriteGroup] = []
    lost: list[RewriteGroup] = []
    for each in groups:
        is_kept = is_same_schema and _is_unchanged(newest.manifest, coverage, each)
        (kept if is_kept else lost).append(each)
    return kept, lost


def _is_unchanged(newest: Manifest, coverage: Sequence[BitMap], group: RewriteGroup) -> bool:
    for old in group.old_fragments:
        position = newest.position_of(old.id)
        if position is None or newest.fragments[position].message != old.message:
            return False
    ids = BitMap(each.id for each in group.old_fragments)
    return all(ids.issubset(each) or ids.isdisjoint(each) for each in coverage)


def _discard(snapshot: Snapshot, groups: Iterable[RewriteGroup]) -> None:
    snapshot.discard(new_data_files(new for each in groups for new in each.new_fragments))


def _counted(groups: Sequence[RewriteGroup]) -> CompactionCounts:
    old = [fragment for each in groups for fragment in each.old_fragments]
    new = [fragment for each in groups for fragment in each.new_fragments]
    return CompactionCounts(
        fragments_removed=len(old),
        fragments_added=len(new),
        files_removed=sum(len(each.files) + (each.deletion_file is not None) for each in old),
        files_added=sum(len(each.files) for each in new),
    )
