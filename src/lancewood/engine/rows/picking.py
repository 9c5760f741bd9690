"""Reading rows at given offsets of a fragment, each column in the cheaper way.

Rows are fetched one by one, or read with everything in between: a cost model in nanoseconds,
measured on local files (``bench/filtered.py``), decides. Reading on is cheap; a value fetched alone
costs decoding the chunk around it, once for all rows that are in it, and a read of its own where no
chunk beside it is wanted too.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancewood.data.reader import FragmentReader, in_step
from lancewood.data.wanted import WantedColumns
from lancewood.model.schema import Schema

CALL = 300_000.0
"""The cost of one more call of the codec, overhead included."""
_ROW = 70.0
"""The cost of naming a row."""
_RUN = 130.0
"""The cost of rows that follow each other, however many, besides."""
_IO = 5_000.0
"""The cost of a read by itself."""
_CHUNK = 1_000.0
_CHUNK_BYTES = 8_192.0
_CHUNK_ROWS = 1_024.0
_LARGE_BYTE = 0.5
"""The cost of each byte of a value beyond what a chunk usually has."""
_SIFT = 20.0
"""The cost of copying one of the wanted rows out of what was read."""


class _Cost(NamedTuple):
    """The cost of reading a value and each byte of it on the way, and of each byte of a chunk."""

    read: float
    read_byte: float
    chunk_byte: float


_FIXED = _Cost(1.5, 0.45, 0.4)
_VARIABLE = _Cost(16.0, 1.3, 1.4)


class Wanted(NamedTuple):
    """Rows that are wanted, among others."""

    rows: int
    span: int
    """How many rows there are from the first to the last."""
    runs: int
    """How often wanted rows begin after one that is not."""

    @classmethod
    def of(cls, offsets: npt.NDArray[np.int64]) -> Wanted:
        """The rows at ascending offsets, of which there is at least one."""
        return cls(len(offsets), int(offsets[-1] - offsets[0]) + 1, runs_in(offsets))


def runs_in(offsets: npt.NDArray[np.int64]) -> int:
    """How many runs of neighbours there are in ascending offsets."""
    if not len(offsets):
        return 0
    if offsets[-1] - offsets[0] + 1 == len(offsets):
        return 1
    return int(np.count_nonzero(np.diff(offsets) != 1)) + 1


def savings(
    widths: Mapping[str, float], varying: Collection[str], wanted: Wanted
) -> dict[str, float]:
    """What each column saves if the whole span is read for the sake of the wanted rows in it.

    ``widths`` are stored bytes per row; those in ``varying`` have values of several sizes. Below
    zero it is better to fetch the rows alone.
    """
    return {
        name: _saving(_VARIABLE if name in varying else _FIXED, width, wanted)
        for name, width in widths.items()
    }


def _saving(cost: _Cost, width: float, wanted: Wanted) -> float:
    """What reading saves against taking.

    Where runs are spread evenly, the chunks that none of them meets are ``exp(-runs / chunks)`` of
    all; a chunk is read by itself if the one before it is not met.
    """
    naming = wanted.rows * _ROW + wanted.runs * _RUN
    if wanted.rows == wanted.span:
        return naming
    reading = wanted.span * (cost.read + cost.read_byte * width) + wanted.rows * _SIFT
    held = min(max(_CHUNK_BYTES / max(width, 1e-3), 1.0), _CHUNK_ROWS)
    chunks = max(wanted.span / held, 1.0)
    unmet = max(math.exp(-wanted.runs / chunks) - wanted.rows / wanted.span, 0.0)
    met = chunks * (1 - unmet)
    size = min(held * width, _CHUNK_BYTES) * cost.chunk_byte
    size += max(width - _CHUNK_BYTES, 0.0) * _LARGE_BYTE
    return naming + met * (_CHUNK + unmet * _IO + size) - reading


def read_through(found: Mapping[str, float], call: float) -> frozenset[str]:
    """The columns that are better read with the rows between, by their savings; none of them where
    all together save less than ``call``, which is for the others then."""
    within = frozenset(name for name, saving in found.items() if saving >= 0)
    if len(within) < len(found) and sum(found[each] for each in within) < call:
        return frozenset()
    return within


def pick_rows(
    reader: FragmentReader, wanted: WantedColumns, offsets: npt.NDArray[np.int64]
) -> Iterator[pa.RecordBatch]:
    """The rows at ascending offsets, at least one, with the columns that the reader was opened for.

    Some columns are fetched row by row, others read with everything in between.
    """
    reader.look()
    found = savings(reader.stored_widths(), reader.varying, Wanted.of(offsets))
    within = read_through(found, CALL)
    if len(within) in (0, len(found)):
        return reader.pick(offsets, within=bool(within))
    streams = [
        reader.of(_part(wanted, names)).pick(offsets, within=is_within)
        for names, is_within in ((within, True), (found.keys() - within, False))
    ]
    return (_joined(parts, reader.schema) for parts in in_step(streams))


def _part(wanted: WantedColumns, names: AbstractSet[str]) -> WantedColumns:
    return WantedColumns(Schema(tuple(each for each in wanted.schema.fields if each.name in names)))


def _joined(parts: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    columns = {
        name: array
        for part in parts
        for name, array in zip(part.schema.names, part.columns, strict=True)
    }
    return pa.RecordBatch.from_arrays([columns[each] for each in schema.names], schema=schema)
