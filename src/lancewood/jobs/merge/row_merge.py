"""A merge of two states of a table: its columns, its conflicts, and what is to be committed.

    1  three schemas become one
    2  which rows theirs changed, and which of those ours may have changed too (``touched_rows``)
    3  tasks decide the latter cell by cell, and write the merged ones
    4  fragments of theirs come by reference; rows of ours that are replaced are hidden

Conflicts that nothing decides are an error, and nothing has changed. Theirs is never written to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa

from lancewood.data.differing import Mask
from lancewood.engine.location import NewFile, default_file_root
from lancewood.engine.rows import distinct
from lancewood.engine.snapshot import Snapshot, common_version, main_location
from lancewood.engine.write import claim_space, owns_its_space
from lancewood.errors import IncompatibleConflictError
from lancewood.jobs.compose.files import Copies
from lancewood.jobs.compose.next_version import open_config
from lancewood.jobs.counts import Merged
from lancewood.jobs.diff import Comparison, paired_columns
from lancewood.jobs.job import TASKS_PER_SLOT, gather, shares
from lancewood.jobs.merge.conflicts import Left
from lancewood.jobs.merge.merge_bases import Bases
from lancewood.jobs.merge.merged_columns import (
    UnitedColumns,
    checked_columns,
    combined,
    names_in_bases,
    with_columns_first,
)
from lancewood.jobs.merge.merged_version import Union, settings
from lancewood.jobs.merge.resolve import Resolve, decided_names, value_columns
from lancewood.jobs.merge.row_fates import Gathered, Moved, WrittenRows
from lancewood.jobs.merge.row_tasks import (
    LOSERS,
    UnitedPortion,
    UnitingPortion,
    UnitingShape,
    conflict_batches,
    copy_rows,
    cut,
    unite_portion,
    used_decisions,
)
from lancewood.jobs.merge.same_key_rows import (
    KeyColumns,
    paired_by_key,
    shared_keys,
    without_inserted,
)
from lancewood.jobs.merge.touched_rows import NOWHERE, Meeting, Met, MetRows, Placed, with_grafts
from lancewood.jobs.merge_into.keys import key_of, primary_key
from lancewood.jobs.runner import Runner
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId
from lancewood.model.lines import history_of, line_of, space_of
from lancewood.model.manifest import Manifest
from lancewood.model.refs import MAIN, called
from lancewood.model.schema import Field, Schema
from lancewood.model.transaction import HeadChanges
from lancewood.rules.lineage import Lineage, as_in, by_names, recorded_merge
from lancewood.rules.three_way import favoured_map
from lancewood.rules.uniting_columns import UnitedColumn

Detect: TypeAlias = Literal["cells", "rows", "tables"]


_FEW_ROWS = 10_000
"""A fragment with fewer rows comes as a whole, however few of them are taken."""


_MOST_IN_A_TASK = 100


@dataclass(frozen=True, eq=False)
class Uniting:
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
    def columns(self) -> UnitedColumns:
        """The merged schema; raises MergeConflictError if it cannot be told."""
        return checked_columns(self.base, self.ours, self.theirs, self.resolve)

    @cached_property
    def shape(self) -> UnitingShape:
        """What all tasks share; raises InvalidInputError for rules that do not fit."""
        columns = self.columns
        made = UnitingShape(
            tuple(each.bare() for each in self._states),
            self.base.numbered(),
            _with_fields(self.ours, columns),
            tuple((each.field, self._sides(each)) for each in columns.columns),
            self.table,
            None if self._key is None else self._key.key,
            self.resolve,
            self.detect == "rows",
        )
        _ = made.deciding
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
        for met in self.met():
            for _, portion in self.cut(met, slots=1):
                yield from conflict_batches(self.shape, portion)

    def used_decisions(self) -> frozenset[str]:
        """The conflicts on which there are decisions; others decide nothing."""
        if not decided_names(self.resolve):
            return frozenset()
        portions = (portion for met in self.met() for _, portion in self.cut(met, slots=1))
        return frozenset(name for each in portions for name in used_decisions(self.shape, each))

    def met(self) -> Iterator[Met]:
        """The rows that theirs changed."""
        with_ours = self._converts or self._key is not None
        meeting = Meeting(
            self.bases,
            self.ours,
            self.theirs,
            self.base.below,
            self.columns.kept,
            with_ours,
            self._converts,
        )
        if self._key is None:
            return map(self._looked_at, meeting.ranges())
        return iter((self._paired(meeting, self._key),))

    def _paired(self, meeting: Meeting, key: KeyColumns) -> Met:
        """Rows that are one by their key; of different ones that got one key a side that is taken
        for all that is left keeps its own."""
        decisions = self.resolve.decisions
        given = () if decisions is None else (*decisions.schema.names, *value_columns(decisions))
        is_given = not {*key.names}.isdisjoint(given)
        met, rivals = paired_by_key(self._looked_at(meeting.whole()), key, is_given=is_given)
        side = LOSERS.get(self.resolve.rows or "")
        if rivals is None or side is None or len(self.bases) > 1:
            return met
        lost = rivals.lost_by(side, met.keyed)
        if lost is None:
            return met
        changed, inserted = lost
        met = self._looked_at(meeting.whole(changed))
        met, _ = paired_by_key(met, key, np.concatenate((changed, inserted)))
        met = without_inserted(met, side, inserted)
        return replace(met, rivals=met.rivals.at(slice(0)), settled=len(rivals.rows))

    def shared_keys(self, met: Met, found: Sequence[UnitedPortion]) -> pa.Table | None:
        """The primary keys that several rows would have, as tasks decided; None if no key is in
        doubt."""
        if self._key is None or not met.got_keys:
            return None
        decided = [each for portion in found for each in portion.keys]
        columns = shared_keys(met, decided, self._key.read_ours(self.ours))
        return pa.Table.from_arrays(columns, names=list(self._key.key.names))

    def _looked_at(self, met: Met) -> Met:
        self._check_ids(met)
        if self._converts or len(self.bases) > 1:
            return met
        return with_grafts(met, by_rows=self.detect == "rows")

    def _check_ids(self, met: Met) -> None:
        """Raise IncompatibleConflictError if rows that both inserted have the same ids because both
        lines chose one space, in two copies of the table."""
        is_twice = met.both.ours.there & met.both.theirs.there & ~met.both.base.there
        spaces = {*map(space_of, met.both.firsts[is_twice].tolist())}
        for each in (self.theirs, self.ours) if spaces else ():
            head, main = each.manifest, main_location(each)
            if space_of(head.next_row_id) in spaces and not owns_its_space(main, head):
                raise IncompatibleConflictError(
                    f"{called(head.branch)} gives its rows ids that rows of another branch have: "
                    "both were made in copies of the table that did not know of each other. "
                    "Publish it, which gives its rows other ids, or reset it",
                    branch=head.branch,
                )

    def cut(self, met: Met, slots: int) -> Iterator[tuple[MetRows, UnitingPortion]]:
        """The rows that both may have changed, for tasks. Those that have other ids there come by
        themselves, and so do those that cannot stay where they are."""
        count, converts = slots * TASKS_PER_SLOT, self._converts
        moving, keyed = (_in_grafted(met, each) for each in (met.both, met.keyed))
        stirred = met.both.at(moving)
        if converts:
            stirred = MetRows.joined(met.both, met.added)
        else:
            for compared, chosen in self._compared(met, ~moving):
                yield from cut(met, met.both.at(chosen), count, compared=compared)
        yield from cut(met, stirred, count, rewrites=True)
        yield from cut(met, met.keyed.at(~keyed), count, keeps_ids=True, rewrites=converts)
        yield from cut(met, met.keyed.at(keyed), count, keeps_ids=True, rewrites=True)
        yield from cut(met, met.rivals, count, are_rivals=True)
        grafted = _in_grafted(met, met.key_taken)
        for chosen, moves in ((~grafted, converts), (grafted, True)):
            rows = met.key_taken.at(chosen)
            yield from cut(met, rows, count, key_is_taken=True, rewrites=moves)
        yield from cut(met, met.asked, count, rewrites=True, loses_key=True)

    def _compared(self, met: Met, chosen: Mask) -> Iterator[tuple[frozenset[str] | None, Mask]]:
        """Group rows that both may have changed by the columns in which they may differ, and those
        of the key if keys are in doubt; or None where these are not known. Other columns have the
        same files on both sides."""
        theirs, ours = met.both_in
        is_doubtful = (theirs != NOWHERE) | (ours != NOWHERE)
        is_known = chosen & is_doubtful & met.both.base.there & (not self.base.others)
        here = len(met.sides[1].doubts) + 1
        pairs = (theirs + 1) * here + ours + 1
        keys = frozenset(self._key.names if self._key is not None and met.got_keys else ())
        groups = dict[frozenset[str], Mask]()
        for pair in distinct(pairs[is_known]).tolist():
            names = self._names_in(met, *divmod(pair, here)) | keys
            groups[names] = groups.get(names, False) | (is_known & (pairs == pair))
        yield from groups.items()
        if (chosen & ~is_known).any():
            yield None, chosen & ~is_known

    def _names_in(self, met: Met, theirs: int, ours: int) -> frozenset[str]:
        """The merged columns in which the rows of two doubts may differ, each given by its position
        after the first, or 0 for none."""
        there, here = (
            {pair.after.id for each in side.doubts[max(at - 1, 0) : at] for pair in each.columns}
            for side, at in zip(met.sides, (theirs, ours), strict=True)
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

    def _sides(self, column: UnitedColumn) -> tuple[Field | None, ...]:
        others = map(partial(self._as_in, column), self._states[3:], self._in_others)
        return column.theirs, column.ours, column.base, *others

    def _as_in(self, column: UnitedColumn, state: Snapshot, there: Lineage) -> Field | None:
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
class Preparing:
    """A merge that is prepared: what tasks decided and wrote, put together."""

    uniting: Uniting
    runner: Runner
    writes: bool = True
    """False for a dry run."""
    gathered: Gathered = field(default_factory=Gathered)
    files: list[NewFile] = field(default_factory=list)
    """Everything that was written for it."""
    brings: bool = False
    """Whether theirs has anything that the base has not: rows, columns or settings."""

    @property
    def left_out_indices(self) -> tuple[str, ...]:
        """Indices with segments that theirs built: they name rows of theirs, and stay there."""
        uniting = self.uniting
        known = {
            segment.uuid
            for each in (*uniting.base.all, uniting.ours)
            for segment in each.manifest.indices
        }
        built = (each for each in uniting.theirs.manifest.indices if each.uuid not in known)
        return tuple(sorted({each.name for each in built}))

    def told(
        self, name: str, brought: int, uncovered: tuple[str, ...] = (), *, dry_run: bool = False
    ) -> Merged:
        """What the merge of a branch did; ``brought`` are files that were linked or copied, and
        ``uncovered`` indices that do not cover what came."""
        found, uniting = self.gathered, self.uniting
        return Merged(
            name,
            uniting.theirs.manifest.version,
            uniting.base_names,
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
            is_fast_forward=uniting.is_fast_forward,
            is_dry_run=dry_run,
            rewritten=found.rewritten,
        )

    @property
    def stale(self) -> int:
        """Number of decisions on conflicts that are not there, once all rows are decided."""
        return len(decided_names(self.uniting.resolve) - self.gathered.used)

    def union(self, config: Mapping[str, str], *, moves_on: bool = False) -> Union:
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
        ours, theirs = self.uniting.ours, self.uniting.theirs
        columns = self.uniting.columns
        copies = Copies(
            main_location(ours).store,
            theirs,
            ours.location.store,
            default_file_root(ours.location, ours.manifest),
        )
        return Union(
            ours,
            theirs,
            self.gathered,
            adopted,
            head,
            columns.theirs_ids,
            copies,
            self.runner,
            self._fresh_ids,
            columns.rewritten,
            recorded_merge(columns.of_theirs, theirs.schema, columns.schema),
            moves_on,
        )

    def discard(self) -> None:
        """Remove what was written."""
        self.uniting.ours.discard(self.files)
        self.files.clear()

    def _fresh_ids(self, above: int) -> int:
        """The first row id of a space that ours claims; a dry run claims none."""
        if not self.writes:
            return above + 1
        ours = self.uniting.ours
        mark = max(above, ours.manifest.next_row_id)
        return claim_space(main_location(ours), mark, line_of(ours.manifest))

    def _decide(self) -> None:
        uniting, found = self.uniting, Left()
        shape = replace(uniting.shape, writes=self.writes)
        work = partial(unite_portion, shape)
        for met in uniting.met():
            self.brings |= _differs(met.sides[0])
            self.gathered.take(met, met.taken)
            self.gathered.drop(met, met.gone)
            self.gathered.graft(met.grafts)
            self.gathered.resolved += met.settled
            pairs = list(uniting.cut(met, self.runner.slots))
            done = self._run(work, [portion for _, portion in pairs])
            shared = uniting.shared_keys(met, done)
            if shared is not None:
                found.add_shared(shared)
            for (rows, _), each in zip(pairs, done, strict=True):
                self.gathered.decide(met, rows, each)
                found.add(each.kinds, each.columns, each.some)
        found.check(self.stale)

    def _run(
        self, work: Callable[[UnitingPortion], UnitedPortion], tasks: Sequence[UnitingPortion]
    ) -> list[UnitedPortion]:
        ours = self.uniting.ours
        done = gather(self.runner, work, tasks, what="merging rows", snapshot=ours)
        self.files += [file for each in done for file in each.files]
        return done

    def _adopt(self) -> dict[FragmentId, Moved]:
        """The fragments of theirs that come by reference; rows of others are copied."""
        theirs, columns = self.uniting.theirs.manifest, self.uniting.columns
        known = columns.theirs_ids
        is_alike = all(each.is_theirs(known) for each in columns.columns)
        adopted, copied = dict[FragmentId, Moved](), list[tuple[Fragment, Moved]]()
        for number, moved in self.gathered.taken():
            fragment = theirs.fragment(number)
            is_much = 2 * moved.row_count >= fragment.physical_rows
            if is_alike and (is_much or fragment.physical_rows < _FEW_ROWS):
                adopted[number] = moved
            else:
                copied.append((fragment, moved))
                self.gathered.written_rows += moved.row_count
        if copied and self.writes:
            self._copy(copied)
        return adopted

    def _copy(self, copied: Sequence[tuple[Fragment, Moved]]) -> None:
        shape, ours = self.uniting.shape, self.uniting.ours
        tasks = shares(copied, self.runner.slots, _MOST_IN_A_TASK)
        sent = [tuple((fragment, moved.rows) for fragment, moved in each) for each in tasks]
        work = partial(copy_rows, shape)
        done = gather(self.runner, work, sent, what="copying rows", snapshot=ours)
        for task, each in zip(tasks, done, strict=True):
            self.files += each.files
            parts = [moved.ours_places for _, moved in task]
            places = Placed(*(np.concatenate(side) for side in zip(*parts, strict=True)))
            self.gathered.written.append(WrittenRows(each.written, places))

    def _head(self, config: Mapping[str, str]) -> HeadChanges:
        uniting = self.uniting
        ours, theirs = uniting.ours.manifest, uniting.theirs.manifest
        bases = uniting.base.each(lambda each: each.manifest)
        columns, favour = uniting.columns, uniting.resolve.rows
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


def _differs(compared: Comparison) -> bool:
    return bool(compared.doubts or len(compared.inserted.counts) or len(compared.deleted.counts))


def state_name(state: Snapshot) -> str:
    """The branch and version of a state, for people."""
    return f"{state.manifest.branch or MAIN}:{state.manifest.version}"


def _in_grafted(met: Met, rows: MetRows) -> Mask:
    """Which rows are in fragments of ours that get columns of theirs."""
    numbers = {each.ours for each in met.grafts}
    chosen = [at for at, each in enumerate(met.states[1].parts) if each.fragment.id in numbers]
    return np.isin(rows.ours.parts, chosen)


def _with_fields(snapshot: Snapshot, columns: UnitedColumns) -> Snapshot:
    """The state with the merged schema, without fragments."""
    bare = snapshot.bare()
    if not columns.is_changed:
        return bare
    del bare.manifest.message.fields[:]
    bare.manifest.message.fields.extend(columns.fields)
    return Snapshot(
        bare.location, Manifest(bare.manifest.message, name=bare.manifest.name), bare.scheme
    )
