"""The rows of one fragment that a scan returns: live, passing the filter, shaped.

A filter's columns are read first. The others are fetched only for rows that pass: one by one where
that is cheaper, else including the rows between, and together with the filter's columns where many
rows pass. A small file is read at once. Which fragments a scan reads, and limits that span several
of them, are decided elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancewood.data.reader import FragmentReader, in_step
from lancewood.data.wanted import WantedColumns, has_dictionary
from lancewood.engine.rows.facts import RowFacts, open_fragment
from lancewood.engine.rows.picking import CALL, Wanted, read_through, runs_in, savings
from lancewood.engine.rows.row_shape import Fetching, RowShape, batch_of, nameless
from lancewood.errors import FormatError
from lancewood.model.fragment import Fragment


def bits_of(mask: pa.BooleanArray) -> npt.NDArray[np.bool_]:
    """The values of a mask without nulls; several times faster than pyarrow's own conversion."""
    if not len(mask):
        return np.empty(0, np.bool_)
    start, stop = mask.offset, mask.offset + len(mask)
    packed = np.frombuffer(mask.buffers()[1], np.uint8, count=(stop + 7) // 8)
    return np.unpackbits(packed, bitorder="little", count=stop)[start:].view(np.bool_)


def locations_in(mask: pa.BooleanArray) -> npt.NDArray[np.int64]:
    """Where a mask is true."""
    if not mask.true_count:
        return np.empty(0, np.int64)
    return np.flatnonzero(bits_of(mask))


def chosen(batch: pa.RecordBatch, locations: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """The rows at distinct, ascending positions."""
    if len(locations) == batch.num_rows:
        return batch
    return batch.take(pa.array(locations)) if batch.num_columns else nameless(len(locations))


_Ints = npt.NDArray[np.int64]
_Passing = tuple[int, pa.RecordBatch, pa.BooleanArray]
"""The offset of a batch, the batch, and which of its rows are live and pass the filter."""
_Living = tuple[int, pa.RecordBatch, pa.RecordBatch, npt.NDArray[np.bool_] | None]
"""The offset of a batch, the batch, its live rows with what the filter needs, and a mask of them;
None if all are live."""

_SMALL = 1 << 20
_PORTION_ROWS = 32_768
_PORTION_BYTES = 8 << 20
_JUDGED_ROWS = 1 << 19
_NARROW = 32.0
_ONE_STAGE = 65_536
_FIRST_STAGE = 16_384
_LATER_STAGE = 1 << 20
_GROWTH = 64
_ALONG = "read along with the filter"


class FragmentScan:
    """One fragment, read once."""

    def __init__(
        self, shape: RowShape, fragment: Fragment, span: tuple[int, int] | None = None
    ) -> None:
        """``span`` restricts the scan to these physical rows, from the first to before the
        second."""
        self._shape = shape
        self._span = span
        self._facts = RowFacts(shape.snapshot, fragment)
        self._fragment = fragment

    def batches(self, skip: int = 0, count: int | None = None) -> Iterator[pa.RecordBatch]:
        """The rows; without a filter, the live rows ``skip`` to ``skip + count``.

        Reading starts at the call.
        """
        shape = self._shape
        if shape.predicate is None:
            return self._unfiltered(skip, count)
        reader = self._open(shape.filtering)
        if not shape.late.schema.fields:
            return self._in_one_go(reader)
        if self._is_read_together(reader):
            return self._in_one_go(reader.of(shape.together))
        return self._late(reader)

    def count(self) -> Iterator[int]:
        """How many rows pass, batch by batch."""
        predicate = self._shape.predicate
        assert predicate is not None
        batches, start = self._filtering(self._open(self._shape.filtering))
        return (predicate.count(rows) for _, _, rows, _ in self._living(batches, start))

    def fetched(self, kept: pa.RecordBatch | None, offsets: _Ints) -> Iterator[pa.RecordBatch]:
        """The rows at offsets, which pass; ``kept`` are those of their columns that were read for
        the filter. Reading starts at the call."""
        late = self._shape.late
        portion = _Portion(frozenset(late.schema.names))
        portion.add(kept, offsets)
        reader = self._open(late)
        reader.look()
        return self._fetched(reader, portion)

    def _open(self, wanted: WantedColumns) -> FragmentReader:
        return open_fragment(self._shape.snapshot, self._fragment, wanted)

    def _is_read_together(self, reader: FragmentReader) -> bool:
        fetching = self._shape.fetching
        if fetching is not Fetching.AUTO:
            return fetching is Fetching.TOGETHER
        late = reader.of(self._shape.late)
        if not late.file_numbers <= reader.file_numbers:
            return False
        reader.look()
        return sum(late.stored_widths().values()) * late.physical_rows() <= _SMALL

    def _unfiltered(self, skip: int, count: int | None) -> Iterator[pa.RecordBatch]:
        shape = self._shape
        reader = self._open(shape.together)
        start, stop = self._range(reader, skip, count)
        size = shape.batch_rows
        if shape.projection.computed:
            reader.look()
            size = size or _judged_rows(reader, stop - start)
        return self._live(reader.batches(start, stop, size), start)

    def _live(self, batches: Iterator[pa.RecordBatch], start: int) -> Iterator[pa.RecordBatch]:
        shape, facts = self._shape, self._facts
        position, system = start, shape.projection.system
        for batch in batches:
            first, position = position, position + batch.num_rows
            rows = batch.num_rows
            live = facts.live_mask(first, rows)
            if shape.is_plain and live is None:
                yield pa.RecordBatch.from_arrays(batch.columns, schema=shape.schema)
                continue
            columns = dict(zip(batch.schema.names, batch.columns, strict=True))
            for name in system:
                columns[name] = facts.column(name, first, rows)
            if live is not None:
                whole = batch_of(columns, rows).filter(pa.array(live))
                columns = dict(zip(whole.schema.names, whole.columns, strict=True))
                rows = whole.num_rows
            if rows:
                yield shape.shaped(columns, rows)

    def _in_one_go(self, reader: FragmentReader) -> Iterator[pa.RecordBatch]:
        shape = self._shape
        passing = self._passing(reader, shape.batch_rows)
        if shape.most_rows is None and not shape.projection.system:
            return self._sifted(passing)
        return self._cut(passing)

    def _sifted(self, passing: Iterator[_Passing]) -> Iterator[pa.RecordBatch]:
        """The rows that pass, where nothing is asked about their offsets."""
        for _, batch, mask in passing:
            rows = mask.true_count
            if rows:
                kept = batch if rows == batch.num_rows else batch.filter(mask)
                columns = dict(zip(kept.schema.names, kept.columns, strict=True))
                yield self._shape.shaped(columns, rows)

    def _cut(self, passing: Iterator[_Passing]) -> Iterator[pa.RecordBatch]:
        left = self._shape.most_rows
        for first, batch, mask in passing:
            locations = locations_in(mask)[:left]
            if left is not None:
                left -= len(locations)
            if len(locations):
                rows = chosen(batch, locations)
                columns = dict(zip(rows.schema.names, rows.columns, strict=True))
                yield self._finished(columns, locations + first)
            if left == 0:
                return

    def _late(self, reader: FragmentReader) -> Iterator[pa.RecordBatch]:
        start, stop = self._range(reader)
        is_short = stop - start <= _ONE_STAGE
        hint = self._shape.hints.get(_ALONG)
        rows = _FIRST_STAGE if hint is None else _LATER_STAGE
        end = stop if is_short else min(start + rows, stop)
        stage = self._stage(reader, hint or frozenset(), start, end)
        portions = self._portions(reader, stage, stop)
        # Few rows are filtered at once, so that whoever begins several fragments waits for none.
        first = next(portions, None) if is_short else None
        begun = iter(()) if first is None else self._fetched(reader, first)
        return self._completed(reader, portions, begun)

    def _completed(
        self,
        reader: FragmentReader,
        portions: Iterator[_Portion],
        begun: Iterator[pa.RecordBatch],
    ) -> Iterator[pa.RecordBatch]:
        """Fetch one portion while the rows of the next are filtered."""
        for portion in portions:
            following = self._fetched(reader, portion)
            yield from begun
            begun = following
        yield from begun

    def _portions(self, reader: FragmentReader, stage: _Stage, stop: int) -> Iterator[_Portion]:
        """Rows that pass, in portions; each stage learns from the one before."""
        left = self._shape.most_rows
        portion = _Portion(stage.late)
        while True:
            hits = runs = 0
            for first, batch, mask in stage.passing:
                locations = locations_in(mask)[:left]
                if left is not None:
                    left -= len(locations)
                if len(locations):
                    hits, runs = hits + len(locations), runs + runs_in(locations)
                    kept = chosen(batch.select(stage.kept), locations) if stage.kept else None
                    portion.add(kept, locations + first)
                if left == 0:
                    break
                if portion.rows >= stage.portion_rows or portion.size >= _PORTION_BYTES:
                    yield portion
                    portion = _Portion(stage.late)
            along = self._along(reader, Wanted(hits, stage.stop - stage.start, runs))
            if left == 0 or stage.stop == stop:
                if portion.rows:
                    yield portion
                return
            end = min(stage.stop + _GROWTH * (stage.stop - stage.start), stop)
            stage = self._stage(reader, along, stage.stop, end)
            if portion.late != stage.late:
                if portion.rows:
                    yield portion
                portion = _Portion(stage.late)

    def _stage(
        self, reader: FragmentReader, along: frozenset[str], start: int, stop: int
    ) -> _Stage:
        """A stretch of rows whose filter columns, and those in ``along``, are read in one way."""
        shape = self._shape
        early = reader.of(shape.early(along))
        late = frozenset(shape.late.schema.names) - along
        needed = frozenset(shape.projection.stored.names) - late
        kept = [each for each in early.schema.names if each in needed]
        dictionaries = any(has_dictionary(early.schema.field(each).type) for each in kept)
        batches = early.batches(start, stop, _judged_rows(early, stop - start))
        passing = self._judged(batches, start)
        return _Stage(start, stop, passing, kept, late, 1 if dictionaries else _PORTION_ROWS)

    def _along(self, reader: FragmentReader, hits: Wanted) -> frozenset[str]:
        """The late columns that are worth reading for every row of a fragment with such hits."""
        shape = self._shape
        if shape.fetching is not Fetching.AUTO or not hits.span:
            return frozenset()
        late = reader.of(shape.late)
        found = savings(late.stored_widths(), late.varying, hits) if hits.rows else {}
        along = read_through(found, CALL * hits.span / reader.physical_rows())
        shape.hints[_ALONG] = along
        return along

    def _passing(self, reader: FragmentReader, batch_rows: int | None = None) -> Iterator[_Passing]:
        return self._judged(*self._filtering(reader, batch_rows))

    def _filtering(
        self, reader: FragmentReader, batch_rows: int | None = None
    ) -> tuple[Iterator[pa.RecordBatch], int]:
        """The batches of the columns that are filtered by, and the offset of the first."""
        start, stop = self._range(reader)
        reader.look()
        size = batch_rows or _judged_rows(reader, stop - start)
        return reader.batches(start, stop, size), start

    def _range(
        self, reader: FragmentReader, skip: int = 0, count: int | None = None
    ) -> tuple[int, int]:
        """The physical rows that are read."""
        start, stop = self._facts.physical_range(skip, count, reader.physical_rows())
        if self._span is None:
            return start, stop
        first, last = self._span
        return min(max(start, first), stop), min(max(start, last), stop)

    def _judged(self, batches: Iterator[pa.RecordBatch], position: int) -> Iterator[_Passing]:
        assert self._shape.predicate is not None
        for first, batch, rows, live in self._living(batches, position):
            mask = self._shape.predicate.mask(rows)
            if live is not None:
                live[np.flatnonzero(live)] = bits_of(mask)
                mask = pa.array(live)
            yield first, batch, mask

    def _living(self, batches: Iterator[pa.RecordBatch], position: int) -> Iterator[_Living]:
        """What the filter is asked about: it must not fail on the values of deleted rows."""
        shape, facts = self._shape, self._facts
        for batch in batches:
            first, position = position, position + batch.num_rows
            rows = batch
            if shape.filter_system:
                columns = dict(zip(batch.schema.names, batch.columns, strict=True))
                for name in shape.filter_system:
                    columns[name] = facts.column(name, first, batch.num_rows)
                rows = batch_of(columns, batch.num_rows)
            live = facts.live_mask(first, batch.num_rows)
            if live is not None:
                rows = chosen(rows, np.flatnonzero(live))
            yield first, batch, rows, live

    def _fetched(self, reader: FragmentReader, portion: _Portion) -> Iterator[pa.RecordBatch]:
        """The rows that passed, with the columns that the filter did not need. Reading starts at
        the call."""
        early, offsets = portion.kept(), portion.offsets
        streams = [
            reader.of(wanted).pick(offsets, within=within, batch_rows=self._shape.batch_rows)
            for wanted, within in self._ways(reader, portion.late, offsets)
        ]
        return self._joined(early, offsets, streams)

    def _joined(
        self, early: pa.RecordBatch, offsets: _Ints, streams: list[Iterator[pa.RecordBatch]]
    ) -> Iterator[pa.RecordBatch]:
        size = self._shape.batch_rows or len(offsets)
        pieces = (early.slice(at, size) for at in range(0, len(offsets), size))
        at = 0
        for parts in in_step([pieces, *streams]):
            rows = parts[0].num_rows
            columns = {
                name: array
                for part in parts
                for name, array in zip(part.schema.names, part.columns, strict=True)
            }
            yield self._finished(columns, offsets[at : at + rows])
            at += rows
        if at != len(offsets):
            raise FormatError(
                f"fragment {self._fragment.id} gave {at} rows where {len(offsets)} were asked for",
                fragment=self._fragment.id,
            )

    def _ways(
        self, reader: FragmentReader, names: frozenset[str], offsets: _Ints
    ) -> Iterator[tuple[WantedColumns, bool]]:
        """The late columns in groups, and whether each is read including the rows between."""
        shape = self._shape
        if not names:
            return
        if shape.fetching is not Fetching.AUTO:
            yield shape.late, shape.fetching is Fetching.WITHIN
            return
        late = reader.of(shape.part_of_late(names))
        found = savings(late.stored_widths(), late.varying, Wanted.of(offsets))
        within = read_through(found, CALL)
        for group, is_within in ((within, True), (names - within, False)):
            if group:
                yield shape.part_of_late(group), is_within

    def _finished(self, columns: dict[str, Any], offsets: _Ints) -> pa.RecordBatch:
        for name in self._shape.projection.system:
            columns[name] = self._facts.column_at(name, offsets)
        return self._shape.shaped(columns, len(offsets))


def _judged_rows(reader: FragmentReader, rows: int) -> int | None:
    """The rows of a batch that is only filtered: many, if they are narrow, and about as many in
    each. None for the usual."""
    if sum(reader.stored_widths().values()) > _NARROW:
        return None
    return math.ceil(rows / max(round(rows / _JUDGED_ROWS), 1))


class _Stage(NamedTuple):
    """A stretch of rows that is read in one way."""

    start: int
    stop: int
    passing: Iterator[_Passing]
    kept: list[str]
    """The columns to return, of those that are read."""
    late: frozenset[str]
    portion_rows: int


class _Portion:
    """Rows that passed and wait for their other columns."""

    def __init__(self, late: frozenset[str]) -> None:
        self.late = late
        """The columns that the rows wait for."""
        self._kept: list[pa.RecordBatch] = []
        self._offsets: list[_Ints] = []
        self.rows = self.size = 0

    def add(self, kept: pa.RecordBatch | None, offsets: _Ints) -> None:
        """Rows, and those of their columns that are read already."""
        if kept is not None:
            self._kept.append(kept)
            self.size += kept.get_total_buffer_size()
        self._offsets.append(offsets)
        self.rows += len(offsets)
        self.size += offsets.nbytes

    @cached_property
    def offsets(self) -> _Ints:
        """Where all of them are, once all are added."""
        return np.concatenate(self._offsets)

    def kept(self) -> pa.RecordBatch:
        """The columns that are read already."""
        if not self._kept:
            return nameless(self.rows)
        return self._kept[0] if len(self._kept) == 1 else pa.concat_batches(self._kept)
