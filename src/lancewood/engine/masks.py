"""Rows of a batch: where a mask is true, and the batch with only the rows at some places."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancewood.engine.row_shape import nameless


def bits_of(mask: pa.BooleanArray) -> npt.NDArray[np.bool_]:
    """The values of a mask without nulls; several times faster than pyarrow's own way."""
    if not len(mask):
        return np.empty(0, np.bool_)
    start, stop = mask.offset, mask.offset + len(mask)
    packed = np.frombuffer(mask.buffers()[1], np.uint8, count=(stop + 7) // 8)
    return np.unpackbits(packed, bitorder="little", count=stop)[start:].view(np.bool_)


def places_in(mask: pa.BooleanArray) -> npt.NDArray[np.int64]:
    """Where a mask is true."""
    if not mask.true_count:
        return np.empty(0, np.int64)
    return np.flatnonzero(bits_of(mask))


def chosen(batch: pa.RecordBatch, places: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """The rows at ascending places, each of which is there once."""
    if len(places) == batch.num_rows:
        return batch
    return batch.take(pa.array(places)) if batch.num_columns else nameless(len(places))
