"""The rows that meet a condition, as a set of row ids that pylance takes: our SQL stays ours."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from lancewood.engine.base import offsets_by_fragment
from lancewood.engine.rows import ScanPlan
from lancewood.model.bitmap import bitmap_of
from lancewood.model.schema import ROW_ID

_KEPT = "allowed rows"
"""The key in ``derived`` for the sets of conditions that were searched with."""
_MOST_KEPT = 8


class RowIdSet:
    """Row ids, a bit each at most; on a table without stable ids they are addresses."""

    def __init__(self) -> None:
        self._bitmaps: dict[int, BitMap] = {}

    def add(self, ids: npt.NDArray[np.uint64]) -> None:
        """Take up more ids."""
        for high, lows in offsets_by_fragment(ids):
            self._add(high, bitmap_of(lows))

    def update(self, other: RowIdSet) -> None:
        """Take up the ids of another set."""
        for high, lows in other._bitmaps.items():
            self._add(high, lows)

    def _add(self, high: int, lows: BitMap) -> None:
        known = self._bitmaps.get(high)
        self._bitmaps[high] = lows if known is None else known | lows

    def __len__(self) -> int:
        return sum(map(len, self._bitmaps.values()))

    def encode(self) -> bytes:
        """As pylance takes it: the number of bitmaps, then of each its upper half, size, bytes."""
        parts = [struct.pack("<I", len(self._bitmaps))]
        for high, bitmap in sorted(self._bitmaps.items()):
            bitmap.run_optimize()
            data = bitmap.serialize()
            parts += [struct.pack("<II", high, len(data)), data]
        return b"".join(parts)


def allowed_rows(plan: ScanPlan) -> bytes | None:
    """The ids of the rows that a scan with row ids gives; None if it gives all, empty if none.

    A condition without parameters is kept with the snapshot: the next search with it reads
    nothing.
    """
    request = plan.request
    kept: dict[str | None, Any] = plan.snapshot.derived.setdefault(_KEPT, {})
    if request.parameters is None and request.where in kept:
        found: bytes | None = kept[request.where]
        return found
    rows = RowIdSet()
    for batch in plan.batches():
        rows.add(batch.column(ROW_ID).to_numpy())
    found = b"" if not len(rows) else rows.encode()
    if len(rows) == plan.snapshot.manifest.row_count:
        found = None
    if request.parameters is None:
        if len(kept) >= _MOST_KEPT:
            kept.clear()
        kept[request.where] = found
    return found
