"""The rows of a merge's source that one task needs: with the task only they travel.

Here, where the whole source is in memory, nothing is copied. Knows nothing of who runs tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lancewood.jobs.merging.keys import Key, Positions
from lancewood.jobs.merging.source import FittedSource, SourceRows, portion_rows, rows_at
from lancewood.model.schema import Schema


class SourcePart(SourceRows):
    """Some rows of a source that is here, by their positions in the whole of it."""

    def __init__(self, whole: FittedSource, *needed: Positions) -> None:
        self._whole = whole
        self._needed = needed
        self.table, self.columns, self.key = whole.table, whole.columns, whole.key

    @property
    def portion_rows(self) -> int:
        return self._whole.portion_rows

    def at(self, positions: Positions, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        return self._whole.at(positions, columns)

    def __reduce__(self) -> tuple[Any, ...]:
        places = np.unique(np.concatenate((*self._needed, np.empty(0, np.int64))))
        rows = self._whole.rows.take(pa.array(places)).combine_chunks()
        return TravelledPart, (self.table, self.columns, self.key, places, rows)


@dataclass(frozen=True)
class TravelledPart(SourceRows):
    """The same where the task is."""

    table: Schema
    columns: Schema
    key: Key
    places: Positions
    """Where the rows are in the whole source, rising."""
    rows: pa.Table

    @property
    def portion_rows(self) -> int:
        return portion_rows(self.rows.nbytes / max(self.rows.num_rows, 1))

    def at(self, positions: Positions, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        rows = self.rows if columns is None else self.rows.select(columns)
        return rows_at(rows, np.searchsorted(self.places, positions))
