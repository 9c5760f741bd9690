"""The work on a branch: what happened since it left its parent, and what it adds up to.

The newest Clone transaction among the branch's versions says where it began, not the branch's
record. Work can also be a range of versions, and work on a branch of a branch is put on top of the
other's. Its net effect is found by comparing first version and head, fragment by fragment, as
bytes; only those that differ are decoded.

Publishing the same work twice would double rows, and no rule about operations can see that. So a
version records which work it holds, as ranges of versions of branches, and is checked for it.

A version that adds or casts columns marks every row as changed. On the branch its transaction says
so, but after publishing there is one transaction for everything. So if such versions came together
with others, rows keep their mark from the fork unless their values really differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from lancewood.engine.rows import LiveRows
from lancewood.engine.snapshot import Snapshot, branch_location, load_snapshot, main_location
from lancewood.engine.versions import (
    load_manifest,
    load_transaction_of,
)
from lancewood.engine.write import owns_its_space
from lancewood.errors import (
    IncompatibleConflictError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
)
from lancewood.jobs.compose.next_version import (
    BRANCH_PROPERTY,
    BRANCH_VERSION_PROPERTY,
    MARKS,
    open_config,
)
from lancewood.jobs.diff import RowChanges, find_changes
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FieldId, FragmentId, Version, is_detached
from lancewood.model.lines import has_own_ids
from lancewood.model.manifest import Manifest, ManifestHead, decode_fragment
from lancewood.model.refs import MAIN, BranchName, called
from lancewood.model.rowids import FIRST_VERSION, RowVersions
from lancewood.model.transaction import (
    Append,
    Clone,
    CreateIndex,
    Delete,
    Merge,
    MissingTransaction,
    Operation,
    Project,
    ReserveFragments,
    Restore,
    Transaction,
    UnknownOperation,
    UpdateBases,
    UpdateConfig,
)
from lancewood.rules.three_way import same_fields

HELD_PROPERTY = "lancewood.holds"
"""All work that a version holds, for later checks: ``exp:5-7@0b1c… dev:9-12``."""


_is_range = re.compile(r"([^\s:]+):(\d{1,20})-(\d{1,20})(?:@(\S+))?").fullmatch


@dataclass(frozen=True, slots=True)
class BranchStep:
    """One operation of a branch, and the version it made."""

    version: Version
    operation: Operation


@dataclass(frozen=True)
class BranchWork:
    """The operations of a branch since its fork, and what they add up to."""

    first: Snapshot
    """The branch as it began: a clone of the parent's version ``fork``."""
    head: Snapshot
    parent: BranchName | None
    """None is main."""
    fork: Version
    steps: Sequence[BranchStep]
    """The oldest first, without those that only set marks."""
    own: tuple[HeldWork, ...] = ()
    """Versions of the branch; several ranges if there are branches between this one and the
    parent."""
    brought: tuple[HeldWork, ...] = ()
    """Work of other branches that its versions took over."""
    roots: frozenset[str] = frozenset()
    """Roots of the branches in between."""
    keeps_ids: bool = False
    """Whether no other line hands out the row ids of its new rows, so that they keep them."""
    is_part: bool = False
    """Whether the target does not hold the branch with it: there is more work before it, or the
    branch goes, and need not be known."""

    @property
    def branch(self) -> str:
        return self.head.manifest.branch or MAIN

    @property
    def held(self) -> tuple[HeldWork, ...]:
        """All work that a version with this work holds."""
        return (*self.own, *self.brought)


def load_work(head: Snapshot) -> BranchWork:
    """The work up to a version of a branch.

    Raises NotFoundError if a version or transaction in between is gone, UnsupportedError for an
    unknown operation, InvalidInputError for a table that is not a branch.
    """
    if head.manifest.branch is None:
        raise InvalidInputError(f"{head.location.uri} is no branch, and has nothing to publish")
    walked = _Walk(head)
    version = walked.back_to(None)
    clone = walked.clone
    assert clone is not None, "a branch begins with one"
    parent = None if clone.ref_name in (None, MAIN) else BranchName.found(str(clone.ref_name))
    return walked.work(version, parent, clone.ref_version)


