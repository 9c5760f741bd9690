"""A merge of two states of a table: its columns, its conflicts, and what is to be committed.

    1  three schemas become one
    2  which rows theirs changed, and which of those ours may have changed too (``touched_rows``)
    3  tasks decide the latter cell by cell, and write the merged ones
    4  fragments of theirs come by reference; rows of ours that are replaced are hidden

Conflicts that nothing decides are an error, and nothing has changed. Theirs is never written to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa

from lancewood.data.differing import Mask
from lancewood.engine.location import NewFile
from lancewood.engine.rows import distinct
from lancewood.engine.snapshot import Snapshot, common_version, main_location
from lancewood.engine.write import claim_space, owns_its_space
from lancewood.errors import IncompatibleConflictError
from lancewood.jobs.compose.next_version import open_config
from lancewood.jobs.counts import Merged
from lancewood.jobs.diff import paired_columns
from lancewood.jobs.job import TASKS_PER_SLOT, gather, shares
from lancewood.jobs.merge.conflicts import UnresolvedConflicts
from lancewood.jobs.merge.merge_bases import Bases
from lancewood.jobs.merge.merged_columns import (
    MergedColumns,
    checked_columns,
    combined,
    names_in_bases,
    with_columns_first,
)
from lancewood.jobs.merge.merged_version import MergedVersion, settings
from lancewood.jobs.merge.resolve import Resolve, decided_names, value_columns
from lancewood.jobs.merge.row_fates import MergedRows, TakenRows, WrittenRows
from lancewood.jobs.merge.row_tasks import (
    LOSERS,
    Handling,
    MergedPortion,
    MergePortion,
    MergeShape,
    conflict_batches,
    copy_rows,
    cut,
    merge_portion,
    used_decisions,
)
from lancewood.jobs.merge.same_key_rows import (
    KeyColumns,
    paired_by_key,
    shared_keys,
    without_inserted,
)
from lancewood.jobs.merge.touched_rows import (
    NOWHERE,
    RowLocations,
    RowRanges,
    ThreeWayComparison,
    TouchedRows,
    with_grafts,
)
from lancewood.jobs.merge_into.keys import key_of, primary_key
from lancewood.jobs.runner import Runner
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId
from lancewood.model.lines import history_of, line_of, space_of
from lancewood.model.manifest import Manifest
from lancewood.model.refs import MAIN, called
from lancewood.model.schema import Field, Schema
from lancewood.model.transaction import HeadChanges
from lancewood.rules.lineage import Lineage, as_in, by_names
from lancewood.rules.merged_schema import MergedColumn
from lancewood.rules.three_way import favoured_map

Detect: TypeAlias = Literal["cells", "rows", "tables"]


_FEW_ROWS = 10_000
"""A fragment with fewer rows comes as a whole, however few of them are taken."""


_MOST_IN_A_TASK = 100


@dataclass(frozen=True, eq=False)
class RowMerge:
    """Two states of a table that come from one base, or from several. Nothing is written."""

    base: Bases[Snapshot]
    ours: Snapshot
    theirs: Snapshot
    resolve: Resolve = field(default_factory=Resolve)
    detect: Detect = "cells"
    table: str = ""
    """The name of the table in conflicts."""
    rebuilt: frozenset[str] = frozenset()
    """Bases that are none, but show what a merge brought from a base that is gone."""

    def __post_init__(self) -> None:
        """Raises UnsupportedError for several bases whose columns do not go together."""
        if self.base.others:
            base = with_columns_first(self.base, self.ours, self.theirs)
            object.__setattr__(self, "base", base)

    @property
    def bases(self) -> tuple[Snapshot, ...]:
        """The bases, without what is below them."""
        return self.base.all

    @cached_property
    def columns(self) -> MergedColumns:
        """The merged schema; raises MergeConflictError if it cannot be told."""
        return checked_columns(self.base, self.ours, self.theirs, self.resolve)

    @cached_property
    def shape(self) -> MergeShape:
        """What all tasks share; raises InvalidInputError for rules that do not fit."""
        columns = self.columns
        made = MergeShape(
            tuple(each.bare() for each in self._states),
            self.base.numbered(),
            _with_fields(self.ours, columns),
            tuple((each.field, self._sides(each)) for each in columns.columns),
            self.table,
            None if self._key is None else self._key.key,
            self.resolve,
            self.detect == "rows",
        )
        _ = made.resolver
        return made

    @property
    def base_names(self) -> tuple[str, ...]:
        """The bases, as ``main:7``."""
        return tuple(each for each in map(state_name, self.bases) if each not in self.rebuilt)

    @property
    def is_fast_forward(self) -> bool:
        """Whether ours has not moved since the base; a branch that was made there and never written
        to has not."""
        history = history_of(self.ours.manifest)
        bases = (each for each in self.bases if state_name(each) not in self.rebuilt)
        return any(history_of(each.manifest) == history for each in bases)

    def conflict_batches(self) -> Iterator[pa.RecordBatch]:
        """All conflicts that nothing decides."""
        for touched in self.touched():
            for _, portion in self.cut(touched, slots=1):
                yield from conflict_batches(self.shape, portion)

    def used_decisions(self) -> frozenset[str]:
        """The conflicts on which there are decisions; others decide nothing."""
        if not decided_names(self.resolve):
            return frozenset()
        portions = (
            portion for touched in self.touched() for _, portion in self.cut(touched, slots=1)
        )
        return frozenset(name for each in portions for name in used_decisions(self.shape, each))

    def touched(self) -> Iterator[TouchedRows]:
        """The rows that theirs changed."""
        with_ours = self._converts or self._key is not None
        compared = ThreeWayComparison(
            self.bases,
            self.ours,
            self.theirs,
            self.base.below,
            self.columns.kept,
            with_ours,
            self._converts,
        )
        if self._key is None:
            return map(self._checked, compared.ranges())
        return iter((self._paired(compared, self._key),))

    def _paired(self, compared: ThreeWayComparison, key: KeyColumns) -> TouchedRows:
        """Rows that are one by their key; of different ones that got one key a side that is taken
        for all that is left keeps its own."""
        decisions = self.resolve.decisions
        given = () if decisions is None else (*decisions.schema.names, *value_columns(decisions))
        is_given = not {*key.names}.isdisjoint(given)
        touched, collisions = paired_by_key(self._checked(compared.whole()), key, is_given=is_given)
        side = LOSERS.get(self.resolve.rows or "")
        if collisions is None or side is None or len(self.bases) > 1:
            return touched
        lost = collisions.lost_by(side, touched.keyed)
        if lost is None:
            return touched
        changed, inserted = lost
        touched = self._checked(compared.whole(changed))
        touched, _ = paired_by_key(touched, key, np.concatenate((changed, inserted)))
        touched = without_inserted(touched, side, inserted)
        return replace(
            touched,
            key_collisions=touched.key_collisions.at(slice(0)),
            resolved_collisions=len(collisions.rows),
        )

    def shared_keys(self, touched: TouchedRows, found: Sequence[MergedPortion]) -> pa.Table | None:
        """The primary keys that several rows would have, as tasks decided; None if no key is in
        doubt."""
        if self._key is None or not touched.got_keys:
            return None
        decided = [each for portion in found for each in portion.keys]
        columns = shared_keys(touched, decided, self._key.read_ours(self.ours))
        return pa.Table.from_arrays(columns, names=list(self._key.key.names))

    def _checked(self, touched: TouchedRows) -> TouchedRows:
        self._check_ids(touched)
        if self._converts or len(self.bases) > 1:
            return touched
        return with_grafts(touched, by_rows=self.detect == "rows")

    def _check_ids(self, touched: TouchedRows) -> None:
        """Raise IncompatibleConflictError if rows that both inserted have the same ids because both
        lines chose one space, in two copies of the table."""
        both = touched.changed_by_both
        is_twice = both.ours.there & both.theirs.there & ~both.base.there
        spaces = {*map(space_of, both.firsts[is_twice].tolist())}
        for each in (self.theirs, self.ours) if spaces else ():
            head, main = each.manifest, main_location(each)
            if space_of(head.next_row_id) in spaces and not owns_its_space(main, head):
                raise IncompatibleConflictError(
                    f"{called(head.branch)} gives its rows ids that rows of another branch have: "
                    "both were made in copies of the table that did not know of each other. "
                    "Publish it, which gives its rows other ids, or reset it",
                    branch=head.branch,
                )

    def cut(self, touched: TouchedRows, slots: int) -> Iterator[tuple[RowRanges, MergePortion]]:
        """The rows that both may have changed, for tasks. Those that have other ids there come by
        themselves, and so do those that cannot stay where they are."""
        count, converts = slots * TASKS_PER_SLOT, self._converts
        both, moving = touched.changed_by_both, _in_grafted(touched, touched.changed_by_both)
        stirred, keyed = both.at(moving), _in_grafted(touched, touched.keyed)
        if converts:
            stirred = RowRanges.joined(both, touched.inserted_by_ours)
        else:
            for compared, chosen in self._compared(touched, ~moving):
                yield from cut(touched, both.at(chosen), count, Handling(compared=compared))
        yield from cut(touched, stirred, count, Handling(rewrites=True))
        for chosen, moves in ((~keyed, converts), (keyed, True)):
            handling = Handling(keeps_ids=True, rewrites=moves)
            yield from cut(touched, touched.keyed.at(chosen), count, handling)
        yield from cut(touched, touched.key_collisions, count, Handling(are_key_collisions=True))
        grafted = _in_grafted(touched, touched.key_taken)
        for chosen, moves in ((~grafted, converts), (grafted, True)):
            handling = Handling(key_is_taken=True, rewrites=moves)
            yield from cut(touched, touched.key_taken.at(chosen), count, handling)
        yield from cut(touched, touched.asked, count, Handling(rewrites=True, loses_key=True))

    def _compared(
        self, touched: TouchedRows, chosen: Mask
    ) -> Iterator[tuple[frozenset[str] | None, Mask]]:
        """Group rows that both may have changed by the columns in which they may differ, and those
        of the key if keys are in doubt; or None where these are not known. Other columns have the
        same files on both sides."""
        theirs, ours = touched.doubts_of_both
        is_doubtful = (theirs != NOWHERE) | (ours != NOWHERE)
        is_known = (
            chosen & is_doubtful & touched.changed_by_both.base.there & (not self.base.others)
        )
        here = len(touched.sides[1].doubts) + 1
        pairs = (theirs + 1) * here + ours + 1
        keys = frozenset(self._key.names if self._key is not None and touched.got_keys else ())
        groups = dict[frozenset[str], Mask]()
        for pair in distinct(pairs[is_known]).tolist():
            names = self._names_in(touched, *divmod(pair, here)) | keys
            groups[names] = groups.get(names, False) | (is_known & (pairs == pair))
        yield from groups.items()
        if (chosen & ~is_known).any():
            yield None, chosen & ~is_known

    def _names_in(self, touched: TouchedRows, theirs: int, ours: int) -> frozenset[str]:
        """The merged columns in which the rows of two doubts may differ, each given by its position
        after the first, or 0 for none."""
        there, here = (
            {pair.after.id for each in side.doubts[max(at - 1, 0) : at] for pair in each.columns}
            for side, at in zip(touched.sides, (theirs, ours), strict=True)
        )
        return frozenset(
            each.field.name
            for each in self.columns.columns
            if (each.theirs is not None and each.theirs.id in there)
            or (each.ours is not None and each.ours.id in here)
            or (each.base is not None and None in (each.theirs, each.ours))
        )

    @cached_property
    def _converts(self) -> bool:
        """Whether rows of ours have to be written anew for the merged schema."""
        return not all(each.is_ours for each in self.columns.columns)

    @cached_property
    def _key(self) -> KeyColumns | None:
        """The key by which rows are the same, if all states have it."""
        schema = self.columns.schema
        key = key_of(schema, primary_key(schema))
        if key is None:
            return None
        tops = {path[0] for path in key.paths}
        columns = [each for each in self.columns.columns if each.field.name in tops]
        sides = zip(*map(self._sides, columns), strict=True)
        fields = tuple(tuple(filter(None, side)) for side in sides)
        if any(len(side) < len(tops) for side in fields):
            return None
        return KeyColumns(key, tuple(each.field.name for each in columns), fields)

    @property
    def _states(self) -> tuple[Snapshot, ...]:
        return self.theirs, self.ours, *self.base

    def _sides(self, column: MergedColumn) -> tuple[Field | None, ...]:
        others = map(partial(self._as_in, column), self._states[3:], self._in_others)
        return column.theirs, column.ours, column.base, *others

    def _as_in(self, column: MergedColumn, state: Snapshot, there: Lineage) -> Field | None:
        """A column as a further base has it; ``there`` are its ids, by those of the first base."""
        known = self.columns.base_ids
        ids: Lineage = {new: there[old] for new, old in known.items() if old in there}
        if column.base is None:
            named = state.schema.by_name.get(column.field.name)
            if named is None or column.field.name not in self._names_in_bases:
                return None
            ids = by_names(Schema((named,)), Schema((column.field,)))
        return as_in(column.field, ids, state.schema.by_id)

    @cached_property
    def _names_in_bases(self) -> frozenset[str]:
        return names_in_bases(self.base)

    @cached_property
    def _in_others(self) -> tuple[Lineage, ...]:
        """Lineages from ids of the first base to those of each further base."""
        base = self.bases[0]
        return tuple(
            {
                old: new
                for each in paired_columns(base, state, common_version(base, state))
                for new, old in each.ids.items()
            }
            for state in self._states[3:]
        )


@dataclass(eq=False)
class PreparedMerge:
    """A merge that is prepared: what tasks decided and wrote, put together."""

    row_merge: RowMerge
    runner: Runner
    writes: bool = True
    """False for a dry run."""
    merged_rows: MergedRows = field(default_factory=MergedRows)
    files: list[NewFile] = field(default_factory=list)
    """Everything that was written for it."""
    brings: bool = False
    """Whether theirs has anything that the base has not: rows, columns or settings."""

    @property
    def left_out_indices(self) -> tuple[str, ...]:
        """Indices with segments that theirs built: they name rows of theirs, and stay there."""
        states = (*self.row_merge.base.all, self.row_merge.ours)
        known = {index.uuid for state in states for index in state.manifest.indices}
        theirs = self.row_merge.theirs.manifest.indices
        return tuple(sorted({index.name for index in theirs if index.uuid not in known}))

    def told(
        self, name: str, brought: int, uncovered: tuple[str, ...] = (), *, dry_run: bool = False
    ) -> Merged:
        """What the merge of a branch did; ``brought`` are files that were linked or copied, and
        ``uncovered`` indices that do not cover what came."""
        found, row_merge = self.merged_rows, self.row_merge
        return Merged(
            name,
            row_merge.theirs.manifest.version,
            row_merge.base_names,
            found.inserted,
            found.updated,
            found.deleted,
            found.joined,
            found.resolved,
            brought,
            found.written_rows,
            uncovered,
            self.left_out_indices,
            self.stale,
            is_fast_forward=row_merge.is_fast_forward,
            is_dry_run=dry_run,
            rewritten=found.rewritten,
        )

    @property
    def stale(self) -> int:
        """Number of decisions on conflicts that are not there, once all rows are decided."""
        return len(decided_names(self.row_merge.resolve) - self.merged_rows.used)

    def version(self, config: Mapping[str, str], *, moves_on: bool = False) -> MergedVersion:
        """The merge as it is to be committed. ``config`` are entries of ours' configuration that
        come with it; ``moves_on`` says that ours hands out other row ids from there on, whatever
        comes.

        Raises MergeConflictError if there are conflicts; then nothing that was written is left.
        """
        head = self._head(config)
        try:
            self._decide()
            adopted = self._adopt()
        except BaseException:
            self.discard()
            raise
        ours, theirs = self.row_merge.ours, self.row_merge.theirs
        return MergedVersion(
            ours,
            theirs,
            self.merged_rows,
            adopted,
            head,
            self.row_merge.columns,
            self.runner,
            self._fresh_ids,
            moves_on,
        )

    def discard(self) -> None:
        """Remove what was written."""
        self.row_merge.ours.discard(self.files)
        self.files.clear()

    def _fresh_ids(self, above: int) -> int:
        """The first row id of a space that ours claims; a dry run claims none."""
        if not self.writes:
            return above + 1
        ours = self.row_merge.ours
        mark = max(above, ours.manifest.next_row_id)
        return claim_space(main_location(ours), mark, line_of(ours.manifest))

    def _decide(self) -> None:
        row_merge, found = self.row_merge, UnresolvedConflicts()
        shape = replace(row_merge.shape, writes=self.writes)
        work = partial(merge_portion, shape)
        for touched in row_merge.touched():
            there = touched.sides[0]
            moved = len(there.inserted.counts) or len(there.deleted.counts)
            self.brings |= bool(there.doubts or moved)
            self.merged_rows.take(touched, touched.only_theirs)
            self.merged_rows.drop(touched, touched.deleted_by_theirs)
            self.merged_rows.graft(touched.grafts)
            self.merged_rows.resolved += touched.resolved_collisions
            pairs = list(row_merge.cut(touched, self.runner.slots))
            tasks = [portion for _, portion in pairs]
            done = gather(self.runner, work, tasks, what="merging rows", snapshot=row_merge.ours)
            self.files += [file for each in done for file in each.files]
            shared = row_merge.shared_keys(touched, done)
            if shared is not None:
                found.add_shared(shared)
            for (rows, _), each in zip(pairs, done, strict=True):
                self.merged_rows.decide(touched, rows, each)
                found.add(each.left)
        found.check(self.stale)

    def _adopt(self) -> dict[FragmentId, TakenRows]:
        """The fragments of theirs that come by reference; rows of others are copied."""
        theirs, columns = self.row_merge.theirs.manifest, self.row_merge.columns
        known = columns.theirs_ids
        is_alike = all(each.is_theirs(known) for each in columns.columns)
        adopted, copied = dict[FragmentId, TakenRows](), list[tuple[Fragment, TakenRows]]()
        for number, moved in self.merged_rows.taken():
            fragment = theirs.fragment(number)
            is_much = 2 * moved.row_count >= fragment.physical_rows
            if is_alike and (is_much or fragment.physical_rows < _FEW_ROWS):
                adopted[number] = moved
            else:
                copied.append((fragment, moved))
                self.merged_rows.written_rows += moved.row_count
        if copied and self.writes:
            self._copy(copied)
        return adopted

    def _copy(self, copied: Sequence[tuple[Fragment, TakenRows]]) -> None:
        shape, ours = self.row_merge.shape, self.row_merge.ours
        tasks = shares(copied, self.runner.slots, _MOST_IN_A_TASK)
        sent = [tuple((fragment, moved.rows) for fragment, moved in each) for each in tasks]
        work = partial(copy_rows, shape)
        done = gather(self.runner, work, sent, what="copying rows", snapshot=ours)
        for task, each in zip(tasks, done, strict=True):
            self.files += each.files
            parts = [moved.ours_places for _, moved in task]
            places = RowLocations(*(np.concatenate(side) for side in zip(*parts, strict=True)))
            self.merged_rows.written.append(WrittenRows(each.written, places))

    def _head(self, config: Mapping[str, str]) -> HeadChanges:
        row_merge = self.row_merge
        ours, theirs = row_merge.ours.manifest, row_merge.theirs.manifest
        bases = row_merge.base.each(lambda each: each.manifest)
        columns, favour = row_merge.columns, row_merge.resolve.rows
        first = bases.first
        is_same = settings(first, open_config(first)) == settings(theirs, open_config(theirs))
        self.brings = bool(bases.others) or not is_same
        known = combined(bases.each(open_config))
        merged = favoured_map("configuration", known, open_config(theirs), ours.config, favour)
        now = {**(ours.config if merged is None else merged), **config}
        return HeadChanges(
            fields=columns.fields if columns.is_changed else None,
            schema_metadata=dict(columns.metadata) if columns.is_changed else None,
            config=None if now == dict(ours.config) else now,
            table_metadata=favoured_map(
                "table's metadata",
                combined(bases.each(lambda each: each.table_metadata)),
                theirs.table_metadata,
                ours.table_metadata,
                favour,
            ),
        )


def state_name(state: Snapshot) -> str:
    """The branch and version of a state, for people."""
    return f"{state.manifest.branch or MAIN}:{state.manifest.version}"


def _in_grafted(touched: TouchedRows, rows: RowRanges) -> Mask:
    """Which rows are in fragments of ours that get columns of theirs."""
    numbers = {each.ours for each in touched.grafts}
    chosen = [at for at, each in enumerate(touched.states[1].parts) if each.fragment.id in numbers]
    return np.isin(rows.ours.parts, chosen)


def _with_fields(snapshot: Snapshot, columns: MergedColumns) -> Snapshot:
    """The state with the merged schema, without fragments."""
    bare = snapshot.bare()
    if not columns.is_changed:
        return bare
    del bare.manifest.message.fields[:]
    bare.manifest.message.fields.extend(columns.fields)
    return Snapshot(
        bare.location, Manifest(bare.manifest.message, name=bare.manifest.name), bare.scheme
    )
