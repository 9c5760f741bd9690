"""Rows up to a limit, and how many there are beyond it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from lancewood.cli.output import MOST_COUNTED

if TYPE_CHECKING:
    import pyarrow as pa


class Limited:
    """Record batches up to a limit of rows; without one all of them."""

    def __init__(self, batches: Iterable[pa.RecordBatch], limit: int | None) -> None:
        self._batches, self._limit = iter(batches), limit
        self._done = self._cut_off = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while self._limit is None or self._done < self._limit:
            batch = next(self._batches, None)
            if batch is None:
                return
            shown = batch if self._limit is None else batch.slice(0, self._limit - self._done)
            self._done += shown.num_rows
            self._cut_off = batch.num_rows - shown.num_rows
            yield shown

    def count_rest(self) -> int:
        """Number of rows that the limit cut off, by reading them; a number above ``MOST_COUNTED``
        only says that there are more than that. Zero for a limit of zero: nothing is read."""
        while self._limit and self._cut_off <= MOST_COUNTED:
            batch = next(self._batches, None)
            if batch is None:
                break
            self._cut_off += batch.num_rows
        return self._cut_off
