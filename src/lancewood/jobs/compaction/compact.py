"""Compaction: the same rows in fewer fragments, without deleted rows.

Bins of neighbouring fragments are rewritten in tasks; rows keep their ids and versions. Then ids
are reserved for all new fragments, and one commit replaces the old ones. A bin that another writer
changed meanwhile is left out; if none remains, everything is planned again. Nothing refers to the
new files before the commit, and on an error they are removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import pyarrow as pa
from pyroaring import BitMap

from lancewood.data.small_fragments import SmallFragments
from lancewood.data.wanted import WantedColumns, has_dictionary
from lancewood.data.writer import check_columns, write_fragments
from lancewood.engine.base import WORKERS, Task, in_order
from lancewood.engine.location import NewFile, new_data_files
from lancewood.engine.rows import (
    FragmentGroup,
    RowFacts,
    chosen,
    grouped,
    open_fragment,
    small_fragments,
)
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import (
    CommitUnknownError,
    FormatError,
    LancewoodError,
    RetryableConflictError,
    UnsupportedError,
)
from lancewood.format.schema import to_arrow_schema
from lancewood.jobs.compaction.plan import (
    CompactionGoal,
    FragmentSizes,
    blocking_indices,
    plan_bins,
)
from lancewood.jobs.counts import CompactionCounts
from lancewood.jobs.job import CommitOptions, Job, gather
from lancewood.jobs.rows.blob_values import with_blob_values
from lancewood.jobs.runner import Runner
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId
from lancewood.model.index import SYSTEM_INDICES
from lancewood.model.manifest import Manifest
from lancewood.model.rowids import FIRST_VERSION, RowIdSequence, RowVersions
from lancewood.model.transaction import ReserveFragments, Rewrite, RewriteGroup, Transaction
from lancewood.rules.indices import check_no_fragment_reuse, with_rewritten_fragments

_ENOUGH_ROWS = 65_536
_ENOUGH_BYTES = 8 << 20


@dataclass(frozen=True)
class Compaction(Job[CompactionCounts]):
    """A compaction with all its settings."""

    goal: CompactionGoal
    runner: Runner

    def plan(self, snapshot: Snapshot) -> CompactionCounts:
        """What would be replaced; a new fragment may still become several if it is large."""
        check_compactable(snapshot)
        manifest = snapshot.manifest
        sizes = FragmentSizes.of(manifest)
        bins = plan_bins(sizes, self.goal)
        if not bins:
            return _nothing(manifest, sizes, self.goal)
        added = sum(bool(sizes.live[each.start : each.stop].any()) for each in bins)
        old = [[manifest.fragments[at] for at in each] for each in bins]
        rows = [int(sizes.live[each.start : each.stop].sum()) for each in bins]
        uncovered = _uncovered(manifest, old, rows)
        removed = list(chain.from_iterable(old))
        return CompactionCounts(len(removed), added, _count_files(removed), added, *uncovered)

    def run(
        self, snapshot: Snapshot, commit_options: CommitOptions
    ) -> tuple[Snapshot, CompactionCounts]:
        """The version after it, and the counts; the same version if nothing would be gained.

        Raises RetryableConflictError after too many conflicts, or after the first one if the
        compaction is serializable.
        """
        return _Compacting(self.goal, self.runner, commit_options).run(snapshot)


@dataclass(frozen=True)
class _Compacting:
    goal: CompactionGoal
    runner: Runner
    commit_options: CommitOptions

    def run(self, snapshot: Snapshot) -> tuple[Snapshot, CompactionCounts]:
        retry = self.commit_options.retry
        limit = 1 if self.commit_options.policy.serializable else retry.attempts
        started = retry.clock()
        for execution in range(limit):
            if execution:
                retry.pause(execution)
                snapshot = snapshot.newest()
            groups = self._rewritten(snapshot)
            if not groups:
                manifest = snapshot.manifest
                return snapshot, _nothing(manifest, FragmentSizes.of(manifest), self.goal)
            try:
                return self._landed(snapshot, groups)
            except RetryableConflictError as conflict:
                last = conflict
        if limit == 1:
            raise last
        seconds = retry.clock() - started
        raise RetryableConflictError(
            f"{snapshot.location.uri} was compacted {limit} times in {seconds:.1f} s, and each "
            "time other writers changed the same fragments; run it again when fewer are active. "
            f"The last conflict: {last.message}",
            **{**last.facts, "attempts": limit, "seconds": seconds},
        ) from last

    def _rewritten(self, snapshot: Snapshot) -> list[RewriteGroup]:
        """Bins and their new fragments, which have no ids yet."""
        check_compactable(snapshot)
        snapshot.check_open()
        manifest = snapshot.manifest
        ranges = plan_bins(FragmentSizes.of(manifest), self.goal)
        bins = [tuple(manifest.fragments[each.start : each.stop]) for each in ranges]
        if bins:
            self.commit_options.policy.publisher.check_trust(snapshot.location.store)
        work = partial(rewrite_bin, snapshot.bare(), self.goal)
        done: Sequence[RewrittenBin] = gather(
            self.runner, work, bins, what="compacting", snapshot=snapshot
        )
        return [RewriteGroup(old, new.new_fragments) for old, new in zip(bins, done, strict=True)]

    def _landed(
        self, snapshot: Snapshot, groups: list[RewriteGroup]
    ) -> tuple[Snapshot, CompactionCounts]:
        try:
            base, groups = self._numbered(snapshot, groups)
        except BaseException:
            _discard(snapshot, groups)  # no commit that names these files was tried yet
            raise
        for attempt in range(self.commit_options.retry.attempts):
            transaction = Transaction.new(
                base.manifest.version,
                Rewrite(tuple(groups)),
                properties=self.commit_options.properties,
            )
            try:
                counts = _counted(base.manifest, groups)
                return base.commit(transaction, self.commit_options.policy), counts
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
                if self.commit_options.policy.serializable or not kept:
                    break
                self.commit_options.retry.pause(attempt)
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
        """The groups with reserved ids, and the version to commit them on."""
        count = sum(len(each.new_fragments) for each in groups)
        if not count:
            return snapshot, list(groups)
        reserve = Transaction.new(snapshot.manifest.version, ReserveFragments(count))
        after = snapshot.commit(reserve, self.commit_options.policy)
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
        # A serializable commit tolerates nothing in between, not even our own reservation. Nothing
        # was in between when that was committed.
        return (after if self.commit_options.policy.serializable else snapshot), numbered


def _sifted(
    read: Snapshot, newest: Snapshot, groups: Iterable[RewriteGroup]
) -> tuple[list[RewriteGroup], list[RewriteGroup]]:
    """The groups that the newest version still has unchanged, and the others."""
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


def _nothing(manifest: Manifest, sizes: FragmentSizes, goal: CompactionGoal) -> CompactionCounts:
    """The counts where nothing is gained, and why."""
    return CompactionCounts(blocking_indices=tuple(blocking_indices(manifest, sizes, goal)))


def _counted(before: Manifest, groups: Sequence[RewriteGroup]) -> CompactionCounts:
    old = [fragment for each in groups for fragment in each.old_fragments]
    new = [fragment for each in groups for fragment in each.new_fragments]
    rows = [sum(new.physical_rows for new in each.new_fragments) for each in groups]
    uncovered = _uncovered(before, [each.old_fragments for each in groups], rows)
    return CompactionCounts(len(old), len(new), _count_files(old), _count_files(new), *uncovered)


def _uncovered(
    before: Manifest, bins: Iterable[Sequence[Fragment]], rows: Iterable[int]
) -> tuple[tuple[str, ...], int]:
    """The indices that do not follow the rows of some bins, and how many rows that are."""
    ids = [BitMap(old.id for old in each) for each in bins]
    after = with_rewritten_fragments(
        before.indices, [(each, each) for each in ids], ids_are_stable=before.has_stable_row_ids
    )
    lost = {
        old.uuid: old.fragments - new.fragments
        for old, new in zip(before.indices, after, strict=True)
    }
    names = {each.name for each in before.indices if lost[each.uuid]} - SYSTEM_INDICES
    gone = BitMap.union(BitMap(), *lost.values())
    count = sum(many for each, many in zip(ids, rows, strict=True) if not gone.isdisjoint(each))
    return tuple(sorted(names)), count


def _count_files(fragments: Iterable[Fragment]) -> int:
    return sum(len(each.files) + (each.deletion_file is not None) for each in fragments)


def check_compactable(snapshot: Snapshot) -> None:
    """Raise UnsupportedError for a table whose rows cannot be rewritten.

    That is one with blobs of the second layout, or with an index whose remapping pylance has
    deferred. Raises FormatError if a fragment is listed twice.
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


