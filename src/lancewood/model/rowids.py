"""Row ids and row versions: long lists of numbers, kept as runs, and sets of ids as ranges.

``RowIdSequence`` holds one stable row id per physical row of a fragment, ``RowVersions`` one
version per physical row; both count deleted rows. They are immutable, and their work grows with the
number of runs, not of rows: only ``to_numpy`` and iteration list every value. ``model.segments``
encodes them. Ids are not checked for uniqueness: an id may legally appear again at a deleted
position. ``IdRanges`` finds ids that are there twice.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, repeat
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray
from pyroaring import AbstractBitMap

from lancewood.errors import InvalidInputError
from lancewood.model.bitmap import bitmap_runs
from lancewood.model.ids import MAX_U64
from lancewood.model.segments import (
    MAX_ROWS,
    CheckLength,
    Counts,
    Values,
    check_total,
    decode_segment,
    decode_span,
    encode_segments,
    expand,
    last_values,
    parse_sequence,
)
from lancewood.proto import rowids_pb2

Offsets = AbstractBitMap | NDArray[Any] | Sequence[int]


class _Runs:
    """Numbers as runs: each run has a first value, and the next ones grow by ``_step``.

    Adjacent runs that continue each other are joined at once, so equal lists have equal runs.
    """

    __slots__ = ("_encoded", "_firsts", "_index", "_offsets")
    _step: ClassVar[int]

    def __init__(self, firsts: Values, counts: Counts, encoded: bytes | None = None) -> None:
        firsts, counts = firsts[counts > 0], counts[counts > 0]
        ends = np.cumsum(counts, dtype=np.int64)
        joined = firsts[1:] - last_values(firsts, counts, self._step)[:-1] == self._step
        if self._step:
            joined &= firsts[1:] != 0  # 0 follows the largest number only by wrapping around
        heads = np.concatenate(([len(firsts) > 0], ~joined))[: len(firsts)]
        self._firsts: Values = firsts[heads]
        self._offsets: Counts = np.append((ends - counts)[heads], ends[-1:].sum())
        self._firsts.setflags(write=False)
        self._offsets.setflags(write=False)
        self._encoded = encoded
        self._index: tuple[Values, Values, Counts] | None = None

    @classmethod
    def _single(cls, first: int, count: int) -> Self:
        """One run, the shape of nearly every fragment, made by a faster path."""
        made = cls.__new__(cls)
        made._firsts = np.array([first] if count else [], dtype=np.uint64)
        made._offsets = np.array([0, count] if count else [0], dtype=np.int64)
        made._firsts.setflags(write=False)
        made._offsets.setflags(write=False)
        made._encoded = None
        made._index = None
        return made

    @classmethod
    def from_values(cls, values: NDArray[Any] | Sequence[int]) -> Self:
        """The given values in the given order. Raises InvalidInputError for what is not a u64."""
        found = _as_u64(values)
        return cls(found, np.ones(len(found), dtype=np.int64))

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """All parts, one after the other. A single part is returned as it is."""
        if len(parts) == 1:
            return parts[0]
        empty = cls(_NO_VALUES, _NO_COUNTS)
        firsts = np.concatenate([each._firsts for each in (empty, *parts)])
        return cls(firsts, np.concatenate([each._counts for each in (empty, *parts)]))

    def __len__(self) -> int:
        return int(self._offsets[-1])

    def __iter__(self) -> Iterator[int]:
        for first, count in zip(self._firsts.tolist(), self._counts.tolist(), strict=True):
            yield from range(first, first + count) if self._step else repeat(first, count)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self) or not isinstance(other, _Runs):
            return NotImplemented
        same_offsets = np.array_equal(self._offsets, other._offsets)
        return same_offsets and np.array_equal(self._firsts, other._firsts)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} values in {len(self._firsts)} runs)"

    def to_numpy(self) -> Values:
        """Every value: 8 bytes a row."""
        return expand(self._firsts, self._counts, self._step)

    @property
    def bounds(self) -> Counts:
        """The offset where each run begins, and the end of the last."""
        return self._offsets

    def value_at(self, offset: int) -> int:
        """The value of the row at ``offset``; raises InvalidInputError outside the sequence."""
        return int(self._values_at(self._check_offsets([offset]))[0])

    def max_value(self) -> int | None:
        """The largest value; None for an empty sequence."""
        lasts = last_values(self._firsts, self._counts, self._step)
        return int(lasts.max()) if len(lasts) else None

    def slice(self, start: int, stop: int) -> Self:
        """The rows from ``start`` up to, not including, ``stop``; bounds are not clipped."""
        if not 0 <= start <= stop <= len(self):
            raise InvalidInputError(f"rows {start} to {stop} asked of {len(self)}")
        if stop - start == len(self):
            return self
        if start == stop:
            return type(self)(_NO_VALUES, _NO_COUNTS)
        inside = self._offsets[(self._offsets > start) & (self._offsets < stop)]
        cuts = np.concatenate(([start], inside, [stop]))
        return self._between(cuts[:-1], cuts[1:])

    def take(self, offsets: NDArray[Any] | Sequence[int]) -> Self:
        """The rows at the given offsets, in the given order, repeats included."""
        return self.from_values(self._values_at(self._check_offsets(offsets)))

    def without(self, offsets: Offsets) -> Self:
        """All rows except those at the given offsets: what is left when deleted rows are
        dropped."""
        if isinstance(offsets, AbstractBitMap):
            return self._without_bitmap(offsets)
        dropped = self._check_offsets(offsets)
        if not len(dropped):
            return self
        cuts, chosen = self._cut_at(dropped)
        return self._between(cuts[:-1][~chosen], cuts[1:][~chosen])

    def values_at(self, offsets: NDArray[Any] | Sequence[int]) -> Values:
        """The values of the rows at the given offsets, in the given order."""
        return self._values_at(self._check_offsets(offsets))

    def _without_bitmap(self, offsets: AbstractBitMap) -> Self:
        if not offsets:
            return self
        if offsets.max() >= len(self):
            raise InvalidInputError(f"row offset {offsets.max()} asked of {len(self)} rows")
        begins, ends = bitmap_runs(offsets)
        cuts = np.unique(np.concatenate((self._offsets, begins, ends)))
        starts = cuts[:-1]
        before = np.searchsorted(begins, starts, side="right") - 1
        kept = (before < 0) | (starts >= ends[before])
        return self._between(starts[kept], cuts[1:][kept])

    @property
    def _counts(self) -> Counts:
        return np.diff(self._offsets)

    def _values_at(self, offsets: Counts) -> Values:
        run = np.searchsorted(self._offsets, offsets, side="right") - 1
        if not self._step:
            return self._firsts[run]
        return self._firsts[run] + (offsets - self._offsets[run]).astype(np.uint64)

    def _between(self, begins: Counts, ends: Counts) -> Self:
        """The rows of intervals that each lie within one run."""
        return type(self)(self._values_at(begins), ends - begins)

    def _cut_at(self, offsets: Counts) -> tuple[Counts, NDArray[np.bool_]]:
        """Bounds of all runs, cut so that each offset is a piece of its own, and which pieces those
        are."""
        cuts = np.unique(np.concatenate((self._offsets, offsets, offsets + 1)))
        return cuts, np.isin(cuts[:-1], offsets)

    def _check_offsets(self, offsets: Offsets) -> Counts:
        if isinstance(offsets, AbstractBitMap):
            found = np.frombuffer(offsets.to_array(), dtype=np.uint32)
        else:
            found = np.asarray(offsets)
        if found.size and (found.ndim != 1 or found.dtype.kind not in "iu"):
            raise InvalidInputError(f"row offsets must be a list of integers, not {offsets!r}")
        if found.size and (found.min() < 0 or found.max() >= len(self)):
            wrong = found.min() if found.min() < 0 else found.max()
            raise InvalidInputError(f"row offset {wrong} asked of {len(self)} rows")
        return found.astype(np.int64)


class RowIdSequence(_Runs):
    """The stable row ids of one fragment, in row order."""

    __slots__ = ()
    _step = 1

    @classmethod
    def decode(cls, data: bytes, check_length: CheckLength | None = None) -> RowIdSequence:
        """The sequence in a ``RowIdSequence`` message; while it is unchanged, ``encode`` returns
        the same bytes.

        Raises FormatError for bytes that break the format, before anything is allocated for the
        length they claim. Does not check that ids are unique.
        """
        what = "row id sequence"
        message = rowids_pb2.RowIdSequence()
        parse_sequence(message, data, what)
        if len(message.segments) == 1 and message.segments[0].WhichOneof("segment") == "range":
            only = message.segments[0].range
            if only.start <= only.end:
                check_total(what, only.end - only.start, check_length)
                made = cls._single(only.start, only.end - only.start)
                made._encoded = bytes(data)
                return made
        parts = [decode_segment(each, what) for each in message.segments]
        check_total(what, sum(count for _, _, count in parts), check_length)
        firsts = np.concatenate([_NO_VALUES, *(each[0] for each in parts)])
        counts = np.concatenate([_NO_COUNTS, *(each[1] for each in parts)])
        return cls(firsts, counts, bytes(data))

    @classmethod
    def from_range(cls, start: int, count: int) -> RowIdSequence:
        """``count`` ids from ``start`` on, the shape of newly assigned ids."""
        if not 0 <= count <= MAX_ROWS or not 0 <= start <= MAX_U64 - count:
            raise InvalidInputError(f"{count} row ids from {start} on do not fit a fragment")
        return cls._single(start, count)

    def encode(self) -> bytes:
        """The bytes of a ``RowIdSequence`` message."""
        if self._encoded is None:
            message = rowids_pb2.RowIdSequence()
            if len(self._firsts) == 1 and int(self._firsts[0]) + len(self) <= MAX_U64:
                only = message.segments.add().range
                only.start = int(self._firsts[0])
                only.end = only.start + len(self)
            else:
                message.segments.extend(encode_segments(self._firsts, self._counts))
            self._encoded = message.SerializeToString(deterministic=True)
        return self._encoded

    def runs(self) -> Iterator[tuple[int, int, int]]:
        """(offset, first id, count) of each run of ids that ascend by one."""
        columns = (self._offsets[:-1].tolist(), self._firsts.tolist(), self._counts.tolist())
        return zip(*columns, strict=True)

    def shifted(self, start: int, by: int) -> RowIdSequence:
        """These ids, with every one from ``start`` on increased by ``by``."""
        if not by or not len(self):
            return self
        if len(self._firsts) == 1 and int(self._firsts[0]) >= start:
            return RowIdSequence.from_range(int(self._firsts[0]) + by, len(self))
        first = np.uint64(start)
        inside = (self._firsts < first) & (first - self._firsts < self._counts.astype(np.uint64))
        if not inside.any() and (self._firsts < first).all():
            return self
        cuts = self._offsets[:-1][inside] + (first - self._firsts[inside]).astype(np.int64)
        bounds = np.union1d(self._offsets, cuts)
        values = self._values_at(bounds[:-1])
        moved = np.where(values >= first, values + np.uint64(by), values)
        return RowIdSequence(moved, np.diff(bounds))

    def find(self, ids: NDArray[Any] | Sequence[int]) -> Counts:
        """The offset of each id, -1 for an id that is not here.

        An id that occurs more than once is found at its last offset.
        """
        asked = _as_u64(ids)
        if self._index is None:
            self._index = _lookup(self._firsts, self._counts)
        lows, lasts, offsets = self._index
        if not len(lows):
            return np.full(len(asked), -1, dtype=np.int64)
        at = np.searchsorted(lows, asked, side="right") - 1
        found = (at >= 0) & (asked <= lasts[at])
        return np.where(found, offsets[at] + (asked - lows[at]).astype(np.int64), -1)


FIRST_VERSION = 1
"""The version of rows whose fragment records none."""


class RowVersions(_Runs):
    """One version number per physical row: the one that created it, or last changed it."""

    __slots__ = ()
    _step = 0

    @classmethod
    def decode(cls, data: bytes, check_length: CheckLength | None = None) -> RowVersions:
        """The versions in a ``RowDatasetVersionSequence`` message; while they are unchanged,
        ``encode`` returns the same bytes.

        Of a span only the number of values counts, never where it starts. Raises FormatError for
        bytes that break the format, before anything is allocated for the length they claim.
        """
        what = "row version sequence"
        message = rowids_pb2.RowDatasetVersionSequence()
        parse_sequence(message, data, what)
        if len(message.runs) == 1:
            (only,) = message.runs
            count = decode_span(only.span, what)
            check_total(what, count, check_length)
            made = cls._single(only.version, count)
            made._encoded = bytes(data)
            return made
        counts = [decode_span(each.span, what) for each in message.runs]
        check_total(what, sum(counts), check_length)
        versions = np.array([each.version for each in message.runs], dtype=np.uint64)
        return cls(versions, np.array(counts, dtype=np.int64), bytes(data))

    @classmethod
    def uniform(cls, version: int, count: int) -> RowVersions:
        """One version for ``count`` rows, the shape of freshly written rows."""
        if not 0 <= count <= MAX_ROWS:
            raise InvalidInputError(f"{count} rows do not fit a fragment")
        if not 0 <= version <= MAX_U64:
            raise InvalidInputError(f"{version} is no version")
        return cls._single(version, count)

    def encode(self) -> bytes:
        """The bytes of a ``RowDatasetVersionSequence`` message: one entry per run of rows."""
        if self._encoded is None:
            message = rowids_pb2.RowDatasetVersionSequence()
            spans = pairwise(self._offsets.tolist())
            for version, (start, end) in zip(self._firsts.tolist(), spans, strict=True):
                run = message.runs.add(version=version)
                run.span.range.start, run.span.range.end = start, end
            self._encoded = message.SerializeToString(deterministic=True)
        return self._encoded

    def runs(self) -> Iterator[tuple[int, int]]:
        """(count, version) of each run of rows with the same version."""
        return zip(self._counts.tolist(), self._firsts.tolist(), strict=True)

    def restamp(self, above: int, to: int) -> RowVersions:
        """These versions, with every one larger than ``above`` replaced by ``to``."""
        late = self._firsts > _as_u64([above])
        if not late.any():
            return self
        return RowVersions(np.where(late, _as_u64([to]), self._firsts), self._counts)

    def with_value_at(self, offsets: Offsets, version: int) -> RowVersions:
        """These versions, with ``version`` at the given offsets."""
        changed = self._check_offsets(offsets)
        if not len(changed):
            return self
        cuts, chosen = self._cut_at(changed)
        versions = np.where(chosen, _as_u64([version]), self._values_at(cuts[:-1]))
        return RowVersions(versions, np.diff(cuts))


_NO_VALUES: Values = np.empty(0, dtype=np.uint64)
_NO_COUNTS: Counts = np.empty(0, dtype=np.int64)


def _as_u64(values: NDArray[Any] | Sequence[int]) -> Values:
    if not isinstance(values, np.ndarray):
        try:
            items = [operator.index(each) for each in values]
        except TypeError as cause:
            raise InvalidInputError(f"row ids and versions are integers: {cause}") from cause
        if items and (min(items) < 0 or max(items) > MAX_U64):
            raise InvalidInputError("row ids and versions are unsigned numbers of 64 bits")
        return np.array(items, dtype=np.uint64)
    if values.size and (values.ndim != 1 or values.dtype.kind not in "iu"):
        found = f"{values.ndim} dimensions of {values.dtype}"
        raise InvalidInputError(f"row ids and versions are one list of integers, not {found}")
    if values.dtype.kind == "i" and values.size and values.min() < 0:
        raise InvalidInputError(f"{values.min()} is negative, so no row id and no version")
    return values.astype(np.uint64)


def _lookup(firsts: Values, counts: Counts) -> tuple[Values, Values, Counts]:
    """Disjoint intervals of ids, sorted: first id, last id, and the offset of the first id.

    Where runs overlap, the later run wins. An interval between two neighbouring bounds belongs to
    one run: the maximum of the runs that cover it, found by doubling. A run marks two blocks of the
    largest power of two that fits it, and blocks pass their mark on to their halves.
    """
    lasts = last_values(firsts, counts, 1)
    begins = np.cumsum(counts) - counts
    order = np.argsort(firsts, kind="stable")
    if bool((firsts[order][1:] > lasts[order][:-1]).all()):
        return firsts[order], lasts[order], begins[order]
    edges = np.unique(np.concatenate((firsts, lasts[lasts != MAX_U64] + np.uint64(1))))
    left = np.searchsorted(edges, firsts)
    right = np.searchsorted(edges, lasts, side="right")
    levels = np.frexp((right - left).astype(np.float64))[1] - 1
    owner = np.full(len(edges), -1, dtype=np.int64)
    for level in range(int(levels.max()), -1, -1):
        block = 1 << level
        at_level = np.flatnonzero(levels == level)
        halves = owner.copy()
        halves[block:] = np.maximum(owner[block:], owner[:-block])
        owner = halves
        np.maximum.at(owner, left[at_level], at_level)
        np.maximum.at(owner, right[at_level] - block, at_level)
    covered = owner >= 0
    until = np.append(edges[1:] - np.uint64(1), np.uint64(MAX_U64))
    run = owner[covered]
    inside = (edges[covered] - firsts[run]).astype(np.int64)
    return edges[covered], until[covered], begins[run] + inside


_Ids = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class IdRanges:
    """Ids from each of ``firsts`` to the matching one of ``lasts``, both sorted, none touching."""

    firsts: _Ids
    lasts: _Ids

    @classmethod
    def of(cls, sequence: RowIdSequence) -> tuple[IdRanges, int | None]:
        """The ids of a sequence, and one that is in it twice."""
        return _joined(*bounds_of(sequence))

    @classmethod
    def between(cls, firsts: _Ids, lasts: _Ids) -> IdRanges:
        """The ids from each of some to its last one, in any order; they may meet."""
        return _joined(firsts, lasts)[0]

    def meet(self, other: IdRanges) -> bool:
        """Whether an id is in both."""
        at = np.searchsorted(self.lasts, other.firsts)
        inside = at < len(self.firsts)
        return bool((self.firsts[at[inside]] <= other.lasts[inside]).any())


def bounds_of(sequence: RowIdSequence) -> tuple[_Ids, _Ids]:
    """The first and the last id of each run of a sequence."""
    firsts = sequence.values_at(sequence.bounds[:-1])
    return firsts, firsts + (np.diff(sequence.bounds) - 1).astype(np.uint64)


def union(parts: Sequence[IdRanges]) -> tuple[IdRanges, int | None]:
    """The ids of all parts together, and one that is in more than one of them."""
    return _joined(_all(each.firsts for each in parts), _all(each.lasts for each in parts))


def _all(parts: Iterable[_Ids]) -> _Ids:
    return np.concatenate([np.empty(0, np.uint64), *parts])


def _joined(firsts: _Ids, lasts: _Ids) -> tuple[IdRanges, int | None]:
    order = np.argsort(firsts, kind="stable")
    firsts, lasts = firsts[order], np.maximum.accumulate(lasts[order])
    if not len(firsts):
        return IdRanges(firsts, lasts), None
    twice = np.flatnonzero(firsts[1:] <= lasts[:-1])
    # Nothing follows a range that ends at the largest number, so nothing wraps around.
    apart = firsts[1:] > lasts[:-1] + np.uint64(1)
    apart &= lasts[:-1] != np.uint64(2**64 - 1)
    heads = np.concatenate(([True], apart))
    tails = np.concatenate((apart, [True]))
    found = int(firsts[twice[0] + 1]) if len(twice) else None
    return IdRanges(firsts[heads], lasts[tails]), found
