"""The version that the work of a branch becomes, composed again for each newest version.

The engine's commit asks the publication to judge each version that landed, then to compose the next
one. A plan can also be made without a commit, to find out beforehand what would be refused.

Indices of fork, branch and target are merged. An index from before the fork stays, and covers what
both sides cover. One made on the branch is taken over, unless it holds ids of fragments or rows
that mean others on the target. Removing those from its bitmap would not help: tried with pylance
14, segments of one index are not told apart, and the older one then answers for rows of the
younger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lancewood.engine.commit import Composition
from lancewood.engine.location import Location
from lancewood.engine.snapshot import Snapshot
from lancewood.engine.write import claim_space
from lancewood.errors import ConflictError, RetryableConflictError
from lancewood.jobs.merge_into.keys import primary_key
from lancewood.jobs.publish.copies import Copies
from lancewood.jobs.publish.external_blobs import ExternalBlobs
from lancewood.jobs.publish.fragments import Translation
from lancewood.jobs.publish.judging import Judge
from lancewood.jobs.publish.placing import (
    Effect,
    Numbering,
    Spots,
    TargetBases,
    number_work,
    recorded_as,
)
from lancewood.jobs.publish.same_keys import check_keys, new_keys
from lancewood.jobs.publish.work import Net, Work, find_net, open_config
from lancewood.jobs.runner import Runner
from lancewood.model.fragment import Fragment
from lancewood.model.ids import BaseId, FieldId, FragmentId, Version
from lancewood.model.index import Index
from lancewood.model.lines import MERGED_KEY, held_by, line_of, merged_into
from lancewood.model.manifest import Manifest
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
    uncovered,
    with_relatives,
)
from lancewood.rules.numbering import field_mark, next_fragment_id
from lancewood.rules.patching import make_patch
from lancewood.rules.three_way import merged_fields, merged_map

_Pairs = Iterable[tuple[Fragment, Fragment]]
"""Fragments of one id before and after a change."""
_ROOM = 1_000
"""Fragment ids left free after a lost race, so that the next one need not rename files."""


@dataclass
class Publication:
    """The work of a branch to be committed on its target; a composer for the engine's commit."""

    work: Work
    target: Snapshot
    """The target at the fork."""
    net: Net
    copies: Copies
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
    brought: int = 0
    _judge: Judge = field(init=False)
    _spots: Spots = field(init=False)
    _external: ExternalBlobs = field(init=False)
    _shift: int = 0
    _claimed: int = 0
    """The first of the row ids that were claimed for the target."""
    _compared: dict[FragmentId, Fragment] = field(default_factory=dict)
    """New fragments of the target that share no key with the branch."""
    _planned: tuple[Version, Composition] | None = None
    """The last plan and its version, since the same one is asked for repeatedly."""

    def __post_init__(self) -> None:
        self._judge = Judge(self.work)
        self._spots = Spots(self.work.head, self.target.location, self.work.roots)
        self._external = ExternalBlobs(self.work.head)
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
        """The version after ``newest``, with all files that it needs in place."""
        if self._needs_ids(newest):
            mark = self.work.head.manifest.next_row_id
            assert self.claims is not None, "asked of a branch that goes on"
            self._claimed = claim_space(self.claims, mark, line_of(newest))
            self._planned = None
        composition = self.plan(newest)
        self.brought += self.copies.bring(self.runner)
        return composition

    def plan(self, newest: Manifest) -> Composition:
        """Plan the version after ``newest`` without writing a file; planned once per version."""
        if self._planned is not None and self._planned[0] == newest.version:
            return self._planned[1]
        try:
            self._planned = newest.version, self._plan(newest)
            return self._planned[1]
        except ConflictError as conflict:
            self.is_refused = True
            raise self._judge.conflict(newest.version, conflict) from conflict

    def _needs_ids(self, newest: Manifest) -> bool:
        """Whether the target would go on where the branch hands out row ids."""
        mark = self.work.head.manifest.next_row_id
        is_ahead = newest.next_row_id < mark > self._claimed
        return self.claims is not None and self.work.keeps_ids and is_ahead

    def _plan(self, newest: Manifest) -> Composition:
        check_writable(newest, self.target.location.repository)
        check_no_fragment_reuse(newest.indices, "publishing")
        self.copies.begin()
        numbering = self._number(newest)
        head = self._head(newest)
        fields = newest.fields if head.fields is None else head.fields
        live = frozenset(FieldId(each.id) for each in fields)
        bases = TargetBases(self.target.location, newest)
        taken_over = (*self.net.added, *(each.now for each in self.net.changed))
        self._external.declare(bases, newest, taken_over, live)
        known = {each.id for each in self.work.first.manifest.base_paths}
        for each in self.work.head.manifest.base_paths:
            if each.id not in known:
                bases.declare(self._spots.of(BaseId(each.id)))
        translation = Translation(
            self.work,
            self.target.location,
            self.target.manifest,
            newest,
            self._judge,
            numbering,
            self._spots,
            bases,
            self.copies,
            self.by_reference,
            live,
        )
        added, changed, removed = self._fragments(translation)
        if self._judge.has_seen:
            self._check_keys(newest)
        indices = Indices(
            self.work,
            newest,
            fields,
            numbering,
            [(each.then, each.now) for each in self.net.changed],
            lambda: self._changed_there(newest),
            self.copies.index,
        ).merged()
        changes = replace(
            head,
            base_paths=bases.changed,
            indices=None if indices.indices == newest.indices else indices.indices,
            max_fragment_id=numbering.max_fragment_id,
            next_row_id=numbering.next_row_id,
            max_allocated_field_id=field_mark(newest, fields),
        )
        effect = Effect(
            newest,
            changes,
            added,
            changed,
            removed,
            self._judge.reuse.is_any
            or any(isinstance(each.operation, Overwrite) for each in self.work.steps),
            indices.added,
            indices.removed,
            bases.added,
        )
        gone = {each.id for each in newest.fields} - live
        if gone and self._judge.has_seen:
            _check_files_are_left(newest, removed, live)
        patch = make_patch(
            newest,
            changes,
            add=added,
            changed=changed,
            remove=removed,
            live_fields=live if gone else None,
        )
        self.left_out = indices.left_out
        self.is_referring = bases.is_referring
        self.is_fast_forward = not self._judge.has_seen
        return Composition(recorded_as(effect), patch)

    def _number(self, newest: Manifest) -> Numbering:
        work, mark = self.work, self._row_mark(newest)
        first, head, added = work.first.manifest, work.head.manifest, self.net.added
        numbering = number_work(first, head, added, newest, work.fork, self._shift, mark)
        if numbering.fragment_shift and any(each.deletion_file for each in added):
            is_second = self._shift and numbering.fragment_shift > self._shift
            self._shift = numbering.fragment_shift + (_ROOM if is_second else 0)
            if is_second:
                return number_work(first, head, added, newest, work.fork, self._shift, mark)
        return numbering

    def _row_mark(self, newest: Manifest) -> int | None:
        """Where the target hands out row ids from now on, if those of the branch stay: not below
        any of them."""
        here, there = newest.next_row_id, self.work.head.manifest.next_row_id
        if not self.work.keeps_ids:
            return None
        return here if here >= there else max(there, self._claimed)

    def _head(self, newest: Manifest) -> HeadChanges:
        first, head = self.work.first.manifest, self.work.head.manifest
        is_other = head.file_version != first.file_version
        return HeadChanges(
            fields=merged_fields(first.fields, head.fields, newest.fields),
            schema_metadata=merged_map(
                "schema's metadata",
                first.schema_metadata,
                head.schema_metadata,
                newest.schema_metadata,
            ),
            config=self._config(newest),
            table_metadata=merged_map(
                "table's metadata", first.table_metadata, head.table_metadata, newest.table_metadata
            ),
            file_version=head.file_version if is_other else None,
        )

    def _config(self, newest: Manifest) -> Mapping[str, str] | None:
        """The configuration with the changes of the branch; None if there are none. The target then
        holds what the branch does, if their rows are known by the same ids."""
        work = self.work
        first, head = open_config(work.first.manifest), open_config(work.head.manifest)
        merged = merged_map("configuration", first, head, newest.config)
        if not work.keeps_ids or work.is_part:
            return merged
        held = merged_into(newest, held_by(work.head.manifest))
        return {**(newest.config if merged is None else merged), MERGED_KEY: held}

    def _fragments(
        self, translation: Translation
    ) -> tuple[tuple[Fragment, ...], dict[FragmentId, Fragment], frozenset[FragmentId]]:
        lookups = len(self.net.changed) + len(self.net.removed)
        translation.base.expect_lookups(lookups)
        translation.newest.expect_lookups(lookups)
        for each in self.net.removed:
            translation.check_removed(each)
        removed = {each.id for each in self.net.removed}
        changed = {}
        for pair in self.net.changed:
            image = translation.changed(pair)
            if image is None:
                removed.add(pair.now.id)
            else:
                changed[pair.now.id] = image
        added = tuple(translation.added(each) for each in self.net.added)
        return added, changed, frozenset(removed)

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
        mine = new_keys(work.head, self.net, key, first, all_given)
        if mine is None:
            return
        there = find_net(self.target.manifest, newest)
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


