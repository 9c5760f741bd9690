"""The live rows of fragments by row id: stretches of consecutive ids at consecutive offsets.

A stretch records where its rows are and which versions made and last changed them, so that versions
of a table can be compared row by row without listing rows: work grows with the number of stretches.
Reads deletion files and sequences, never a column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from lancewood.engine.rows.facts import RowFacts
from lancewood.errors import FormatError, found_in
from lancewood.model.bitmap import bitmap_runs
from lancewood.model.fragment import Fragment, Lineage
from lancewood.model.rowids import FIRST_VERSION, RowIdSequence, RowVersions
from lancewood.model.segments import expand

Ids: TypeAlias = npt.NDArray[np.uint64]
Ints: TypeAlias = npt.NDArray[np.int64]
_Number = TypeVar("_Number", np.uint64, np.int64)
_FEW_BYTES = 64
"""Number of bytes that one version for all rows takes at most."""
_NO_IDS: Ids = np.empty(0, np.uint64)
_NO_INTS: Ints = np.empty(0, np.int64)


class Stretches(NamedTuple):
    """The live rows of one fragment, in the order of the fragment."""

    firsts: Ids
    """The first id of each."""
    counts: Ints
    offsets: Ints
    """The physical offset of the first row of each."""
    created: Ids
    updated: Ids


NO_STRETCHES = Stretches(_NO_IDS, _NO_INTS, _NO_INTS, _NO_IDS, _NO_IDS)


def stretches_of(facts: RowFacts, ids: RowIdSequence | None = None) -> Stretches:
    """The live rows of a fragment: under their stable row ids, or other ids for all its rows."""
    ids = facts.row_ids if ids is None else ids
    assert ids is not None, "asked of a table without stable row ids"
    if facts.fragment.deletion_file is None and len(ids.bounds) == 2:
        with found_in(facts.snapshot.manifest.name):
            created = _only_version(facts.fragment, "created_at_versions")
            updated = _only_version(facts.fragment, "last_updated_at_versions")
        if created is not None and updated is not None:
            return _single(ids, created, updated)
    rows = facts.fragment.physical_rows or len(ids)
    return _cut_up(
        ids,
        facts.created_at or RowVersions.uniform(FIRST_VERSION, rows),
        facts.last_updated_at or RowVersions.uniform(FIRST_VERSION, rows),
        facts.deleted,
    )


def _cut_up(
    ids: RowIdSequence, created: RowVersions, updated: RowVersions, deleted: BitMap
) -> Stretches:
    begins, ends = bitmap_runs(deleted)
    bounds = (ids.bounds, created.bounds, updated.bounds)
    cuts = distinct(np.concatenate((*bounds, begins, ends)))
    starts, stops = cuts[:-1], cuts[1:]
    if len(begins):
        before = np.searchsorted(begins, starts, side="right") - 1
        live = (before < 0) | (starts >= ends[before])
        starts, stops = starts[live], stops[live]
    return Stretches(
        ids.values_at(starts),
        stops - starts,
        starts,
        created.values_at(starts),
        updated.values_at(starts),
    )


def _single(ids: RowIdSequence, created: int, updated: int) -> Stretches:
    """One stretch, the shape of nearly every fragment, made by a faster path."""
    return Stretches(
        np.array([ids.value_at(0)], np.uint64),
        np.array([len(ids)], np.int64),
        np.zeros(1, np.int64),
        np.array([created], np.uint64),
        np.array([updated], np.uint64),
    )


def _only_version(fragment: Fragment, what: Lineage) -> int | None:
    """The version of all rows; None where there are several, or only reading would show."""
    location = fragment.lineage(what)
    if location is None:
        return FIRST_VERSION
    if not isinstance(location, bytes) or len(location) > _FEW_BYTES:
        return None
    found = _decode_only(location)
    return found[1] if found is not None and found[0] == fragment.physical_rows else None


@lru_cache(maxsize=1024)
def _decode_only(data: bytes) -> tuple[int, int] | None:
    """Cached, because fragments of one write encode their versions in the same bytes."""
    versions = RowVersions.decode(data)
    return next(versions.runs()) if len(versions.bounds) == 2 else None


@dataclass(frozen=True, eq=False)
class LiveRows:
    """Stretches of several fragments, sorted by id."""

    firsts: Ids
    counts: Ints
    fragments: Ints
    """The fragment of each, by position."""
    offsets: Ints
    created: Ids
    updated: Ids

    @classmethod
    def of(cls, parts: Iterable[Stretches], what: str) -> LiveRows:
        """The rows of all parts; raises FormatError, which names ``what``, for an id that two rows
        have."""
        listed = list(parts)
        owner = np.repeat(np.arange(len(listed)), [len(each.firsts) for each in listed])
        firsts, counts, offsets, created, updated = (
            np.concatenate([none, *(each[at] for each in listed)])
            for at, none in enumerate(NO_STRETCHES)
        )
        made = cls(firsts, counts, owner.astype(np.int64), offsets, created, updated)._sorted()
        double = np.flatnonzero(made.firsts[1:] < made.ends[:-1])
        if len(double):
            raise FormatError(f"{what}: two live rows have the id {made.firsts[double[0] + 1]}")
        return made

    @classmethod
    def joined(cls, parts: Iterable[LiveRows]) -> LiveRows:
        """The stretches of all, which are of the same fragments and have no row in common."""
        listed = list(parts)
        return cls(
            np.concatenate([_NO_IDS, *(each.firsts for each in listed)]),
            np.concatenate([_NO_INTS, *(each.counts for each in listed)]),
            np.concatenate([_NO_INTS, *(each.fragments for each in listed)]),
            np.concatenate([_NO_INTS, *(each.offsets for each in listed)]),
            np.concatenate([_NO_IDS, *(each.created for each in listed)]),
            np.concatenate([_NO_IDS, *(each.updated for each in listed)]),
        )._sorted()

    @classmethod
    def without_ids(cls, fragments: Ints, offsets: Ints, counts: Ints) -> LiveRows:
        """Stretches that are known by place alone, for whoever only reads the rows."""
        unknown = np.zeros(len(fragments), np.uint64)
        return cls(unknown, counts, fragments, offsets, unknown, unknown)

    def _sorted(self) -> LiveRows:
        if (self.firsts[1:] >= self.firsts[:-1]).all():
            return self
        return self._at(np.argsort(self.firsts, kind="stable"))

    @cached_property
    def ends(self) -> Ids:
        """The id after the last of each stretch."""
        return self.firsts + self.counts.astype(np.uint64)

    @cached_property
    def origins(self) -> Ints:
        """The offset that id 0 would have in each stretch: where two agree, so do the offsets of
        all ids that both contain."""
        return self.offsets - self.firsts.astype(np.int64)

    @property
    def row_count(self) -> int:
        return int(self.counts.sum())

    def find(self, ids: Ids) -> Ints:
        """The stretch that contains each id; -1 for an id that is not here."""
        return find_stretches(self.firsts, self.ends, ids)

    def part(self, firsts: Ids, counts: Ints) -> LiveRows:
        """Pieces of stretches: each lies within one of them."""
        return self.pieces(self.find(firsts), firsts, counts)

    def pieces(self, at: Ints, firsts: Ids, counts: Ints) -> LiveRows:
        """Pieces of the stretches at these positions."""
        return LiveRows(
            firsts,
            counts,
            self.fragments[at],
            self.offsets[at] + (firsts - self.firsts[at]).astype(np.int64),
            self.created[at],
            self.updated[at],
        )

    def only(self, chosen: npt.NDArray[np.bool_]) -> LiveRows:
        return self._at(np.flatnonzero(chosen))

    def _at(self, locations: npt.NDArray[np.intp]) -> LiveRows:
        return LiveRows(
            self.firsts[locations],
            self.counts[locations],
            self.fragments[locations],
            self.offsets[locations],
            self.created[locations],
            self.updated[locations],
        )

    def by_fragment(self) -> Iterator[tuple[int, Ints]]:
        """Each fragment that has rows here, by position, and their physical offsets, ascending."""
        order = np.lexsort((self.offsets, self.fragments))
        owners, offsets, counts = self.fragments[order], self.offsets[order], self.counts[order]
        numbers, begins = np.unique(owners, return_index=True)
        bounds = pairwise([*begins.tolist(), len(owners)])
        for number, (begin, end) in zip(numbers.tolist(), bounds, strict=True):
            starts = offsets[begin:end].astype(np.uint64)
            yield number, expand(starts, counts[begin:end], 1).astype(np.int64)


def find_stretches(firsts: Ids, ends: Ids, numbers: Ids) -> Ints:
    """The stretch that contains each number, or -1. The stretches are sorted, and do not overlap;
    each ends before the number in ``ends``."""
    if not len(firsts):
        return np.full(len(numbers), -1, np.int64)
    at = np.searchsorted(firsts, numbers, side="right") - 1
    return np.where((at >= 0) & (numbers < ends[at]), at, -1)


def distinct(values: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
    """The distinct values, ascending. ``np.unique`` of numpy 2.4 uses hashing, which is several
    times slower for almost sorted numbers such as row ids."""
    ordered = np.sort(values, kind="stable")
    if not len(ordered):
        return ordered
    return ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))]


def cut_at(edges: Ids, firsts: Ids, counts: Ints) -> tuple[Ids, Ints]:
    """The stretches cut at every edge that lies inside one; stretches ascend and are disjoint."""
    is_long = counts > 1
    if not is_long.any():
        return firsts, counts
    ends = firsts + counts.astype(np.uint64)
    long, stops = firsts[is_long], ends[is_long]
    at = np.searchsorted(long, edges, side="right") - 1
    inner = edges[(at >= 0) & (edges < stops[at])]
    starts = distinct(np.concatenate((firsts, inner)))
    after = np.append(starts[1:], ends[-1])
    owner = np.searchsorted(firsts, starts, side="right") - 1
    return starts, (np.minimum(after, ends[owner]) - starts).astype(np.int64)
