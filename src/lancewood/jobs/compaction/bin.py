"""The work of a compaction: the live rows of some fragments, in order, in new data files.

Rows stay the rows they were: ids and versions go along. Nothing refers to the new files until a
commit does, and on any error they are removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from lancewood.data.small_fragments import SmallFragments
from lancewood.data.wanted import WantedColumns, has_dictionary
from lancewood.data.writer import write_fragments
from lancewood.engine.fanout import WORKERS, Task, in_order
from lancewood.engine.fragment_group import FragmentGroup, grouped
from lancewood.engine.fragments import open_fragment, small_fragments
from lancewood.engine.homes import NewFile, new_data_files
from lancewood.engine.masks import chosen
from lancewood.engine.rows import RowFacts
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import FormatError
from lancewood.format.arrow import to_arrow_schema
from lancewood.jobs.compaction.plan import CompactionGoal
from lancewood.jobs.rows.blob_values import with_blob_values
from lancewood.model.fragment import Fragment
from lancewood.model.rowids import FIRST_VERSION, RowIdSequence, RowVersions

_ENOUGH_ROWS = 65_536
_ENOUGH_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class RewrittenBin:
    """What a task has to tell: the new fragments, which have no ids yet."""

    new_fragments: tuple[Fragment, ...]

    @property
    def files(self) -> tuple[NewFile, ...]:
        """What was written."""
        return new_data_files(self.new_fragments)


def rewrite_bin(
    snapshot: Snapshot, goal: CompactionGoal, fragments: Sequence[Fragment]
) -> RewrittenBin:
    """Write the live rows of fragments anew, with every column of the table.

    ``snapshot`` may be bare. Where no row is left nothing is written.
    """
    facts = [RowFacts(snapshot, each) for each in fragments]
    arrow = to_arrow_schema(snapshot.schema).remove_metadata()
    written = write_fragments(
        pa.RecordBatchReader.from_batches(arrow, _joined(_rows(snapshot, facts), arrow)),
        snapshot.schema,
        homes=[snapshot.data_home],
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


def _rows(snapshot: Snapshot, facts: Sequence[RowFacts]) -> Iterator[pa.RecordBatch]:
    return in_order(_tasks(snapshot, facts), workers=WORKERS)


def _tasks(snapshot: Snapshot, facts: Sequence[RowFacts]) -> Iterator[Task[pa.RecordBatch]]:
    """The live rows of all fragments: small ones together, others one by one."""
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
    """The live rows of small fragments, which are read now."""
    group = FragmentGroup(snapshot, [each.fragment for each in facts], reader, facts)
    rows = group.rows if group.live is None else chosen(group.rows, group.live)
    return iter((rows,) if rows.num_rows else ())


def _live(snapshot: Snapshot, facts: RowFacts, wanted: WantedColumns) -> Iterator[pa.RecordBatch]:
    """The live rows of one fragment. Reading begins now."""
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
    """The same rows in fewer batches, each with exactly the table's types."""
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
    """New fragments with what was known of the rows that are in them now."""
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
