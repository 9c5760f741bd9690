"""Which work a version of a target holds: ranges of versions of branches, told by its transaction.

Work that comes twice would double rows, and no rule about operations can see that. So a version
that took work over says which, and whoever brings work looks for it there. Pure.

The work on a branch: what happened there since it left its parent.

Where it left is told by the newest Clone transaction among its versions, not by the record of the
branch. A part of it is a range of its versions; and work on a branch of a branch goes on top of the
other's, seen from further up. Reads transactions; knows nothing of the target.

What the work on a branch comes to: its first version beside its head, fragment by fragment.

Fragments are compared as bytes, and only those that differ are decoded. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from lancewood.engine.snapshot import Snapshot, branch_place, load_snapshot, main_place
from lancewood.engine.versions import load_manifest, load_transaction_of
from lancewood.errors import (
    IncompatibleConflictError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
)
from lancewood.model.closing import PUBLISHED_KEY, RESET_KEY
from lancewood.model.exclusive import EXCLUSIVE_KEY
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FieldId, FragmentId, Version, is_detached
from lancewood.model.manifest import Manifest, ManifestHead, decode_fragment
from lancewood.model.manifest_store import MANIFEST_STORE_KEY
from lancewood.model.operations import (
    Clone,
    MissingTransaction,
    Operation,
    Restore,
    UnknownOperation,
    UpdateConfig,
)
from lancewood.model.refs import MAIN, BranchName, called
from lancewood.model.rowids import FIRST_VERSION, RowVersions
from lancewood.model.transaction import Transaction
from lancewood.rules.three_way import same_fields

BRANCH_PROPERTY = "lancewood.branch"
BRANCH_VERSION_PROPERTY = "lancewood.branch_version"
"""Which work a version of the target is, for people."""
HELD_PROPERTY = "lancewood.holds"
"""All of it, for whoever brings more: ``exp:5-7@0b1c… dev:9-12``."""

_is_range = re.compile(r"([^\s:]+):(\d{1,20})-(\d{1,20})(?:@(\S+))?").fullmatch


@dataclass(frozen=True, slots=True)
class Held:
    """The versions of a branch after ``since``, up to ``until``."""

    branch: str
    since: Version
    until: Version
    line: str = ""
    """The identity of the transaction that the branch began with, which tells it from others that
    had its name, and is the same under another name; empty where it is not known."""

    def meets(self, other: Held) -> bool:
        """Whether both have a version in common."""
        are_known = self.line and other.line
        is_same = self.line == other.line if are_known else self.branch == other.branch
        return is_same and self.since < other.until and other.since < self.until

    def __str__(self) -> str:
        line = f"@{self.line}" if self.line else ""
        return f"{self.branch}:{self.since}-{self.until}{line}"


def encode_held(work: Iterable[Held]) -> str:
    """The value of the property."""
    return " ".join(dict.fromkeys(map(str, work)))


def held_in(transaction: Transaction) -> tuple[Held, ...]:
    """The work that a transaction says it holds; what cannot be understood is left out."""
    properties = transaction.properties
    text = properties.get(HELD_PROPERTY)
    if text is not None:
        found = [match.groups("") for each in text.split() if (match := _is_range(each))]
        return tuple(
            Held(branch, Version(int(since)), Version(int(until)), line)
            for branch, since, until, line in found
        )
    branch, version = properties.get(BRANCH_PROPERTY), properties.get(BRANCH_VERSION_PROPERTY, "")
    if branch is None or not version.isdecimal():
        return ()
    return (Held(branch, Version(0), Version(int(version))),)


def in_common(mine: Iterable[Held], theirs: Iterable[Held]) -> Held | None:
    """Work of the one that the other has, too."""
    known = [*theirs]
    return next((each for each in mine if any(map(each.meets, known))), None)


MARKS = frozenset({PUBLISHED_KEY, RESET_KEY, EXCLUSIVE_KEY, MANIFEST_STORE_KEY})
"""Keys of the configuration that say who may write to a branch, and where it began anew; they are
the branch's own."""


@dataclass(frozen=True, slots=True)
class Step:
    """One operation of the branch, and the version that it made."""

    version: Version
    operation: Operation


@dataclass(frozen=True)
class Work:
    """What a branch did since its fork."""

    first: Snapshot
    """The branch as it began: a clone of the parent's version ``fork``."""
    head: Snapshot
    parent: BranchName | None
    """None is main."""
    fork: Version
    steps: Sequence[Step]
    """The oldest first; what only says who may write is not among them."""
    own: tuple[Held, ...] = ()
    """Which versions of which branches it is; several where branches of branches are passed."""
    brought: tuple[Held, ...] = ()
    """Work of other branches that its versions took over."""
    roots: frozenset[str] = frozenset()
    """Roots of branches that are passed on the way to the parent."""

    @property
    def branch(self) -> str:
        return self.head.manifest.branch or MAIN

    @property
    def held(self) -> tuple[Held, ...]:
        """All work that a version holds which takes this over."""
        return (*self.own, *self.brought)


def load_work(head: Snapshot) -> Work:
    """The work up to a version of a branch.

    Raises NotFoundError where a version or transaction in between is gone, UnsupportedError for an
    operation that is not known, InvalidInputError for what is no branch.
    """
    if head.manifest.branch is None:
        raise InvalidInputError(f"{head.place.uri} is no branch, and has nothing to publish")
    walked = _Walk(head)
    version = walked.back_to(None)
    clone = walked.clone
    assert clone is not None, "a branch begins with one"
    parent = None if clone.ref_name in (None, MAIN) else BranchName.found(str(clone.ref_name))
    return walked.work(version, parent, clone.ref_version)


