"""Reading doubtful rows at both states side by side, and telling which of their cells differ.

Rows are read in portions of some megabytes, in the order of the later state. Those columns that may
differ are read first; the others that a caller wants only for the rows that do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lancewood.data.differing import Mask, differing
from lancewood.data.wanted import WantedColumns
from lancewood.engine.base import WORKERS, in_order
from lancewood.engine.rows import Ints, LiveRows, blob_reader, open_fragment, pick_rows
from lancewood.jobs.diff.columns import ColumnPair
from lancewood.jobs.diff.states import Comparison, Doubt, Places, State
from lancewood.model.schema import Field, Schema
from lancewood.model.segments import expand

_Cells: TypeAlias = npt.NDArray[np.bool_]
_FEW_ROWS = 8_192
"""Fewer rows are not read in several portions for the sake of several threads."""


@dataclass(frozen=True, eq=False)
class DifferingRows:
    """Rows with at least one cell that differs."""

    before: Places
    after: Places
    columns: tuple[ColumnPair, ...]
    """The columns that were compared."""
    cells: _Cells
    """For each row which of the columns differ."""
    read: tuple[Mapping[str, pa.Array], Mapping[str, pa.Array]]
    """What was read of the rows to compare them, in both states, by name there."""

    def __len__(self) -> int:
        return len(self.after.offsets)

    def only(self, chosen: Ints) -> DifferingRows:
        """Some of the rows."""
        rows, (old, new) = pa.array(chosen), self.read
        return DifferingRows(
            self.before.at(chosen),
            self.after.at(chosen),
            self.columns,
            self.cells[chosen],
            (_taken(old, rows), _taken(new, rows)),
        )


def differing_rows(
    comparison: Comparison, doubt: Doubt, columns: Sequence[ColumnPair], workers: int = WORKERS
) -> Iterator[DifferingRows]:
    """Of the rows of a doubt those that differ in some of the columns, or in a part of one."""
    doubtful = {each.after.id for each in doubt.columns}
    compared = tuple(each for each in columns if each.after.id in doubtful)
    if compared:
        reading = _Reading(comparison, compared)
        rows = min(
            comparison.before.portion_rows([each.before for each in compared]),
            comparison.after.portion_rows([each.after for each in compared]),
        )
        tasks = (partial(reading.look, *each) for each in portions(rows, doubt.after, doubt.before))
        yield from in_order(tasks, workers=workers)


def portions(most: int, rows: LiveRows, *others: LiveRows) -> Iterator[tuple[Places, ...]]:
    """Rows of a state by place, so many at a time, or fewer, to be read at the same time; and those
    of others that go with them."""
    order = np.lexsort((rows.offsets, rows.fragments))
    counts = rows.counts[order]
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    pieces = max(-(-total // most), min(WORKERS, total // _FEW_ROWS), 1)
    size = max(1, -(-total // pieces))
    for begin in range(0, total, size):
        end = min(begin + size, total)
        low, high = np.searchsorted(ends, begin, side="right"), np.searchsorted(ends, end) + 1
        chosen, starts = order[low:high], ends[low:high] - counts[low:high]
        skipped = np.maximum(begin - starts, 0)
        taken = np.minimum(counts[low:high], end - starts) - skipped
        yield tuple(_expanded(each, chosen, skipped, taken) for each in (rows, *others))


def _expanded(rows: LiveRows, chosen: Ints, skipped: Ints, counts: Ints) -> Places:
    starts = (rows.offsets[chosen] + skipped).astype(np.uint64)
    return Places(
        np.repeat(rows.fragments[chosen], counts), expand(starts, counts, 1).astype(np.int64)
    )


class RowReader:
    """Reads columns of rows of one state, wherever they are."""

    def __init__(self, state: State, fields: Sequence[Field]) -> None:
        self._state = state
        self._wanted = WantedColumns(Schema(tuple(fields)))

    def at(self, places: Places) -> dict[str, pa.Array]:
        """The columns of rows, in the order of the places, by name."""
        names = self._wanted.schema.names
        if not names or not len(places.parts):
            return {each.name: pa.nulls(0, each.type) for each in self._wanted.arrow}
        batches, rows = list[pa.RecordBatch](), list[Ints]()
        for number, at in places.by_part():
            fragment = self._state.parts[number].fragment
            reader = open_fragment(self._state.snapshot, fragment, self._wanted)
            batches += map(_joinable, pick_rows(reader, self._wanted, places.offsets[at]))
            rows.append(at)
        order = np.concatenate(rows)
        columns = dict(zip(names, pa.concat_batches(batches).columns, strict=True))
        if (order[1:] > order[:-1]).all():
            return columns
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return {name: each.take(pa.array(back)) for name, each in columns.items()}


def _joinable(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows without nulls in dictionaries, as files of version 2.0 have them: Arrow does not join
    those."""
    columns = [
        each.dictionary_decode().dictionary_encode().cast(each.type)
        if isinstance(each, pa.DictionaryArray) and each.dictionary.null_count
        else each
        for each in rows.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


class _Reading:
    """Both states of the columns that are compared."""

    def __init__(self, comparison: Comparison, columns: tuple[ColumnPair, ...]) -> None:
        self._comparison, self._columns = comparison, columns
        self._before = RowReader(comparison.before, [each.before for each in columns])
        self._after = RowReader(comparison.after, [each.after for each in columns])
        self._fields = [each.compared() for each in columns]

    def look(self, after: Places, before: Places) -> Iterator[DifferingRows]:
        old, new = self._before.at(before), self._after.at(after)
        cells = np.zeros((len(after.parts), len(self._columns)), np.bool_)
        for at, pair in enumerate(self._columns):
            if pair.before.is_blob or pair.after.is_blob:
                cells[:, at] = self._blobs(pair, before, old, after, new)
            else:
                then, now = self._fields[at]
                sides = _cut(old[pair.before.name], then), _cut(new[pair.after.name], now)
                cells[:, at] = unequal(*(reversed(sides) if pair.is_cast_before else sides))
        found = DifferingRows(before, after, self._columns, cells, (old, new))
        chosen = np.flatnonzero(cells.any(axis=1))
        if len(chosen) == len(found):
            yield found
        elif len(chosen):
            yield found.only(chosen)

    def _blobs(
        self,
        pair: ColumnPair,
        before: Places,
        old: Mapping[str, pa.Array],
        after: Places,
        new: Mapping[str, pa.Array],
    ) -> Mask:
        """Which blobs have other bytes; those of one length are read."""
        if pair.before.is_blob != pair.after.is_blob:
            return np.ones(len(after.parts), np.bool_)
        one = BlobCells(self._comparison.before, pair.before, before, old[pair.before.name])
        other = BlobCells(self._comparison.after, pair.after, after, new[pair.after.name])
        return one.differing(other)


class BlobCells:
    """Blobs of rows of one state."""

    def __init__(self, state: State, field: Field, places: Places, descriptors: pa.Array) -> None:
        self._state, self._field, self._places = state, field, places
        self._descriptors = descriptors
        self.valid: Mask = descriptors.is_valid().to_numpy(zero_copy_only=False)

    def differing(self, other: BlobCells) -> Mask:
        """Which of them have other bytes than those of another state."""
        found: Mask = self.valid != other.valid
        for at in np.flatnonzero(self.valid & other.valid).tolist():
            found[at] = self._differs(other, at)
        return found

    def size(self, at: int) -> int:
        return self._open(at).size() if self.valid[at] else 0

    def read(self, at: int) -> bytes | None:
        """The bytes of one; None for a null."""
        return self._open(at).readall() if self.valid[at] else None

    def _differs(self, other: BlobCells, at: int) -> bool:
        one, two = self._open(at), other._open(at)
        if one.size() != two.size():
            return True
        while mine := one.read(1 << 20):
            if mine != two.read(len(mine)):
                return True
        return False

    def _open(self, at: int) -> Any:
        part = self._state.parts[int(self._places.parts[at])]
        reader = blob_reader(self._state.snapshot, self._field, part.fragment)
        return reader.open(self._descriptors[at].as_py())


def unequal(one: pa.Array, other: pa.Array) -> Mask:
    """Which values differ, compared in the type of the second: a value that was only cast is the
    same. One that does not fit that type differs."""
    if one.type == other.type:
        return differing(one, other)
    if _cast(one[:0], other.type) is None:
        texts = _cast(one, pa.string()), _cast(other, pa.string())
        if texts[0] is None or texts[1] is None:
            return np.asarray(one.is_valid().to_numpy(False) | other.is_valid().to_numpy(False))
        return differing(*texts)
    cast = cast_or_null(one, other.type)
    is_lost = pc.and_(one.is_valid(), cast.is_null()).to_numpy(zero_copy_only=False)
    return np.asarray(differing(cast, other) | is_lost)


def cast_or_null(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The values in another type, null for those that do not fit."""
    cast = _cast(array, kind)
    if cast is not None:
        return cast
    if len(array) <= 1 or _cast(array[:0], kind) is None:
        return pa.nulls(len(array), kind)
    middle = len(array) // 2
    halves = cast_or_null(array[:middle], kind), cast_or_null(array[middle:], kind)
    return pa.concat_arrays(halves)


def _taken(columns: Mapping[str, pa.Array], rows: pa.Array) -> dict[str, pa.Array]:
    return {name: each.take(rows) for name, each in columns.items()}


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array | None:
    try:
        return pc.cast(array, kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return None


def _cut(array: Any, field: Field) -> Any:
    """Values with only the fields of structs that are compared, also in lists, under numbers: one
    may have another name."""
    if isinstance(array, pa.ListArray | pa.LargeListArray) and field.children:
        held = array.values
        values = _cut(held, field.children[0])
        if values is held:
            return array
        is_large, own = isinstance(array, pa.LargeListArray), array.buffers()[:2]
        kind = pa.large_list(values.type) if is_large else pa.list_(values.type)
        return pa.Array.from_buffers(kind, len(array), own, -1, array.offset, children=[values])
    if field.logical_type != "struct" or not isinstance(array, pa.StructArray):
        return array
    names = [str(at) for at in range(len(field.children))]
    if not names:
        return pc.if_else(array.is_valid(), True, pa.scalar(None, pa.bool_()))
    parts = [_cut(array.field(each.name), each) for each in field.children]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(parts, names=names, mask=mask)
