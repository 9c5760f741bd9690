"""Scans of small, neighbouring fragments as a group: what ``fragment_scan`` does for one.

They are read as one batch of all their physical rows, so that the work per batch is not repeated
for each of thousands of fragments. All columns are read at once with those of the filter, which is
evaluated once for the group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial
from itertools import chain, groupby, pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancewood.data.small_fragments import TO_COMPUTE, TO_READ, SmallFragments
from lancewood.data.wanted import WantedColumns
from lancewood.engine.base import Task, in_order
from lancewood.engine.rows.facts import RowFacts, small_fragments
from lancewood.engine.rows.fragment_scan import FragmentScan, chosen, locations_in
from lancewood.engine.rows.row_shape import Fetching, RowShape, batch_of, nameless
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import LancewoodError
from lancewood.model.fragment import Fragment
from lancewood.model.rowids import FIRST_VERSION, RowIdSequence, RowVersions
from lancewood.model.schema import CREATED_AT, LAST_UPDATED_AT, ROW_ADDRESS, ROW_ID

_Ints = npt.NDArray[np.int64]

_AT_ONCE = 4
_FETCHED_AT_ONCE = 2
_MOST_FRAGMENTS = 256


def grouped(
    fragments: Iterable[Fragment], reader: SmallFragments, *, first: int | None = None
) -> Iterator[tuple[Fragment, ...]]:
    """Neighbouring small fragments together, every other one by itself, in their order.

    A group fits a batch. ``first`` is the most fragments in the first group, and each next one may
    have twice as many: for a caller that may stop early.
    """
    group: list[Fragment] = []
    rows = held = 0
    most = _MOST_FRAGMENTS if first is None else first
    for each in fragments:
        size = reader.size(each)
        count = each.physical_rows
        is_full = len(group) >= most or rows + count > reader.sizes.group_rows
        if group and (size is None or is_full or held + size > reader.sizes.group_held):
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
        """Read the small fragments; raises what the reader raises. ``facts`` are those of the
        fragments, if the caller has them."""
        self._snapshot = snapshot
        self.fragments = fragments
        self._facts: dict[int, RowFacts] = dict(enumerate(facts or ()))
        counts = [each.physical_rows for each in fragments]
        self.bounds: _Ints = np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
        """Where the rows of each fragment begin, and the end of the last."""
        self.rows: pa.RecordBatch = self._read(reader)
        """The rows of all fragments, deleted ones included."""

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
        """The fragments that contain ascending positions, by their numbers in the group, each with
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
        """The stable row ids at all positions; only for tables that have them."""
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
        """The facts about the rows of one of the fragments."""
        known = self._facts.get(number)
        if known is None:
            known = self._facts[number] = RowFacts(self._snapshot, self.fragments[number])
        return known

    def _range(self, number: int) -> tuple[int, int]:
        return int(self.bounds[number]), int(self.bounds[number + 1])


def _read(reader: SmallFragments, fragment: Fragment) -> Iterator[pa.RecordBatch]:
    yield reader.read(fragment)


