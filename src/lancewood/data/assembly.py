"""The columns of a fragment from what its files gave: several batches of the same rows become one.

Knows which field is called what in which file. Opens nothing, and moves no values where the only
file holds them just as they are wanted.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lancewood.data.arrays import Part, assemble
from lancewood.data.plan import FileProjection
from lancewood.data.wanted import WantedColumns


def assembled(
    wanted: WantedColumns, sources: Sequence[tuple[pa.RecordBatch, FileProjection]], rows: int
) -> pa.RecordBatch:
    """The wanted columns, from batches of the same rows that several files gave."""
    schema = wanted.arrow
    if len(sources) == 1 and not sources[0][1].renamed:
        batch = sources[0][0]
        if batch.schema.equals(schema):
            return batch
    columns = []
    arrays = [
        (dict(zip(batch.schema.names, batch.columns, strict=True)), projection)
        for batch, projection in sources
    ]
    for field, target in zip(wanted.schema.fields, schema, strict=True):
        parts = []
        for held, projection in arrays:
            array = held.get(projection.names.get(field.id, ""))
            if array is not None and field.id in projection.names:
                is_renamed = field.id in projection.renamed
                parts.append(Part(array, projection.names, is_renamed))
        columns.append(assemble(field, target.type, parts, rows))
    if not columns:
        return pa.RecordBatch.from_arrays([pa.nulls(rows)], names=["rows"]).select([])
    return pa.RecordBatch.from_arrays(columns, schema=schema)
