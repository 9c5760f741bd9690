"""Batches of a size that suits the way from Python to Spark.

One that is large is cut, which copies nothing; small ones after another are joined, since each
costs a round trip. Rows keep their order. Knows Arrow and nothing of tables.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

MOST_BYTES = 4 << 20
FEW_BYTES = 1 << 20
FEW_ROWS = 8_192
"""A batch that has as many bytes or rows is not held back for others to join it."""


def sized(
    batches: Iterator[pa.RecordBatch], most_rows: int | None = None
) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of a few megabytes, and of ``most_rows`` at most."""
    few: list[pa.RecordBatch] = []
    rows = size = 0
    enough = FEW_ROWS if most_rows is None else min(FEW_ROWS, most_rows)
    for batch in batches:
        held = batch.nbytes
        if batch.num_rows >= enough or held >= FEW_BYTES or not batch.num_columns:
            yield from _joined(few, most_rows)
            yield from _cut(batch, held, most_rows)
            few, rows, size = [], 0, 0
            continue
        few.append(batch)
        rows, size = rows + batch.num_rows, size + held
        if rows >= enough or size >= FEW_BYTES:
            yield from _joined(few, most_rows)
            few, rows, size = [], 0, 0
    yield from _joined(few, most_rows)


def _joined(few: list[pa.RecordBatch], most_rows: int | None) -> Iterator[pa.RecordBatch]:
    if few:
        whole = few[0] if len(few) == 1 else pa.concat_batches(few)
        yield from _cut(whole, whole.nbytes, most_rows)


def _cut(batch: pa.RecordBatch, size: int, most_rows: int | None) -> Iterator[pa.RecordBatch]:
    rows = batch.num_rows
    step = rows if size <= MOST_BYTES else max(1, rows * MOST_BYTES // size)
    step = step if most_rows is None else min(step, most_rows)
    if step >= rows:
        yield batch
        return
    pieces = -(-rows // step)
    even = -(-rows // pieces)
    yield from (batch.slice(at, even) for at in range(0, rows, even))
