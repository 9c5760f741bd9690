"""The version that a merge becomes, composed again for each newest version.

A fragment of theirs comes by reference, as a new one that hides every row which is not taken, or
where a fragment of ours has the same rows and loses all of them, in place of that. Rows that were
merged are in new fragments, and in those of ours that had them they are deleted. Files are never
rewritten, and those that lie below the branch of theirs are brought first.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain

import numpy as np
from pyroaring import BitMap

from lancewood.engine.base import WORKERS, in_order
from lancewood.engine.commit import Composition
from lancewood.engine.location import load_deletions
from lancewood.engine.rows import Ids, RowFacts
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import RetryableConflictError, UnsupportedError
from lancewood.jobs.compose.base_paths import (
    BasePathTargets,
    ExternalBlobs,
    OwnRoot,
    TargetBases,
)
from lancewood.jobs.compose.files import FilesToCopy
from lancewood.jobs.compose.next_version import Effect, PlannedOnce, columnless
from lancewood.jobs.diff import Places
from lancewood.jobs.merge.merged_columns import MergedColumns
from lancewood.jobs.merge.row_fates import MergedRows, TakenRows
from lancewood.jobs.merge.touched_rows import Graft, RowLocations
from lancewood.jobs.runner import Runner
from lancewood.model.bitmap import numbers_in
from lancewood.model.fragment import TOMBSTONE, DataFile, Fragment
from lancewood.model.ids import FieldId, FragmentId, Version
from lancewood.model.index import SYSTEM_INDICES
from lancewood.model.manifest import Manifest
from lancewood.model.refs import called
from lancewood.model.rowids import RowVersions
from lancewood.model.schema import CREATED_AT, LAST_UPDATED_AT
from lancewood.model.transaction import MARKS_PROPERTY, HeadChanges, Transaction
from lancewood.proto import table_pb2
from lancewood.rules.conflicts import judge_operations
from lancewood.rules.features import check_writable
from lancewood.rules.indices import (
    on_live_fields,
    without_rewritten,
)
from lancewood.rules.lineage import recorded, recorded_merge
from lancewood.rules.numbering import check_fragment_id, field_mark, next_fragment_id
from lancewood.rules.overlaps import Outcome


@dataclass
class MergedVersion(PlannedOnce):
    """The rows, columns and settings that theirs adds to ours; a composer for a commit."""

    ours: Snapshot
    theirs: Snapshot
    merged_rows: MergedRows
    adopted: Mapping[FragmentId, TakenRows]
    """Fragments of theirs that come by reference, and which of their rows."""
    head: HeadChanges
    """Schema, configuration and metadata, as far as they change."""
    columns: MergedColumns
    runner: Runner
    fresh_ids: Callable[[int], int]
    """The first row id of a space above an id; called if rows come with ids above ours' mark."""
    moves_on: bool = False
    """Whether ours hands out ids of a fresh space from now on, even if no rows came."""
    uncovered_indices: tuple[str, ...] = ()
    """Names of indices of ours that do not cover what comes, once it is planned."""
    _first_free: int | None = None
    copies: FilesToCopy = field(init=False)
    _external: ExternalBlobs = field(init=False)

    def __post_init__(self) -> None:
        self.copies = FilesToCopy(self.theirs, self.ours)
        self._external = ExternalBlobs(self.theirs)

    @property
    def properties(self) -> dict[str, str]:
        """Properties of the transaction, by which rows and columns are followed through it."""
        ours = {} if self.head.fields is None else recorded(self.columns.rewritten)
        of_theirs = self.columns.of_theirs
        theirs = recorded_merge(of_theirs, self.theirs.schema, self.columns.schema)
        return {MARKS_PROPERTY: "exact", **ours, **theirs}

    def judge(self, theirs: Transaction, version: Version) -> None:
        """Raise RetryableConflictError if a version that landed may have changed what the merge is
        made of: it is then made anew."""
        mine = self.plan(self.ours.manifest).operation
        for operation in theirs.operations:
            verdict = judge_operations(mine, operation)
            if verdict.outcome is not Outcome.COMPATIBLE:
                raise RetryableConflictError(
                    f"version {version} landed meanwhile: {verdict.reason}", version=version
                )

    def _plan(self, newest: Manifest) -> Composition:
        check_writable(newest, self.ours.location.repository)
        ours = self.ours.manifest
        if settings(newest, newest.config) != settings(ours, ours.config):
            raise RetryableConflictError("columns or settings were changed meanwhile")
        self.copies.begin()
        attempt = _Attempt(self, newest)
        grafted = (each.theirs for each in self.merged_rows.grafts.values())
        taken_over = map(self.theirs.manifest.fragment, {*self.adopted, *grafted})
        self._external.declare(attempt.bases, newest, taken_over, self.columns.theirs_ids.keys())
        fields = newest.fields if self.head.fields is None else self.head.fields
        live = frozenset(FieldId(each.id) for each in fields)
        added = (*attempt.adopted(), *attempt.written())
        changed, removed = attempt.left()
        changed = {number: each.without_dead_files(live) for number, each in changed.items()}
        kept: Iterable[Fragment] = (*added, *changed.values())
        if any(each.id not in live for each in newest.fields):
            left = newest.fragments
            others = (e for e in left if e.id not in changed and e.id not in removed)
            kept = chain(kept, others)
        empty = columnless(kept, fields)
        if empty is not None:
            raise UnsupportedError(
                "rows of one side have only columns that the other side dropped, and would hold "
                "nothing; keep one of them with Resolve(schema={'name': 'keep'}), and drop it "
                "after the merge",
                fragment=empty.id,
            )
        self._check_rewritten(newest, changed, removed)
        pairs = ((newest.fragment(number), after) for number, after in changed.items())
        indices = on_live_fields(without_rewritten(newest.indices, pairs, fields), live)
        known = {each.uuid: each.fragments for each in newest.indices}
        less = {each.name for each in indices if added or each.fragments != known[each.uuid]}
        self.uncovered_indices = tuple(sorted(less - SYSTEM_INDICES))
        head = replace(
            self.head,
            base_paths=attempt.bases.changed,
            indices=None if indices == newest.indices else indices,
            max_fragment_id=check_fragment_id(attempt.next_id - 1) if added else None,
            next_row_id=self._mark(newest, (*added, *attempt.images.values())),
            max_allocated_field_id=field_mark(newest, fields),
        )
        new_bases = attempt.bases.added
        return Effect(
            newest, head, added, changed, removed, replaces_all=False, new_bases=new_bases
        ).composition()

    def _check_rewritten(
        self,
        newest: Manifest,
        changed: Mapping[FragmentId, Fragment],
        removed: Container[FragmentId],
    ) -> None:
        """Raise UnsupportedError if a fragment stays whose files hold a column under the id that it
        had before: its values would be read as null."""
        before = {*self.columns.rewritten.values()}
        for each in newest.fragments if before else ():
            if each.id in removed:
                continue
            files = changed.get(each.id, each).files
            held = before & {number for file in files for number in file.fields}
            if held:
                fields = self.ours.schema.by_id
                names = ", ".join(sorted(repr(fields[number].name) for number in held))
                raise UnsupportedError(
                    f"{names} was written anew on {called(self.theirs.manifest.branch)}, and rows "
                    f"of fragment {each.id} here would lose it; cast it here in the same way, and "
                    "merge again",
                    fragment=each.id,
                )

    def _mark(self, newest: Manifest, fragments: tuple[Fragment, ...]) -> int | None:
        """The mark of row ids: above all that came, in a space where ours hands out alone. Those of
        ours' own fragments are below it already, and not looked at."""
        ids = (each.row_ids for each in fragments)
        most = max((each.max_value() or 0 for each in ids if each is not None), default=0)
        if most < newest.next_row_id and not self.moves_on:
            return None
        if self._first_free is None or self._first_free <= most:
            self._first_free = self.fresh_ids(max(most, newest.next_row_id))
        return self._first_free