def load_work_onto(head: Snapshot, target: BranchName | None) -> Work:
    """The same, from where the branch left the target, or the branch that it left did, and so on.

    Raises InvalidInputError if none of them did.
    """
    work = load_work(head)
    main = main_place(head)
    while work.parent != target:
        if work.parent is None:
            raise InvalidInputError(
                f"{called(work.branch)} does not come from {called(target)}, and cannot be "
                "published onto it",
                branch=work.branch,
            )
        above = load_work(load_snapshot(branch_place(main, work.parent), version=work.fork))
        work = Work(
            above.first,
            work.head,
            above.parent,
            above.fork,
            (*above.steps, *work.steps),
            (*above.own, *work.own),
            (*above.brought, *work.brought),
            work.roots | above.roots | {above.head.place.uri},
        )
    return work


def load_part(first: Snapshot, head: Snapshot, target: BranchName | None) -> Work:
    """What happened between two versions of one branch, to be done again on another branch.

    Raises IncompatibleConflictError if the branch began anew in between, and what ``load_work``
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
    return walked.work(first.manifest.version, target, first.manifest.version)


class _Walk:
    """From a version of a branch back, one transaction after the other."""

    def __init__(self, head: Snapshot) -> None:
        self._head = head
        self._steps: list[Step] = []
        self._brought: list[Held] = []
        self.clone: Clone | None = None
        """Where the branch began, if it was passed."""
        self._line = ""

    def back_to(self, end: Version | None) -> Version:
        """Go back to a version, which is left out, or to where the branch began; the version."""
        head = self._head
        version = head.manifest.version
        while version != end:
            transaction = load_transaction_of(head.place.store, version, head.scheme)
            for operation in transaction.operations:
                if isinstance(operation, Clone):
                    self.clone, self._line = operation, transaction.uuid
                    return version
                _check_known(head, version, operation)
                if not only_marks(operation):
                    self._steps.append(Step(version, operation))
            self._brought += held_in(transaction)
            version = Version(version - 1)
        return version

    def work(self, first: Version, parent: BranchName | None, fork: Version) -> Work:
        head = self._head
        begun = head
        if first != head.manifest.version:
            found = load_manifest(head.place.store, first, head.scheme)
            begun = Snapshot(head.place, found, head.scheme)
        own = Held(head.manifest.branch or MAIN, first, head.manifest.version, self._line)
        steps = tuple(reversed(self._steps))
        return Work(begun, head, parent, fork, steps, (own,), tuple(self._brought))


def check_restored(work: Work) -> None:
    """Raises IncompatibleConflictError for a version that was restored from before a reset, or from
    beside the history: its ids of rows and fragments are those of others on the target."""
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
    """Whether it said of the branch who may write to it, and did nothing else: closed it, opened it
    again, or kept it for a repository."""
    return (
        isinstance(operation, UpdateConfig)
        and len(operation.config.entries) > 0
        and operation.config.entries.keys() <= MARKS
        and not operation.config.replace
        and not operation.table_metadata
        and not operation.touches_schema
    )


@dataclass(frozen=True, slots=True)
class Changed:
    """A fragment that both versions have, and that is another one now."""

    then: Fragment
    now: Fragment


@dataclass(frozen=True, slots=True)
class Net:
    """Fragments that came, changed and went; sorted by id."""

    added: Sequence[Fragment]
    changed: Sequence[Changed]
    removed: Sequence[Fragment]

    def with_marks(self, marks: dict[FragmentId, RowVersions]) -> Net:
        """The same with other versions that last changed the rows of some fragments; a fragment
        that is then as it was has not changed."""

        def marked(fragment: Fragment) -> Fragment:
            found = marks.get(fragment.id)
            return fragment if found is None else fragment.stamped(found)

        changed = [Changed(each.then, marked(each.now)) for each in self.changed]
        return replace(
            self,
            added=[marked(each) for each in self.added],
            changed=[each for each in changed if not _is_same(each)],
        )


def find_net(first: Manifest, head: Manifest) -> Net:
    """What became of the fragments of ``first`` in ``head``."""
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
    changed = [Changed(old.pop(each.id), each) for each in new if each.id in old]
    known = {each.now.id for each in changed}
    return Net(
        added=[each for each in new if each.id not in known],
        changed=[each for each in changed if each.now != each.then.without_dead_files(live)],
        removed=list(old.values()),
    )


def is_head_same(first: ManifestHead, head: ManifestHead) -> bool:
    """Whether all but the fragments is what it was: schema, maps, indices, base paths."""
    one, other = first.message, head.message
    return (
        same_fields(first.fields, head.fields)
        and one.schema_metadata == other.schema_metadata
        and one.table_metadata == other.table_metadata
        and open_config(first) == open_config(head)
        and [each.message for each in first.indices] == [each.message for each in head.indices]
        and len(one.base_paths) == len(other.base_paths)
    )


def open_config(head: ManifestHead) -> dict[str, str]:
    """The configuration without what says who may write, which is the branch's alone."""
    return {key: value for key, value in head.config.items() if key not in MARKS}


def _is_same(changed: Changed) -> bool:
    """Whether nothing but the encoding of marks differs."""
    then, now = changed.then, changed.now
    if then.files != now.files or then.deletion_file != now.deletion_file:
        return False
    if then.lineage("row_ids") != now.lineage("row_ids"):
        return False
    if then.lineage("created_at_versions") != now.lineage("created_at_versions"):
        return False
    return updated_at(then) == updated_at(now)


def updated_at(fragment: Fragment) -> RowVersions:
    """The version that last changed each row, spelled out where a writer left it out."""
    found = fragment.last_updated_at
    return RowVersions.uniform(FIRST_VERSION, fragment.physical_rows) if found is None else found
