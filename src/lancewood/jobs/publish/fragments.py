"""Fragments of a branch as they stand on its target: their numbers, and what they hold.

If the target has handed out ids since the fork, everything created on the branch moves behind them,
all by the same distance. Ids from before the fork are the same on both sides, and so are row ids
that the branch handed out from a space of its own: those stay.

Where the target left a fragment as it was at the fork, the branch's takes its place. Where it did
not, what the branch changed is put into the target's, and nothing is pasted over. Deletion files
may have to be read for that, and the key of a row that both sides changed, to name it; nothing is
written here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from pyroaring import BitMap

from lancewood.data.wanted import WantedColumns
from lancewood.engine.commit import row_conflict
from lancewood.engine.location import load_deletions
from lancewood.engine.rows import open_fragment
from lancewood.engine.schema import project
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import RetryableConflictError, UnsupportedError
from lancewood.jobs.compose.base_paths import BasePathTargets, OwnRoot, TargetBases
from lancewood.jobs.compose.files import FilesToCopy
from lancewood.jobs.merge_into.keys import key_of, primary_key, shown_key
from lancewood.jobs.publish.branch_work import BranchWork, ChangedFragment, FragmentDiff
from lancewood.jobs.publish.operation_judge import OperationJudge, rewritten_rows
from lancewood.model.fragment import DataFile, DeletionFile, Fragment, Lineage
from lancewood.model.ids import FieldId, FragmentId, Version
from lancewood.model.manifest import Manifest, ManifestHead
from lancewood.model.rowids import FIRST_VERSION, RowVersions
from lancewood.proto import table_pb2
from lancewood.rules.numbering import check_fragment_id, check_space, next_fragment_id


@dataclass(frozen=True)
class Numbering:
    """How numbers that the branch handed out change on the target."""

    first: ManifestHead
    """The branch as it began: its marks divide common ids from the branch's own."""
    head: ManifestHead
    added: tuple[FragmentId, ...]
    """New fragments of the branch that still exist."""
    fragment_shift: int
    row_shift: int
    fork: Version
    version: Version
    """The version that the work becomes."""
    row_mark: int
    """The mark of row ids after the work."""
    strays: dict[FragmentId, FragmentId] = field(default_factory=dict)
    """New fragments under ids that were reserved before the fork."""
    _stamped: dict[bytes, bytes] = field(default_factory=dict, repr=False)

    @property
    def is_shifted(self) -> bool:
        """Whether anything created on the branch gets another id."""
        return bool(self.fragment_shift or self.row_shift)

    @property
    def max_fragment_id(self) -> int | None:
        """The mark of fragment ids after the work; None if the branch handed out none."""
        last = next_fragment_id(self.head) - 1
        if last < next_fragment_id(self.first) and not self.strays:
            return None
        return check_fragment_id(max(last + self.fragment_shift, *self.strays.values(), 0))

    @property
    def next_row_id(self) -> int | None:
        """The mark of row ids after the work; None on a table without row ids."""
        return self.row_mark if self.head.has_stable_row_ids else None

    def fragment_id(self, number: FragmentId) -> FragmentId:
        """The id of a new fragment of the branch on the target."""
        if number in self.strays:
            return self.strays[number]
        return FragmentId(number + self.fragment_shift)

    def covered(self, fragments: BitMap) -> BitMap:
        """Ids on the target for fragments that an index covers, without removed ones, whose ids may
        mean others there."""
        if not self.fragment_shift:
            return fragments
        born = set(self.added)
        known = next_fragment_id(self.first)
        return BitMap(
            self.fragment_id(FragmentId(each)) if each in born else each
            for each in fragments
            if each in born or each < known
        )

    def lineage(self, fragment: Fragment) -> Fragment:
        """The fragment with the row ids and versions of the target."""
        if not self.head.has_stable_row_ids:
            return fragment
        ids = fragment.row_ids if self.row_shift else None
        message = table_pb2.DataFragment()
        message.CopyFrom(fragment.message)
        if ids is not None:
            moved = ids.shifted(self.first.next_row_id, self.row_shift)
            message.inline_row_ids = moved.encode()
        created = self._restamped(fragment, "created_at_versions")
        if created is not None:
            message.inline_created_at_versions = created
        updated = self._restamped(fragment, "last_updated_at_versions")
        if updated is not None:
            message.inline_last_updated_at_versions = updated
        return Fragment(message)

    def _restamped(self, fragment: Fragment, what: Lineage) -> bytes | None:
        """The new versions of the rows, cached: fragments of one write share the same bytes."""
        known = fragment.lineage(what)
        if known is None:
            return None
        if not isinstance(known, bytes):
            raise UnsupportedError(
                f"fragment {fragment.id} keeps its {what.replace('_', ' ')} outside the manifest, "
                "and cannot be published",
                fragment=fragment.id,
            )
        if known not in self._stamped:
            versions = RowVersions.decode(known, fragment.check_length)
            self._stamped[known] = versions.restamp(self.fork, self.version).encode()
        return self._stamped[known]


