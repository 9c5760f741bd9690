"""The versions that lead to a state of a table, on its branch and those that it comes from.

Each is loaded when it is asked for; a few are kept. A version that was cleaned up is known by its
number and its branch alone.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from typing import TypeAlias

from lancewood.engine.base import WORKERS, in_order
from lancewood.engine.location import Location
from lancewood.engine.snapshot import Descent, Snapshot, load_snapshot
from lancewood.engine.versions import load_manifest, load_transaction, newest_version
from lancewood.errors import NotFoundError
from lancewood.format.layout import NamingScheme
from lancewood.jobs.diff import Comparison, compare, paired_columns
from lancewood.model.ids import Version
from lancewood.model.transaction import (
    Clone,
    MissingTransaction,
    Restore,
    UnknownOperation,
    operation_name,
)

_MOST_FRAGMENTS = 100_000
"""Number of fragments of all kept versions together."""
_FEWEST_KEPT, _MOST_KEPT = 4, 1024
_MOST_COMPARED = 500_000
"""Number of fragments and stretches of rows of all kept comparisons together."""

Ranges: TypeAlias = tuple[Comparison, ...]
"""A comparison of two versions, range by range of row ids; at least one."""


@dataclass(frozen=True, slots=True)
class Writer:
    """A version that wrote something, and what is still known of it."""

    version: Version
    branch: str | None
    """None for main."""
    time: datetime | None = None
    operation: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class _Known:
    """What stays known of a version that was loaded once."""

    writer: Writer
    copied: Version | None = None
    """The version whose rows it brought back: it is a restore, or begins a branch anew."""


class History:
    """The versions that lead to a state."""

    def __init__(self, newest: Snapshot) -> None:
        self.newest = newest
        self._known = dict[Version, _Known]()
        self._gone = set[Version]()
        self._schemes = {newest.location.uri: newest.scheme}
        self._loaded = OrderedDict[Version, Snapshot]()
        self._fragments = 0
        self._comparisons = OrderedDict[Version, Ranges]()
        self._compared = 0

    @cached_property
    def landed(self) -> Version:
        """The newest version of the history: the state itself, or what it was built on; 0 for a
        table that is yet to be made."""
        return Version(self.newest.landed_version or 0)

    @property
    def is_landed(self) -> bool:
        """Whether the state is a version of the history."""
        return self.landed == self.newest.manifest.version

    @cached_property
    def descent(self) -> Descent | None:
        """The way back; None where what the state was built on is gone."""
        if self.is_landed:
            return Descent(self.newest)
        with contextlib.suppress(NotFoundError):
            if self.landed:
                return Descent(load_snapshot(self.newest.location, version=self.landed))
        return None

    def at(self, version: Version) -> Snapshot:
        """A version of the history; raises NotFoundError if it was cleaned up."""
        if version == self.newest.manifest.version and self._is_own(version):
            return self.newest
        found = self._loaded.get(version)
        if found is None:
            self.load([version])
            found = self._loaded.get(version)
        if found is not None:
            self._loaded.move_to_end(version)
            return found
        if version == self.newest.manifest.version:
            return self.newest
        raise NotFoundError(f"version {version} was cleaned up", version=version)

    def load(self, versions: Iterable[Version]) -> None:
        """Load versions that will be asked for, several at once, as far as they will be kept."""
        if self.descent is None:
            return
        known = self._gone | self._loaded.keys()
        if self._is_own(self.newest.manifest.version):
            known.add(self.newest.manifest.version)
        wanted = [each for each in dict.fromkeys(versions) if each not in known]
        most = max(_FEWEST_KEPT, _MOST_FRAGMENTS // max(1, self.newest.manifest.fragment_count))
        tasks = (partial(self._load, each) for each in wanted[: min(most, _MOST_KEPT) // 2])
        for version, found in in_order(tasks, workers=WORKERS):
            if found is None:
                self._gone.add(version)
            else:
                self._keep(version, found)

    def _load(self, version: Version) -> Iterator[tuple[Version, Snapshot | None]]:
        assert self.descent is not None, "asked where there is a way back"
        location, _ = self.descent.root_of(version)
        scheme = self._scheme(location)
        try:
            found = load_manifest(location.store, version, scheme)
            yield version, Snapshot(location, found, scheme)
        except NotFoundError:
            yield version, None

    def _scheme(self, location: Location) -> NamingScheme:
        """How manifests are named in a root; known, a version that is gone needs no listing."""
        if location.uri not in self._schemes:
            newest = newest_version(location.store)
            self._schemes[location.uri] = self.newest.scheme if newest is None else newest.scheme
        return self._schemes[location.uri]

    def _keep(self, version: Version, found: Snapshot) -> None:
        self._loaded[version] = found
        self._fragments += found.manifest.fragment_count
        while len(self._loaded) > _FEWEST_KEPT and (
            self._fragments > _MOST_FRAGMENTS or len(self._loaded) > _MOST_KEPT
        ):
            _, gone = self._loaded.popitem(last=False)
            self._fragments -= gone.manifest.fragment_count

    def made_by(self, version: Version) -> Snapshot:
        """What a version made, or the state that will become it; raises NotFoundError."""
        is_waiting = not self.is_landed and version > self.landed
        return self.newest if is_waiting else self.at(version)

    def _is_own(self, version: Version) -> bool:
        """Whether a version was made on the branch of the state: the first version of a branch has
        the number of the one that it is a copy of."""
        if not self.is_landed or self.descent is None:
            return True
        return self.descent.root_of(version)[0] is self.newest.location

    def before(self, version: Version) -> Ranges:
        """A version compared with the one before it; raises NotFoundError if one is gone."""
        found = self._comparisons.get(version)
        if found is None:
            then, now = self.at(Version(version - 1)), self.at(version)
            found = _compared(then, now)
            self._comparisons[version] = found
            self._compared += _size(found)
            while len(self._comparisons) > 1 and self._compared > _MOST_COMPARED:
                _, gone = self._comparisons.popitem(last=False)
                self._compared -= _size(gone)
        self._comparisons.move_to_end(version)
        return found

    def unlanded(self) -> Ranges:
        """The state compared with what it was built on; raises NotFoundError if that is gone."""
        return _compared(self.at(self.landed), self.newest)

    def copied(self, version: Version) -> Version | None:
        """The version whose rows a version brought back; None if it made its rows itself."""
        known = self._look(version)
        return None if known is None else known.copied

    def writer(self, version: Version) -> Writer:
        """What is known of a version."""
        if not self.is_landed and version > self.landed:
            return _known_of(self.newest, version).writer
        known = self._look(version)
        return Writer(version, self._branch_of(version)) if known is None else known.writer

    def _branch_of(self, version: Version) -> str | None:
        if self.descent is None:
            return self.newest.manifest.branch
        return self.descent.root_of(version)[1]

    def _look(self, version: Version) -> _Known | None:
        """What is known of a version; None if it is gone."""
        if version not in self._known:
            try:
                found = self.at(version)
            except NotFoundError:
                return None
            self._known[version] = self._said(found, version)
        return self._known[version]

    def _said(self, found: Snapshot, version: Version) -> _Known:
        known, branch = _known_of(found, version), self._branch_of(version)
        if known.writer.branch != branch:  # the first of a branch, in place of one that is gone
            return _Known(Writer(version, branch))
        return known


def _size(ranges: Ranges) -> int:
    sides = [side for each in ranges for side in (each.before, each.after)]
    return sum(each.snapshot.manifest.fragment_count + len(each.rows.firsts) for each in sides)


def _known_of(found: Snapshot, version: Version) -> _Known:
    head = found.manifest
    transaction = load_transaction(found.location.store, head)
    operation = transaction.operations[0]
    is_known = not isinstance(operation, MissingTransaction | UnknownOperation)
    writer = Writer(
        version,
        head.branch,
        head.timestamp,
        operation_name(operation) if is_known else None,
        transaction.message,
    )
    if isinstance(operation, Restore):
        return _Known(writer, operation.version)
    if isinstance(operation, Clone) and operation.branch_name is not None:
        return _Known(writer, operation.ref_version)
    return _Known(writer)


def _compared(then: Snapshot, now: Snapshot) -> Ranges:
    """A version of a line compared with a later one."""
    return tuple(compare(then, now, then, paired_columns(then, now, then)))
