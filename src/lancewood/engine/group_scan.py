"""The rows of a group of small fragments that a scan gives: what ``fragment_scan`` does for one.

All columns are read in one go with those of the filter, which is computed once for the group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancewood.data.wanted import WantedColumns
from lancewood.engine.fragment_group import FragmentGroup, grouped
from lancewood.engine.fragment_scan import FragmentScan
from lancewood.engine.fragments import small_fragments
from lancewood.engine.masks import chosen, places_in
from lancewood.engine.row_shape import Fetching, RowShape, batch_of
from lancewood.model.fragment import Fragment

_Ints = npt.NDArray[np.int64]


class GroupScan:
    """Small fragments of one scan; groups are made and read here."""

    def __init__(self, shape: RowShape, wanted: WantedColumns | None = None) -> None:
        """``wanted`` is what is read, for one who only wants to know which rows pass."""
        self._shape = shape
        self._reader = small_fragments(shape.snapshot, shape.together if wanted is None else wanted)

    def groups(self, fragments: Iterable[Fragment]) -> Iterator[tuple[Fragment, ...]]:
        """The fragments, those that are small in groups; one by one if they must be."""
        shape = self._shape
        if shape.fetching is not Fetching.AUTO:
            return ((each,) for each in fragments)
        if shape.most_rows is None:
            return grouped(fragments, self._reader)
        return grouped(fragments, self._reader, first=1)

    def batches(self, fragments: Sequence[Fragment]) -> Iterator[pa.RecordBatch]:
        """The rows of a group of several, shaped, never an empty batch. They are read now: threads
        that read small files only wait for each other."""
        group, positions = self.found(fragments)
        if positions is not None and self._shape.most_rows is not None:
            positions = positions[: self._shape.most_rows]
        made = self._shaped(group, positions)
        return self._cut(made, 0, made.num_rows)

    def count(self, fragments: Sequence[Fragment]) -> Iterator[int]:
        """How many rows of a group of several pass. They are read now."""
        group, positions = self.found(fragments)
        return iter((group.rows.num_rows if positions is None else len(positions),))

    def separated(self, fragments: Sequence[Fragment]) -> Iterator[Iterator[pa.RecordBatch]]:
        """Without a filter, the rows of each fragment of a group of several."""
        group, live = self.found(fragments)
        made = self._shaped(group, live)
        cuts = group.bounds if live is None else np.searchsorted(live, group.bounds)
        return (self._cut(made, start, stop) for start, stop in pairwise(cuts.tolist()))

    def _cut(self, rows: pa.RecordBatch, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        size = self._shape.batch_rows or max(stop - start, 1)
        return (rows.slice(at, min(size, stop - at)) for at in range(start, stop, size))

    def _shaped(self, group: FragmentGroup, positions: _Ints | None) -> pa.RecordBatch:
        shape = self._shape
        rows = group.rows if positions is None else chosen(group.rows, positions)
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        if shape.projection.system:
            at = np.arange(rows.num_rows) if positions is None else positions
            for name in shape.projection.system:
                columns[name] = group.column(name, at)
        return shape.shaped(columns, rows.num_rows)

    def found(self, fragments: Sequence[Fragment]) -> tuple[FragmentGroup, _Ints | None]:
        """The group, read, and the positions of the live rows that pass; None means all."""
        shape = self._shape
        group = FragmentGroup(shape.snapshot, fragments, self._reader)
        live = group.live
        if shape.predicate is None:
            return group, live
        rows = group.rows if live is None else chosen(group.rows, live)
        if shape.filter_system:
            columns = dict(zip(rows.schema.names, rows.columns, strict=True))
            at = np.arange(rows.num_rows) if live is None else live
            for name in shape.filter_system:
                columns[name] = group.column(name, at)
            rows = batch_of(columns, rows.num_rows)
        places = places_in(shape.predicate.mask(rows))
        return group, places if live is None else live[places]


def scan_each(shape: RowShape, fragments: Sequence[Fragment]) -> Iterator[Iterator[pa.RecordBatch]]:
    """Without a filter, the rows of each fragment; of small ones, several are read together."""
    scan = GroupScan(shape)
    for group in scan.groups(fragments):
        if len(group) == 1:
            yield FragmentScan(shape, group[0]).batches()
        else:
            yield from scan.separated(group)
