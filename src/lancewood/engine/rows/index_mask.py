"""Which rows an index may answer for: the specification's row id masks.

The files of an index never change, so they name rows that have since been deleted or updated. An
index may answer for the fragments in its bitmap that still exist, except their deleted rows;
everything else must be scanned. A row whose indexed value changed was deleted in its old place, and
its new place is not in the bitmap, so it is excluded too. Index files themselves are not opened.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from lancewood.engine.rows.facts import RowFacts, open_fragment
from lancewood.engine.rows.take import Numbers, as_numbers, positions_of
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import NotFoundError
from lancewood.model.bitmap import bitmap_runs
from lancewood.model.ids import FragmentId
from lancewood.model.index import Index
from lancewood.model.rowids import RowIdSequence
from lancewood.model.schema import Schema
from lancewood.rules.indices import check_no_fragment_reuse


def load_index_mask(snapshot: Snapshot, name: str) -> IndexMask:
    """The mask of an index; raises NotFoundError if there is no index of that name.

    Raises UnsupportedError where bitmaps name fragments that are gone and have to be translated.
    """
    manifest = snapshot.manifest
    segments = tuple(each for each in manifest.indices if each.name == name)
    if not segments:
        names = sorted({each.name for each in manifest.indices})
        raise NotFoundError(
            f"index {name!r} not found in version {manifest.version} of {snapshot.location.uri}: "
            f"{'it has ' + ', '.join(map(repr, names)) if names else 'it has no index'}",
            index=name,
        )
    check_no_fragment_reuse(manifest.indices, f"the mask of index {name!r}")
    return IndexMask(snapshot, name, segments)


@dataclass(frozen=True)
class IndexMask:
    """Rows that all segments of one index may answer for, as stable row ids or row addresses,
    whichever the index uses. Deletion files and sequences are read when they are needed."""

    snapshot: Snapshot
    name: str
    segments: tuple[Index, ...]

    @property
    def holds_row_ids(self) -> bool:
        """Whether the numbers are stable row ids; they are row addresses otherwise."""
        return self.snapshot.manifest.has_stable_row_ids and all(
            each.holds_row_ids for each in self.segments
        )

    @cached_property
    def fragments(self) -> BitMap:
        """The fragments that the index covers and that still exist."""
        return BitMap.union(BitMap(), *(each.fragments for each in self.segments)) & self._live

    @property
    def uncovered(self) -> BitMap:
        """The fragments that must be scanned."""
        return self._live - self.fragments

    @cached_property
    def row_count(self) -> int:
        """How many rows it may answer for; from the manifest, if recorded there."""
        known = self.snapshot.manifest.rows_by_fragment
        if known is None:
            return sum(count for _, count in self.runs())
        pairs = zip(self.snapshot.manifest.fragment_ids, known, strict=True)
        return sum(rows for each, rows in pairs if each in self.fragments)

    def runs(self) -> Iterator[tuple[int, int]]:
        """(first, count) of each run of numbers, fragment by fragment."""
        for fragment in self.fragments:
            facts = self._facts(fragment)
            if self.holds_row_ids:
                yield from ((first, count) for _, first, count in facts.live_ids.runs())
                continue
            begins, ends = bitmap_runs(facts.deleted)
            starts = [0, *ends.tolist()]
            stops = [*begins.tolist(), self._physical_rows(facts)]
            for start, stop in zip(starts, stops, strict=True):
                if start < stop:
                    yield (fragment << 32) + start, stop - start

    def allows(self, numbers: Numbers) -> npt.NDArray[np.bool_]:
        """Whether each number that the index returns is valid."""
        asked = as_numbers(numbers, "numbers")
        if not self.holds_row_ids:
            return self._allows_addresses(asked)
        if self.fragments == self._live:
            return positions_of(self.snapshot, asked) >= 0
        return self._covered_ids.find(asked) >= 0

    def _allows_addresses(self, asked: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        allowed = np.zeros(len(asked), np.bool_)
        owners = asked >> np.uint64(32)
        offsets = (asked & np.uint64(0xFFFFFFFF)).astype(np.int64)
        for owner in np.unique(owners).tolist():
            if owner in self.fragments:
                facts = self._facts(owner)
                here = (owners == owner) & (offsets < self._physical_rows(facts))
                allowed[here] = ~facts.are_deleted(offsets[here])
        return allowed

    @cached_property
    def _live(self) -> BitMap:
        return BitMap(self.snapshot.manifest.fragment_ids)

    @cached_property
    def _covered_ids(self) -> RowIdSequence:
        return RowIdSequence.concat([self._facts(each).live_ids for each in self.fragments])

    def _facts(self, fragment: int) -> RowFacts:
        return RowFacts(self.snapshot, self.snapshot.manifest.fragment(FragmentId(fragment)))

    def _physical_rows(self, facts: RowFacts) -> int:
        recorded = facts.fragment.physical_rows
        return recorded or open_fragment(self.snapshot, facts.fragment, Schema(())).physical_rows()
