"""Planning a read on the driver: which fragments, cut into which tasks.

Looks at the manifest alone, and with a limit at one deletion file. Without a filter no fragment is
decoded but a sample and those that are cut. With one, the driver leaves out fragments that cannot
match where that takes no time, or where what is left would lie in few of the tasks; the rest is
for the tasks to leave out. A plan for 100,000 fragments of one file each is 3 MB in all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from lancewood.engine.rows import RowFacts
from lancewood.engine.scan import ScanPlan, ScanRequest
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import FormatError, InvalidInputError, UnsupportedError
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId
from lancewood.model.manifest import decode_fragment
from lancewood.model.schema import ROW_ADDRESS, SYSTEM_COLUMNS
from lancewood.model.segments import MAX_ROWS
from lancewood.spark.reading.cutting import MOST, cut_fragments
from lancewood.spark.reading.message import Portion
from lancewood.spark.reading.row_width import RowWidth
from lancewood.spark.reading.task import ReadWork
from lancewood.spark.types import Reading

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_FEW_FRAGMENTS = 10_000
"""So many are looked at one by one in less than a tenth of a second."""
_SAMPLE = 32
_LARGE_FRAGMENT = 1_024
"""Bytes from which a fragment is relieved of what its task does not need."""
_ALIGNMENT = 1_024
"""A fragment is cut after a multiple of so many rows."""


@dataclass(frozen=True)
class ReadPlan:
    """A checked read of one version."""

    work: ReadWork
    """What all tasks share; called with a message it gives the rows of that task."""
    messages: list[bytes]
    """One for each task, in the order of the table."""
    limit: int | None = None
    """Where the tasks together may give more rows than were asked for: how many were."""

    @property
    def spark(self) -> StructType:
        """The schema of the rows."""
        return self.work.reading.spark


def plan_read(
    snapshot: Snapshot, request: ScanRequest, slots: int, *, most_bytes: int = MOST
) -> ReadPlan:
    """The tasks of a read, for a cluster that runs ``slots`` of them at once.

    No task reads much more than ``most_bytes``, for callers who do not know how many there are.

    Raises InvalidInputError for names and filters that are wrong, UnsupportedError for types that
    Spark does not have and for a table that executors cannot reach, before any task runs.
    """
    if snapshot.place.store.location("data") is None:
        raise UnsupportedError(
            f"{snapshot.place.uri} is in the memory of one process, where executors cannot read "
            "it; keep the table on a disk or in an object store"
        )
    if request.offset or request.spans:
        raise InvalidInputError(
            "a read on Spark takes neither an offset nor spans: its tasks are cut by themselves"
        )
    scan = ScanPlan(snapshot, request)
    reading = Reading(scan.schema)
    chosen, limit = _Chosen.of(scan), request.limit
    if limit is not None and scan.predicate is None and chosen.rows is not None:
        chosen, limit = chosen.first(limit), None
    messages = [each.encode() for each in chosen.portions(slots, most_bytes)]
    shared = replace(request, fragments=None, base_ids=None, limit=limit)
    return ReadPlan(ReadWork(snapshot.bare(), shared, reading), messages, limit)


@dataclass(frozen=True)
class _Chosen:
    """The fragments that are read, most of them undecoded."""

    scan: ScanPlan
    raw: Sequence[bytes]
    rows: Sequence[int] | None
    """The live rows of each; None where a writer left one out."""
    last: int | None = None
    """Where the last fragment ends, if not all of its physical rows are read."""

    @classmethod
    def of(cls, scan: ScanPlan) -> _Chosen:
        """Those that the request names, without those that are left out here."""
        if scan.request.limit == 0:
            return cls(scan, (), ())
        is_pruned = _is_pruned_here(scan)
        if scan.request.fragments is None and scan.request.base_ids is None and not is_pruned:
            manifest = scan.snapshot.manifest
            return cls(scan, manifest.message.fragments, manifest.rows_by_fragment)
        found = list(scan.matching() if is_pruned else scan.fragments)
        rows = [each.num_rows for each in found]
        known = [each for each in rows if each is not None]
        if max(known, default=0) > MAX_ROWS:
            name = scan.snapshot.manifest.name
            raise FormatError(f"{name}: a fragment of {max(known)} rows; {MAX_ROWS} can be")
        raw = [each.message.SerializeToString() for each in found]
        return cls(scan, raw, known if len(known) == len(rows) else None)

    def first(self, limit: int) -> _Chosen:
        """Only so many rows; may read the deletion file of one fragment."""
        assert self.rows is not None
        ends = np.cumsum(np.asarray(self.rows, np.int64))
        at = int(np.searchsorted(ends, limit))
        if at >= len(self.rows):
            return self
        fragment, kept = self._fragment(at), limit - int(ends[at]) + self.rows[at]
        _, last = RowFacts(self.scan.snapshot, fragment).physical_range(
            0, kept, fragment.physical_rows
        )
        return _Chosen(self.scan, self.raw[: at + 1], [*self.rows[:at], kept], last)

    def portions(self, slots: int, most_bytes: int) -> Iterator[Portion]:
        """The fragments cut into tasks."""
        if not self.raw:
            return
        raw = [each if len(each) < _LARGE_FRAGMENT else self._relieved(each) for each in self.raw]
        sizes = np.fromiter(map(len, raw), np.int64, len(raw))
        rows = np.asarray([1] * len(raw) if self.rows is None else self.rows, np.int64)
        sample = np.unique(np.linspace(0, len(raw) - 1, _SAMPLE).astype(int)).tolist()
        width = RowWidth(self.scan).of(map(self._fragment, sample))
        split = self.rows is not None
        cuts = cut_fragments(rows, width, sizes, slots, split=split, most=most_bytes)
        places = dict.fromkeys(map(self._place, cuts.tolist()))
        for (first, start), (last, stop) in pairwise(places):
            spans: dict[FragmentId, tuple[int, int]] = {}
            if start:
                fragment = self._fragment(first)
                spans[fragment.id] = start, stop if first == last else self._end(first, fragment)
            if stop and not (start and first == last):
                spans[self._fragment(last).id] = 0, stop
            yield Portion(raw[first : last + 1 if stop else last], spans)

    def _place(self, cut: float) -> tuple[int, int]:
        """A cut as a fragment and the physical rows of it that are before the cut."""
        number = int(cut)
        if cut == len(self.raw) and self.last is not None:
            return number - 1, self.last
        if number == cut:
            return number, 0
        end = self._end(number, self._fragment(number))
        row = round((cut - number) * end / _ALIGNMENT) * _ALIGNMENT
        return self._place(number + 1) if row >= end else (number, row)

    def _end(self, number: int, fragment: Fragment) -> int:
        """The end of what is read of a fragment, in physical rows."""
        is_last = number == len(self.raw) - 1
        return self.last if is_last and self.last is not None else fragment.physical_rows

    def _fragment(self, number: int) -> Fragment:
        return Fragment(decode_fragment(self.raw[number], self.scan.snapshot.manifest.name))

    def _relieved(self, raw: bytes) -> bytes:
        """A fragment without the ids and versions of its rows, if nobody asks for them."""
        if self._needs_lineage:
            return raw
        fragment = Fragment(decode_fragment(raw, self.scan.snapshot.manifest.name))
        return fragment.with_lineage(None, None, None).message.SerializeToString()

    @cached_property
    def _needs_lineage(self) -> bool:
        predicate = self.scan.predicate
        needed = {*self.scan.projection.system, *(() if predicate is None else predicate.columns)}
        return not needed.isdisjoint(frozenset(SYSTEM_COLUMNS) - {ROW_ADDRESS})


def _is_pruned_here(scan: ScanPlan) -> bool:
    """Whether the driver looks at every fragment before it cuts tasks."""
    predicate, chosen = scan.predicate, scan.request.fragments
    if predicate is None:
        return False
    count = scan.snapshot.manifest.fragment_count if chosen is None else len(chosen)
    bounded = any(each.path[0] in SYSTEM_COLUMNS for each in predicate.bounds())
    return bounded or not predicate.columns or count <= _FEW_FRAGMENTS
