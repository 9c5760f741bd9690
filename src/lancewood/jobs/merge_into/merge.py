"""Merging rows by key: the rows of a source update, delete or join the rows of the table.

The source is read once and kept in memory. Tasks read the key columns of the table, then the rows
that change. With a task travel only the rows of the source that it needs; in this process nothing
is copied. Inserted keys go into the transaction, so that two concurrent merges cannot both insert
the same key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lancewood.data.wanted import WantedColumns
from lancewood.engine.commit import PutIfAbsent
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import UnsupportedError
from lancewood.jobs.counts import RowCounts
from lancewood.jobs.job import Change, PreparedJob, gather, pack_fragments
from lancewood.jobs.merge_into.columns import ColumnChanges, change_columns
from lancewood.jobs.merge_into.key_hashes import hash_keys, is_hashed_by_pylance
from lancewood.jobs.merge_into.keys import Key, Positions
from lancewood.jobs.merge_into.rows import MergeWork, RowTask, change_rows, plan_row_tasks
from lancewood.jobs.merge_into.search import Found, Matches, find_matches, search_for
from lancewood.jobs.merge_into.source import (
    Choices,
    FittedSource,
    Matched,
    SourceRows,
    fit_rows,
    portion_rows,
    read_source,
    rows_at,
)
from lancewood.jobs.rows.matching import check_movable
from lancewood.jobs.rows.updating import Rewriting, Updated, sample, weigh
from lancewood.jobs.runner import Runner
from lancewood.model.schema import Schema
from lancewood.model.transaction import Delete, Operation, Update
from lancewood.rules.overlaps import MOST_EXACT, Hashes, KeyFilter, make_key_filter


class MergeRows(PreparedJob[RowCounts]):
    """A merge of a source into a table.

    The constructor raises InvalidInputError for anything wrong with the source.
    """

    def __init__(self, snapshot: Snapshot, source: Any, choices: Choices, runner: Runner) -> None:
        self._data = read_source(snapshot, source, choices)
        self._choices = choices
        self._runner = runner
        self._fitted = fit_rows(snapshot, self._data, choices)

    def plan(self, snapshot: Snapshot) -> RowCounts:
        plan = self._planned(snapshot)
        if not plan.is_empty:
            self._is_by_columns(snapshot, self._fitted, plan)
        return plan.counts

    def _planned(self, snapshot: Snapshot) -> MergePlan:
        snapshot.check_writable()
        if snapshot.schema != self._fitted.table:
            self._fitted = fit_rows(snapshot, self._data, self._choices)
        return plan_changes(self._find(snapshot, self._fitted), self._fitted, self._choices)

    def prepare(self, snapshot: Snapshot) -> Change[RowCounts]:
        """Find and write what changes in one version."""
        plan, source = self._planned(snapshot), self._fitted
        if plan.is_empty:
            return Change(None, plan.counts)
        by_columns = self._is_by_columns(snapshot, source, plan)
        PutIfAbsent().check_trust(snapshot.location.store)
        done = self._write(snapshot, source, plan, by_columns=by_columns)
        inserted = _inserted_keys(source, plan.inserted) if len(plan.inserted) else None
        operation = merge_operation(source, done, inserted, by_columns=by_columns)
        return Change(operation, plan.counts, tuple(key for each in done for key in each.files))

    def _find(self, snapshot: Snapshot, source: FittedSource) -> Sequence[Found]:
        choices = self._choices
        wants_orphans = choices.not_matched_by_source == "delete"
        if not len(source.index) and not wants_orphans:
            return ()
        search, fragments = search_for(
            source,
            snapshot,
            changes_matches=choices.matched != "ignore",
            wants_orphans=wants_orphans,
        )
        tasks = list(pack_fragments(fragments, self._runner.slots))
        return list(self._runner.run(partial(find_matches, search), tasks, what="matching keys"))

    def _is_by_columns(self, snapshot: Snapshot, source: FittedSource, plan: MergePlan) -> bool:
        """Whether columns are rewritten in place: if asked for, or if that writes less.

        Raises UnsupportedError if neither that nor moving rows is possible.
        """
        by_columns = self._writes_less(snapshot, source, plan)
        if not by_columns and (plan.counts.updated or len(plan.inserted)):
            check_movable(snapshot)
        return by_columns

    def _writes_less(self, snapshot: Snapshot, source: FittedSource, plan: MergePlan) -> bool:
        known = is_by_columns(source, self._choices.rewrite, only_updates=plan.only_updates)
        if known is not None:
            return known
        by_rows = by_columns = 0.0
        for each in sample(plan.matches):
            fragment = snapshot.manifest.fragment(each.fragment_id)
            wanted = WantedColumns(source.changed)
            moved, rewritten = weigh(snapshot, fragment, each.bitmap, wanted)
            by_rows, by_columns = by_rows + moved, by_columns + rewritten
        return by_columns < by_rows

    def _write(
        self, snapshot: Snapshot, source: FittedSource, plan: MergePlan, *, by_columns: bool
    ) -> list[Updated]:
        shared, matched = (snapshot.bare(), source.bare()), self._choices.matched
        if by_columns:
            work = partial(change_columns, ColumnChanges(*shared))
        else:
            work = partial(change_rows, MergeWork(*shared, matched))
        tasks = [
            replace(each, source=_needed(source, each, matched))
            for each in plan_row_tasks(snapshot, plan.matches, plan.inserted, self._runner.slots)
        ]
        return gather(self._runner, work, tasks, what="writing rows", snapshot=snapshot)


def _needed(source: FittedSource, task: RowTask, matched: Matched) -> SourcePart:
    """The rows of the source that a task needs: none for deleted rows."""
    updating = task.matches if matched == "update" else ()
    return SourcePart(source, task.inserted, *(each.positions for each in updating))


@dataclass(frozen=True, slots=True)
class MergePlan:
    """The rows that a merge changes in one version, and those that it inserts."""

    matches: Sequence[Matches]
    inserted: Positions
    """Rows of the source that are inserted."""
    counts: RowCounts

    @property
    def is_empty(self) -> bool:
        return not self.matches and not len(self.inserted)

    @property
    def only_updates(self) -> bool:
        return bool(self.counts.updated) and not self.counts.inserted and not self.counts.deleted


def plan_changes(found: Sequence[Found], source: FittedSource, choices: Choices) -> MergePlan:
    """The plan that follows from the matches in all parts of the table."""
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
        fragments=len(matches),
    )
    return MergePlan(matches, inserted, counts)


def is_by_columns(source: SourceRows, asked: Rewriting, *, only_updates: bool) -> bool | None:
    """Whether columns are rewritten in place; None if the sizes must decide.

    Raises UnsupportedError if it is asked for and impossible.
    """
    columns = source.changed
    sets_blobs = any(each.is_blob for each in columns.fields)
    if asked == "columns" and sets_blobs:
        raise UnsupportedError("a column of blobs cannot be rewritten in place: use rewrite='rows'")
    if not columns.fields or sets_blobs or asked == "rows" or not only_updates:
        return False
    if asked == "columns" or any(each.is_blob for each in source.table.fields):
        return True
    return None


def merge_operation(
    source: SourceRows, done: Sequence[Updated], inserted: KeyFilter | None, *, by_columns: bool
) -> Operation:
    """The results of a merge's tasks as one operation; ``inserted`` are the keys of new rows, None
    if there are none."""
    removed = tuple(each for part in done for each in part.removed)
    updated = tuple(each for part in done for each in part.updated)
    new = tuple(each for part in done for each in part.new)
    if not new and not by_columns:
        return Delete(updated, removed)
    changed = tuple(each.id for each in source.changed.walk())
    # No index covers inserted rows, whatever columns it is on.
    unlike = changed if inserted is None else tuple(each.id for each in source.table.walk())
    return Update(
        removed_fragment_ids=removed,
        updated_fragments=updated,
        new_fragments=new,
        fields_modified=changed if by_columns else (),
        fields_for_preserving_frag_bitmap=() if by_columns else unlike,
        rewrites_columns=by_columns,
        inserted_rows=inserted,
        updated_offsets={key: each for part in done for key, each in part.offsets.items()},
    )


def _inserted_keys(source: FittedSource, inserted: Positions) -> KeyFilter:
    """The inserted keys, except those with a null, which never match."""
    key = source.key
    whole = np.intersect1d(inserted, source.index.rows, assume_unique=True)
    if len(whole) > MOST_EXACT:
        return key_filter(key, None)
    columns = [each.take(pa.array(whole)) for each in key.values(source.rows)]
    return key_filter(key, hash_keys(columns))


def key_filter(key: Key, hashes: Hashes | None) -> KeyFilter:
    """The filter of the keys with these hashes; hashes are None if there are too many."""
    is_told = all(map(is_hashed_by_pylance, key.types)) and all(len(p) == 1 for p in key.paths)
    return make_key_filter(key.field_ids, hashes, is_known_to_pylance=is_told)


class SourcePart(SourceRows):
    """Some rows of a source in this process, by their positions in the whole source."""

    def __init__(self, whole: FittedSource, *needed: Positions) -> None:
        self._whole = whole
        self._needed = needed
        self.table, self.columns, self.key = whole.table, whole.columns, whole.key

    @property
    def portion_rows(self) -> int:
        return self._whole.portion_rows

    def at(self, positions: Positions, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        return self._whole.at(positions, columns)

    def __reduce__(self) -> tuple[Any, ...]:
        locations = np.unique(np.concatenate((*self._needed, np.empty(0, np.int64))))
        rows = self._whole.rows.take(pa.array(locations)).combine_chunks()
        return TravelledPart, (self.table, self.columns, self.key, locations, rows)


@dataclass(frozen=True)
class TravelledPart(SourceRows):
    """A SourcePart after pickling, with its rows."""

    table: Schema
    columns: Schema
    key: Key
    locations: Positions
    """The positions of the rows in the whole source, ascending."""
    rows: pa.Table

    @property
    def portion_rows(self) -> int:
        return portion_rows(self.rows.nbytes / max(self.rows.num_rows, 1))

    def at(self, positions: Positions, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        rows = self.rows if columns is None else self.rows.select(columns)
        return rows_at(rows, np.searchsorted(self.locations, positions))