def _check_files_are_left(
    newest: Manifest, removed: frozenset[FragmentId], live: frozenset[FieldId]
) -> None:
    """Raise RetryableConflictError if a fragment of the target would have no file left."""
    for each in newest.fragments:
        if each.id not in removed and all(live.isdisjoint(f.fields) for f in each.message.files):
            raise RetryableConflictError(
                f"fragment {each.id} of the target has none of the columns that stay",
                fragment=each.id,
            )


@dataclass(frozen=True)
class IndexMerge:
    """The target's indices, and the outcome for those of the branch."""

    indices: tuple[Index, ...]
    added: tuple[Index, ...] = ()
    removed: tuple[Index, ...] = ()
    left_out: tuple[str, ...] = ()
    """Indices of the branch that the target cannot use."""


@dataclass
class Indices:
    """The indices of all sides, and what is needed to merge them."""

    work: Work
    newest: Manifest
    fields: FieldMessages
    """The fields of the target's next version."""
    numbering: Numbering
    changed: Sequence[tuple[Fragment, Fragment]]
    """Fragments that the branch changed, before and after."""
    changed_there: Callable[[], _Pairs]
    """Finds fragments that the target changed; called only if an index is taken over."""
    adopt: Callable[[Index], Index | None]
    _grouped: Mapping[frozenset[FieldId], list[FragmentId]] | None = field(default=None)

    def merged(self) -> IndexMerge:
        fork = _by_uuid(self.work.first.manifest.indices)
        head = _by_uuid(self.work.head.manifest.indices)
        fresh = [each for key, each in head.items() if key not in fork]
        taken = [(each, self._adopted(each)) for each in fresh]
        left_out = {each.name for each, done in taken if done is None}
        added = tuple(done for _, done in taken if done is not None)
        kept, removed = [], []
        for each in self.newest.indices:
            key = each.message.uuid.uuid
            if key in fork and key not in head and each.name not in left_out:
                removed.append(each)
            elif key in fork and key in head:
                kept.append(self._patched(each, fork[key], head[key]))
            else:
                kept.append(self._uncovered(each))
        live = frozenset(FieldId(each.id) for each in self.fields)
        indices = on_live_fields((*kept, *added), live)
        return IndexMerge(indices, added, tuple(removed), tuple(sorted(left_out)))

    def _patched(self, now: Index, fork: Index, head: Index) -> Index:
        """The target's index with the branch's changes to its coverage."""
        if fork.message.fragment_bitmap == head.message.fragment_bitmap:
            return now
        before, after, here = fork.fragments, head.fragments, now.fragments
        covered = (here - (before - after)) | self.numbering.covered(after - before)
        return now if covered == here else now.covering(covered)

    def _uncovered(self, now: Index) -> Index:
        """An index unknown to the branch, without fragments whose columns the branch rewrote."""
        if self._grouped is None:
            self._grouped = _by_fields(self.changed)
        return _without(now, self._grouped, self.fields)

    def _adopted(self, index: Index) -> Index | None:
        if self.numbering.is_shifted and not self._holds_only_old_rows(index):
            return None
        found = self.adopt(index)
        if found is None:
            return None
        found = _without(found, _by_fields(self.changed_there()), self.fields)
        message = table_pb2.IndexMetadata()
        message.CopyFrom(found.covering(self.numbering.covered(found.fragments)).message)
        if message.dataset_version > self.numbering.fork:
            message.dataset_version = self.newest.version
        return Index(message)

    def _holds_only_old_rows(self, index: Index) -> bool:
        """Whether the index was built only from rows from before the fork. Its coverage does not
        tell: it still holds everything that it once covered."""
        born = next_fragment_id(self.work.first.manifest)
        for each in self.work.steps:
            operation = each.operation
            if not isinstance(operation, CreateIndex):
                continue
            for made in operation.new_indices:
                if made.message.uuid.uuid == index.message.uuid.uuid:
                    made_of = made.fragments
                    return not made_of or made_of.max() < born
        return False


def _without(
    index: Index, grouped: Mapping[frozenset[FieldId], list[FragmentId]], fields: FieldMessages
) -> Index:
    for written, fragments in grouped.items():
        (index,) = uncovered((index,), fragments, with_relatives(fields, written))
    return index


def _by_fields(pairs: _Pairs) -> Mapping[frozenset[FieldId], list[FragmentId]]:
    """Fragments by the columns that are in other files now."""
    found: dict[frozenset[FieldId], list[FragmentId]] = {}
    for before, after in pairs:
        written = changed_fields(before, after)
        if written:
            found.setdefault(written, []).append(after.id)
    return found


def _by_uuid(indices: Iterable[Index]) -> dict[bytes, Index]:
    return {each.message.uuid.uuid: each for each in indices}