@dataclass(frozen=True, slots=True)
class RewrittenBin:
    """The result of a task: new fragments, which have no ids yet."""

    new_fragments: tuple[Fragment, ...]

    @property
    def files(self) -> tuple[NewFile, ...]:
        return new_data_files(self.new_fragments)


def rewrite_bin(
    snapshot: Snapshot, goal: CompactionGoal, fragments: Sequence[Fragment]
) -> RewrittenBin:
    """Write the live rows of fragments, with every column of the table, into new ones.

    ``snapshot`` may be bare. If no row is left nothing is written.
    """
    facts = [RowFacts(snapshot, each) for each in fragments]
    arrow = to_arrow_schema(snapshot.schema).remove_metadata()
    rows = in_order(_tasks(snapshot, facts), workers=WORKERS)
    written = write_fragments(
        pa.RecordBatchReader.from_batches(arrow, _joined(rows, arrow)),
        snapshot.schema,
        file_roots=[snapshot.default_file_root],
        file_version=snapshot.manifest.file_version,
        max_rows=goal.target_rows,
        max_bytes=goal.max_bytes,
    )
    if snapshot.manifest.has_stable_row_ids:
        try:
            written = list(_with_lineage(written, facts))
        except BaseException:
            snapshot.discard(new_data_files(written))
            raise
    return RewrittenBin(tuple(written))


