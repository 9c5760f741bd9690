"""The version that the work of a branch becomes, composed again for each newest version.

The engine's commit asks the publication to judge each version that landed, then to compose the next
one. A plan can also be made without a commit, to find out beforehand what would be refused.

Indices of fork, branch and target are merged. An index from before the fork stays, and covers what
both sides cover. One made on the branch is taken over, unless it holds ids of fragments or rows
that mean others on the target. Removing those from its bitmap would not help: tried with pylance
14, segments of one index are not told apart, and the older one then answers for rows of the
younger.

A schema may declare a primary key, and nobody enforces it: what is unique on the branch and unique
on the target need not be so once they are one. That can only come of keys that are new on both
sides, so rows from before the fork are not read unless a side may have given them other keys; what
a side has twice by itself is its own matter. A key with a null in it equals none, and floats are no
keys. The keys of the side with fewer rows are held in memory, some millions at a time, and looked
up in those of the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lancewood.engine.commit import Composition
from lancewood.engine.location import Location
from lancewood.engine.rows import RowFacts, ScanPlan, ScanRequest
from lancewood.engine.snapshot import Snapshot
from lancewood.engine.write import claim_space
from lancewood.errors import ConflictError, IncompatibleConflictError, RetryableConflictError
from lancewood.jobs.compose.base_paths import BasePathTargets, ExternalBlobs, TargetBases
from lancewood.jobs.compose.files import FilesToCopy
from lancewood.jobs.compose.next_version import Effect, PlannedOnce, columnless, open_config
from lancewood.jobs.job import pack_fragments
from lancewood.jobs.merge_into.keys import Key, KeyIndex, key_of, primary_key, shown_key
from lancewood.jobs.merge_into.search import Search, find_matches
from lancewood.jobs.publish.branch_work import BranchWork, FragmentDiff, diff_fragments
from lancewood.jobs.publish.fragments import Numbering, Translation, number_work
from lancewood.jobs.publish.operation_judge import OperationJudge
from lancewood.jobs.runner import Runner
from lancewood.model.fragment import Fragment
from lancewood.model.ids import BaseId, FieldId, FragmentId, Version
from lancewood.model.index import Index
from lancewood.model.lines import MERGED_KEY, held_by, line_of, merged_into
from lancewood.model.manifest import Manifest
from lancewood.model.schema import ROW_ID
from lancewood.model.transaction import (
    CreateIndex,
    FieldMessages,
    HeadChanges,
    Overwrite,
    Transaction,
)
from lancewood.proto import table_pb2
from lancewood.rules.columns import given_fields
from lancewood.rules.features import check_writable
from lancewood.rules.indices import (
    changed_fields,
    check_no_fragment_reuse,
    on_live_fields,
    without_rewritten,
)
from lancewood.rules.numbering import field_mark, next_fragment_id
from lancewood.rules.three_way import merged_fields, merged_map

_ROOM = 1_000
"""Fragment ids left free after a lost race, so that the next one need not rename files."""


@dataclass
class Publication(PlannedOnce):
    """The work of a branch to be committed on its target; a composer for the engine's commit."""

    work: BranchWork
    target: Snapshot
    """The target at the fork."""
    diff: FragmentDiff
    copies: FilesToCopy
    runner: Runner
    claims: Location | None = None
    """Where the target claims row ids, if the branch goes on to hand out its own."""
    by_reference: bool = False
    is_refused: bool = False
    """Whether a conflict was found, which is final."""
    is_referring: bool = False
    """Whether the last composed version refers to files below the branch."""
    left_out: tuple[str, ...] = ()
    """Indices that the last composed version leaves out."""
    is_fast_forward: bool = True
    _judge: OperationJudge = field(init=False)
    _targets: BasePathTargets = field(init=False)
    _external_blobs: ExternalBlobs = field(init=False)
    _shift: int = 0
    _claimed: int = 0
    """The first of the row ids that were claimed for the target."""
    _compared: dict[FragmentId, Fragment] = field(default_factory=dict)
    """New fragments of the target that share no key with the branch."""

    def __post_init__(self) -> None:
        self._judge = OperationJudge(self.work)
        make = BasePathTargets.referring if self.by_reference else BasePathTargets
        self._targets = make(self.work.head, self.target.location, self.work.roots)
        self._external_blobs = ExternalBlobs(self.work.head)
        self.work.head.check_writable()
        check_no_fragment_reuse(self.work.head.manifest.indices, "publishing")

    def pass_over(self) -> None:
        """Note that the target moved and then restored its state."""
        self._judge.has_seen = True

    def judge(self, theirs: Transaction, version: Version) -> None:
        """Raise ConflictError if a version that landed conflicts with the work."""
        try:
            self._judge.see(theirs, version)
        except ConflictError:
            self.is_refused = True
            raise

    def compose(self, newest: Manifest) -> Composition:
        """The version after ``newest``, with all files that it needs in place. If the target would
        go on where the branch hands out row ids, it claims other ones."""
        mark = self.work.head.manifest.next_row_id
        is_ahead = newest.next_row_id < mark > self._claimed
        if self.claims is not None and self.work.keeps_ids and is_ahead:
            self._claimed = claim_space(self.claims, mark, line_of(newest))
            self._planned = None
        return super().compose(newest)

    def plan(self, newest: Manifest) -> Composition:
        """Plan the version after ``newest`` without writing a file."""
        try:
            return super().plan(newest)
        except ConflictError as conflict:
            self.is_refused = True
            raise self._judge.conflict(newest.version, conflict) from conflict

    def _plan(self, newest: Manifest) -> Composition:
        check_writable(newest, self.target.location.repository)
        check_no_fragment_reuse(newest.indices, "publishing")
        self.copies.begin()
        numbering = self._number(newest)
        head = self._head(newest)
        fields = newest.fields if head.fields is None else head.fields
        live = frozenset(FieldId(each.id) for each in fields)
        bases = TargetBases(self.target.location, newest)
        taken_over = (*self.diff.added, *(each.now for each in self.diff.changed))
        self._external_blobs.declare(bases, newest, taken_over, live)
        known = {each.id for each in self.work.first.manifest.base_paths}
        for each in self.work.head.manifest.base_paths:
            place = self._targets.of(BaseId(each.id))
            if each.id not in known and place != self._targets.own:
                bases.id_of(place)
        translation = Translation(
            self.work,
            self.target,
            newest,
            self._judge,
            numbering,
            self._targets,
            bases,
            self.copies,
            live,
        )
        added, changed, removed = translation.of(self.diff)
        if self._judge.has_seen:
            self._check_keys(newest)
        indices = self._merged_indices(newest, fields, numbering)
        changes = replace(
            head,
            base_paths=bases.changed,
            indices=None if indices.indices == newest.indices else indices.indices,
            max_fragment_id=numbering.max_fragment_id,
            next_row_id=numbering.next_row_id,
            max_allocated_field_id=field_mark(newest, fields),
        )
        has_overwritten = any(isinstance(each.operation, Overwrite) for each in self.work.steps)
        effect = Effect(
            newest,
            changes,
            added,
            changed,
            removed,
            self._judge.reuse.is_any or has_overwritten,
            indices.added,
            indices.removed,
            bases.added,
        )
        if self._judge.has_seen and any(each.id not in live for each in newest.fields):
            left = (each for each in newest.fragments if each.id not in removed)
            empty = columnless(left, fields)
            if empty is not None:
                raise RetryableConflictError(
                    f"fragment {empty.id} of the target has none of the columns that stay",
                    fragment=empty.id,
                )
        self.left_out = indices.left_out
        self.is_referring = bases.is_referring
        self.is_fast_forward = not self._judge.has_seen
        return effect.composition()

    def _number(self, newest: Manifest) -> Numbering:
        """The numbers on the target. It hands out row ids above all of the branch's from now on, if
        those stay."""
        work, mark = self.work, None
        first, head, added = work.first.manifest, work.head.manifest, self.diff.added
        if work.keeps_ids:
            here, there = newest.next_row_id, head.next_row_id
            mark = here if here >= there else max(there, self._claimed)
        numbering = number_work(first, head, added, newest, work.fork, self._shift, mark)
        if numbering.fragment_shift and any(each.deletion_file for each in added):
            is_second = self._shift and numbering.fragment_shift > self._shift
            self._shift = numbering.fragment_shift + (_ROOM if is_second else 0)
            if is_second:
                return number_work(first, head, added, newest, work.fork, self._shift, mark)
        return numbering

    def _head(self, newest: Manifest) -> HeadChanges:
        """Schema, configuration and metadata with the changes of the branch, None for those without
        any. The target then holds what the branch does, if their rows are known by the same ids."""
        work, first, head = self.work, self.work.first.manifest, self.work.head.manifest
        config = merged_map("configuration", open_config(first), open_config(head), newest.config)
        if work.keeps_ids and not work.is_part:
            held = merged_into(newest, held_by(head))
            config = {**(newest.config if config is None else config), MERGED_KEY: held}
        return HeadChanges(
            fields=merged_fields(first.fields, head.fields, newest.fields),
            schema_metadata=merged_map(
                "schema's metadata",
                first.schema_metadata,
                head.schema_metadata,
                newest.schema_metadata,
            ),
            config=config,
            table_metadata=merged_map(
                "table's metadata", first.table_metadata, head.table_metadata, newest.table_metadata
            ),
            file_version=None if head.file_version == first.file_version else head.file_version,
        )

    def _check_keys(self, newest: Manifest) -> None:
        """Raise IncompatibleConflictError if both sides have new rows with the same primary key.
        Fragments checked for an earlier plan are skipped."""
        work, target = self.work, Snapshot(self.target.location, newest, self.target.scheme)
        key = primary_key(work.head.schema)
        if key == primary_key(work.first.schema):
            key = primary_key(target.schema)
        if not key:
            return
        born = self.target.manifest.next_row_id
        given = [given_fields(each.operation) for each in work.steps]
        all_given = None if None in given else frozenset[FieldId]().union(*filter(None, given))
        first = min(born, work.first.manifest.next_row_id)
        mine = new_keys(work.head, self.diff, key, first, all_given)
        if mine is None:
            return
        there = diff_fragments(self.target.manifest, newest)
        unseen = [each for each in there.added if self._compared.get(each.id) != each]
        given_there = None if self._judge.given is None else frozenset(self._judge.given)
        theirs = new_keys(target, replace(there, added=unseen), key, born, given_there)
        if theirs is not None:
            check_keys(mine, theirs, self.runner)
        self._compared.update((each.id, each) for each in unseen)

    def _changed_there(self, newest: Manifest) -> Iterator[tuple[Fragment, Fragment]]:
        """Fragments whose columns may be in other files on the target than at the fork."""
        base = self.target.manifest
        if self._judge.has_merged:
            numbers = [each.id for each in base.fragments]
        else:
            known = next_fragment_id(base)
            numbers = [each for each in sorted(self._judge.rewritten) if each < known]
        for number in numbers:
            if base.position_of(number) is not None and newest.position_of(number) is not None:
                yield base.fragment(number), newest.fragment(number)

    def _merged_indices(
        self, newest: Manifest, fields: FieldMessages, numbering: Numbering
    ) -> IndexMerge:
        fork = _by_uuid(self.work.first.manifest.indices)
        head = _by_uuid(self.work.head.manifest.indices)
        fresh = [each for key, each in head.items() if key not in fork]
        taken = [(each, self._adopted(each, newest, fields, numbering)) for each in fresh]
        left_out = {each.name for each, done in taken if done is None}
        added = tuple(done for _, done in taken if done is not None)
        known = fork.keys() & head.keys()
        changed = ((each.then, each.now) for each in self.diff.changed)
        unknown = (each for each in newest.indices if each.message.uuid.uuid not in known)
        # indices unknown to the branch do not cover what it wrote anew
        others = _by_uuid(without_rewritten(tuple(unknown), changed, fields))
        kept, removed = [], []
        for each in newest.indices:
            key = each.message.uuid.uuid
            if key in fork and key not in head and each.name not in left_out:
                removed.append(each)
            elif key not in known:
                kept.append(others[key])
            elif fork[key].message.fragment_bitmap == head[key].message.fragment_bitmap:
                kept.append(each)
            else:
                before, after, here = fork[key].fragments, head[key].fragments, each.fragments
                covered = (here - (before - after)) | numbering.covered(after - before)
                kept.append(each if covered == here else each.covering(covered))
        live = frozenset(FieldId(each.id) for each in fields)
        indices = on_live_fields((*kept, *added), live)
        return IndexMerge(indices, added, tuple(removed), tuple(sorted(left_out)))

    def _adopted(
        self, index: Index, newest: Manifest, fields: FieldMessages, numbering: Numbering
    ) -> Index | None:
        """An index of the branch as the target has it; None if it cannot use it."""
        if numbering.is_shifted and not self._holds_only_old_rows(index):
            return None
        found = self.copies.index(index)
        if found is None:
            return None
        (found,) = without_rewritten((found,), self._changed_there(newest), fields)
        message = table_pb2.IndexMetadata()
        message.CopyFrom(found.covering(numbering.covered(found.fragments)).message)
        if message.dataset_version > numbering.fork:
            message.dataset_version = newest.version
        return Index(message)

    def _holds_only_old_rows(self, index: Index) -> bool:
        """Whether the index was built only from rows from before the fork. Its coverage does not
        tell: it still holds everything that it once covered."""
        born = next_fragment_id(self.work.first.manifest)
        for each in self.work.steps:
            if isinstance(each.operation, CreateIndex):
                for made in each.operation.new_indices:
                    if made.message.uuid.uuid == index.message.uuid.uuid:
                        return not made.fragments or made.fragments.max() < born
        return False


