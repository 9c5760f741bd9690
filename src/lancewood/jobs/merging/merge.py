"""Merging rows by key: the rows of a source update, delete or join the rows of the table.

The source is read once and kept. Of the table the columns of the key are read, in tasks, then the
rows that change. Keys that are inserted go into the transaction, so that two merges at once cannot
both insert one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lancewood.data.wanted import WantedColumns
from lancewood.engine.publish import PutIfAbsent
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import UnsupportedError
from lancewood.jobs.counts import RowCounts
from lancewood.jobs.execute import Change
from lancewood.jobs.gathering import gather
from lancewood.jobs.merging.columns import ColumnChanges, change_columns
from lancewood.jobs.merging.key_hashes import hash_keys, is_hashed_by_pylance
from lancewood.jobs.merging.keys import Positions
from lancewood.jobs.merging.rows import RowChanges, change_rows, plan_row_tasks
from lancewood.jobs.merging.search import Found, Matches, find_matches, search_for
from lancewood.jobs.merging.source import Choices, FittedSource, fit_rows, read_source
from lancewood.jobs.packing import pack_fragments
from lancewood.jobs.rows.moving import check_movable
from lancewood.jobs.rows.update_cost import sample, weigh
from lancewood.jobs.rows.updating import Updated
from lancewood.jobs.runner import Runner
from lancewood.model.operations import Delete, Operation, Update
from lancewood.rules.features import check_writable
from lancewood.rules.inserted_keys import MOST_EXACT, KeyFilter, make_key_filter


class MergeRows:
    """What a caller wants to be merged, and who does it.

    Whatever is wrong with the source is told when this is made, by an InvalidInputError.
    """

    def __init__(self, snapshot: Snapshot, source: Any, choices: Choices, runner: Runner) -> None:
        self._data = read_source(snapshot, source, choices)
        self._choices = choices
        self._runner = runner
        self._fitted = fit_rows(snapshot, self._data, choices)

    def plan(self, snapshot: Snapshot) -> Plan:
        """Find what changes in one version; writes nothing."""
        check_writable(snapshot.manifest)
        if snapshot.schema != self._fitted.table:
            self._fitted = fit_rows(snapshot, self._data, self._choices)
        return plan_changes(self._find(snapshot, self._fitted), self._fitted, self._choices)

    def prepare(self, snapshot: Snapshot) -> Change[RowCounts]:
        """Find what changes in one version, and write it."""
        plan, source = self.plan(snapshot), self._fitted
        if not plan.matches and not len(plan.inserted):
            return Change(None, plan.counts)
        by_columns = self._is_by_columns(snapshot, source, plan)
        if not by_columns and (plan.counts.updated or len(plan.inserted)):
            check_movable(snapshot)
        PutIfAbsent().check_trust(snapshot.place.store)
        done = self._write(snapshot, source, plan, by_columns=by_columns)
        operation = _operation(source, plan, done, by_columns=by_columns)
        return Change(operation, plan.counts, tuple(key for each in done for key in each.files))

    def _find(self, snapshot: Snapshot, source: FittedSource) -> Sequence[Found]:
        choices = self._choices
        wants_orphans = choices.not_matched_by_source == "delete"
        if not len(source.index) and not wants_orphans:
            return ()
        search = search_for(
            source,
            snapshot,
            changes_matches=choices.matched != "ignore",
            wants_orphans=wants_orphans,
        )
        tasks = list(pack_fragments(snapshot.manifest.fragments, self._runner.slots))
        return list(self._runner.run(partial(find_matches, search), tasks, what="matching keys"))

    def _is_by_columns(self, snapshot: Snapshot, source: FittedSource, plan: Plan) -> bool:
        """Whether columns are rewritten in place: as asked for, or where it writes less."""
        columns, asked = source.changed, self._choices.rewrite
        sets_blobs = any(each.is_blob for each in columns.fields)
        if asked == "columns" and sets_blobs:
            raise UnsupportedError(
                "a column of blobs cannot be rewritten in place: use rewrite='rows'"
            )
        if not columns.fields or sets_blobs or asked == "rows" or not plan.only_updates:
            return False
        if asked == "columns" or any(each.is_blob for each in snapshot.schema.fields):
            return True
        by_rows = by_columns = 0.0
        for each in sample(plan.matches):
            fragment = snapshot.manifest.fragment(each.fragment_id)
            moved, rewritten = weigh(snapshot, fragment, each.bitmap, WantedColumns(columns))
            by_rows, by_columns = by_rows + moved, by_columns + rewritten
        return by_columns < by_rows

    def _write(
        self, snapshot: Snapshot, source: FittedSource, plan: Plan, *, by_columns: bool
    ) -> list[Updated]:
        bare = snapshot.bare()
        if by_columns:
            work = partial(change_columns, ColumnChanges(bare, source))
        else:
            work = partial(change_rows, RowChanges(bare, source, self._choices.matched))
        tasks = plan_row_tasks(snapshot, plan.matches, plan.inserted, self._runner.slots)
        return gather(self._runner, work, tasks, what="writing rows", snapshot=snapshot)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a merge changes in one version."""

    matches: Sequence[Matches]
    inserted: Positions
    """The rows of the source that are inserted."""
    counts: RowCounts

    @property
    def only_updates(self) -> bool:
        return bool(self.counts.updated) and not self.counts.inserted and not self.counts.deleted


