"""The history of a branch before its creation, and the roots of one table that may share files.

A version below the fork is looked up on the parent branch, and shown as the branch sees it: files
of the parent's root under the base path that the branch has for it. So what both share is the same,
byte for byte. A clone that is not a branch has no earlier history. Changes nothing.

Names and numbers are reused: a branch may be reset, or deleted and created again. So the record of
a branch counts only for versions that began where it says; for others the transaction that created
them decides, and a parent that is younger than its child does not count. Where nothing decides,
there is no earlier history.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from lancewood.engine.location import Location
from lancewood.engine.snapshot.revisions import branch_location, main_location
from lancewood.engine.snapshot.sameness import same_content
from lancewood.engine.snapshot.snapshot import Snapshot, load_snapshot
from lancewood.engine.versions import (
    TableRefs,
    branch_roots,
    is_recorded,
    list_versions,
    load_branch,
    load_manifest,
    load_transaction,
    load_transaction_of,
    missing_transaction,
    newest_version,
)
from lancewood.errors import FormatError, InvalidInputError, NotFoundError, UnsupportedError
from lancewood.format.inherited import inherited_fragments
from lancewood.format.layout import (
    TREE_DIR,
    VERSIONS_DIR,
    ManifestName,
    NamingScheme,
    manifest_key,
    parse_manifest_name,
)
from lancewood.model.ids import BaseId, Version, is_detached
from lancewood.model.manifest import Manifest
from lancewood.model.refs import MAIN, Branch, BranchName
from lancewood.model.table_config import reset_version
from lancewood.model.transaction import Clone, Restore, Transaction
from lancewood.proto import table_pb2
from lancewood.store.base import Store

_Begun: TypeAlias = tuple[BranchName | None, Version]
"""A branch, None for main, and a version of it."""
_MOST_VERSIONS = 256
"""At most this many transactions are read to see whether a branch was reset in between."""
_STRETCHES = "stretches"
"""The key in ``derived`` under which an ancestor's version keeps the history it was seen in."""


@dataclass(frozen=True)
class _Stretch:
    """A root, and the versions that are looked up in it: those after ``after``."""

    location: Location
    branch: str | None
    after: int
    last: int
    """The last version of this root in the history."""
    reset: int = 0
    """The version in which the branch was last reset before that one; 0 if it never was."""
    scheme: NamingScheme = NamingScheme.V2
    is_current: bool = True
    """Whether the branch was not reset since, according to its record."""

    @classmethod
    def up_to(cls, head: Snapshot, after: int, record: Branch | None) -> _Stretch:
        branch, last, reset = head.manifest.branch, head.manifest.version, _reset(head)
        is_current = record is None or _is_of(record, reset)
        return cls(head.location, branch, after, last, reset, head.scheme, is_current)

    def reset_since(self, earlier: Snapshot) -> Version | None:
        """The version in which the branch was reset after an earlier one; None if it was not. Main
        never is."""
        if self.branch is None:
            return None
        then, version = _reset(earlier), earlier.manifest.version
        if self.reset != then:
            return Version(max(self.reset, then))
        return None if self.is_current else self._reset_between(version)

    def _reset_between(self, version: Version) -> Version | None:
        """The version of a reset that the reset mark does not show: the branch may have been reset
        after ``version`` and gone back to an earlier state, with the mark of that. Row ids assigned
        after that state are then given out twice. Versions that were cleaned up are skipped; too
        many count as a reset."""
        store, at = self.location.store, Version(self.last)
        while at > version:
            if at - version > _MOST_VERSIONS:
                return at
            back = Version(at - 1)
            with contextlib.suppress(NotFoundError):
                found = load_manifest(store, at, self.scheme)
                mark = reset_version(found.config)
                if mark != self.reset:
                    return Version(max(mark, self.reset))
                made = load_transaction(store, found).operations[0]
                if isinstance(made, Restore) and version <= made.version < at:
                    back = made.version
            at = back
        return None


