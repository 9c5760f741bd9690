"""Rows that a stream is to read, given by where they are; cut as finely as tasks need them.

Rows of whole fragments are counted with those that are deleted: only a task reads deletion files.
Knows nothing of versions before and after.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import TypeAlias

import numpy as np

from lancewood.engine.rows import Ints, LiveRows
from lancewood.engine.snapshot import Snapshot
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId, Version
from lancewood.model.manifest import decode_fragment
from lancewood.spark.reading.task import TablePortion

_LARGE_FRAGMENT = 1_024


class RowChange(Enum):
    """What became of a row, in the words of ``Table.changes``."""

    INSERTED = "inserted"
    UPDATED = "updated"
    DELETED = "deleted"


@dataclass(frozen=True)
class Picked:
    """Single rows of fragments, for a task: stretches of physical rows, sorted."""

    fragments: tuple[bytes, ...]
    owners: Ints
    """Which of the fragments each stretch is in."""
    offsets: Ints
    counts: Ints


@dataclass(frozen=True)
class FragmentRows:
    """The rows of fragments, from one physical row to before another, all counted in one."""

    snapshot: Snapshot
    version: Version
    """The version that brought the rows."""
    fragments: Sequence[bytes]
    physical: Ints
    """The physical rows of each fragment."""
    start: int
    stop: int
    change: RowChange = RowChange.INSERTED

    @classmethod
    def of(
        cls, snapshot: Snapshot, version: Version, fragments: Sequence[bytes], physical: Ints
    ) -> FragmentRows:
        return cls(snapshot, version, fragments, physical, 0, int(physical.sum()))

    @property
    def row_count(self) -> int:
        """Number of rows, deleted ones included."""
        return self.stop - self.start

    @property
    def fragment_count(self) -> int:
        first, last = self._reach
        return last - first

    def cut(self, start: int, stop: int) -> FragmentRows:
        return replace(self, start=self.start + start, stop=self.start + stop)

    def sample(self, most: int) -> Iterator[Fragment]:
        first, last = self._reach
        for at in range(first, last, max(1, (last - first) // most)):
            yield self._decoded(at)

    def portion(self, *, with_lineage: bool) -> TablePortion:
        """The rows as a portion for a task, with the ids and versions of rows or without."""
        first, last = self._reach
        spans: dict[FragmentId, tuple[int, int]] = {}
        for at in {first, last - 1} if last > first else ():
            before = int(self._ends[at] - self.physical[at])
            begin, end = max(self.start - before, 0), min(self.stop, int(self._ends[at])) - before
            if (begin, end) != (0, int(self.physical[at])):
                spans[self._decoded(at).id] = begin, end
        raws = self.fragments[first:last]
        return TablePortion([_relieved(each, self._name, with_lineage) for each in raws], spans)

    @cached_property
    def _ends(self) -> Ints:
        return np.cumsum(self.physical)

    @cached_property
    def _reach(self) -> tuple[int, int]:
        """The fragments that the rows are in."""
        if self.stop <= self.start:
            return 0, 0
        first = int(np.searchsorted(self._ends, self.start, side="right"))
        last = int(np.searchsorted(self._ends, self.stop))
        return first, last + 1

    @property
    def _name(self) -> str:
        return self.snapshot.manifest.name

    def _decoded(self, at: int) -> Fragment:
        return Fragment(decode_fragment(self.fragments[at], self._name))


@dataclass(frozen=True)
class PickedRows:
    """Live rows here and there in fragments."""

    snapshot: Snapshot
    version: Version
    fragments: tuple[Fragment, ...]
    owners: Ints
    offsets: Ints
    counts: Ints
    change: RowChange

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        version: Version,
        fragments: tuple[Fragment, ...],
        rows: LiveRows,
        change: RowChange,
    ) -> PickedRows:
        """The rows of one side of a comparison, in the order of its fragments."""
        order = np.lexsort((rows.offsets, rows.fragments))
        return cls(
            snapshot,
            version,
            fragments,
            rows.fragments[order],
            rows.offsets[order],
            rows.counts[order],
            change,
        )

    @property
    def row_count(self) -> int:
        return int(self.counts.sum())

    @property
    def fragment_count(self) -> int:
        return len(np.unique(self.owners))

    def cut(self, start: int, stop: int) -> PickedRows:
        ends = np.cumsum(self.counts)
        begins = ends - self.counts
        low, high = np.maximum(begins, start), np.minimum(ends, stop)
        kept = low < high
        return replace(
            self,
            owners=self.owners[kept],
            offsets=(self.offsets + low - begins)[kept],
            counts=(high - low)[kept],
        )

    def sample(self, most: int) -> Iterator[Fragment]:
        used = np.unique(self.owners)
        for at in used[:: max(1, len(used) // most)].tolist():
            yield self.fragments[at]

    def portion(self, *, with_lineage: bool) -> Picked:
        """The rows as a portion for a task, with the ids and versions of rows or without."""
        used, owners = np.unique(self.owners, return_inverse=True)
        name = self.snapshot.manifest.name
        raws = [self.fragments[at].message.SerializeToString() for at in used.tolist()]
        fragments = tuple(_relieved(each, name, with_lineage) for each in raws)
        return Picked(fragments, owners.astype(np.int64), self.offsets, self.counts)


StreamRows: TypeAlias = FragmentRows | PickedRows


def _relieved(raw: bytes, name: str, with_lineage: bool) -> bytes:
    """A fragment that is large without what nobody asks for: ids of rows may be megabytes."""
    if with_lineage or len(raw) < _LARGE_FRAGMENT:
        return raw
    fragment = Fragment(decode_fragment(raw, name))
    return fragment.with_lineage(None, None, None).message.SerializeToString()
