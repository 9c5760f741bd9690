"""Reading rows at given offsets of a fragment: of each column in the way that costs less.

Which way that is says ``fetch_cost``. Knows no rows by name or condition, only where they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancewood.data.reader import FragmentReader
from lancewood.data.streams import in_step
from lancewood.data.wanted import WantedColumns
from lancewood.engine.fetch_cost import CALL, savings
from lancewood.model.schema import Schema


def pick_rows(
    reader: FragmentReader, wanted: WantedColumns, offsets: npt.NDArray[np.int64]
) -> Iterator[pa.RecordBatch]:
    """The rows at ascending offsets, at least one, with the columns that the reader was opened for.

    Some columns are fetched row by row, others read with all that lies between.
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
