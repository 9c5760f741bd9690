"""Facts about the rows of one fragment that are not stored in its data files.

Which are deleted, where they are, their ids, and which versions made and last changed them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancewood.engine.snapshot import Snapshot
from lancewood.errors import FormatError, found_in
from lancewood.model.fragment import Fragment
from lancewood.model.rowids import RowIdSequence
from lancewood.model.schema import CREATED_AT, LAST_UPDATED_AT, ROW_ADDRESS, ROW_ID

_FIRST_VERSION = 1


@dataclass(frozen=True)
class RowFacts:
    """Lazy: a deletion file or a sequence is read when it is first needed."""

    snapshot: Snapshot
    fragment: Fragment

    @cached_property
    def deleted(self) -> npt.NDArray[np.int64]:
        """The deleted offsets, ascending."""
        bitmap = self.snapshot.deletions(self.fragment)
        return np.empty(0, np.int64) if bitmap is None else np.array(bitmap.to_array(), np.int64)

    @cached_property
    def row_ids(self) -> RowIdSequence | None:
        """The stable row ids; None on a table without them."""
        if not self.snapshot.manifest.has_stable_row_ids:
            return None
        with found_in(self.snapshot.manifest.name):
            ids = self.fragment.row_ids
            if ids is None:
                raise FormatError(
                    f"fragment {self.fragment.id} of a table with stable row ids has no row ids"
                )
            return ids

    def live_mask(self, first: int, rows: int) -> npt.NDArray[np.bool_] | None:
        """Which of the physical rows from ``first`` on are live; None means all."""
        low, high = np.searchsorted(self.deleted, (first, first + rows))
        if low == high:
            return None
        mask = np.ones(rows, np.bool_)
        mask[self.deleted[low:high] - first] = False
        return mask

    def physical_offsets(self, live: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Physical offsets of the n-th live rows: each deleted row before one pushes it back."""
        deleted = self.deleted
        if not len(deleted):
            return live
        before = deleted - np.arange(len(deleted))
        return live + np.searchsorted(before, live, side="right")

    def physical_range(self, skip: int, count: int | None, physical: int) -> tuple[int, int]:
        """The physical rows that hold the live rows ``skip`` to ``skip + count``."""
        if not skip and count is None:
            return 0, physical
        last = physical - len(self.deleted) - 1 if count is None else skip + count - 1
        start, end = self.physical_offsets(np.array([skip, last], np.int64))
        return int(start), int(end) + 1

    @cached_property
    def created_at(self) -> npt.NDArray[np.uint64] | None:
        """The version that made each physical row; None means the first for all."""
        with found_in(self.snapshot.manifest.name):
            versions = self.fragment.created_at
        return None if versions is None else versions.to_numpy()

    @cached_property
    def last_updated_at(self) -> npt.NDArray[np.uint64] | None:
        """The version that last changed each physical row; None means the first for all."""
        with found_in(self.snapshot.manifest.name):
            versions = self.fragment.last_updated_at
        return None if versions is None else versions.to_numpy()

    def column(self, name: str, first: int, rows: int) -> pa.Array:
        """A system column for the physical rows from ``first`` on."""
        if name == ROW_ID and self.row_ids is not None:
            return pa.array(self.row_ids.slice(first, first + rows).to_numpy(), pa.uint64())
        return self.column_at(name, np.arange(first, first + rows, dtype=np.int64))

    def column_at(self, name: str, offsets: npt.NDArray[np.int64]) -> pa.Array:
        """A system column for these physical offsets."""
        if name == ROW_ID and self.row_ids is not None:
            values = self.row_ids.take(offsets).to_numpy()
        elif name in (ROW_ID, ROW_ADDRESS):
            values = offsets.astype(np.uint64) + np.uint64(self.fragment.id << 32)
        elif name == CREATED_AT:
            values = _pick(self.created_at, offsets)
        elif name == LAST_UPDATED_AT:
            values = _pick(self.last_updated_at, offsets)
        else:
            raise ValueError(f"{name!r} is not a system column")
        return pa.array(values, pa.uint64())


def _pick(
    versions: npt.NDArray[np.uint64] | None, offsets: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint64]:
    if versions is None:
        return np.full(len(offsets), _FIRST_VERSION, np.uint64)
    return versions[offsets]