def _tasks(snapshot: Snapshot, facts: Sequence[RowFacts]) -> Iterator[Task[pa.RecordBatch]]:
    """Tasks that read the live rows of all fragments: small ones together, others one by one."""
    wanted = WantedColumns(snapshot.schema)
    reader = small_fragments(snapshot, wanted)
    known = {each.fragment.id: each for each in facts}
    for group in grouped((each.fragment for each in facts), reader):
        some = [known[each.id] for each in group]
        if len(some) == 1:
            yield partial(_live, snapshot, some[0], wanted)
        else:
            yield partial(_live_together, snapshot, some, reader)


def _live_together(
    snapshot: Snapshot, facts: Sequence[RowFacts], reader: SmallFragments
) -> Iterator[pa.RecordBatch]:
    """The live rows of small fragments, read at once."""
    group = FragmentGroup(snapshot, [each.fragment for each in facts], reader, facts)
    rows = group.rows if group.live is None else chosen(group.rows, group.live)
    return iter((rows,) if rows.num_rows else ())


def _live(snapshot: Snapshot, facts: RowFacts, wanted: WantedColumns) -> Iterator[pa.RecordBatch]:
    """The live rows of one fragment. Reading begins at once."""
    batches = open_fragment(snapshot, facts.fragment, wanted).batches()
    return _filtered(snapshot, facts, batches)


def _filtered(
    snapshot: Snapshot, facts: RowFacts, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    position = 0
    for batch in batches:
        live = facts.live_mask(position, batch.num_rows)
        position += batch.num_rows
        if live is not None:
            batch = batch.filter(pa.array(live))
        if batch.num_rows:
            yield from with_blob_values(snapshot, facts.fragment, batch)


def _joined(batches: Iterator[pa.RecordBatch], arrow: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Join rows into fewer batches, each with exactly the table's types."""
    are_joined = not any(has_dictionary(each.type) for each in arrow)
    few: list[pa.RecordBatch] = []
    rows = size = 0
    for each in batches:
        few.append(each)
        rows, size = rows + each.num_rows, size + each.nbytes
        if not are_joined or rows >= _ENOUGH_ROWS or size >= _ENOUGH_BYTES:
            yield _as_one(few, arrow)
            few, rows, size = [], 0, 0
    if few:
        yield _as_one(few, arrow)


def _as_one(batches: Sequence[pa.RecordBatch], arrow: pa.Schema) -> pa.RecordBatch:
    whole = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    return pa.RecordBatch.from_arrays(whole.columns, schema=arrow)


def _with_lineage(written: Sequence[Fragment], facts: Sequence[RowFacts]) -> Iterator[Fragment]:
    """The new fragments with the ids and versions of their rows."""
    ids = RowIdSequence.concat([each.live_ids for each in facts])
    created = RowVersions.concat([_live_versions(each, each.created_at) for each in facts])
    updated = RowVersions.concat([_live_versions(each, each.last_updated_at) for each in facts])
    total = sum(each.physical_rows for each in written)
    if not len(ids) == len(created) == len(updated) == total:
        raise FormatError(
            f"fragments {', '.join(str(each.fragment.id) for each in facts[:8])} have {total} live "
            f"rows, but {len(ids)} row ids and {len(created)} and {len(updated)} versions of them"
        )
    start = 0
    for each in written:
        stop = start + each.physical_rows
        yield each.with_lineage(
            ids.slice(start, stop), created.slice(start, stop), updated.slice(start, stop)
        )
        start = stop


def _live_versions(facts: RowFacts, versions: RowVersions | None) -> RowVersions:
    if versions is None:
        versions = RowVersions.uniform(FIRST_VERSION, facts.fragment.physical_rows)
    return versions if facts.fragment.deletion_file is None else versions.without(facts.deleted)
