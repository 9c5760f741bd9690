"""The rows that meet a condition, as a set of row ids that pylance takes: our SQL stays ours."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lancewood.engine.base import offsets_by_fragment
from lancewood.engine.rows import ScanPlan
from lancewood.model.bitmap import bitmap_of
from lancewood.model.schema import ROW_ADDRESS, ROW_ID

FEW = 2_000
"""Up to this many allowed rows are fetched and compared. An index would find few of them if most of
what it holds near a query is not allowed."""
_KEPT = "allowed rows"
"""The key in ``derived`` for the rows of conditions that were searched with."""
_MOST_KEPT = 8


class AllowedRows:
    """The rows that may be found. Pickles; a bit for each row at most."""

    def __init__(self) -> None:
        self._ids: dict[int, BitMap] = {}
        self._few = np.empty(0, np.uint64)
        self._encoded: bytes | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Take up rows of a scan with row ids and addresses."""
        if len(self) <= FEW:
            self._few = np.concatenate([self._few, batch.column(ROW_ADDRESS).to_numpy()])
        for high, lows in offsets_by_fragment(batch.column(ROW_ID).to_numpy()):
            self._add(high, bitmap_of(lows))

    def update(self, other: AllowedRows) -> None:
        """Take up the rows of another set."""
        if len(self) <= FEW:
            self._few = np.concatenate([self._few, other._few])
        for high, lows in other._ids.items():
            self._add(high, lows)

    def _add(self, high: int, lows: BitMap) -> None:
        self._encoded = None
        known = self._ids.get(high)
        self._ids[high] = lows if known is None else known | lows

    def __len__(self) -> int:
        return sum(map(len, self._ids.values()))

    @property
    def few(self) -> npt.NDArray[np.uint64] | None:
        """Addresses of the rows, if they are few."""
        return self._few if len(self) <= FEW else None

    def encode(self) -> bytes:
        """Ids of the rows as pylance takes them: the number of bitmaps, then of each its upper
        half, size and bytes."""
        if self._encoded is not None:
            return self._encoded
        parts = [struct.pack("<I", len(self._ids))]
        for high, bitmap in sorted(self._ids.items()):
            bitmap.run_optimize()
            data = bitmap.serialize()
            parts += [struct.pack("<II", high, len(data)), data]
        self._encoded = b"".join(parts)
        return self._encoded


def allowed_rows(plan: ScanPlan) -> AllowedRows:
    """The rows that a scan with row ids and addresses gives.

    Those of a condition without parameters are kept with the snapshot: the next search with it
    reads nothing.
    """
    request = plan.request
    kept: dict[str | None, Any] = plan.snapshot.derived.setdefault(_KEPT, {})
    known: AllowedRows | None = kept.get(request.where) if request.parameters is None else None
    if known is not None:
        return known
    found = AllowedRows()
    for batch in plan.batches():
        found.add(batch)
    if request.parameters is None:
        if len(kept) >= _MOST_KEPT:
            kept.clear()
        kept[request.where] = found
    return found
