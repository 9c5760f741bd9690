"""Sets of row ids as sorted ranges, and detection of duplicate ids.

Pure numpy: the work grows with the number of ranges, never with that of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lancewood.model.rowids import RowIdSequence

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
