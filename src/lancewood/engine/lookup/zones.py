"""ZONEMAP: the least and the largest value of every zone, some thousand rows of a fragment.

``zonemap.lance`` also has how many values of a zone are null or NaN, and where it is. A zone is
taken to reach as far as the next one of its fragment: what lies between was deleted when the index
was made, or else belongs to it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lancewood.engine.lookup.index_files import KEPT, IndexFile, open_index_file
from lancewood.engine.lookup.value_tests import OTHER_TYPE, Ints, Ranges, ValueTests
from lancewood.engine.snapshot import Snapshot
from lancewood.model.bitmap import bitmap_of
from lancewood.model.ids import FragmentId
from lancewood.model.index import Index

Spans = tuple[tuple[int, int], ...]
"""Physical rows of a fragment, each from the first to before the second, ascending."""

_FILE = "zonemap.lance"
_NUMBERS = ("null_count", "nan_count", "fragment_id", "zone_start", "zone_length")
_COLUMNS = ("min", "max", *_NUMBERS)
_UNSIGNED = frozenset({"uint32", "uint64"})
_END = 1 << 32
"""An offset that is behind all rows of a fragment."""
_WORTHWHILE = 0.5
"""The part of all zones that may be left: reading more of them is reading everything."""
_GAP = 32_768
"""Number of unwanted rows that are read along to save a call of the codec."""


@dataclass(frozen=True)
class _Zones:
    """All zones of a segment, by fragment and start."""

    ranges: Ranges
    fragments: Ints
    starts: Ints
    stops: Ints
    named: BitMap
    """The fragments that are told of. One with a row in two zones is not: when pylance merges
    segments, zones of values that were rewritten since stay beside the new ones."""


@dataclass(frozen=True)
class Zones:
    """One segment of a ZONEMAP index."""

    file: IndexFile

    @classmethod
    def open(cls, snapshot: Snapshot, index: Index) -> Zones | None:
        """The segment; None where the file is missing or not laid out as we know it."""
        file = open_index_file(snapshot, index, _FILE, _COLUMNS)
        if file is None or not _UNSIGNED.issuperset(map(file.type_of, _NUMBERS)):
            return None
        kind = file.type_of("min")
        return cls(file) if kind is not None and file.type_of("max") == kind else None

    def find(
        self, tests: ValueTests, fragments: BitMap
    ) -> tuple[BitMap, dict[FragmentId, Spans]] | str:
        """The fragments that have zones, and the stretches of their rows that may be wanted; in
        words why not, if values cannot be compared, or if that is most of them.

        Raises FormatError for a file that contradicts itself.
        """
        if not self.file.num_rows:
            return "it has no zone"
        zones = KEPT.made(self.file, "zones", self._load)
        if not tests.fit(zones.ranges.lows.type):
            return OTHER_TYPE
        reached = np.flatnonzero(tests.reach(zones.ranges))
        if len(reached) > _WORTHWHILE * len(zones.starts):
            return f"rows can be in {len(reached):,} of {len(zones.starts):,} zones, too many"
        known = fragments & zones.named
        return known, _spans(zones, reached, known)

    def _load(self) -> tuple[_Zones, int]:
        batch = self.file.read(_COLUMNS, 0, self.file.num_rows)
        owners, starts = (_numbers(batch, each) for each in ("fragment_id", "zone_start"))
        order = np.lexsort((starts, owners))
        if not np.array_equal(order, np.arange(len(order))):
            batch, owners, starts = batch.take(order), owners[order], starts[order]
        is_same = owners[1:] == owners[:-1]
        lengths = _numbers(batch, "zone_length")
        is_twice = is_same & (starts[1:] < starts[:-1] + lengths[:-1])
        if owners.min() < 0 or owners.max() >= _END or starts.min() < 0 or starts.max() >= _END:
            raise self.file.broken("has a zone at a row that no fragment has")
        stops = np.append(np.where(is_same, starts[1:], _END), _END)
        starts = np.where(np.append(False, is_same), starts, 0)
        ranges = Ranges.of(
            batch.column("min"),
            batch.column("max"),
            lengths,
            _numbers(batch, "null_count"),
            _numbers(batch, "nan_count"),
        )
        named = np.setdiff1d(owners, owners[1:][is_twice])
        made = _Zones(ranges, owners, starts, stops, bitmap_of(named))
        return made, ranges.size + 3 * owners.nbytes


def _numbers(batch: pa.RecordBatch, name: str) -> Ints:
    """A column of numbers; those beyond 63 bits become negative."""
    numbers: Ints = batch.column(name).to_numpy().astype(np.int64)
    return numbers


def _spans(zones: _Zones, reached: Ints, fragments: BitMap) -> dict[FragmentId, Spans]:
    """Zones of some fragments, those that are near each other together."""
    found: dict[FragmentId, list[tuple[int, int]]] = {}
    for owner, start, stop in zip(
        zones.fragments[reached].tolist(),
        zones.starts[reached].tolist(),
        zones.stops[reached].tolist(),
        strict=True,
    ):
        if owner in fragments:
            spans = found.setdefault(FragmentId(owner), [])
            if spans and start - spans[-1][1] <= _GAP:
                start = spans.pop()[0]
            spans.append((start, stop))
    return {owner: tuple(spans) for owner, spans in found.items()}
