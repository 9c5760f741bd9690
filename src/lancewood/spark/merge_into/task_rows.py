"""The rows that Spark brings to one task of a merge, and how the task answers.

A task has a partition of its own. One row of it carries the message: the fragments of the table
that the task is to change, of which it then has all rows in question. The others are pairs of
addresses, rows of the table alone, and rows of the source alone. Knows addresses, and opens
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from lancewood.engine.base import Addresses
from lancewood.jobs.merge_into.keys import Positions
from lancewood.jobs.merge_into.search import Matches, matches_of
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId
from lancewood.spark.reading.task import TablePortion
from lancewood.spark.running.answers import Shared, answered, as_rows
from lancewood.spark.tasks import MESSAGE, TASK

TARGET, SOURCE = "t", "s"
"""The addresses of a row of the table, and of a row of the staged source."""
_NONE: Positions = np.empty((0, 2), np.int64)


@dataclass(frozen=True)
class TaskRows:
    """The rows that one task of a merge is to change."""

    number: int
    message: bytes
    pairs: Positions
    """Two columns: where the row of the table is, and where that of the source."""
    alone: Addresses
    """Rows of the table that no row of the source matches."""
    inserted: Positions
    """Rows of the source that match none, rising."""

    def fragments(self, name: str) -> list[Fragment]:
        """The fragments to be changed; raises FormatError naming the manifest."""
        return TablePortion.decode(self.message).decoded(name)

    def found_in(self, fragment_id: FragmentId) -> Matches:
        """The rows of a fragment that the task is to change."""
        return self._found.get(fragment_id) or Matches(fragment_id, _NONE[:, 0], _NONE[:, 0])

    @cached_property
    def _found(self) -> dict[FragmentId, Matches]:
        found = matches_of(self.pairs[:, 0].astype(np.uint64), self.pairs[:, 1], self.alone)
        return {each.fragment_id: each for each in found}


def answer_with_rows(shared: Shared, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On an executor: the answer of the task that a partition is, as rows of ``answers.SCHEMA``."""
    rows = read_rows(batches)
    if rows is not None:
        yield from as_rows(rows.number, answered(shared, lambda work: work(rows)))


def read_rows(batches: Iterator[pa.RecordBatch]) -> TaskRows | None:
    """The rows of a partition; None for one without a message."""
    number, message = -1, None
    pairs, alone, inserted = [_NONE], [_NONE], [_NONE]
    for batch in batches:
        target, source = batch.column(TARGET), batch.column(SOURCE)
        here = np.stack([each.fill_null(0).to_numpy() for each in (target, source)], axis=1)
        has_target, has_source, has_message = (
            each.is_valid().to_numpy(zero_copy_only=False)
            for each in (target, source, batch.column(MESSAGE))
        )
        pairs.append(here[has_target & has_source])
        alone.append(here[has_target & ~has_source])
        inserted.append(here[~has_target & has_source])
        for at in np.flatnonzero(has_message).tolist():
            number, message = batch.column(TASK)[at].as_py(), batch.column(MESSAGE)[at].as_py()
    if message is None:
        return None
    return TaskRows(
        number,
        message,
        np.concatenate(pairs),
        np.concatenate(alone)[:, 0].astype(np.uint64),
        np.sort(np.concatenate(inserted)[:, 1]),
    )
