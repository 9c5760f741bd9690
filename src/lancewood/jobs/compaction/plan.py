"""Which fragments a compaction rewrites together: bins of neighbours. Pure.

Knows numbers of the manifest, no file. A bin becomes one fragment, unless a byte limit or a huge
fragment makes it more. Only neighbours are joined, so rows of a bin, and of one bin and the next,
keep their order; fragments that stay come before all of them, for theirs are the older ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from lancewood.engine.base import MOST, check_number
from lancewood.errors import InvalidInputError
from lancewood.model.bitmap import numbers_in
from lancewood.model.manifest import Manifest

Ints: TypeAlias = npt.NDArray[np.int64]
Bits: TypeAlias = npt.NDArray[np.bool_]

MOST_FRAGMENTS = 10_000
"""Number of fragments in one bin: a task's message stays small however small the fragments are."""


@dataclass(frozen=True, slots=True)
class CompactionGoal:
    """What fragments should be like."""

    target_rows: int
    """Number of rows that fragments should have; smaller ones are joined up to this."""
    max_deleted: float
    """A fragment with a larger share of deleted rows is rewritten without them."""
    max_bytes: int
    """A data file is closed at this size."""

    @classmethod
    def checked(cls, target_rows: int, max_deleted: float, max_bytes: int) -> CompactionGoal:
        """The goal that a caller asks for; raises InvalidInputError for numbers that are none."""
        is_number = isinstance(max_deleted, int | float) and not isinstance(max_deleted, bool)
        if not is_number or not 0 <= max_deleted <= 1:
            raise InvalidInputError(
                f"max_deleted is a share of rows from 0 to 1, got {max_deleted!r}"
            )
        return cls(
            min(check_number("target_rows", target_rows, least=1), MOST),
            float(max_deleted),
            min(check_number("max_bytes_per_file", max_bytes, least=1), MOST),
        )


@dataclass(frozen=True)
class FragmentSizes:
    """What the manifest says about each fragment, in the table's order."""

    physical: Ints
    """Physical rows of each fragment; 0 where a writer did not record them."""
    live: Ints
    """Live rows of each fragment; -1 where they are not to be known."""
    bytes: Ints
    """Bytes of each fragment's data files, as far as they are recorded."""
    coverage: Ints
    """Equal for fragments that the same indices cover."""

    @classmethod
    def of(cls, manifest: Manifest) -> FragmentSizes:
        """The sizes of a version's fragments, from the manifest alone."""
        messages = [each.message for each in manifest.fragments]
        physical = np.array([each.physical_rows for each in messages], np.int64)
        deleted = np.zeros(len(messages), np.int64)
        known = physical > 0
        for at, each in enumerate(messages):
            if each.HasField("deletion_file"):
                deleted[at] = each.deletion_file.num_deleted_rows
                known[at] &= 0 < deleted[at] <= physical[at]
        sizes = [sum(file.file_size_bytes for file in each.files) for each in messages]
        return cls(
            physical,
            np.where(known, physical - deleted, -1),
            np.array(sizes, np.int64),
            coverage_of(
                np.array([each.id for each in messages], np.uint32),
                (each.fragments for each in manifest.indices),
            ),
        )


def coverage_of(fragment_ids: npt.NDArray[np.uint32], bitmaps: Iterable[BitMap]) -> Ints:
    """A number for each fragment, the same for those that the same bitmaps hold."""
    labels = np.zeros(len(fragment_ids), np.int64)
    for bitmap in bitmaps:
        held = np.isin(fragment_ids, numbers_in(bitmap))
        _, labels = np.unique(labels * 2 + held, return_inverse=True)
    return labels.astype(np.int64)


def plan_bins(sizes: FragmentSizes, goal: CompactionGoal) -> list[range]:
    """Positions of neighbouring fragments that are worth being rewritten together.

    A fragment alone is worth it only for its deleted rows. Fragments whose rows are not recorded,
    and those that are as large as they should be, stay.
    """
    holey = _is_holey(sizes, goal)
    bins = _bins(sizes, goal, _candidates(sizes, goal, holey))
    return [each for each in bins if len(each) > 1 or holey[each.start]]


def blocking_indices(manifest: Manifest, sizes: FragmentSizes, goal: CompactionGoal) -> list[str]:
    """Names of the indices without which more neighbours could be joined, sorted."""
    same = replace(sizes, coverage=np.zeros_like(sizes.coverage))
    ids = [each.id for each in manifest.fragments]
    found = set[str]()
    for joined in plan_bins(same, goal):
        fragments = BitMap(ids[joined.start : joined.stop])
        found.update(
            each.name
            for each in manifest.indices
            if 0 < len(each.fragments & fragments) < len(fragments)
        )
    return sorted(found)


def _is_holey(sizes: FragmentSizes, goal: CompactionGoal) -> Bits:
    """Whether so many rows are deleted that a fragment is rewritten for it, or all are."""
    deleted = sizes.physical - sizes.live
    is_holey: Bits = (sizes.live == 0) | (deleted > goal.max_deleted * sizes.physical)
    return is_holey & (sizes.live >= 0)


def _candidates(sizes: FragmentSizes, goal: CompactionGoal, holey: Bits) -> Bits:
    small = (sizes.live < goal.target_rows) & (sizes.bytes < goal.max_bytes)
    is_candidate: Bits = (sizes.live >= 0) & (small | holey)
    return is_candidate


def _bins(sizes: FragmentSizes, goal: CompactionGoal, chosen: Bits) -> Iterator[range]:
    """Neighbours that the same indices cover, as many as fit the goal together."""
    locations = np.flatnonzero(chosen)
    live, coverage = sizes.live[locations].tolist(), sizes.coverage[locations].tolist()
    share = sizes.live[locations] / np.maximum(sizes.physical[locations], 1)
    weights = (sizes.bytes[locations] * share).astype(np.int64).tolist()
    start = stop = rows = weight = 0
    label = -1
    for location, more, kind, heavier in zip(
        locations.tolist(), live, coverage, weights, strict=True
    ):
        fits = (
            location == stop
            and kind == label
            and rows + more <= goal.target_rows
            and weight + heavier <= goal.max_bytes
            and stop - start < MOST_FRAGMENTS
        )
        if not fits:
            if stop > start:
                yield range(start, stop)
            start, rows, weight, label = location, 0, 0, kind
        stop, rows, weight = location + 1, rows + more, weight + heavier
    if stop > start:
        yield range(start, stop)
