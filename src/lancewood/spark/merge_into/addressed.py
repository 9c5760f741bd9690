"""Changes that a query has found, with the address of each row, applied by executors.

What ``jobs.merge_into.addressed`` does in one process. The frame is computed once, into staged
files, as for a merge; its pairs need no join. After a conflict it is asked for again, on the newest
version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import pyarrow as pa

from lancewood.data.align import align_schema
from lancewood.data.wanted import WantedColumns
from lancewood.engine.commit import PutIfAbsent
from lancewood.engine.rows import open_fragment
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import InvalidInputError
from lancewood.format.schema import schema_from_arrow, to_arrow_schema
from lancewood.jobs.counts import RowCounts
from lancewood.jobs.job import Change, PreparedJob
from lancewood.jobs.merge_into.addressed import NO_KEY, every_key, key_of
from lancewood.jobs.merge_into.merge import is_by_columns, merge_operation
from lancewood.jobs.merge_into.source import portion_rows
from lancewood.jobs.rows.matching import check_movable
from lancewood.model.schema import Schema
from lancewood.rules.overlaps import MOST_EXACT
from lancewood.spark.merge_into.changes import MergeChanges, TaskDone, change
from lancewood.spark.merge_into.key_join import CHANGE, KeyJoin, KnownChanges, KnownCounts
from lancewood.spark.merge_into.keys import staged_numbers
from lancewood.spark.merge_into.merge import columns_are_less, hashed_keys, work_by_fragment
from lancewood.spark.merge_into.planning import plan_changes, source_messages
from lancewood.spark.merge_into.staged_source import StagedFiles, StagedSource, write_staged
from lancewood.spark.merge_into.task_rows import SOURCE, TARGET
from lancewood.spark.tasks import spread
from lancewood.spark.types import Writing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ADDRESS, _CHANGE = "__lancewood_row", "__lancewood_change"
"""The columns of staged changes before those of the table."""


@dataclass(frozen=True)
class FrameChanges:
    """A frame of changes: the address of a row, which change, and values, in this order."""

    frame: DataFrame
    values: tuple[str, ...]
    """The columns of the table that the values are for."""
    updated: tuple[str, ...]
    """The columns that updated rows get."""
    inserted: tuple[str, ...]
    """The columns that new rows get."""
    on: tuple[str, ...] | None
    """The key by which new rows were found to be new; None where that was another condition."""
    kinds: KnownChanges
    refused: int
    """The number of changes that are refused."""
    twice: Callable[[], InvalidInputError]
    """The error for a row of the table that is there twice."""
    refusal: Callable[[int], InvalidInputError]
    """The error for a number of refused rows."""
    serializable: bool
    """Whether they depend on other rows of the version than those that they change."""


class ChangeByFrame(PreparedJob[RowCounts]):
    """Changes that Spark computes for a version."""

    def __init__(self, find: Callable[[Snapshot], FrameChanges]) -> None:
        self._find = find

    def plan(self, snapshot: Snapshot) -> RowCounts:
        """What would change, as Spark counts it: values are not computed, and nothing is staged."""
        changes = self._find(snapshot)
        _Columns.of(snapshot, changes)
        rows = _named(changes).selectExpr(_ADDRESS, f"0L as {SOURCE}", _CHANGE)
        with _joining(changes) as join:
            return _counts(_taken(join, rows.toDF(TARGET, SOURCE, CHANGE), changes))

    def prepare(self, snapshot: Snapshot) -> Change[RowCounts]:
        """Stage what changes, and write it."""
        snapshot.check_writable()
        PutIfAbsent().check_trust(snapshot.location.store)
        changes = self._find(snapshot)
        columns = _Columns.of(snapshot, changes)
        with _joining(changes) as join:
            staged = write_staged(_named(changes), columns.writing, snapshot, columns.schema)
            try:
                return _Work(snapshot, changes, columns, staged, join).changed()
            finally:
                staged.snapshot.discard(staged.files)


@contextmanager
def _joining(changes: FrameChanges) -> Iterator[KeyJoin]:
    """What Spark finds of the changes, kept until the end of the block."""
    join = KeyJoin(changes.frame.sparkSession)
    try:
        yield join
    finally:
        with suppress(Exception):  # a session that was stopped has forgotten already
            join.close()


def _taken(join: KeyJoin, pairs: DataFrame, changes: FrameChanges) -> KnownCounts:
    """Raises InvalidInputError for rows of the table that are there twice, and for changes that are
    refused."""
    found = join.take(pairs, changes.kinds)
    if found is None:
        raise changes.twice()
    refused = found.kinds.get(changes.refused, 0)
    if refused:
        raise changes.refusal(refused)
    return found


def _counts(known: KnownCounts) -> RowCounts:
    """What becomes of rows, all fragments together."""
    found = known.found.values()
    return RowCounts(
        inserted=sum(known.inserted.values()),
        updated=sum(each.pairs for each in found),
        deleted=sum(each.alone for each in found),
        unchanged=known.kinds.get(0, 0),
    )


@dataclass(frozen=True)
class _Columns:
    """The columns of staged changes."""

    writing: Writing
    schema: Schema
    values: Schema
    new: Schema

    @classmethod
    def of(cls, snapshot: Snapshot, changes: FrameChanges) -> _Columns:
        """Raises InvalidInputError for columns that do not fit the table."""
        table = snapshot.schema
        new = _part(table, changes.inserted)
        if changes.inserted:
            align_schema(table, to_arrow_schema(new))
        stored = _part(table, changes.values)
        stored = Schema(tuple(replace(each, nullable=True) for each in stored.fields))
        named = pa.schema([(_ADDRESS, pa.int64()), (_CHANGE, pa.int32())])
        first = max(each.id for each in table.walk()) + 1
        schema = Schema((*schema_from_arrow(named, first_id=first).fields, *stored.fields))
        frame = _named(changes).schema
        writing = Writing(frame, to_arrow_schema(schema).remove_metadata())
        return cls(writing, schema, _part(table, changes.updated), new)


class _StagedValues(StagedSource):
    """Staged rows of which only some have values for these columns."""

    @cached_property
    def portion_rows(self) -> int:
        """Estimated from the size of the files, and from the first rows."""
        staged, names = self.staged, self.columns.names
        width = staged.bytes / max(staged.row_count, 1)
        if staged.raw and names:
            wanted = WantedColumns(_part(staged.columns, names))
            for rows in open_fragment(staged.snapshot, staged.fragment(0), wanted).batches():
                width = max(width, rows.nbytes / max(rows.num_rows, 1))
                break
        return portion_rows(width)


class _Work:
    """Staged changes of one version."""

    def __init__(
        self,
        snapshot: Snapshot,
        changes: FrameChanges,
        columns: _Columns,
        staged: StagedFiles,
        join: KeyJoin,
    ) -> None:
        self._snapshot = snapshot
        self._changes = changes
        self._staged = staged
        self._join = join
        self._key = key_of(snapshot.schema, changes.on)
        self._values = _StagedValues(staged, snapshot.schema, columns.values, NO_KEY)
        self._new = _StagedValues(staged, snapshot.schema, columns.new, self._key or NO_KEY)
        self._found = self._take()

    def _take(self) -> KnownCounts:
        messages = source_messages(self._staged, self._join.slots)
        if not messages:
            return KnownCounts({}, {}, {})
        read = partial(_read_changes, self._staged)
        columns = f"{TARGET} bigint, {SOURCE} bigint, {CHANGE} int"
        pairs = spread(self._changes.frame.sparkSession, messages).mapInArrow(read, columns)
        return _taken(self._join, pairs, self._changes)

    def changed(self) -> Change[RowCounts]:
        """Have executors write what changes."""
        snapshot, counts, key = self._snapshot, _counts(self._found), self._key
        if not (counts.inserted or counts.updated or counts.deleted):
            return Change(None, counts)
        changed = work_by_fragment(snapshot, self._found.found, "update")
        only_updates = bool(counts.updated) and not counts.inserted and not counts.deleted
        by_columns = is_by_columns(self._values, "auto", only_updates=only_updates)
        job = MergeChanges(snapshot.bare(), self._values, "update", None, new=self._new)
        if by_columns is None:
            by_columns = columns_are_less(self._join, snapshot, job, list(changed))
        if not by_columns and (counts.updated or counts.inserted):
            check_movable(snapshot)
        wants_hashes = key is not None and 0 < counts.inserted <= MOST_EXACT
        job = replace(job, by_columns=by_columns, wants_hashes=wants_hashes)
        done: list[TaskDone] = self._join.run(
            partial(change, job),
            plan_changes(snapshot, changed, self._found.inserted, self._join.slots),
            what="writing rows",
            leftover=lambda each: snapshot.discard(each.files),
        )
        keys = None
        if counts.inserted:
            keys = every_key(snapshot.schema) if key is None else hashed_keys(key, done)
        operation = merge_operation(
            self._values, [each.changes for each in done], keys, by_columns=by_columns
        )
        files = tuple(file for each in done for file in each.files)
        return Change(operation, counts, files, self._changes.serializable)


def _named(changes: FrameChanges) -> DataFrame:
    """The frame with the names of the table's columns."""
    return changes.frame.toDF(_ADDRESS, _CHANGE, *changes.values)


def _part(table: Schema, names: Sequence[str]) -> Schema:
    """Some columns of a table, in the given order."""
    return Schema(tuple(table.by_name[each] for each in names))


def _read_changes(
    staged: StagedFiles, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """For mapInArrow over a spread frame: the rows of the table, those of the staged files that
    they are paired with, and what becomes of them."""
    wanted = WantedColumns(_part(staged.columns, (_ADDRESS, _CHANGE)))
    for number in staged_numbers(batches):
        addresses, at = staged.addresses(number), 0
        for rows in open_fragment(staged.snapshot, staged.fragment(number), wanted).batches():
            here = addresses[at : at + rows.num_rows]
            at += rows.num_rows
            columns = [rows.column(_ADDRESS), pa.array(here), rows.column(_CHANGE)]
            yield pa.RecordBatch.from_arrays(columns, names=[TARGET, SOURCE, CHANGE])