def number_work(
    first: ManifestHead,
    head: ManifestHead,
    added: Iterable[Fragment],
    newest: ManifestHead,
    fork: Version,
    least_shift: int = 0,
    row_mark: int | None = None,
) -> Numbering:
    """The numbering on ``newest``; fragments move by at least ``least_shift``, unless the target
    handed out no id. ``row_mark`` is where the target goes on if row ids stay; None if they are the
    same as the target's, and move."""
    row_shift = 0
    if row_mark is None:
        row_shift = newest.next_row_id - first.next_row_id
        row_mark = head.next_row_id + row_shift
        check_space(newest.next_row_id, row_mark)
    shift = next_fragment_id(newest) - next_fragment_id(first)
    shift = max(shift, least_shift) if shift else 0
    born = tuple(each.id for each in added)
    strays = [each for each in born if each < next_fragment_id(first)] if shift else []
    free = next_fragment_id(head) + shift
    return Numbering(
        first,
        head,
        born,
        shift,
        row_shift,
        fork,
        Version(newest.version + 1),
        row_mark,
        {each: FragmentId(free + at) for at, each in enumerate(strays)},
    )


_Places: TypeAlias = Mapping[FieldId, tuple[str, int]]


@dataclass(frozen=True)
class Translation:
    """From fragments of the branch to fragments of the target's next version."""

    work: BranchWork
    target: Snapshot
    """The target at the fork."""
    newest: Manifest
    judge: OperationJudge
    numbering: Numbering
    targets: BasePathTargets
    bases: TargetBases
    copies: FilesToCopy
    live: frozenset[FieldId]
    """The fields of the target's next version."""

    def of(
        self, diff: FragmentDiff
    ) -> tuple[tuple[Fragment, ...], dict[FragmentId, Fragment], frozenset[FragmentId]]:
        """Fragments that the target gets, those of it that change, and those that go."""
        lookups = len(diff.changed) + len(diff.removed)
        self.target.manifest.expect_lookups(lookups)
        self.newest.expect_lookups(lookups)
        for each in diff.removed:
            then, now = self.target.manifest.fragment(each.id), self._now(each.id)
            if then.deletion_file != now.deletion_file or each.id in self.judge.rewritten:
                raise _conflict(each.id, "the target changed it, and the branch removes it")
        removed = {each.id for each in diff.removed}
        changed = {}
        for pair in diff.changed:
            image = self._changed(pair)
            if image is None:
                removed.add(pair.now.id)
            else:
                changed[pair.now.id] = image
        added = tuple(
            self._placed(each, self.numbering.fragment_id(each.id)) for each in diff.added
        )
        return added, changed, frozenset(removed)

    def _changed(self, changed: ChangedFragment) -> Fragment | None:
        """A fragment that the branch changed; None if no row of it is left.

        Raises RetryableConflictError where both sides changed the same.
        """
        number = changed.now.id
        then, now = self.target.manifest.fragment(number), self._now(number)
        if then == now:
            return self._placed(changed.now, number)
        files = self._merged_files(changed, then, now)
        deleted = self._merged_deletions(changed, then, now)
        fragment = now.with_files(files).without_dead_files(self.live)
        if isinstance(deleted, BitMap):
            if len(deleted) == now.physical_rows:
                return None
            deleted = self.copies.new_deletion_file(now, deleted, self.newest.version)
        return self._merged_lineage(changed, fragment.with_deletion_file(deleted))

    def _now(self, number: FragmentId) -> Fragment:
        if self.newest.position_of(number) is None:
            raise _conflict(number, "the target removed it, and the branch changes it")
        return self.newest.fragment(number)

    def _placed(self, source: Fragment, number: FragmentId) -> Fragment:
        """A fragment of the branch, with its files as the target sees them."""
        files = [self._file(each) for each in source.files]
        placed = self.numbering.lineage(source).with_files(files)
        placed = placed.with_deletion_file(self._deletion(source, number))
        return placed.without_dead_files(self.live).numbered(number)

    def _file(self, file: DataFile) -> DataFile:
        return self.bases.file(file, self.targets, self.copies)

    def _deletion(self, source: Fragment, number: FragmentId) -> DeletionFile | None:
        """The deletion file of a fragment of the branch, which is named after its number."""
        deletion = source.deletion_file
        if deletion is None:
            return None
        place = self.targets.of(deletion.base_id)
        if source.id != number or place is OwnRoot.BRANCH:
            return self.copies.deletion_file(source, number)
        return deletion.under(self.bases.id_of(place))

    def _merged_files(
        self, changed: ChangedFragment, then: Fragment, now: Fragment
    ) -> Sequence[DataFile]:
        before, after = self._locations(changed.then), self._locations(changed.now)
        mine = frozenset(each for each in after if after[each] != before.get(each))
        if not mine:
            return now.files
        if then.files == now.files:
            return [self._file(each) for each in changed.now.files]
        old, new = self._locations(then), self._locations(now)
        both = sorted(each for each in mine if old.get(each) != new.get(each))
        if both:
            raise _conflict(now.id, f"both wrote field {both[0]} of it anew")
        known = {each.path for each in changed.then.files}
        kept = [each.without(mine) for each in now.files]
        return [
            *(each for each in kept if not each.is_dead),
            *(self._file(each) for each in changed.now.files if each.path not in known),
        ]

    def _locations(self, fragment: Fragment) -> _Places:
        return {
            number: (file.path, column)
            for file in fragment.files
            for number, column in zip(file.fields, file.column_indices, strict=False)
            if number in self.live
        }

    def _merged_deletions(
        self, changed: ChangedFragment, then: Fragment, now: Fragment
    ) -> DeletionFile | BitMap | None:
        """The deletion file, or the rows that a new one has to list."""
        number = now.id
        before = self._deleted(changed.then)
        mine = self._deleted(changed.now) - before
        theirs = BitMap()
        if then.deletion_file != now.deletion_file:
            theirs = (load_deletions(self.target.location, self.newest, now) or BitMap()) - before
        affected = mine | rewritten_rows(self.work, number, now.physical_rows)
        if affected and number in self.judge.rewritten:
            raise _conflict(number, "the target wrote columns of it anew")
        if not affected.isdisjoint(theirs):
            raise self._row_conflict(then, (affected & theirs).min())
        if not mine:
            return now.deletion_file
        if not theirs:
            return self._deletion(changed.now, number)
        return mine | theirs | before

    def _row_conflict(self, then: Fragment, offset: int) -> RetryableConflictError:
        """A row that both changed, by its key if the schema declares one: of the version at the
        fork, where both have it."""
        base = self.target
        key = key_of(base.schema, primary_key(base.schema))
        if key is None:
            return row_conflict(base.manifest, then, offset)
        wanted = WantedColumns(project(base.schema, key.names).stored)
        reader = open_fragment(base, then, wanted)
        shown, values = shown_key(key, key.values(reader.take(np.array([offset]))), 0)
        return RetryableConflictError(
            f"both change the row with the key {shown}", fragment=then.id, key=values
        )

    def _deleted(self, fragment: Fragment) -> BitMap:
        head = self.work.head
        return load_deletions(head.location, head.manifest, fragment) or BitMap()

    def _merged_lineage(self, changed: ChangedFragment, now: Fragment) -> Fragment:
        """The target's fragment, with the branch's mark on rows that the branch changed."""
        if not self.numbering.head.has_stable_row_ids:
            return now
        rows = now.physical_rows
        mine = changed.now.last_updated_at
        if mine is None or mine == changed.then.last_updated_at:
            return now
        marked = np.flatnonzero(mine.to_numpy() > np.uint64(self.numbering.fork))
        theirs = now.last_updated_at or RowVersions.uniform(FIRST_VERSION, rows)
        return now.stamped(theirs.with_value_at(marked, self.numbering.version))


def _conflict(number: FragmentId, why: str) -> RetryableConflictError:
    return RetryableConflictError(f"fragment {number}: {why}", fragment=number)