@dataclass(frozen=True)
class Descent:
    """The history that leads to a version, on its own branch and on those it descends from."""

    snapshot: Snapshot

    def load(self, version: int) -> Snapshot:
        """Load a version of this history; raises NotFoundError."""
        own = self.snapshot
        try:
            return load_snapshot(own.location, version=version)
        except NotFoundError:
            stretch = self._stretch(version)
            if stretch.location is own.location:
                raise
        return self._seen(load_snapshot(stretch.location, version=version))

    def transaction(self, version: Version) -> Transaction:
        """The transaction that made a version, and not the one that made a branch of it."""
        location = self._stretch(version).location
        scheme = self.snapshot.scheme
        if location is not self.snapshot.location:
            newest = newest_version(location.store)
            if newest is None:
                return missing_transaction(version, f"{location.uri} holds no version")
            scheme = newest.scheme
        return load_transaction_of(location.store, version, scheme)

    def root_of(self, version: int) -> tuple[Location, str | None]:
        """Where a version of this history was made: its root, and its branch, None for main."""
        stretch = self._stretch(version)
        return stretch.location, stretch.branch

    def passes(self, branch: str | None, version: int) -> int | None:
        """Which of the roots of this history a version is in, counted from its own upwards; None
        for a version of another life of its branch, and one of another branch.

        The first version of a branch counts as one of the branch.
        """
        for at, each in enumerate(self._stretches):
            first = each.reset if each.reset > each.after else each.after
            if each.branch == branch and first <= version <= each.last:
                return at
        return None

    def find(self, earlier: Snapshot) -> Snapshot | None:
        """Another version of the table as this history has it; None where it is not known to be
        part of it."""
        at = self._level(earlier)
        return self._seen(earlier) if at else earlier if at == 0 else None

    def holds(self, earlier: Snapshot) -> bool:
        """Whether another version of the table is known to be part of this history."""
        return self._level(earlier) is not None

    def _level(self, earlier: Snapshot) -> int | None:
        """On which of the stretches a version is; None where that is not known."""
        version, branch = earlier.manifest.version, earlier.manifest.branch
        if is_detached(version) or version > self.snapshot.manifest.version:
            return None
        for at, each in enumerate(self._stretches):
            is_here = each.branch == branch and version <= each.last
            if is_here and each.reset_since(earlier) is None:
                return at
        return None

    def crossings(self, other: Descent) -> Iterator[tuple[Location, Version]]:
        """Roots that both histories pass through, nearest first, each with the version up to which
        they may be the same there."""
        lasts = {each.location.uri: each.last for each in other._stretches}
        for each in self._stretches:
            if each.location.uri in lasts:
                yield each.location, Version(min(each.last, lasts[each.location.uri]))

    def reset_after(self, earlier: Snapshot) -> Version | None:
        """The version in which a branch of this history was reset after an earlier version of that
        branch, or went back to a state before it: then the earlier version is not part of this
        history. None if neither happened."""
        return self._beside(earlier.manifest.version).reset_since(earlier)

    def _beside(self, version: Version) -> _Stretch:
        """The stretch of the root in which ``load`` finds a version."""
        own = self.snapshot
        if version <= self._stretches[0].after:
            with contextlib.suppress(NotFoundError):
                own.location.store.head(manifest_key(version, own.scheme))
                return self._stretches[0]
        return self._stretch(version)

    def _stretch(self, version: int) -> _Stretch:
        return next(each for each in self._stretches if version > each.after)

    @cached_property
    def _stretches(self) -> tuple[_Stretch, ...]:
        """The stretches from the branch's own root upwards; the last one holds the rest."""
        known: tuple[_Stretch, ...] | None = self.snapshot.derived.get(_STRETCHES)
        return tuple(self._upwards()) if known is None else known

    def _upwards(self) -> Iterator[_Stretch]:
        head, seen = self.snapshot, set[BranchName]()
        record = _record(head)
        while record is not None and record.name not in seen:
            seen.add(record.name)
            begun = _beginning(head, record)
            if begun is None:
                break
            main, (branch, version) = main_location(head), begun
            if branch is None:
                yield _Stretch.up_to(head, version, record)
                yield _Stretch(main, None, -1, version)
                return
            location = branch_location(main, branch)
            above, its_record = _parent(location, version, record)
            if above is None:
                break
            yield _Stretch.up_to(head, version, record)
            head, record = above, its_record
        yield _Stretch.up_to(head, -1, record)

    def _seen(self, earlier: Snapshot) -> Snapshot:
        """A version of an ancestor as this branch refers to its files, where it can."""
        base_id = self._base_of(earlier.location)
        if base_id is None:
            return earlier
        own = self.snapshot.manifest
        message = table_pb2.Manifest()
        message.CopyFrom(earlier.manifest.bare().message)
        try:
            message.MergeFromString(inherited_fragments(earlier.manifest, base_id))
        except UnsupportedError:
            return earlier
        message.ClearField("base_paths")
        message.base_paths.extend(own.base_paths)
        message.branch = str(own.branch)
        seen = Manifest(message, name=earlier.manifest.name)
        derived = {_STRETCHES: self._stretches}
        return Snapshot(self.snapshot.location, seen, earlier.scheme, derived)

    def _base_of(self, ancestor: Location) -> BaseId | None:
        location = self.snapshot.location
        location.settle(self.snapshot.manifest)
        for base in self.snapshot.manifest.base_paths:
            if base.is_dataset_root and location.leads_to(base, ancestor.store):
                return BaseId(base.id)
        return None


