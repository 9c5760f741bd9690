"""Merging the rows of a frame into a table: what ``Table.merge`` does, with the join on Spark.

The frame is computed once: executors write its rows into staged files, and everything after that
reads those. Spark joins keys with addresses; the executors then change the rows. Only counts, and
what is known of each fragment, come to the driver. Staged files are removed in the end; those of
a task that Spark lost sight of stay, and cleanup finds them by age.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from lancewood.data.align import Alignment
from lancewood.engine.commit import PutIfAbsent
from lancewood.engine.snapshot import Snapshot
from lancewood.jobs.counts import RowCounts
from lancewood.jobs.job import Change, CommitOptions, execute
from lancewood.jobs.merge_into.condition import MatchCondition
from lancewood.jobs.merge_into.keys import Key, same_key
from lancewood.jobs.merge_into.merge import is_by_columns, key_filter, merge_operation
from lancewood.jobs.merge_into.source import (
    Choices,
    Matched,
    fit_condition,
    fit_schema,
)
from lancewood.jobs.rows.matching import check_movable
from lancewood.jobs.rows.updating import sample
from lancewood.model.schema import Schema
from lancewood.rules.overlaps import MOST_EXACT, KeyFilter
from lancewood.spark.merge_into.changes import MergeChanges, TaskDone, Weight, change, weigh_ways
from lancewood.spark.merge_into.key_join import FEW_ROWS, FoundIn, KeyJoin, Wanted
from lancewood.spark.merge_into.keys import (
    TableKeys,
    list_source,
    read_source_keys,
    read_table_keys,
)
from lancewood.spark.merge_into.planning import (
    in_table_order,
    one_each,
    plan_changes,
    source_messages,
    table_messages,
)
from lancewood.spark.merge_into.staged_source import (
    FrameColumns,
    StagedFiles,
    StagedSource,
    frame_columns,
    stage,
    without_flag,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FEW_BYTES = 128 << 20
_MARKS_PER_ROW = 8
"""Number of rows whose marking as deleted is the work of writing one."""


@dataclass(frozen=True)
class _Fit:
    """The frame as a source for one version of the table."""

    table: Schema
    columns: FrameColumns
    alignment: Alignment
    key: Key
    condition: MatchCondition | None
    deleted: str | None = None

    @classmethod
    def of(
        cls, df: DataFrame, snapshot: Snapshot, choices: Choices, deleted: str | None = None
    ) -> _Fit:
        """Raises InvalidInputError for whatever does not fit."""
        inserts = choices.not_matched == "insert"
        frame = df.schema
        if deleted is not None:
            frame = without_flag(frame, deleted, snapshot.arrow_schema, choices)
        columns = frame_columns(frame, snapshot, inserts=inserts)
        alignment, key = fit_schema(snapshot, columns.given, choices)
        condition = fit_condition(snapshot, alignment, choices)
        return cls(snapshot.schema, columns, alignment, key, condition, deleted)

    def needed(self, choices: Choices) -> Schema:
        """The columns of the frame that rows are made of, or told apart by."""
        columns = self.alignment.schema
        if choices.matched == "update" or choices.not_matched == "insert":
            return columns
        names = {path[0] for path in self.key.paths}
        names.update(() if self.condition is None else self.condition.source_columns)
        return Schema(tuple(each for each in columns.fields if each.name in names))

    def source(self, staged: StagedFiles) -> StagedSource:
        """The staged rows as rows of this version; raises InvalidInputError if they are not."""
        there = staged.columns.by_name
        columns = [each for each in self.alignment.schema.fields if each.name in there]
        source = StagedSource(staged, self.table, Schema(tuple(columns)), self.key, self.deleted)
        source.check_fit()
        return source


class FrameMerge:
    """The merge of a frame into a table: what ``Table.merge`` does.

    ``deleted`` names a boolean column that the frame has and the table has not: where it is true,
    the row of that key is deleted, and a key that is not there is passed over.

    Raises InvalidInputError for columns that do not fit; ``prepare`` does for rows that do not,
    before anything of the table changes.
    """

    def __init__(
        self,
        df: DataFrame,
        snapshot: Snapshot,
        choices: Choices,
        join: KeyJoin | None = None,
        *,
        deleted: str | None = None,
    ) -> None:
        self._df = df
        self._snapshot = snapshot
        self._choices = choices
        self._join = KeyJoin(df.sparkSession) if join is None else join
        self._deleted = deleted
        self._fit = _Fit.of(df, snapshot, choices, deleted)
        self._staged: StagedFiles | None = None
        self._source: StagedSource | None = None

    def run(self, commit_options: CommitOptions | None = None) -> tuple[Snapshot, RowCounts]:
        """The version after the merge, and what became of rows.

        Raises what ``Table.merge`` raises, and what Spark raises for the frame itself. The two rows
        of a key that occurs twice are not named: rows of a frame have no numbers.
        """
        try:
            return execute(self._snapshot, self.prepare, commit_options)
        finally:
            self.close()

    def prepare(self, snapshot: Snapshot) -> Change[RowCounts]:
        """Find what changes in one version, and write it."""
        snapshot.check_writable()
        PutIfAbsent().check_trust(snapshot.location.store)
        source = self._source_for(snapshot)
        found = self._match(snapshot, source)
        pairs = sum(each.pairs for each in found.values())
        inserted = self._unmatched(source, pairs)
        changed = work_by_fragment(snapshot, found, self._choices.matched)
        if not changed and not inserted:
            return Change(None, RowCounts(unchanged=pairs))
        choices = self._choices
        job = MergeChanges(snapshot.bare(), source, choices.matched, self._fit.condition)
        is_moving = choices.matched == "update" and pairs > 0
        only_updates = is_moving and not inserted and not any(e.alone for e in found.values())
        only_updates = only_updates and self._deleted is None
        by_columns = is_by_columns(source, choices.rewrite, only_updates=only_updates)
        if by_columns is None:
            by_columns = columns_are_less(self._join, snapshot, job, list(changed))
        if not by_columns and (inserted or is_moving):
            check_movable(snapshot)
        wants_hashes = 0 < sum(inserted.values()) <= MOST_EXACT
        job = replace(job, by_columns=by_columns, wants_hashes=wants_hashes)
        tasks = plan_changes(snapshot, changed, inserted, self._join.slots)
        done = self._join.run(
            partial(change, job),
            tasks,
            what="writing rows",
            wanted=Wanted.ALONE if choices.matched == "ignore" else Wanted.ALL,
            leftover=lambda each: snapshot.discard(each.files),
        )
        kept = pairs if choices.matched == "ignore" else 0
        return _change(source, done, sum(inserted.values()), kept, by_columns=by_columns)

    def _source_for(self, snapshot: Snapshot) -> StagedSource:
        """The rows of the frame, for one version; staged when they are first asked for."""
        if snapshot.schema != self._fit.table:
            fit = _Fit.of(self._df, snapshot, self._choices, self._deleted)
            self._fit, self._source = fit, None
        if self._source is None:
            fit = self._fit
            if self._staged is None:
                columns = fit.needed(self._choices)
                self._staged = stage(self._df, fit.columns, snapshot, columns, self._deleted)
            source = fit.source(self._staged)
            self._read_keys(source)
            self._source = source
        return self._source

    def _read_keys(self, source: StagedSource) -> None:
        staged = source.staged
        twice = self._join.read_source(
            source.key,
            partial(read_source_keys, source),
            source_messages(staged, self._join.slots),
            is_small=staged.row_count <= FEW_ROWS and staged.bytes <= _FEW_BYTES,
        )
        if twice is not None:
            names = list(dict.fromkeys(path[0] for path in source.key.paths))
            rows = source.at(np.array(twice[:1]), names)
            raise same_key(source.key, source.key.values(rows), 0, "two rows of the source have")

    def _match(self, snapshot: Snapshot, source: StagedSource) -> Mapping[int, FoundIn]:
        """Pair the keys of table and source; returns what was found in each fragment of the
        table."""
        wants_orphans = self._choices.not_matched_by_source == "delete"
        messages = table_messages(snapshot, self._join.slots)
        if not messages or not (source.staged.row_count or wants_orphans):
            return {}
        keys = TableKeys(snapshot.bare(), source.key, wants_orphans)
        return self._join.match(
            partial(read_table_keys, keys), messages, keeps_unmatched=wants_orphans
        )

    def _unmatched(self, source: StagedSource, pairs: int) -> Mapping[int, int]:
        """How many rows of each staged file are inserted."""
        if self._choices.not_matched == "ignore" or not source.staged.row_count:
            return {}
        messages = source_messages(source.staged, self._join.slots)
        return self._join.unmatched(partial(list_source, source), messages, pairs)

    def close(self) -> None:
        """Remove the staged files, and let Spark forget. Best effort."""
        with suppress(Exception):  # a session that was stopped has forgotten already
            self._join.close()
        if self._staged is not None:
            self._staged.snapshot.discard(self._staged.files)
            self._staged = None


def work_by_fragment(
    snapshot: Snapshot, found: Mapping[int, FoundIn], matched: Matched
) -> dict[int, int]:
    """The fragments that may change, in the order of the table, and how much work each is."""
    work = {
        each: (here.pairs if matched == "update" else 0)
        + (here.pairs * (matched == "delete") + here.alone) // _MARKS_PER_ROW
        for each, here in found.items()
        if here.alone or (here.pairs and matched != "ignore")
    }
    return {each: work[each] for each in in_table_order(snapshot, list(work))}


def columns_are_less(
    join: KeyJoin, snapshot: Snapshot, job: MergeChanges, changed: list[int]
) -> bool:
    """Whether less is written if columns are rewritten in place."""
    weights: list[Weight] = join.run(
        partial(weigh_ways, job),
        one_each(snapshot, sample(changed)),
        what="weighing rows against columns",
    )
    return sum(each.columns for each in weights) < sum(each.rows for each in weights)


def hashed_keys(key: Key, done: Sequence[TaskDone]) -> KeyFilter:
    """What other writers are told of inserted rows."""
    hashes = [each.hashes for each in done if each.hashes is not None]
    return key_filter(key, np.concatenate(hashes) if hashes else None)


def _change(
    source: StagedSource, done: Sequence[TaskDone], inserted: int, kept: int, *, by_columns: bool
) -> Change[RowCounts]:
    """What the tasks did; ``kept`` are rows that match and went to no task."""
    counts = RowCounts(
        inserted=inserted,
        updated=sum(each.updated for each in done),
        deleted=sum(each.deleted for each in done),
        unchanged=kept + sum(each.unchanged for each in done),
    )
    if not (counts.inserted or counts.updated or counts.deleted):
        return Change(None, counts)
    keys = hashed_keys(source.key, done) if inserted else None
    operation = merge_operation(
        source, [each.changes for each in done], keys, by_columns=by_columns
    )
    return Change(operation, counts, tuple(file for each in done for file in each.files))
