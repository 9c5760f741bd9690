"""Neighbouring small fragments read as one: a batch of all their physical rows, side by side.

What is done once for the batch is not done for each of thousands of fragments. Knows where the rows
of each fragment lie in the batch, which are live, and their system columns. Knows no filter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancewood.data.small_fragments import SmallFragments
from lancewood.engine.fanout import in_order
from lancewood.engine.row_shape import nameless
from lancewood.engine.rows import RowFacts
from lancewood.engine.snapshot import Snapshot
from lancewood.model.fragment import Fragment
from lancewood.model.rowids import FIRST_VERSION, RowIdSequence, RowVersions
from lancewood.model.schema import CREATED_AT, LAST_UPDATED_AT, ROW_ADDRESS, ROW_ID

_Ints = npt.NDArray[np.int64]

_AT_ONCE = 4
_MOST_ROWS = 65_536
_MOST_BYTES = 8 << 20
_MOST_FRAGMENTS = 256


def grouped(
    fragments: Iterable[Fragment], reader: SmallFragments, *, first: int | None = None
) -> Iterator[tuple[Fragment, ...]]:
    """Neighbouring small fragments together, every other one by itself; all in their order.

    A group fits a batch. ``first``: so many are in the first group at most, twice as many in the
    next, for one who may not want them all.
    """
    group: list[Fragment] = []
    rows = held = 0
    most = _MOST_FRAGMENTS if first is None else first
    for each in fragments:
        size = reader.size(each)
        count = each.physical_rows
        is_full = len(group) >= most or rows + count > _MOST_ROWS
        if group and (size is None or is_full or held + size > _MOST_BYTES):
            yield tuple(group)
            group, rows, held = [], 0, 0
            most = min(2 * most, _MOST_FRAGMENTS)
        if size is None:
            yield (each,)
        else:
            group.append(each)
            rows, held = rows + count, held + size
    if group:
        yield tuple(group)


class FragmentGroup:
    """Some fragments and their rows."""

    def __init__(
        self,
        snapshot: Snapshot,
        fragments: Sequence[Fragment],
        reader: SmallFragments,
        facts: Sequence[RowFacts] | None = None,
    ) -> None:
        """Reads the fragments, which are small; raises what the reader raises. ``facts`` are those
        of the fragments, from a caller who has them."""
        self._snapshot = snapshot
        self.fragments = fragments
        self._facts: dict[int, RowFacts] = dict(enumerate(facts or ()))
        counts = [each.physical_rows for each in fragments]
        self.bounds: _Ints = np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
        """Where the rows of each fragment begin, and the end of the last."""
        self.rows: pa.RecordBatch = self._read(reader)
        """Of all fragments, deleted ones included."""

    def _read(self, reader: SmallFragments) -> pa.RecordBatch:
        if not reader.has_columns:
            return nameless(int(self.bounds[-1]))
        if reader.is_near(self.fragments[0]):
            return pa.concat_batches(map(reader.read, self.fragments))
        work = (partial(_read, reader, each) for each in self.fragments)
        return pa.concat_batches(in_order(work, workers=_AT_ONCE))

    @cached_property
    def live(self) -> _Ints | None:
        """The positions of the live rows; None means all."""
        if all(each.deletion_file is None for each in self.fragments):
            return None
        mask = np.ones(self.rows.num_rows, np.bool_)
        for number, each in enumerate(self.fragments):
            if each.deletion_file is not None:
                start, stop = self._range(number)
                found = self.facts(number).live_mask(0, stop - start)
                if found is not None:
                    mask[start:stop] = found
        return np.flatnonzero(mask)

    def by_fragment(self, positions: _Ints) -> Iterator[tuple[int, _Ints]]:
        """The fragments that ascending positions are in, by their numbers in the group, each with
        the physical offsets in it."""
        cuts = np.searchsorted(positions, self.bounds)
        for number in np.flatnonzero(np.diff(cuts)).tolist():
            yield number, positions[cuts[number] : cuts[number + 1]] - self.bounds[number]

    def column(self, name: str, positions: _Ints) -> pa.Array:
        """A system column at positions."""
        has_ids = self._snapshot.manifest.has_stable_row_ids
        if name == ROW_ADDRESS or (name == ROW_ID and not has_ids):
            return pa.array(self.addresses(positions), pa.uint64())
        numbers: RowIdSequence | RowVersions
        if name == ROW_ID:
            numbers = self.row_ids
        elif name == CREATED_AT:
            numbers = self.created_at
        elif name == LAST_UPDATED_AT:
            numbers = self.last_updated_at
        else:
            raise ValueError(f"{name!r} is not a system column")
        return pa.array(numbers.values_at(positions), pa.uint64())

    @cached_property
    def row_ids(self) -> RowIdSequence:
        """The stable row ids at all positions; asked of tables that have them only."""
        found = [self.facts(each).row_ids for each in range(len(self.fragments))]
        return RowIdSequence.concat([each for each in found if each is not None])

    @cached_property
    def created_at(self) -> RowVersions:
        """The version that made each row."""
        return self._joined(self.facts(each).created_at for each in range(len(self.fragments)))

    @cached_property
    def last_updated_at(self) -> RowVersions:
        """The version that last changed each row."""
        return self._joined(self.facts(each).last_updated_at for each in range(len(self.fragments)))

    def _joined(self, parts: Iterable[RowVersions | None]) -> RowVersions:
        return RowVersions.concat(
            [
                RowVersions.uniform(FIRST_VERSION, each.physical_rows) if part is None else part
                for each, part in zip(self.fragments, parts, strict=True)
            ]
        )

    def addresses(self, positions: _Ints) -> npt.NDArray[np.uint64]:
        """The row addresses at positions."""
        first = np.array([each.id << 32 for each in self.fragments], np.uint64)
        counts = np.diff(self.bounds)
        begins = first - self.bounds[:-1].astype(np.uint64)
        return np.repeat(begins, counts)[positions] + positions.astype(np.uint64)

    def facts(self, number: int) -> RowFacts:
        """What is known of the rows of one of the fragments."""
        known = self._facts.get(number)
        if known is None:
            known = self._facts[number] = RowFacts(self._snapshot, self.fragments[number])
        return known

    def _range(self, number: int) -> tuple[int, int]:
        return int(self.bounds[number]), int(self.bounds[number + 1])


def _read(reader: SmallFragments, fragment: Fragment) -> Iterator[pa.RecordBatch]:
    yield reader.read(fragment)
