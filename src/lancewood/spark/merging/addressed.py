"""Changes that a query has found, with the address of each row, applied by executors.

What ``jobs.merging.addressed`` does in one process. The frame is computed once, into staged files,
as for a merge; its pairs need no join. After a conflict it is asked for again, on the newest
version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lancewood.data.align import align_schema
from lancewood.data.wanted import WantedColumns
from lancewood.engine.base import FileLimits
from lancewood.engine.commit import PutIfAbsent
from lancewood.engine.location import new_data_files
from lancewood.engine.rows import open_fragment
from lancewood.engine.snapshot import Snapshot
from lancewood.engine.write import FileWriter
from lancewood.errors import InvalidInputError
from lancewood.format.arrow import schema_from_arrow, to_arrow_schema
from lancewood.jobs.counts import RowCounts
from lancewood.jobs.job import Change, PreparedJob
from lancewood.jobs.merging.addressed import NO_KEY, inserted_keys
from lancewood.jobs.merging.columns import ColumnChanges, change_columns
from lancewood.jobs.merging.keys import Key, resolve_key
from lancewood.jobs.merging.merge import is_by_columns, key_filter, merge_operation
from lancewood.jobs.merging.rows import MergeWork, RowTask, Touched, write_rows
from lancewood.jobs.merging.source import portion_rows
from lancewood.jobs.rows.matching import check_movable
from lancewood.jobs.rows.updating import sample
from lancewood.model.schema import Schema
from lancewood.rules.inserted_keys import MOST_EXACT, KeyFilter
from lancewood.spark.merging.changes import MergeChanges, TaskDone, Weight, key_hashes, weigh_ways
from lancewood.spark.merging.key_join import CHANGE, KeyJoin, KnownChanges, KnownCounts
from lancewood.spark.merging.keys import staged_numbers
from lancewood.spark.merging.planning import (
    in_table_order,
    one_each,
    plan_changes,
    source_messages,
)
from lancewood.spark.merging.staged_source import StagedFiles, StagedSource
from lancewood.spark.merging.task_rows import SOURCE, TARGET, TaskRows
from lancewood.spark.tasks import spread
from lancewood.spark.types import Writing
from lancewood.spark.writing.work import WriteWork, decode_answers
from lancewood.spark.writing.work import write_rows as write_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ADDRESS, _CHANGE = "__lancewood_row", "__lancewood_change"
"""The columns of staged changes before those of the table."""
_MARKS_PER_ROW = 8
"""To mark so many rows as deleted is the work of writing one."""


@dataclass(frozen=True)
class FrameChanges:
    """A frame of changes: the address of a row, which change, and values, in this order."""

    frame: DataFrame
    values: tuple[str, ...]
    """The columns of the table that the values are for."""
    updated: tuple[str, ...]
    """Those that updated rows get."""
    inserted: tuple[str, ...]
    """Those that new rows get."""
    on: tuple[str, ...] | None
    """The key by which new rows were found to be new; None where that was another condition."""
    kinds: KnownChanges
    refused: int
    """The number of changes that are refused."""
    twice: Callable[[], InvalidInputError]
    """The error for a row of the table that is there twice."""
    refusal: Callable[[int], InvalidInputError]
    """The error for so many refused rows."""


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
            staged = columns.stage(snapshot, changes.frame)
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

    def stage(self, snapshot: Snapshot, frame: DataFrame) -> StagedFiles:
        """All rows of the frame, written once. Raises the error of a row that does not fit."""
        bare = snapshot.bare()
        version = snapshot.manifest.file_version
        roots = [bare.default_file_root]
        files = FileWriter.of(self.schema, self.writing.schema, roots, version, FileLimits())
        renamed = frame.toDF(*self.schema.names)
        answers = decode_answers(write_frame(renamed, WriteWork(self.writing, files)))
        if answers.errors:
            snapshot.discard(new_data_files(answers.fragments))
            raise answers.errors[0]
        return StagedFiles.of(bare, self.schema, answers.fragments)


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
        self._key = _key(snapshot.schema, changes.on)
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

    @property
    def counts(self) -> RowCounts:
        return _counts(self._found)

    def changed(self) -> Change[RowCounts]:
        """Have executors write what changes."""
        snapshot, counts = self._snapshot, self.counts
        if not (counts.inserted or counts.updated or counts.deleted):
            return Change(None, counts)
        changed = {
            each: here.pairs + here.alone // _MARKS_PER_ROW
            for each, here in self._found.found.items()
        }
        changed = {each: changed[each] for each in in_table_order(snapshot, list(changed))}
        by_columns = self._is_by_columns(list(changed))
        if not by_columns and (counts.updated or counts.inserted):
            check_movable(snapshot)
        wants_hashes = self._key is not None and 0 < counts.inserted <= MOST_EXACT
        job = _Job(snapshot.bare(), self._values, self._new, by_columns, wants_hashes)
        done: list[TaskDone] = self._join.run(
            partial(_change, job),
            plan_changes(snapshot, changed, self._found.inserted, self._join.slots),
            what="writing rows",
            leftover=lambda each: snapshot.discard(each.files),
        )
        operation = merge_operation(
            self._values,
            [each.changes for each in done],
            self._keys(done) if counts.inserted else None,
            by_columns=by_columns,
        )
        return Change(operation, counts, tuple(file for each in done for file in each.files))

    def _is_by_columns(self, changed: list[int]) -> bool:
        """Whether columns are rewritten in place: where that alone is possible, or writes less."""
        counts = self.counts
        only_updates = bool(counts.updated) and not counts.inserted and not counts.deleted
        known = is_by_columns(self._values, "auto", only_updates=only_updates)
        if known is not None:
            return known
        job = MergeChanges(self._snapshot.bare(), self._values, "update", None)
        weights: list[Weight] = self._join.run(
            partial(weigh_ways, job),
            one_each(self._snapshot, sample(changed)),
            what="weighing rows against columns",
        )
        return sum(each.columns for each in weights) < sum(each.rows for each in weights)

    def _keys(self, done: Sequence[TaskDone]) -> KeyFilter:
        if self._key is None:
            return inserted_keys(self._snapshot.schema, None, None)
        hashes = [each.hashes for each in done if each.hashes is not None]
        return key_filter(self._key, np.concatenate(hashes) if hashes else None)


@dataclass(frozen=True)
class _Job:
    """What all tasks share. Pickles."""

    snapshot: Snapshot
    """Bare: fragments come with the tasks."""
    values: StagedSource
    new: StagedSource
    by_columns: bool
    wants_hashes: bool

    def __getstate__(self) -> dict[str, Any]:
        """Without what is worked out again elsewhere."""
        return {each.name: self.__dict__[each.name] for each in fields(self)}


def _change(job: _Job, rows: TaskRows) -> TaskDone:
    """The task: write what changes."""
    fragments = rows.fragments(job.snapshot.manifest.name)
    found = [rows.found_in(each.id) for each in fragments]
    if job.by_columns:
        task = RowTask(tuple(fragments), tuple(found), rows.inserted)
        changes = change_columns(ColumnChanges(job.snapshot, job.values), task)
    else:
        touched = [
            Touched(fragment, each.offsets, each.positions, each.orphans)
            for fragment, each in zip(fragments, found, strict=True)
        ]
        kept = MergeWork(job.snapshot, job.values, "update").kept
        new = job.new.whole_rows(rows.inserted)
        changes = write_rows(job.snapshot, touched, new, kept, job.values)
    hashes = key_hashes(job.new, rows.inserted) if job.wants_hashes else None
    deleted = sum(len(each.orphans) for each in found)
    return TaskDone(changes, len(rows.pairs), deleted, 0, hashes)


def _named(changes: FrameChanges) -> DataFrame:
    """The frame with the names of the table's columns."""
    return changes.frame.toDF(_ADDRESS, _CHANGE, *changes.values)


def _part(table: Schema, names: Sequence[str]) -> Schema:
    """Some columns of a table, in the given order."""
    return Schema(tuple(table.by_name[each] for each in names))


def _key(table: Schema, on: tuple[str, ...] | None) -> Key | None:
    try:
        return None if on is None else resolve_key(table, on)
    except InvalidInputError:  # of a type that is no key: equality alone was asked for
        return None


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
