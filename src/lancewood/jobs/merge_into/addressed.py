"""Changing rows that somebody else has found: new values by row address, rows that go, new rows.

For changes that are computed by a query engine, with conditions and expressions that are its own.
What is found holds for one version: after a conflict it is asked for again, on the newest one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from lancewood.data.align import align_schema
from lancewood.data.wanted import WantedColumns
from lancewood.data.writer import ValueCheck
from lancewood.engine.base import Addresses
from lancewood.engine.commit import PutIfAbsent
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import InvalidInputError
from lancewood.jobs.counts import RowCounts
from lancewood.jobs.job import Change, PreparedJob, gather
from lancewood.jobs.merge_into.columns import ColumnChanges, change_columns
from lancewood.jobs.merge_into.key_hashes import hash_keys, whole_keys
from lancewood.jobs.merge_into.keys import Key, resolve_key
from lancewood.jobs.merge_into.merge import SourcePart, is_by_columns, key_filter, merge_operation
from lancewood.jobs.merge_into.rows import MergeWork, RowTask, change_rows, plan_row_tasks
from lancewood.jobs.merge_into.search import Matches, matches_of
from lancewood.jobs.merge_into.source import FittedSource
from lancewood.jobs.rows.matching import check_movable
from lancewood.jobs.rows.updating import sample, weigh
from lancewood.jobs.runner import Runner
from lancewood.model.schema import Schema
from lancewood.rules.overlaps import MOST_EXACT, KeyFilter, make_key_filter

NO_KEY = Key((), (), ())
"""Rows are told apart by their addresses."""
_NO_ADDRESSES: Addresses = np.empty(0, np.uint64)


@dataclass(frozen=True)
class RowChanges:
    """What becomes of rows of one version. No address occurs twice."""

    updated: Addresses = field(default_factory=lambda: _NO_ADDRESSES)
    values: pa.Table = field(default_factory=lambda: pa.table({}))
    """New values of the columns that are set, a row for each updated row."""
    deleted: Addresses = field(default_factory=lambda: _NO_ADDRESSES)
    new: pa.Table = field(default_factory=lambda: pa.table({}))
    """Rows to be inserted."""
    unchanged: int = 0
    """Rows that were looked at, and stay as they are."""
    on: tuple[str, ...] | None = None
    """The columns by which new rows were found to be new; None where that was another condition.
    Two writers cannot both insert the same key."""
    serializable: bool = False
    """Whether they depend on other rows of the version than those that they change."""

    @property
    def counts(self) -> RowCounts:
        return RowCounts(
            inserted=self.new.num_rows,
            updated=len(self.updated),
            deleted=len(self.deleted),
            unchanged=self.unchanged,
        )


Find: TypeAlias = Callable[[Snapshot], RowChanges]
"""Finds the changes of a version; called again for a newer one after a conflict."""


class ChangeRows(PreparedJob[RowCounts]):
    """Changes that a function finds in a version."""

    def __init__(self, find: Find, runner: Runner) -> None:
        self._find = find
        self._runner = runner

    def plan(self, snapshot: Snapshot) -> RowCounts:
        return _Fitted.of(snapshot, self._find(snapshot)).counts

    def prepare(self, snapshot: Snapshot) -> Change[RowCounts]:
        """Write what changes; raises InvalidInputError first for values that do not fit."""
        snapshot.check_writable()
        changes = self._find(snapshot)
        found = _Fitted.of(snapshot, changes)
        counts = found.counts
        if not (counts.inserted or counts.updated or counts.deleted):
            return Change(None, counts)
        by_columns = found.is_by_columns(snapshot)
        if not by_columns and (counts.updated or counts.inserted):
            check_movable(snapshot)
        PutIfAbsent().check_trust(snapshot.location.store)
        tasks = found.tasks(snapshot, self._runner.slots)
        shared = snapshot.bare(), found.values.bare()
        if by_columns:
            work = partial(change_columns, ColumnChanges(*shared))
        else:
            work = partial(change_rows, MergeWork(*shared, "update"))
        done = gather(self._runner, work, tasks, what="writing rows", snapshot=snapshot)
        operation = merge_operation(
            found.values, done, found.inserted_keys(), by_columns=by_columns
        )
        files = tuple(file for each in done for file in each.files)
        counts = replace(counts, fragments=len(found.matches))
        return Change(operation, counts, files, changes.serializable)


@dataclass(frozen=True)
class _Fitted:
    """Changes whose values fit the table."""

    values: FittedSource
    new: FittedSource
    matches: Sequence[Matches]
    counts: RowCounts
    on: tuple[str, ...] | None

    @classmethod
    def of(cls, snapshot: Snapshot, changes: RowChanges) -> _Fitted:
        """Raises InvalidInputError for columns and values that do not fit."""
        if len(np.unique(changes.updated)) < len(changes.updated):
            raise InvalidInputError("a row is to be updated twice")
        values = fit_values(snapshot, changes.values, is_new=False)
        new = fit_values(snapshot, changes.new, is_new=True)
        positions = np.arange(len(changes.updated), dtype=np.int64)
        matches = matches_of(changes.updated, positions, changes.deleted)
        return cls(values, new, matches, changes.counts, changes.on)

    def is_by_columns(self, snapshot: Snapshot) -> bool:
        """Whether columns are rewritten in place: where that alone is possible, or writes less."""
        counts = self.counts
        only_updates = bool(counts.updated) and not counts.inserted and not counts.deleted
        known = is_by_columns(self.values, "auto", only_updates=only_updates)
        if known is not None:
            return known
        by_rows = by_columns = 0.0
        wanted = WantedColumns(self.values.changed)
        for each in sample(self.matches):
            fragment = snapshot.manifest.fragment(each.fragment_id)
            moved, rewritten = weigh(snapshot, fragment, each.bitmap, wanted)
            by_rows, by_columns = by_rows + moved, by_columns + rewritten
        return by_columns < by_rows

    def tasks(self, snapshot: Snapshot, slots: int) -> list[RowTask]:
        """The work, each with the rows that it needs."""
        inserted = np.arange(self.counts.inserted, dtype=np.int64)
        return [
            replace(
                each,
                source=SourcePart(self.values, *(one.positions for one in each.matches)),
                new=SourcePart(self.new, each.inserted),
            )
            for each in plan_row_tasks(snapshot, self.matches, inserted, slots)
        ]

    def inserted_keys(self) -> KeyFilter | None:
        """What other writers are told of the new rows; without a key, or for too many of them, what
        meets every other."""
        if not self.counts.inserted:
            return None
        key, rows = key_of(self.new.table, self.on), self.new.rows
        if key is None:
            return every_key(self.new.table)
        if rows.num_rows > MOST_EXACT:
            return key_filter(key, None)
        return key_filter(key, hash_keys(whole_keys(key.values(rows))))


def key_of(table: Schema, on: tuple[str, ...] | None) -> Key | None:
    """The key by which rows were found to be new; None if there is none, or of a type that is no
    key: then equality alone was asked for."""
    try:
        return None if on is None else resolve_key(table, on)
    except InvalidInputError:
        return None


def every_key(table: Schema) -> KeyFilter:
    """What meets the new rows of every other writer."""
    return make_key_filter(tuple(each.id for each in table.walk()), None, is_known_to_pylance=False)


def fit_values(snapshot: Snapshot, rows: pa.Table, *, is_new: bool) -> FittedSource:
    """Rows as rows of this version. Only those that are new need a value in every column that may
    not be null. Raises InvalidInputError for whatever does not fit."""
    table = snapshot.schema
    if not rows.num_columns:
        return FittedSource(table, Schema(()), rows, NO_KEY, None)
    if not is_new:
        given = set(rows.column_names)
        fields = (
            each if each.name in given else replace(each, nullable=True) for each in table.fields
        )
        table = replace(table, fields=tuple(fields))
    alignment = align_schema(table, rows.schema)
    check_values = ValueCheck(alignment.schema, snapshot.manifest.file_version)
    batches = []
    for batch in rows.to_batches():
        batches.append(alignment.cast(batch))
        check_values(batches[-1])
    fitted = pa.Table.from_batches(batches, alignment.arrow).combine_chunks()
    return FittedSource(snapshot.schema, alignment.schema, fitted, NO_KEY, None)
