"""Facts about the rows of one fragment that are not stored in its data files.

Which are deleted, where they are, their ids, and which versions made and last changed them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lancewood.engine.lineage import load_row_ids, load_row_versions
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import FormatError
from lancewood.model.bitmap import bitmap_runs
from lancewood.model.fragment import Fragment
from lancewood.model.rowids import FIRST_VERSION, RowIdSequence, RowVersions
from lancewood.model.schema import CREATED_AT, LAST_UPDATED_AT, ROW_ADDRESS, ROW_ID

_Ints: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class RowFacts:
    """Lazy: a deletion file or a sequence is read when it is first needed."""

    snapshot: Snapshot
    fragment: Fragment

    @cached_property
    def deleted(self) -> BitMap:
        """The deleted offsets."""
        bitmap = self.snapshot.deletions(self.fragment)
        return BitMap() if bitmap is None else bitmap

    @cached_property
    def _gone(self) -> tuple[_Ints, _Ints, _Ints]:
        """Deleted stretches: where they begin, where they end, and the deleted rows before each
        and in all. Stretches, because a small file can delete four billion rows."""
        begins, ends = bitmap_runs(self.deleted)
        return begins, ends, np.concatenate(([0], np.cumsum(ends - begins)))

    def are_deleted(self, offsets: _Ints) -> npt.NDArray[np.bool_]:
        """Which of the physical offsets are those of deleted rows."""
        begins, ends, _ = self._gone
        if not len(begins):
            return np.zeros(len(offsets), np.bool_)
        before = np.searchsorted(begins, offsets, side="right") - 1
        return (before >= 0) & (offsets < ends[before])

    @cached_property
    def row_ids(self) -> RowIdSequence | None:
        """The stable row ids; None on a table without them."""
        if not self.snapshot.manifest.has_stable_row_ids:
            return None
        ids = load_row_ids(self.snapshot, self.fragment)
        if ids is None:
            raise FormatError(
                f"{self.snapshot.manifest.name}: fragment {self.fragment.id} of a table with "
                "stable row ids has no row ids"
            )
        return ids

    @cached_property
    def live_ids(self) -> RowIdSequence:
        """The stable row ids of the live rows; asked of tables that have them only."""
        ids = self.row_ids
        assert ids is not None, "asked of a table without stable row ids"
        return ids if self.fragment.deletion_file is None else ids.without(self.deleted)

    def live_mask(self, first: int, rows: int) -> npt.NDArray[np.bool_] | None:
        """Which of the physical rows from ``first`` on are live; None means all."""
        if self.fragment.deletion_file is None:
            return None
        begins, ends, _ = self._gone
        low = np.searchsorted(ends, first, side="right")
        high = np.searchsorted(begins, first + rows)
        if low == high:
            return None
        turns = np.zeros(rows + 1, np.int8)
        turns[np.maximum(begins[low:high] - first, 0)] = 1
        turns[np.minimum(ends[low:high] - first, rows)] = -1
        mask: npt.NDArray[np.bool_] = np.cumsum(turns[:rows], dtype=np.int8) == 0
        return mask

    def physical_offsets(self, live: _Ints) -> _Ints:
        """Physical offsets of the n-th live rows: each deleted row before one pushes it back."""
        begins, _, before = self._gone
        if not len(begins):
            return live
        return live + before[np.searchsorted(begins - before[:-1], live, side="right")]

    def physical_range(self, skip: int, count: int | None, physical: int) -> tuple[int, int]:
        """The physical rows that hold the live rows ``skip`` to ``skip + count``."""
        if self.fragment.deletion_file is not None and len(self.deleted) >= physical:
            return 0, 0
        if not skip and count is None:
            return 0, physical
        last = physical - len(self.deleted) - 1 if count is None else skip + count - 1
        start, end = self.physical_offsets(np.array([skip, last], np.int64))
        return int(start), int(end) + 1

    @cached_property
    def created_at(self) -> RowVersions | None:
        """The version that made each physical row; None means the first for all."""
        return load_row_versions(self.snapshot, self.fragment, "created_at_versions")

    @cached_property
    def last_updated_at(self) -> RowVersions | None:
        """The version that last changed each physical row; None means the first for all."""
        return load_row_versions(self.snapshot, self.fragment, "last_updated_at_versions")

    def column(self, name: str, first: int, rows: int) -> pa.Array:
        """A system column for the physical rows from ``first`` on."""
        if name == ROW_ID and self.row_ids is not None:
            return pa.array(self.row_ids.slice(first, first + rows).to_numpy(), pa.uint64())
        return self.column_at(name, np.arange(first, first + rows, dtype=np.int64))

    def column_at(self, name: str, offsets: _Ints) -> pa.Array:
        """A system column for these physical offsets."""
        if name == ROW_ID and self.row_ids is not None:
            values = self.row_ids.values_at(offsets)
        elif name in (ROW_ID, ROW_ADDRESS):
            values = offsets.astype(np.uint64) + np.uint64(self.fragment.id << 32)
        elif name == CREATED_AT:
            values = _pick(self.created_at, offsets)
        elif name == LAST_UPDATED_AT:
            values = _pick(self.last_updated_at, offsets)
        else:
            raise ValueError(f"{name!r} is not a system column")
        return pa.array(values, pa.uint64())


def _pick(versions: RowVersions | None, offsets: _Ints) -> npt.NDArray[np.uint64]:
    if versions is None:
        return np.full(len(offsets), FIRST_VERSION, np.uint64)
    return versions.values_at(offsets)