def load_work_onto(head: Snapshot, target: BranchName | None) -> BranchWork:
    """The work since the branch, or one of its ancestors, left the target.

    Raises InvalidInputError if none of them did.
    """
    work = load_work(head)
    main = main_location(head)
    while work.parent != target:
        if work.parent is None:
            raise InvalidInputError(
                f"{called(work.branch)} does not come from {called(target)}, and cannot be "
                "published onto it",
                branch=work.branch,
            )
        above = load_work(load_snapshot(branch_location(main, work.parent), version=work.fork))
        work = replace(
            above,
            head=work.head,
            steps=(*above.steps, *work.steps),
            own=(*above.own, *work.own),
            brought=(*above.brought, *work.brought),
            roots=work.roots | above.roots | {above.head.location.uri},
            keeps_ids=work.keeps_ids and above.keeps_ids,
        )
    return work


def load_part(first: Snapshot, head: Snapshot, target: BranchName | None) -> BranchWork:
    """The work between two versions of one branch, to be repeated on another branch.

    Raises IncompatibleConflictError if the branch was reset in between, and what ``load_work``
    raises.
    """
    walked = _Walk(head)
    walked.back_to(first.manifest.version)
    if walked.clone is not None:
        raise IncompatibleConflictError(
            f"{called(head.manifest.branch)} began anew between versions {first.manifest.version} "
            f"and {head.manifest.version}: they have no ids in common",
            branch=head.manifest.branch,
        )
    work = walked.work(first.manifest.version, target, first.manifest.version)
    return replace(work, is_part=True)


class _Walk:
    """Goes back from a version of a branch, one transaction after the other."""

    def __init__(self, head: Snapshot) -> None:
        self._head = head
        self._steps: list[BranchStep] = []
        self._brought: list[HeldWork] = []
        self.clone: Clone | None = None
        """The operation that began the branch, once it is reached."""
        self._line = ""

    def back_to(self, end: Version | None) -> Version:
        """Go back to ``end``, exclusive, or to the beginning of the branch; the version reached."""
        head = self._head
        version = head.manifest.version
        while version != end:
            transaction = load_transaction_of(head.location.store, version, head.scheme)
            for operation in transaction.operations:
                if isinstance(operation, Clone):
                    self.clone, self._line = operation, transaction.uuid
                    return version
                _check_known(head, version, operation)
                if not only_marks(operation):
                    self._steps.append(BranchStep(version, operation))
            self._brought += held_in(transaction)
            version = Version(version - 1)
        return version

    def work(self, first: Version, parent: BranchName | None, fork: Version) -> BranchWork:
        head = self._head
        begun = head
        if first != head.manifest.version:
            found = load_manifest(head.location.store, first, head.scheme)
            begun = Snapshot(head.location, found, head.scheme)
        own = HeldWork(head.manifest.branch or MAIN, first, head.manifest.version, self._line)
        steps = tuple(reversed(self._steps))
        brought = tuple(self._brought)
        keeps_ids = has_own_ids(begun.manifest) and owns_its_space(
            main_location(head), begun.manifest
        )
        return BranchWork(begun, head, parent, fork, steps, (own,), brought, keeps_ids=keeps_ids)


def _check_known(head: Snapshot, version: Version, operation: Operation) -> None:
    what = f"the work on {called(head.manifest.branch)} cannot be told: version {version}"
    if isinstance(operation, MissingTransaction):
        raise NotFoundError(
            f"{what} has no transaction ({operation.why}), and it is not known what it changed. "
            "Bring its rows over with append or merge",
            version=version,
        )
    if isinstance(operation, UnknownOperation):
        raise UnsupportedError(
            f"{what} has an operation (number {operation.number}) that is not known to this "
            "Lancewood; use a newer one",
            version=version,
        )


def only_marks(operation: Operation) -> bool:
    """Whether an operation only sets marks: closes or opens a branch, or reserves it for a
    repository."""
    return (
        isinstance(operation, UpdateConfig)
        and len(operation.config.entries) > 0
        and operation.config.entries.keys() <= MARKS
        and not operation.config.replace
        and not operation.table_metadata
        and not operation.touches_schema
    )


