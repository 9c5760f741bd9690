"""Streams of Arrow record batches: several in step, or one with only the wanted rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from lancewood.data.wanted import has_dictionary

Offsets = np.ndarray[tuple[int], np.dtype[np.integer]]

_FEW_ROWS = 4_096


def in_step(streams: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[list[pa.RecordBatch]]:
    """Batches of several streams, cut so that they always cover the same rows."""
    if len(streams) == 1:
        yield from ([each] for each in streams[0] if each.num_rows)
        return
    heads = [next(each, None) for each in streams]
    while True:
        live = [each for each in heads if each is not None]
        if len(live) < len(heads):
            return
        rows = min(each.num_rows for each in live)
        if rows:
            yield [each.slice(0, rows) for each in live]
        for index, each in enumerate(live):
            rest = each.slice(rows)
            heads[index] = rest if rest.num_rows else next(streams[index], None)


def sifted(
    batches: Iterator[pa.RecordBatch], wanted: Offsets, batch_rows: int | None
) -> Iterator[pa.RecordBatch]:
    """The wanted rows, of batches that start at the first wanted row; small batches are joined."""
    position = int(wanted[0])
    few: list[pa.RecordBatch] = []
    enough = min(_FEW_ROWS, batch_rows or _FEW_ROWS)
    for batch in batches:
        low, high = np.searchsorted(wanted, (position, position + batch.num_rows))
        if high - low == batch.num_rows:
            few.append(batch)
        elif high > low:
            few.append(batch.take(pa.array(wanted[low:high] - position)))
        position += batch.num_rows
        if sum(each.num_rows for each in few) >= enough:
            yield from _joined(few, batch_rows)
            few = []
    yield from _joined(few, batch_rows)


def _joined(batches: list[pa.RecordBatch], batch_rows: int | None) -> Iterator[pa.RecordBatch]:
    if not batches:
        return
    if any(has_dictionary(each.type) for each in batches[0].schema):
        yield from batches  # several dictionaries together may be too large for one
        return
    whole = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    size = whole.num_rows if batch_rows is None else batch_rows
    yield from (whole.slice(at, size) for at in range(0, whole.num_rows, size))