def settings(head: Manifest, config: Mapping[str, str]) -> tuple[object, ...]:
    """Fields and metadata of a version, with ``config`` as its configuration."""
    return [*head.fields], head.schema_metadata, config, head.table_metadata


class _Attempt:
    """The fragments of one composed version."""

    def __init__(self, merge: MergedVersion, newest: Manifest) -> None:
        self._merge, self._newest = merge, newest
        self.bases = TargetBases(merge.ours.location, newest)
        self.next_id = next_fragment_id(newest)
        self._version = Version(newest.version + 1)
        self._targets = _targets(merge.theirs, merge.ours)
        self._left = dict(merge.merged_rows.left())
        self.images: dict[FragmentId, Fragment] = {}
        """Fragments of theirs in the place of one of ours, once ``adopted`` was gone through."""
        self._known: dict[int, RowFacts] = {}
        self._deletions: dict[FragmentId, BitMap] | None = None
        newest.expect_lookups(len(self._left) + len(merge.adopted))

    def adopted(self) -> Iterator[Fragment]:
        """Fragments of theirs as new ones; remembers those that take the place of one of ours."""
        for number, moved in self._merge.adopted.items():
            fragment = self._merge.theirs.manifest.fragment(number)
            place = self._place(fragment, moved)
            if place is None:
                yield self._adopted(fragment, moved, self._next())
            else:
                self.images[place] = self._adopted(fragment, moved, place)

    def written(self) -> Iterator[Fragment]:
        for each in self._merge.merged_rows.written:
            begin = 0
            for fragment in each.fragments:
                ids = fragment.row_ids
                assert ids is not None, "a merge writes rows with their ids"
                places = each.ours.at(slice(begin, begin + len(ids)))
                begin += len(ids)
                created = RowVersions.from_values(self._versions(places, CREATED_AT))
                updated = RowVersions.uniform(self._version, len(ids))
                yield fragment.with_lineage(ids, created, updated).numbered(self._next())

    def left(self) -> tuple[dict[FragmentId, Fragment], frozenset[FragmentId]]:
        """Fragments of ours that change, and those of which no row is left."""
        grafts = self._merge.merged_rows.grafts
        changed, removed = dict(self.images), set[FragmentId]()
        for number in (self._left.keys() | grafts.keys()) - changed.keys():
            fragment = self._now(number)
            deleted = self._deleted(fragment) | self._left.get(number, BitMap())
            if len(deleted) == fragment.physical_rows:
                removed.add(number)
                continue
            if number in grafts:
                fragment = self._grafted(fragment, grafts[number], deleted)
            if number in self._left:
                fragment = self._hiding(fragment, deleted)
            changed[number] = fragment
        return changed, frozenset(removed)

    def _grafted(self, fragment: Fragment, graft: Graft, deleted: BitMap) -> Fragment:
        """A fragment of ours with columns of theirs in place of its own."""
        merge = self._merge
        ids = [each.id for pair in graft.columns for each in pair.after.walk()]
        known = {
            each: merge.columns.theirs_ids[each] for each in ids if each in merge.columns.theirs_ids
        }
        source = merge.theirs.manifest.fragment(graft.theirs)
        brought = (self._file(each, known) for each in source.files)
        kept = (each.without(frozenset(known.values())) for each in fragment.files)
        made = fragment.with_files([each for each in (*kept, *brought) if not each.is_dead])
        if not graft.changes:
            return made
        live = np.ones(fragment.physical_rows, np.bool_)
        live[numbers_in(deleted)] = False
        facts = RowFacts(merge.ours, fragment)
        updated = np.array(facts.column(LAST_UPDATED_AT, 0, len(live)))
        updated[live] = self._version
        return made.stamped(RowVersions.from_values(updated))

    def _place(self, fragment: Fragment, moved: TakenRows) -> FragmentId | None:
        """The fragment of ours with the same rows, if none of them stays."""
        number = moved.only_from
        if number is None or number in self.images:
            return None
        ours = self._now(number)
        live = ours.physical_rows - len(self._deleted(ours))
        if len(self._left[number]) != live or ours.physical_rows != fragment.physical_rows:
            return None
        here, there = (
            RowFacts(*each).row_ids
            for each in ((self._merge.ours, ours), (self._merge.theirs, fragment))
        )
        return number if here == there else None

    def _adopted(self, fragment: Fragment, moved: TakenRows, number: FragmentId) -> Fragment:
        rows, taken, places = fragment.physical_rows, moved.rows, moved.ours_places
        created, updated = np.full((2, rows), self._version, np.uint64)
        offsets = numbers_in(taken)
        created[offsets] = self._versions(places, CREATED_AT)
        kept = ~np.repeat(moved.changes, moved.counts)
        updated[offsets[kept]] = self._versions(places.at(kept), LAST_UPDATED_AT)
        ids = RowFacts(self._merge.theirs, fragment).row_ids
        files = [self._file(each, self._merge.columns.theirs_ids) for each in fragment.files]
        made = (
            fragment.with_files([each for each in files if not each.is_dead])
            .with_deletion_file(None)
            .with_lineage(ids, RowVersions.from_values(created), RowVersions.from_values(updated))
            .numbered(number)
        )
        hidden = BitMap(range(rows)) - taken
        return self._hiding(made, hidden) if hidden else made

    def _hiding(self, fragment: Fragment, rows: BitMap) -> Fragment:
        copies = self._merge.copies
        return fragment.with_deletion_file(
            copies.new_deletion_file(fragment, rows, self._newest.version)
        )

    def _file(self, file: DataFile, ids: Mapping[FieldId, FieldId]) -> DataFile:
        """A file of theirs as ours sees it, with these columns of it."""
        if all(each not in ids for each in file.fields):
            return file.without(frozenset(file.fields))
        placed = self.bases.file(file, self._targets, self._merge.copies)
        return _renumbered(placed, ids)

    def _now(self, number: FragmentId) -> Fragment:
        """A fragment of ours, which nobody may have changed."""
        ours = self._merge.ours.manifest
        found = None if self._newest.position_of(number) is None else self._newest.fragment(number)
        if found is None or found != ours.fragment(number):
            raise RetryableConflictError(
                f"fragment {number} was changed meanwhile", fragment=number
            )
        return found

    def _deleted(self, fragment: Fragment) -> BitMap:
        """The rows of a fragment of ours that are deleted; all deletion files are read at once."""
        if self._deletions is None:
            ours = self._merge.ours

            def load(fragment: Fragment) -> Iterator[tuple[FragmentId, BitMap]]:
                found = load_deletions(ours.location, ours.manifest, fragment)
                yield fragment.id, found or BitMap()

            numbers = self._left.keys() | self._merge.merged_rows.grafts.keys()
            work = (partial(load, self._now(number)) for number in sorted(numbers))
            self._deletions = dict(in_order(work, workers=WORKERS))
        return self._deletions[fragment.id]

    def _versions(self, rows: RowLocations, what: str) -> Ids:
        """The versions that made or last changed rows; this one where ours does not have the
        row."""
        found = np.full(len(rows.parts), self._version, np.uint64)
        there = np.flatnonzero(rows.there)
        for number, at in Places(*rows.at(there)).by_part():
            here = there[at]
            if number not in self._known:  # rows of one may come in many fragments of theirs
                fragment = self._merge.ours.manifest.fragment(FragmentId(number))
                self._known[number] = RowFacts(self._merge.ours, fragment)
            found[here] = self._known[number].column_at(what, rows.offsets[here]).to_numpy()
        return found

    def _next(self) -> FragmentId:
        number = FragmentId(check_fragment_id(self.next_id))
        self.next_id += 1
        return number


def _targets(theirs: Snapshot, ours: Snapshot) -> BasePathTargets:
    """Where base paths of theirs lead. Its own root is left where it is if it is main's; else files
    in it are brought."""
    if theirs.location.uri == ours.location.uri:
        return BasePathTargets(theirs, ours.location, own=OwnRoot.TARGET)
    if theirs.manifest.branch is None:
        return BasePathTargets.referring(theirs, ours.location)
    return BasePathTargets(theirs, ours.location)


def _renumbered(file: DataFile, ids: Mapping[FieldId, FieldId]) -> DataFile:
    """A data file of theirs under the ids that its columns have in the merged schema."""
    fields = [ids.get(each, TOMBSTONE) if each >= 0 else each for each in file.fields]
    if fields == list(file.fields):
        return file
    message = table_pb2.DataFile()
    message.CopyFrom(file.message)
    message.fields[:] = fields
    return DataFile(message)
