"""Rows of one state under the merged schema, as tasks compare and write them.

Columns of blobs are opaque: bytes are compared where both sides have some of one length, and read
only for rows that are written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lancewood.data.differing import Mask
from lancewood.engine.rows import Ints
from lancewood.errors import MergeConflictError, UnsupportedError
from lancewood.jobs.diff import BlobCells, Places, RowReader, State, cast_or_null
from lancewood.jobs.merge.conflicts import CellChanges, SideRows
from lancewood.jobs.merge.touched_rows import RowLocations
from lancewood.model.schema import Field

_Codes: TypeAlias = npt.NDArray[np.int8]


_MOST_BYTES = 32 << 20
"""Number of bytes of blobs in one batch at most, unless a single row has more."""


@dataclass(frozen=True, eq=False)
class ReadRows:
    """Rows of one state."""

    rows: SideRows
    blobs: Mapping[str, BlobCells] = field(default_factory=dict)
    """Cells of blobs, by merged column; without columns that the state does not have."""

    def size(self, name: str, row: int) -> int:
        """The number of bytes in a blob; 0 if the state does not have the column."""
        cells = self.blobs.get(name)
        return 0 if cells is None else cells.size(row)

    def blob(self, name: str, row: int) -> bytes | None:
        cells = self.blobs.get(name)
        return None if cells is None else cells.read(row)


class SideReader:
    """Reads rows of one state."""

    def __init__(
        self,
        state: State,
        columns: Sequence[tuple[Field, Field | None]],
        arrow: pa.Schema,
        opaque: frozenset[str],
    ) -> None:
        self._state, self._columns = state, columns
        self._reader = RowReader(state, [side for _, side in columns if side is not None])
        self._arrow = pa.schema([each for each in arrow if each.name not in opaque])
        self._opaque = opaque

    def at(self, places: RowLocations) -> ReadRows:
        """The rows at these places; nulls for those that the state does not have."""
        there = places.there
        found = self._reader.at(Places(*places.at(there)))
        spread = None
        if not there.all():
            spread = pa.array(np.cumsum(there) - 1, mask=~there)
        values, blobs = list[pa.Array](), dict[str, BlobCells]()
        for column, side in self._columns:
            is_opaque = column.name in self._opaque
            if side is None:
                if not is_opaque:
                    values.append(pa.nulls(len(there), self._arrow.field(column.name).type))
                continue
            cells = found[side.name]
            if not is_opaque:
                cells = fitting(cells, self._arrow.field(column.name))
            cells = cells if spread is None else cells.take(spread)
            if is_opaque:
                blobs[column.name] = BlobCells(self._state, side, Places(*places), cells)
            else:
                values.append(cells)
        rows = pa.RecordBatch.from_arrays(values, schema=self._arrow)
        return ReadRows(SideRows(rows, there), blobs)


def fitting(values: pa.Array, column: pa.Field) -> pa.Array:
    """Values in the type of a merged column; raises MergeConflictError for one that does not
    fit."""
    if values.type == column.type:
        return values
    cast = cast_or_null(values, column.type)
    if cast.null_count != values.null_count:
        lost = values.filter(pc.and_(values.is_valid(), cast.is_null()))[0]
        raise MergeConflictError(
            f"column {column.name!r} is {column.type} on one side, and the other has the value "
            f"{lost} in it, which does not fit; change that value first",
            column=column.name,
        )
    return cast


def opaque_cells(
    name: str, base: Sequence[ReadRows], ours: ReadRows, theirs: ReadRows
) -> CellChanges:
    """Where the cells of an opaque column differ; raises UnsupportedError where several bases do
    not have the same."""
    for other in base[1:]:
        if _differing(name, base[0], other).any():
            raise UnsupportedError(
                f"the two were merged crosswise before, and column {name!r}, which has blobs, was "
                "changed on both sides then; write its values again on one of them",
                column=name,
            )
    return CellChanges(
        _differing(name, base[0], ours),
        _differing(name, base[0], theirs),
        _differing(name, ours, theirs),
    )


def _differing(name: str, one: ReadRows, other: ReadRows) -> Mask:
    mine, theirs = one.blobs.get(name), other.blobs.get(name)
    if mine is None or theirs is None:
        some = mine or theirs
        return np.zeros(len(one.rows.there), np.bool_) if some is None else some.valid
    return mine.differing(theirs)


def with_blobs(
    rows: pa.RecordBatch,
    arrow: pa.Schema,
    chosen: Mapping[str, _Codes],
    at: Ints,
    sides: Sequence[ReadRows],
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Rows with the bytes of blobs, in batches that fit in memory, and where each begins.

    ``chosen`` says by opaque column whose blob each row has, ``at`` which row of the sides it is.
    """
    if not chosen:
        yield 0, rows
        return
    sizes = np.zeros(len(at), np.int64)
    for name, codes in chosen.items():
        sizes += [sides[code].size(name, row) for code, row in zip(codes, at, strict=True)]
    ends, start = np.cumsum(sizes), 0
    while start < len(at):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + _MOST_BYTES, side="right")))
        here = slice(start, stop)
        columns = [
            _bytes(each, chosen[each.name][here], at[here], sides)
            if each.name in chosen
            else rows.column(each.name)[here]
            for each in arrow
        ]
        yield start, pa.RecordBatch.from_arrays(columns, schema=arrow)
        start = stop


def _bytes(
    column: pa.Field,
    codes: _Codes,
    at: Ints,
    sides: Sequence[ReadRows],
) -> pa.Array:
    pairs = zip(codes.tolist(), at.tolist(), strict=True)
    return pa.array([sides[code].blob(column.name, row) for code, row in pairs], column.type)
