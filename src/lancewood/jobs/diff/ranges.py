"""The rows of two states by number, in ranges that each fit in memory.

A state has a stretch for each of its fragments and about two more for each single row that was
changed, so that millions of changes are hundreds of megabytes once both states are matched. Then
rows are matched range by range. Bounds are found by a sample of the stretches, which are made for
that and dropped; fragments whose rows are all outside of a range are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from lancewood.engine.rows import NO_STRETCHES, Ids, LiveRows, RowFacts, Stretches, stretches_of
from lancewood.model.ids import MAX_U64
from lancewood.model.rowids import RowIdSequence

MOST_STRETCHES = 4 << 20
"""Number of stretches of all states that are matched at a time, some hundred bytes each."""
_SAMPLE = 1024


class IdRange(NamedTuple):
    """Row ids from ``first`` to ``last``, that one included."""

    first: int = 0
    last: int = MAX_U64


ALL_IDS = IdRange()


@dataclass(eq=False)
class NumberedRows:
    """The rows of fragments, under numbers by which rows of two states are the same."""

    name: str
    """Of the manifest, for errors."""
    facts: Sequence[RowFacts]
    numbers: Sequence[RowIdSequence]
    """Of all physical rows of each fragment."""
    _spans: list[IdRange] = field(default_factory=list)
    """Of each fragment, once they were sampled."""

    def estimate(self) -> int:
        """How many stretches there are at most, but for rows of one fragment and several marks."""
        return sum(
            len(ids.bounds) + 2 * facts.fragment.num_deleted_rows
            for facts, ids in zip(self.facts, self.numbers, strict=True)
        )

    def sample(self) -> Ids:
        """The first id of every so many stretches."""
        found, seen = [np.empty(0, np.uint64)], 0
        for facts, ids in zip(self.facts, self.numbers, strict=True):
            each = stretches_of(facts, ids)
            found.append(each.firsts[-seen % _SAMPLE :: _SAMPLE])
            seen += len(each.firsts)
            self._spans.append(_span(each))
        return np.concatenate(found)

    def rows(self, ids: IdRange = ALL_IDS) -> LiveRows:
        """The live rows in a range; raises FormatError for an id that two of them have."""
        return LiveRows.of(self._stretches(ids), self.name)

    def _stretches(self, ids: IdRange) -> Iterator[Stretches]:
        for at, (facts, numbers) in enumerate(zip(self.facts, self.numbers, strict=True)):
            if ids == ALL_IDS:
                yield stretches_of(facts, numbers)
            elif self._spans[at].first <= ids.last and self._spans[at].last >= ids.first:
                yield _cut(stretches_of(facts, numbers), ids)
            else:
                yield NO_STRETCHES


def id_ranges(*states: NumberedRows) -> Iterator[IdRange]:
    """Ranges that cover all ids, each with a bounded number of stretches: nearly always one."""
    if sum(each.estimate() for each in states) <= MOST_STRETCHES:
        yield ALL_IDS
        return
    seen = np.sort(np.concatenate([each.sample() for each in states]))
    step = max(1, MOST_STRETCHES // _SAMPLE)
    bounds = [0, *dict.fromkeys(seen[step::step].tolist())]
    for first, after in zip(bounds, [*bounds[1:], MAX_U64 + 1], strict=True):
        if first < after:
            yield IdRange(first, after - 1)


def _span(stretches: Stretches) -> IdRange:
    if not len(stretches.firsts):
        return IdRange(MAX_U64, 0)
    lasts = stretches.firsts + (stretches.counts - 1).astype(np.uint64)
    return IdRange(int(stretches.firsts.min()), int(lasts.max()))


def _cut(stretches: Stretches, ids: IdRange) -> Stretches:
    """What of the stretches is in a range."""
    first, last = np.uint64(ids.first), np.uint64(ids.last)
    lasts = stretches.firsts + (stretches.counts - 1).astype(np.uint64)
    inside = np.flatnonzero((stretches.firsts <= last) & (lasts >= first))
    begins = np.maximum(stretches.firsts[inside], first)
    skipped = (begins - stretches.firsts[inside]).astype(np.int64)
    return Stretches(
        begins,
        (np.minimum(lasts[inside], last) - begins).astype(np.int64) + 1,
        stretches.offsets[inside] + skipped,
        stretches.created[inside],
        stretches.updated[inside],
    )
