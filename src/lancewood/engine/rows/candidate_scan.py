"""The rows of one fragment that an index names: fetched one by one, and judged again.

What ``fragment_scan`` does for all rows of a fragment. The whole filter is evaluated on every row,
so that an index may name too many.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancewood.data.reader import FragmentReader
from lancewood.data.wanted import WantedColumns
from lancewood.engine.rows.facts import RowFacts, open_fragment
from lancewood.engine.rows.fragment_scan import FragmentScan, chosen, locations_in
from lancewood.engine.rows.picking import pick_rows
from lancewood.engine.rows.row_shape import RowShape, batch_of
from lancewood.errors import FormatError
from lancewood.model.fragment import Fragment

_Ints = npt.NDArray[np.int64]
_FEW = 256
"""Rows whose columns are all read at once: a second call of the codec would cost more."""
_PORTION_ROWS = 32_768


class CandidateScan:
    """Some rows of one fragment, read once."""

    def __init__(self, shape: RowShape, fragment: Fragment, offsets: _Ints) -> None:
        """``offsets`` are physical, rising, and may be those of deleted rows."""
        self._shape = shape
        self._fragment = fragment
        self._offsets = offsets
        self._facts = RowFacts(shape.snapshot, fragment)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows that pass the filter, shaped, without empty batches."""
        shape = self._shape
        offsets = self._live(shape.filtering)
        is_late = shape.predicate is not None and shape.late.schema.fields
        if len(offsets) <= _FEW or not is_late:
            return self._sliced(self._together(offsets))
        return self._late(offsets)

    def count(self) -> Iterator[int]:
        """How many of the rows pass, portion by portion."""
        filtering = self._shape.filtering
        judged = self._judged(filtering, self._live(filtering))
        return (len(locations) for _, _, locations in judged)

    def _open(self, wanted: WantedColumns) -> FragmentReader:
        return open_fragment(self._shape.snapshot, self._fragment, wanted)

    def _live(self, wanted: WantedColumns) -> _Ints:
        """The offsets without those of deleted rows.

        Raises FormatError for one that the fragment does not have.
        """
        offsets = self._offsets
        rows = self._fragment.physical_rows or self._open(wanted).physical_rows()
        if len(offsets) and offsets[-1] >= rows:
            raise FormatError(
                f"an index of {self._shape.snapshot.location.uri} names row {offsets[-1]} of "
                f"fragment {self._fragment.id}, which has {rows}: drop the index and make it "
                "again, or read with use_indices=False",
                fragment=self._fragment.id,
            )
        if self._fragment.deletion_file is None:
            return offsets
        return offsets[~self._facts.are_deleted(offsets)]

    def _judged(
        self, wanted: WantedColumns, offsets: _Ints
    ) -> Iterator[tuple[pa.RecordBatch, _Ints, _Ints]]:
        """Batches of rows, their offsets, and which of them pass."""
        shape = self._shape
        reader = self._open(wanted)
        for start in range(0, len(offsets), _PORTION_ROWS):
            portion = offsets[start : start + _PORTION_ROWS]
            at = 0
            for batch in pick_rows(reader, wanted, portion):
                here = portion[at : at + batch.num_rows]
                at += batch.num_rows
                if shape.predicate is None:
                    yield batch, here, np.arange(len(here))
                    continue
                rows = batch
                if shape.filter_system:
                    rows = batch_of(self._with_system(batch, here, shape.filter_system), len(here))
                yield batch, here, locations_in(shape.predicate.mask(rows))

    def _together(self, offsets: _Ints) -> Iterator[pa.RecordBatch]:
        shape = self._shape
        for batch, here, locations in self._judged(shape.together, offsets):
            if len(locations):
                rows, places = chosen(batch, locations), here[locations]
                columns = self._with_system(rows, places, shape.projection.system)
                yield shape.shaped(columns, len(places))

    def _late(self, offsets: _Ints) -> Iterator[pa.RecordBatch]:
        """First the columns of the filter, then the others for rows that pass."""
        shape = self._shape
        fetching = FragmentScan(shape, self._fragment)
        kept = frozenset(shape.projection.stored.names) - frozenset(shape.late.schema.names)
        for batch, here, locations in self._judged(shape.filtering, offsets):
            if len(locations):
                names = [each for each in batch.schema.names if each in kept]
                early = chosen(batch.select(names), locations) if names else None
                yield from fetching.fetched(early, here[locations])

    def _with_system(
        self, batch: pa.RecordBatch, offsets: _Ints, names: tuple[str, ...]
    ) -> dict[str, Any]:
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        return columns | {name: self._facts.column_at(name, offsets) for name in names}

    def _sliced(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        size = self._shape.batch_rows
        for batch in batches:
            step = size or batch.num_rows
            yield from (batch.slice(at, step) for at in range(0, batch.num_rows, step))
