"""The history of a branch from before it was made: its parent's, up to the version that it left.

A version below that one is looked up where the branch came from, and shown as the branch sees it:
files of the parent's root under the base path that the branch has for it. So what both have in
common is the same, byte for byte. A clone that is no branch has no history of before. Changes
nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from lancewood.engine.place import Place
from lancewood.engine.refs import load_branch
from lancewood.engine.revisions import branch_place, main_place
from lancewood.engine.snapshot import Snapshot, load_snapshot
from lancewood.engine.transactions import load_transaction_of, missing_transaction
from lancewood.engine.versions import newest_version
from lancewood.errors import FormatError, InvalidInputError, NotFoundError, UnsupportedError
from lancewood.format.inherited import inherited_fragments
from lancewood.format.layout import manifest_key
from lancewood.model.closing import RESET_KEY
from lancewood.model.ids import BaseId, Version
from lancewood.model.manifest import Manifest
from lancewood.model.refs import BranchName
from lancewood.model.transaction import Transaction
from lancewood.proto import table_pb2

_MOST_DIGITS = 20
"""Of a version's number."""


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

    def reset_after(self, earlier: Snapshot) -> Version | None:
        """The version in which a branch of this history began anew after an earlier version of its
        own, or between the two of which it went back to one from before: then the earlier one is
        not part of this history. None if it did not."""
        then, now = _began_anew(earlier), _began_anew(self._last_beside(earlier))
        return None if then == now else Version(max(then, now))

    def _last_beside(self, earlier: Snapshot) -> Snapshot:
        """The last version that leads here of the root that holds an earlier one; the earlier one
        itself where that is main, which never begins anew."""
        own, version = self.snapshot, earlier.manifest.version
        if own.manifest.branch is None or version > self._stretches[0].after:
            return own
        with contextlib.suppress(NotFoundError):
            own.place.store.head(manifest_key(version, own.scheme))
            return own
        at = next(at for at, each in enumerate(self._stretches) if version > each.after)
        if self._stretches[at].after < 0:
            return earlier
        with contextlib.suppress(NotFoundError):
            return load_snapshot(self._stretches[at].place, version=self._stretches[at - 1].after)
        return earlier

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


def _began_anew(snapshot: Snapshot) -> int:
    """The version in which its branch began anew for the last time; 0 if it never did."""
    found = snapshot.manifest.config.get(RESET_KEY, "")
    return int(found) if found.isdecimal() and len(found) <= _MOST_DIGITS else 0