def check_restored(work: BranchWork) -> None:
    """Raise IncompatibleConflictError if a version from before a reset, or a detached one, was
    restored: its ids mean other rows and fragments on the target."""
    for each in work.steps:
        restored = each.operation.version if isinstance(each.operation, Restore) else None
        if restored is None:
            continue
        if restored < work.first.manifest.version or is_detached(restored):
            raise IncompatibleConflictError(
                f"{called(work.branch)} cannot be published onto {called(work.parent)}: in version "
                f"{each.version} it went back to version {restored}, from before it was reset, "
                "whose ids are others' on the target; bring the rows over with overwrite or merge "
                "on a fresh branch",
                branch=work.branch,
                version=each.version,
            )


@dataclass(frozen=True, slots=True)
class HeldWork:
    """The versions of a branch after ``since``, up to and including ``until``."""

    branch: str
    since: Version
    until: Version
    line: str = ""
    """The uuid of the transaction that the branch began with, or empty if unknown. It identifies
    the branch even if its name changes or is used again."""

    def meets(self, other: HeldWork) -> bool:
        """Whether the two have a version in common."""
        are_known = self.line and other.line
        is_same = self.line == other.line if are_known else self.branch == other.branch
        return is_same and self.since < other.until and other.since < self.until

    def __str__(self) -> str:
        line = f"@{self.line}" if self.line else ""
        return f"{self.branch}:{self.since}-{self.until}{line}"


def encode_held(work: Iterable[HeldWork]) -> str:
    """The value of ``HELD_PROPERTY``."""
    return " ".join(dict.fromkeys(map(str, work)))


def held_in(transaction: Transaction) -> tuple[HeldWork, ...]:
    """The work that a transaction says it holds; unreadable parts are ignored."""
    properties = transaction.properties
    text = properties.get(HELD_PROPERTY)
    if text is not None:
        found = [match.groups("") for each in text.split() if (match := _is_range(each))]
        return tuple(
            HeldWork(branch, Version(int(since)), Version(int(until)), line)
            for branch, since, until, line in found
        )
    branch, version = properties.get(BRANCH_PROPERTY), properties.get(BRANCH_VERSION_PROPERTY, "")
    if branch is None or not version.isdecimal():
        return ()
    return (HeldWork(branch, Version(0), Version(int(version))),)


def in_common(mine: Iterable[HeldWork], theirs: Iterable[HeldWork]) -> HeldWork | None:
    """The first of ``mine`` that ``theirs`` holds as well, or None."""
    known = [*theirs]
    return next((each for each in mine if any(map(each.meets, known))), None)


@dataclass(frozen=True, slots=True)
class ChangedFragment:
    """A fragment that both versions have, before and after its change."""

    then: Fragment
    now: Fragment


@dataclass(frozen=True, slots=True)
class FragmentDiff:
    """Fragments that were added, changed and removed; sorted by id."""

    added: Sequence[Fragment]
    changed: Sequence[ChangedFragment]
    removed: Sequence[Fragment]

    def with_marks(self, marks: dict[FragmentId, RowVersions]) -> FragmentDiff:
        """Set last-updated versions of some fragments; those then as before do not count as
        changed."""

        def marked(fragment: Fragment) -> Fragment:
            found = marks.get(fragment.id)
            return fragment if found is None else fragment.stamped(found)

        changed = [ChangedFragment(each.then, marked(each.now)) for each in self.changed]
        return replace(
            self,
            added=[marked(each) for each in self.added],
            changed=[each for each in changed if not _is_same(each)],
        )


def diff_fragments(first: Manifest, head: Manifest) -> FragmentDiff:
    """The difference between the fragments of ``first`` and ``head``."""
    before, after = set(first.message.fragments), set(head.message.fragments)
    old = {
        each.id: each
        for raw in first.message.fragments
        if raw not in after
        for each in [Fragment(decode_fragment(raw, first.name))]
    }
    new = [
        Fragment(decode_fragment(raw, head.name))
        for raw in head.message.fragments
        if raw not in before
    ]
    live = frozenset(FieldId(each.id) for each in head.fields)
    changed = [ChangedFragment(old.pop(each.id), each) for each in new if each.id in old]
    known = {each.now.id for each in changed}
    return FragmentDiff(
        added=[each for each in new if each.id not in known],
        changed=[each for each in changed if each.now != each.then.without_dead_files(live)],
        removed=list(old.values()),
    )