def common_version(one: Snapshot, other: Snapshot) -> Snapshot | None:
    """The newest version that two states of a table both come from, on whatever branches; None
    where none is known. Up to it, numbers of versions and row ids mean the same in both."""
    here, there = landed(one), landed(other)
    if here is None or there is None:
        return None
    histories = Descent(here), Descent(there)
    if histories[1].holds(here):
        return here
    if histories[0].holds(there):
        return there
    for location, version in histories[0].crossings(histories[1]):
        with contextlib.suppress(NotFoundError):
            met = load_snapshot(location, version=version)
            if all(each.holds(met) for each in histories):
                return met
    return None


def landed(state: Snapshot) -> Snapshot | None:
    """The version of the history that a state is or became, or else was built on; None where that
    is unknown, or gone."""
    version = state.landed_version
    if version == state.manifest.version:
        return state
    found = became(state)
    if found is not None:
        return found
    with contextlib.suppress(NotFoundError):
        return None if version is None else load_snapshot(state.location, version=version)
    return None


def became(state: Snapshot) -> Snapshot | None:
    """The version that a detached state landed as, where nobody else wrote before it did."""
    if not is_detached(state.manifest.version):
        return None
    made = load_transaction(state.location.store, state.manifest)
    if is_detached(made.read_version):
        return None
    with contextlib.suppress(NotFoundError):
        found = load_snapshot(state.location, version=Version(made.read_version + 1))
        is_same = load_transaction(state.location.store, found.manifest).uuid == made.uuid
        return found if is_same and same_content(found, state) else None
    return None


def is_there(snapshot: Snapshot) -> bool:
    """Whether a version is still the one that was opened: neither cleaned up, nor replaced because
    its table or branch was created again."""
    store, head = snapshot.location.store, snapshot.manifest
    mine = load_transaction(store, head).uuid
    if mine:
        return load_transaction_of(store, head.version, snapshot.scheme).uuid == mine
    try:
        return load_manifest(store, head.version, snapshot.scheme).timestamp_ns == head.timestamp_ns
    except NotFoundError:
        return False


def _record(head: Snapshot) -> Branch | None:
    """The record of a version's branch; None for main, and where there is none."""
    name = head.manifest.branch
    if name is None:
        return None
    with contextlib.suppress(FormatError, InvalidInputError):
        return load_branch(main_location(head).store, BranchName.found(name))
    return None


def _is_of(record: Branch, reset: int) -> bool:
    """Whether versions with a reset mark began where a record says; a parent that was reset passes
    its mark on to branches that never were."""
    own = record.reset_in
    return reset <= record.parent_version if own is None else reset == own