def plan_changes(found: Sequence[Found], source: FittedSource, choices: Choices) -> Plan:
    """What follows from what was found in all parts of the table."""
    matches = [each for part in found for each in part.matches]
    matched = sum(len(each.offsets) for each in matches)
    orphans = sum(len(each.orphans) for each in matches)
    inserted = np.empty(0, np.int64)
    if choices.not_matched == "insert":
        is_new = np.ones(source.rows.num_rows, np.bool_)
        is_new[BitMap.union(BitMap(), *(each.seen for each in found)).to_array()] = False
        inserted = np.flatnonzero(is_new)
    counts = RowCounts(
        inserted=len(inserted),
        updated=matched if choices.matched == "update" else 0,
        deleted=orphans + (matched if choices.matched == "delete" else 0),
        unchanged=sum(each.unchanged for each in found),
    )
    return Plan(matches, inserted, counts)


def _operation(
    source: FittedSource, plan: Plan, done: Sequence[Updated], *, by_columns: bool
) -> Operation:
    removed = tuple(each for part in done for each in part.removed)
    updated = tuple(each for part in done for each in part.updated)
    new = tuple(each for part in done for each in part.new)
    if not new and not by_columns:
        return Delete(updated, removed)
    changed = tuple(each.id for each in source.changed.walk())
    # An index knows nothing of rows that are new in a fragment, whatever their columns.
    unlike = tuple(each.id for each in source.table.walk()) if len(plan.inserted) else changed
    return Update(
        removed_fragment_ids=removed,
        updated_fragments=updated,
        new_fragments=new,
        fields_modified=changed if by_columns else (),
        fields_for_preserving_frag_bitmap=() if by_columns else unlike,
        rewrites_columns=by_columns,
        inserted_rows=_inserted_keys(source, plan.inserted) if len(plan.inserted) else None,
        updated_offsets={key: each for part in done for key, each in part.offsets.items()},
    )


def _inserted_keys(source: FittedSource, inserted: Positions) -> KeyFilter:
    """The keys that are inserted. Keys with a null are not among them: nothing ever matches one."""
    key = source.key
    whole = np.intersect1d(inserted, source.index.rows, assume_unique=True)
    is_told = all(map(is_hashed_by_pylance, key.types)) and all(len(p) == 1 for p in key.paths)
    if len(whole) > MOST_EXACT:
        return make_key_filter(key.field_ids, None, is_known_to_pylance=is_told)
    columns = [each.take(pa.array(whole)) for each in key.values(source.rows)]
    return make_key_filter(key.field_ids, hash_keys(columns), is_known_to_pylance=is_told)
