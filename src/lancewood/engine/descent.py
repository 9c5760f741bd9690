"""The history of a branch from before it was made: its parent's, up to the version that it left.

A version below that one is looked up where the branch came from, and shown as the branch sees it:
files of the parent's root under the base path that the branch has for it. So what both have in
common is the same, byte for byte. A clone that is no branch has no history of before. Changes
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial

from lancewood.engine.fanout import in_order
from lancewood.engine.place import Place
from lancewood.engine.refs import load_branch
from lancewood.engine.revisions import branch_place, main_place
from lancewood.engine.snapshot import Snapshot, load_snapshot
from lancewood.engine.transactions import load_transaction_of, missing_transaction
from lancewood.engine.versions import list_versions, newest_version
from lancewood.errors import FormatError, InvalidInputError, NotFoundError, UnsupportedError
from lancewood.format.inherited import inherited_fragments
from lancewood.model.ids import BaseId, Version
from lancewood.model.manifest import Manifest
from lancewood.model.operations import Clone
from lancewood.model.refs import BranchName
from lancewood.model.transaction import Transaction
from lancewood.proto import table_pb2

_AT_ONCE = 16
"""Transactions that are fetched at the same time where a store is slow to answer."""


@dataclass(frozen=True)
class _Stretch:
    """A root, and the versions that are looked up in it: those after ``after``."""

    place: Place
    after: int


@dataclass(frozen=True)
class Descent:
    """The history that leads to a version, on its own branch and on those it descends from."""

    snapshot: Snapshot

    def load(self, version: int) -> Snapshot:
        """A version of this history; raises NotFoundError."""
        own = self.snapshot
        try:
            return load_snapshot(own.place, version=version)
        except NotFoundError:
            stretch = self._stretch(version)
            if stretch.place is own.place:
                raise
        return self._seen(load_snapshot(stretch.place, version=version))

    def transaction(self, version: Version) -> Transaction:
        """The transaction that made a version, and not the one that made a branch of it."""
        place = self._stretch(version).place
        scheme = self.snapshot.scheme
        if place is not self.snapshot.place:
            newest = newest_version(place.store)
            if newest is None:
                return missing_transaction(version, f"{place.uri} holds no version")
            scheme = newest.scheme
        return load_transaction_of(place.store, version, scheme)

    def reset_after(self, version: Version) -> Version | None:
        """The version in which the branch began anew after one of its own, which is therefore not
        part of this history; None if it did not, as far as the versions tell that are there."""
        own, last = self.snapshot, self.snapshot.manifest.version
        if own.manifest.branch is None or version >= last:
            return None
        there = list_versions(own.place.store).versions
        if version not in there:
            return None
        tasks = (partial(self._clones, each) for each in there if version < each <= last)
        return next(in_order(tasks, workers=_AT_ONCE), None)

    def _clones(self, version: Version) -> Iterator[Version]:
        made = load_transaction_of(self.snapshot.place.store, version, self.snapshot.scheme)
        if any(isinstance(each, Clone) for each in made.operations):
            yield version

    def _stretch(self, version: int) -> _Stretch:
        return next(each for each in self._stretches if version > each.after)

    @cached_property
    def _stretches(self) -> tuple[_Stretch, ...]:
        """From the own root upwards; the last one holds whatever is left."""
        return tuple(self._upwards())

    def _upwards(self) -> Iterator[_Stretch]:
        place, name = self.snapshot.place, self.snapshot.manifest.branch
        branch = None if name is None else BranchName.found(name)
        seen = set[BranchName]()
        while branch is not None and branch not in seen:
            seen.add(branch)
            try:
                main = main_place(self.snapshot)
                made = load_branch(main.store, branch)
            except (FormatError, InvalidInputError):
                break
            if made is None:
                break
            yield _Stretch(place, made.parent_version)
            branch = made.parent_branch
            place = branch_place(main, branch)
        yield _Stretch(place, -1)

    def _seen(self, earlier: Snapshot) -> Snapshot:
        """A version of an ancestor in the terms of this branch, where it has such terms."""
        base_id = self._base_of(earlier.place)
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
        return Snapshot(self.snapshot.place, seen, earlier.scheme)

    def _base_of(self, ancestor: Place) -> BaseId | None:
        place = self.snapshot.place
        place.settle(self.snapshot.manifest)
        for base in self.snapshot.manifest.base_paths:
            if base.is_dataset_root and place.leads_to(base, ancestor.store):
                return BaseId(base.id)
        return None