def _beginning(head: Snapshot, record: Branch) -> _Begun | None:
    """The version of the parent at which a version's branch last began before it."""
    reset, fork = _reset(head), record.parent_version
    if fork <= head.manifest.version and _is_of(record, reset) and _has_its_mark(head, record):
        return record.parent_branch, fork
    begun = _fork_in(head, reset) if reset else None
    oldest = list_versions(head.location.store).versions[-1:]
    return begun or next((_fork_in(head, each) for each in oldest), None)


def _has_its_mark(head: Snapshot, record: Branch) -> bool:
    """Whether a record without a mark never had one, judging by the newest version of the branch:
    pylance drops our mark when it replaces metadata."""
    newest = newest_version(head.location.store) if record.reset_in is None else None
    if newest is None or newest.version == head.manifest.version:
        return True
    found = load_manifest(head.location.store, newest.version, newest.scheme)
    return reset_version(found.config) == _reset(head)


def _fork_in(head: Snapshot, version: int) -> _Begun | None:
    """What the branch of a version began at in another version; None where it did not, or was reset
    in between."""
    with contextlib.suppress(NotFoundError):
        first = load_snapshot(head.location, version=version)
        made = load_transaction(head.location.store, first.manifest).operations[0]
        if isinstance(made, Clone) and _reset(first) == _reset(head):
            name = made.ref_name
            parent = None if name in (None, MAIN) else BranchName.found(str(name))
            return parent, made.ref_version
    return None


def _parent(
    location: Location, version: Version, child: Branch
) -> tuple[Snapshot | None, Branch | None]:
    """The version at which a branch forked in the root of another one, and the record of that; None
    where it is gone, or is not the branch that the child was made from."""
    with contextlib.suppress(NotFoundError):
        found = load_snapshot(location, version=version)
        record = _record(found)
        if record is not None and _is_parent(record, child):
            return found, record
    return None, None


def _is_parent(parent: Branch, child: Branch) -> bool:
    """Whether a branch is the one that another was made from, and not a later one of the same
    name."""
    line, longer = parent.identifier, child.identifier
    if line and longer and len(longer) > len(line):
        return all(one.uuid == other.uuid for one, other in zip(line, longer, strict=False))
    return parent.created_at_seconds <= child.created_at_seconds


def _reset(snapshot: Snapshot) -> int:
    return reset_version(snapshot.manifest.config)


@dataclass(frozen=True)
class Family:
    """One root of a table, ``own``, and those it may share files with."""

    main: Store
    own: Store
    branch: BranchName | None
    """The branch whose root is ``own``; None for main."""

    @property
    def own_root(self) -> str:
        return "" if self.branch is None else f"{TREE_DIR}/{self.branch}"

    def store(self, root: str) -> Store:
        if root == self.own_root:
            return self.own
        return self.main.at(root) if root else self.main

    def roots(self, refs: TableRefs) -> list[str]:
        """Every root of the family, with or without a ref.

        Raises FormatError for a branch whose root holds no version, since what it needs is unknown.
        """
        found = ["", *branch_roots(self.main)]
        known = set(found)
        for each in refs.branches:
            if f"{TREE_DIR}/{each.name}" not in known and is_recorded(self.main, each.name):
                raise FormatError(
                    f"branch {each.name} of {self.main.uri} is recorded, but {TREE_DIR}/"
                    f"{each.name} holds no version: which files it needs is not known. Bring its "
                    "files back, or delete the branch",
                    branch=str(each.name),
                )
        return found


def find_family(snapshot: Snapshot) -> Family:
    """The family that a version belongs to; raises InvalidInputError for a branch elsewhere."""
    own, head = snapshot.location.store, snapshot.manifest
    if head.branch is None:
        return Family(own, own, None)
    return Family(main_location(snapshot).store, own, BranchName.found(head.branch))


def manifest_names(store: Store) -> dict[str, ManifestName]:
    """The manifests of a root by the bare names of their files, detached ones included."""
    return {
        name: found for name in store.names(VERSIONS_DIR) if (found := parse_manifest_name(name))
    }