def _is_same(changed: ChangedFragment) -> bool:
    """Whether at most the encoding of last-updated versions differs."""
    then, now = changed.then, changed.now
    if then.files != now.files or then.deletion_file != now.deletion_file:
        return False
    if then.lineage("row_ids") != now.lineage("row_ids"):
        return False
    if then.lineage("created_at_versions") != now.lineage("created_at_versions"):
        return False
    return updated_at(then) == updated_at(now)


def updated_at(fragment: Fragment) -> RowVersions:
    """The version that last changed each row; the first version if a writer left it out."""
    found = fragment.last_updated_at
    return RowVersions.uniform(FIRST_VERSION, fragment.physical_rows) if found is None else found


def is_head_same(first: ManifestHead, head: ManifestHead) -> bool:
    """Whether everything but the fragments is the same: schema, maps, indices, base paths."""
    one, other = first.message, head.message
    return (
        same_fields(first.fields, head.fields)
        and one.schema_metadata == other.schema_metadata
        and one.table_metadata == other.table_metadata
        and open_config(first) == open_config(head)
        and [each.message for each in first.indices] == [each.message for each in head.indices]
        and len(one.base_paths) == len(other.base_paths)
    )


_MARK_NOTHING_ELSE = (Append, Delete, CreateIndex, ReserveFragments, UpdateConfig, UpdateBases)
"""Together with these, a single Merge is understood from its fragments, as on any table."""


def needs_exact_marks(work: BranchWork) -> bool:
    """Whether the branch's marks would wrongly say that rows changed."""
    if not work.head.manifest.has_stable_row_ids:
        return False
    kinds = [type(each.operation) for each in work.steps]
    merges = kinds.count(Merge)
    return merges > 1 or (
        merges == 1 and any(each not in (Merge, *_MARK_NOTHING_ELSE) for each in kinds)
    )


def has_exact_marks(work: BranchWork) -> bool:
    """Whether the marks are right although the work may be recorded as a Merge: they were made
    exact, or the schema changed without a Merge, which marks nothing."""
    kinds = {type(each.operation) for each in work.steps}
    return needs_exact_marks(work) or (Project in kinds and Merge not in kinds)


def exact_marks(work: BranchWork, net: FragmentDiff) -> dict[FragmentId, RowVersions]:
    """The versions that really changed rows last, for each new or changed fragment."""
    changes = find_changes(work.first, work.head)
    real = _real_rows(changes)
    found = {}
    for each in (*net.added, *(pair.now for pair in net.changed)):
        found[each.id] = _marks(each, real.get(each.id), changes.since.rows, work.fork)
    then = {pair.now.id: pair.then for pair in net.changed}
    seen = {each.id for each in changes.until.fragments}
    for number, before in then.items():
        if number not in seen:  # the same rows with the same values
            found[number] = updated_at(before)
    return found


def _real_rows(changes: RowChanges) -> dict[FragmentId, npt.NDArray[np.int64]]:
    """The offsets of inserted and really changed rows, by fragment."""
    found: dict[FragmentId, npt.NDArray[np.int64]] = {}
    for part in (changes.inserted, changes.updated):
        for at, offsets in part.by_fragment():
            number = changes.until.fragments[at].id
            known = found.get(number, np.empty(0, np.int64))
            found[number] = np.concatenate((known, offsets))
    return found


def _marks(
    fragment: Fragment, real: npt.NDArray[np.int64] | None, before: LiveRows, fork: int
) -> RowVersions:
    marks = updated_at(fragment).to_numpy().copy()
    doubtful = marks > np.uint64(fork)
    if real is not None:
        doubtful[real] = False
    ids = fragment.row_ids
    assert ids is not None, "asked of a table without stable row ids"
    offsets = np.flatnonzero(doubtful)
    at = before.find(ids.values_at(offsets))
    marks[offsets[at >= 0]] = before.updated[at[at >= 0]]
    return RowVersions.from_values(marks)