@dataclass(frozen=True)
class IndexMerge:
    """The target's indices, and the outcome for those of the branch."""

    indices: tuple[Index, ...]
    added: tuple[Index, ...] = ()
    removed: tuple[Index, ...] = ()
    left_out: tuple[str, ...] = ()
    """Indices of the branch that the target cannot use."""


def _by_uuid(indices: Iterable[Index]) -> dict[bytes, Index]:
    return {each.message.uuid.uuid: each for each in indices}


_MOST_KEYS = 4_000_000
"""Keys that are held in memory at once."""


_KEYS_IN_A_TASK = 1_000_000


_MOST_SHOWN = 3


@dataclass(frozen=True)
class NewKeys:
    """Rows of one side whose keys the other may not have."""

    snapshot: Snapshot
    fragments: tuple[Fragment, ...]
    key: Key
    born: int | None
    """Rows with ids from here on; None: all rows of the fragments."""

    @property
    def row_count(self) -> int:
        return sum(each.physical_rows for each in self.fragments)

    def tasks(self, slots: int) -> list[tuple[Fragment, ...]]:
        return list(pack_fragments(self.fragments, max(slots, self.row_count // _KEYS_IN_A_TASK)))

    def are_new(self, fragment: Fragment, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        ids = RowFacts(self.snapshot, fragment).row_ids
        if self.born is None or ids is None:
            return np.ones(len(offsets), np.bool_)
        return ids.values_at(offsets) >= np.uint64(self.born)


def new_keys(
    snapshot: Snapshot,
    diff: FragmentDiff,
    key: Sequence[FieldId],
    born: int,
    given: frozenset[FieldId] | None,
) -> NewKeys | None:
    """The rows of a side that may have keys which were not there at the fork; None for a side that
    has none, or not all columns of the key.

    ``diff`` is what became of its fragments, ``born`` the first row id after the fork, ``given``
    the columns in which rows of before got other values, None if any may be among them.
    """
    found = key_of(snapshot.schema, key)
    if found is None:
        return None
    parts = frozenset(key)
    is_stable = snapshot.manifest.has_stable_row_ids
    only_born = is_stable and given is not None and parts.isdisjoint(given)
    fragments = [each for each in diff.added if not only_born or _last_id(snapshot, each) >= born]
    if not only_born:
        pairs = ((each.then, each.now) for each in diff.changed)
        fragments += [now for then, now in pairs if not parts.isdisjoint(changed_fields(then, now))]
    if not fragments:
        return None
    return NewKeys(snapshot, tuple(fragments), found, born if only_born else None)


def _last_id(snapshot: Snapshot, fragment: Fragment) -> int:
    ids = RowFacts(snapshot, fragment).row_ids
    last = None if ids is None else ids.max_value()
    return -1 if last is None else last


def check_keys(mine: NewKeys, theirs: NewKeys, runner: Runner) -> None:
    """Raises IncompatibleConflictError, with a few of the keys, if both sides have new rows under
    the same."""
    held, other = sorted((mine, theirs), key=lambda each: each.row_count)
    by_id = {each.id: each for each in other.fragments}
    for columns in _portions(held, runner):
        index = KeyIndex(columns)
        search = Search(
            other.snapshot.bare(),
            other.key,
            index,
            condition=None,
            conditional=pa.table({}),
            changes_matches=True,
            wants_orphans=False,
        )
        work = partial(find_matches, search)
        tasks = other.tasks(runner.slots) if len(index) else []
        twice: set[int] = set()
        for found in runner.run(work, tasks, what="comparing keys"):
            for each in found.matches:
                are_new = other.are_new(by_id[each.fragment_id], each.offsets)
                twice.update(each.positions[are_new].tolist())
        if twice:
            raise _conflict(mine.key, columns, sorted(twice))


def _portions(side: NewKeys, runner: Runner) -> Iterator[list[pa.Array]]:
    """The key's columns of all rows, in portions of at least ``_MOST_KEYS`` rows but for the
    last."""
    work = partial(_read_keys, replace(side, snapshot=side.snapshot.bare(), fragments=()))
    waiting: list[pa.Table] = []
    for each in runner.run(work, side.tasks(runner.slots), what="reading keys"):
        waiting.append(each)
        if sum(part.num_rows for part in waiting) >= _MOST_KEYS:
            yield side.key.values(pa.concat_tables(waiting))
            waiting = []
    if waiting:
        yield side.key.values(pa.concat_tables(waiting))


def _read_keys(side: NewKeys, fragments: Sequence[Fragment]) -> pa.Table:
    """The task: the key's columns of the new rows of some fragments."""
    is_chosen = side.born is not None
    request = ScanRequest(columns=side.key.names, with_row_id=is_chosen, fragments=fragments)
    plan = ScanPlan(side.snapshot, request)
    rows = pa.Table.from_batches(plan.batches(), schema=plan.schema)
    if not is_chosen:
        return rows
    born = pc.greater_equal(rows.column(ROW_ID), pa.scalar(side.born, pa.uint64()))
    return rows.filter(born).drop_columns([ROW_ID])


def _conflict(
    key: Key, columns: Sequence[pa.Array], rows: Sequence[int]
) -> IncompatibleConflictError:
    some = [shown_key(key, columns, each) for each in rows[:_MOST_SHOWN]]
    more = f" and {len(rows) - len(some):,} more" if len(rows) > len(some) else ""
    told = "; ".join(shown for shown, _ in some)
    return IncompatibleConflictError(
        f"both have new rows with the same primary key ({told}{more}), and it would be there twice",
        keys=[values for _, values in some],
    )
