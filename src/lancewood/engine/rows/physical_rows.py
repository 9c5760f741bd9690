"""Values for the live rows of a fragment, spread over all of its physical rows.

A new column file has one value for every physical row. A deleted row gets a null, or where that
cannot be stored a copy of a live row's value; nobody reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from lancewood.engine.rows.facts import RowFacts
from lancewood.errors import InvalidInputError
from lancewood.model.schema import Field

_WINDOW = 65_536


class Portions:
    """A stream of batches, from which any number of rows can be taken."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = iter(batches)
        self._rest: pa.RecordBatch | None = None

    def take(self, rows: int) -> Iterator[pa.RecordBatch]:
        """The next rows; fewer at the end of the stream."""
        while rows:
            if self._rest is None or not self._rest.num_rows:
                self._rest = next(self._batches, None)
                if self._rest is None:
                    return
            head = self._rest.slice(0, rows)
            self._rest = self._rest.slice(head.num_rows)
            rows -= head.num_rows
            if head.num_rows:
                yield head

    def peek(self) -> pa.RecordBatch | None:
        """The first remaining row; None if there is none."""
        while self._rest is None or not self._rest.num_rows:
            self._rest = next(self._batches, None)
            if self._rest is None:
                return None
        return self._rest.slice(0, 1)


def spread(
    facts: RowFacts, live: Iterable[pa.RecordBatch], fields: Sequence[Field]
) -> Iterator[pa.RecordBatch]:
    """The values of the live rows, in order, at their positions among the physical rows.

    ``fields`` are the columns of the batches. Raises InvalidInputError if the values are more or
    fewer than the live rows.
    """
    if facts.fragment.deletion_file is None:
        yield from live
        return
    rows, portions = facts.fragment.physical_rows, Portions(live)
    first = portions.peek()
    for start in range(0, rows, _WINDOW):
        count = min(_WINDOW, rows - start)
        mask = facts.live_mask(start, count)
        if mask is None:
            found = 0
            for batch in portions.take(count):
                found += batch.num_rows
                yield batch
            _check_count(facts, found, count)
            continue
        locations = np.flatnonzero(mask)
        batches = list(portions.take(len(locations)))
        _check_count(facts, sum(each.num_rows for each in batches), len(locations))
        yield _window(facts, batches, first, fields, locations, count)
    if portions.peek() is not None:
        _check_count(facts, rows, rows - len(facts.deleted))


def _window(
    facts: RowFacts,
    batches: list[pa.RecordBatch],
    first: pa.RecordBatch | None,
    fields: Sequence[Field],
    locations: np.ndarray[tuple[int], np.dtype[np.intp]],
    count: int,
) -> pa.RecordBatch:
    if first is None:
        raise InvalidInputError(
            f"all rows of fragment {facts.fragment.id} are deleted, a column file has no value to "
            "put there; compact the table first",
            fragment=facts.fragment.id,
        )
    whole = pa.concat_batches([first, *batches])
    at = np.zeros(count, np.int64)
    at[locations] = np.arange(1, len(locations) + 1)
    with_nulls = pa.array(at, mask=at == 0)
    with_first = pa.array(at)
    columns = [
        column.take(with_nulls if _takes_null(field) else with_first)
        for field, column in zip(fields, whole.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=whole.schema)


def _takes_null(field: Field) -> bool:
    """Whether every file version can hold a null of the column."""
    return field.nullable and all(each.logical_type != "struct" for each in field.walk())


def _check_count(facts: RowFacts, found: int, wanted: int) -> None:
    if found != wanted:
        raise InvalidInputError(
            f"the values for fragment {facts.fragment.id} are "
            f"{'more' if found > wanted else 'fewer'} than its live rows",
            fragment=facts.fragment.id,
        )