class GroupScan:
    """Small fragments of one scan; groups are made and read here."""

    def __init__(self, shape: RowShape, wanted: WantedColumns | None = None) -> None:
        """``wanted`` are the columns to read, for a caller that only needs to know which rows
        pass."""
        self._shape = shape
        is_late = wanted is None and shape.predicate is not None and shape.late.schema.fields
        is_asked = shape.is_filtered_by_statements or shape.is_computed
        self._reader = small_fragments(
            shape.snapshot,
            shape.together if wanted is None else wanted,
            TO_COMPUTE if is_asked and not is_late else TO_READ,
        )

    def groups(self, fragments: Iterable[Fragment]) -> Iterator[tuple[Fragment, ...]]:
        """The fragments, small ones in groups; one by one where grouping is not possible."""
        shape = self._shape
        if shape.fetching is not Fetching.AUTO:
            return ((each,) for each in fragments)
        if shape.most_rows is None:
            return grouped(fragments, self._reader)
        return grouped(fragments, self._reader, first=1)

    def batches(self, fragments: Sequence[Fragment]) -> Iterator[pa.RecordBatch]:
        """The rows of a group of several, shaped, without empty batches. They are read at the call:
        threads that read small files only wait for each other."""
        group, positions = self.found(fragments)
        if positions is not None and self._shape.most_rows is not None:
            positions = positions[: self._shape.most_rows]
        made = self._shaped(group, positions)
        return self._cut(made, 0, made.num_rows)

    def count(self, fragments: Sequence[Fragment]) -> Iterator[int]:
        """How many rows of a group of several pass. They are read at the call."""
        group, positions = self.found(fragments)
        return iter((group.rows.num_rows if positions is None else len(positions),))

    def separated(self, fragments: Sequence[Fragment]) -> Iterator[Iterator[pa.RecordBatch]]:
        """The rows of each fragment of a group of several, without a filter."""
        group, live = self.found(fragments)
        made = self._shaped(group, live)
        cuts = group.bounds if live is None else np.searchsorted(live, group.bounds)
        return (self._cut(made, start, stop) for start, stop in pairwise(cuts.tolist()))

    def _cut(self, rows: pa.RecordBatch, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        size = self._shape.batch_rows or max(stop - start, 1)
        return (rows.slice(at, min(size, stop - at)) for at in range(start, stop, size))

    def _shaped(self, group: FragmentGroup, positions: _Ints | None) -> pa.RecordBatch:
        shape = self._shape
        rows = group.rows if positions is None else chosen(group.rows, positions)
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        if shape.projection.system:
            at = np.arange(rows.num_rows) if positions is None else positions
            for name in shape.projection.system:
                columns[name] = group.column(name, at)
        return shape.shaped(columns, rows.num_rows)

    def found(self, fragments: Sequence[Fragment]) -> tuple[FragmentGroup, _Ints | None]:
        """The group, read, and the positions of the live rows that pass; None means all."""
        shape = self._shape
        group = FragmentGroup(shape.snapshot, fragments, self._reader)
        live = group.live
        if shape.predicate is None:
            return group, live
        rows = group.rows if live is None else chosen(group.rows, live)
        if shape.filter_system:
            columns = dict(zip(rows.schema.names, rows.columns, strict=True))
            at = np.arange(rows.num_rows) if live is None else live
            for name in shape.filter_system:
                columns[name] = group.column(name, at)
            rows = batch_of(columns, rows.num_rows)
        locations = locations_in(shape.predicate.mask(rows))
        return group, locations if live is None else live[locations]


class LateGroupScan(GroupScan):
    """Group scan with late materialisation, where a filter's columns alone are small: they are read
    and filtered in groups, and the others are fetched from each fragment, for passing rows."""

    def __init__(self, shape: RowShape) -> None:
        super().__init__(shape)
        self._early = GroupScan(shape, shape.filtering)

    def groups(self, fragments: Iterable[Fragment]) -> Iterator[tuple[Fragment, ...]]:
        whole = super().groups(fragments)
        for is_alone, members in groupby(whole, lambda each: len(each) == 1):
            if is_alone:
                yield from self._early.groups(chain.from_iterable(members))
            else:
                yield from members

    def batches(self, fragments: Sequence[Fragment]) -> Iterator[pa.RecordBatch]:
        if all(self._reader.size(each) is not None for each in fragments):
            return super().batches(fragments)
        return in_order(self._fetching(fragments), workers=_FETCHED_AT_ONCE)

    def _fetching(self, fragments: Sequence[Fragment]) -> Iterator[Task[pa.RecordBatch]]:
        """What fetches the other columns of rows that pass, fragment by fragment."""
        shape = self._shape
        try:
            group, positions = self._early.found(fragments)
        except LancewoodError:  # will be raised where the rows would have come
            yield from (FragmentScan(shape, each).batches for each in fragments)
            return
        assert positions is not None, "there is a filter"
        positions = positions[: shape.most_rows]
        kept = frozenset(shape.projection.stored.names) - frozenset(shape.late.schema.names)
        names = [each for each in group.rows.schema.names if each in kept]
        early = chosen(group.rows.select(names), positions) if names else None
        at = 0
        for number, offsets in group.by_fragment(positions):
            part = None if early is None else early.slice(at, len(offsets))
            yield partial(FragmentScan(shape, fragments[number]).fetched, part, offsets)
            at += len(offsets)


def scan_each(shape: RowShape, fragments: Sequence[Fragment]) -> Iterator[Iterator[pa.RecordBatch]]:
    """The rows of each fragment, without a filter; small ones are read several at a time."""
    scan = GroupScan(shape)
    for group in scan.groups(fragments):
        if len(group) == 1:
            yield FragmentScan(shape, group[0]).batches()
        else:
            yield from scan.separated(group)
