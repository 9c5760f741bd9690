"""Reading rows at given offsets of a fragment, each column in the cheaper way.

Rows are fetched one by one, or read with everything in between: a cost model in nanoseconds,
measured on local files (``bench/filtered.py``), decides. Reading on is cheap; a value fetched alone
costs decoding the chunk around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancewood.data.reader import FragmentReader
from lancewood.data.streams import in_step
from lancewood.data.wanted import WantedColumns, is_fixed_width
from lancewood.model.schema import Schema

CALL = 2_000_000.0
"""The cost of one more call of the codec, overhead included."""


class _Cost(NamedTuple):
    """The cost of one value, and of each byte of it."""

    read: float
    read_byte: float
    take: float
    take_byte: float


_FIXED = _Cost(3.0, 0.8, 6_000.0, 0.6)
_VARIABLE = _Cost(20.0, 1.2, 6_000.0, 0.6)


def savings(
    schema: pa.Schema, widths: Mapping[str, float], rows: int, span: int
) -> dict[str, float]:
    """What each column saves if the whole span is read for the sake of this many rows in it.

    ``widths`` are stored bytes per row. Below zero it is better to fetch the rows alone.
    """
    return {
        each.name: _saving(_FIXED if is_fixed_width(each.type) else _VARIABLE, width, rows, span)
        for each, width in ((each, widths[each.name]) for each in schema)
    }


def _saving(cost: _Cost, width: float, rows: int, span: int) -> float:
    if rows == span:
        return rows * cost.take
    taking = rows * (cost.take + cost.take_byte * width)
    return taking - span * (cost.read + cost.read_byte * width)


def pick_rows(
    reader: FragmentReader, wanted: WantedColumns, offsets: npt.NDArray[np.int64]
) -> Iterator[pa.RecordBatch]:
    """The rows at ascending offsets, at least one, with the columns that the reader was opened for.

    Some columns are fetched row by row, others read with everything in between.
    """
    reader.look()
    span = int(offsets[-1] - offsets[0]) + 1
    found = savings(reader.schema, reader.stored_widths(), len(offsets), span)
    within = frozenset(name for name, saving in found.items() if saving >= 0)
    if len(within) < len(found) and sum(found[each] for each in within) < CALL:
        within = frozenset()
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
