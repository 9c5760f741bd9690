"""Which rows of which fragments a filter leaves to be read, by the indices of a version.

Fragments that no index covers are read whole, and so are all of them where no index helps. Nothing
is decoded of a fragment that no wanted row is in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TypeAlias

from pyroaring import BitMap

from lancewood.engine.lookup import (
    NOT_COVERING,
    Lookup,
    Offsets,
    Spans,
    ValueTests,
    look_up,
    unused_indices,
)
from lancewood.engine.rows.take import addresses_of
from lancewood.engine.snapshot import Snapshot
from lancewood.expr import Predicate
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId

_MOST_STRETCHES = 10_000
Cut: TypeAlias = Offsets | Spans
"""The rows of a fragment that can pass: offsets, or stretches of them."""


@dataclass(frozen=True)
class Narrowed:
    """The fragments of a snapshot, cut to what indices leave of them."""

    snapshot: Snapshot
    lookup: Lookup
    live: BitMap
    """The fragments of the version."""

    @cached_property
    def cuts(self) -> Mapping[FragmentId, Cut]:
        """The rows of covered fragments that can pass; others of them hold none."""
        return {**self.lookup.rows, **self.lookup.spans}

    def parts(self, chosen: Sequence[Fragment] | None) -> Iterator[tuple[Fragment, Cut | None]]:
        """The fragments among ``chosen`` (None: all) that can hold a wanted row, in order, each
        with its rows that can be wanted; None means all of its rows."""
        if chosen is not None:
            for each in chosen:
                cut = self.cuts.get(each.id)
                if cut is not None or each.id not in self.lookup.covered:
                    yield each, cut
            return
        manifest = self.snapshot.manifest
        wanted = self._uncovered | (BitMap(self.cuts) & self.live)
        manifest.expect_lookups(len(wanted))
        located = {manifest.position_of(FragmentId(each)): each for each in wanted}
        for position in sorted(each for each in located if each is not None):
            number = FragmentId(located[position])
            yield manifest.fragment(number), self.cuts.get(number)

    def stretches(self) -> Mapping[FragmentId, tuple[int, int]]:
        """Stretches from the first row that can pass to behind the last, by fragment; nothing if
        they are in so many fragments that tasks should not be told of all of them."""
        if len(self.cuts) > _MOST_STRETCHES:
            return {}
        return {number: _stretch(cut) for number, cut in self.cuts.items()}

    def explain(self, chosen: Sequence[Fragment] | None) -> str:
        """What the indices found in the fragments (None: all), as text."""
        cut = whole = rows = 0
        for fragment, part in self.parts(chosen):
            if part is None:
                whole += 1
            else:
                cut, rows = cut + 1, rows + _row_count(fragment, part)
        text = f"{', '.join(self.lookup.names)}: {_counted(rows, 'row')} of "
        text += _counted(cut, "fragment")
        if whole:
            text += f", {_counted(whole, 'fragment')} not covered "
            text += "is scanned" if whole == 1 else "are scanned"
        return text

    @cached_property
    def _uncovered(self) -> BitMap:
        return self.live - self.lookup.covered


def narrow(snapshot: Snapshot, predicate: Predicate) -> Narrowed | None:
    """What indices leave of a snapshot for a filter; None where they do not help.

    Raises FormatError for an index whose files contradict themselves.
    """
    if not snapshot.manifest.indices:
        return None
    return narrow_by_values(snapshot, ValueTests.among(predicate.bounds()))


def narrow_by_values(snapshot: Snapshot, tests: Sequence[ValueTests]) -> Narrowed | None:
    """What indices leave of a snapshot for tests of columns; None where they do not help."""
    found = _looked_up(snapshot, tests)
    return Narrowed(snapshot, found, _live(snapshot)) if found.names else None


def why_not(snapshot: Snapshot, predicate: Predicate) -> Iterator[str]:
    """A line for each index on a column of a filter that does not help."""
    found = _looked_up(snapshot, ValueTests.among(predicate.bounds()))
    for name, why in unused_indices(snapshot, predicate.columns, found).items():
        yield f"{name} not used: {why}"


def _looked_up(snapshot: Snapshot, tests: Sequence[ValueTests]) -> Lookup:
    """What indices say, if of fragments that there are."""
    found = look_up(snapshot, tests, partial(addresses_of, snapshot))
    if found.names and found.covered.isdisjoint(_live(snapshot)):
        return Lookup(unused={**found.unused, **dict.fromkeys(found.names, NOT_COVERING)})
    return found


def _live(snapshot: Snapshot) -> BitMap:
    """The ids of all fragments; none if they are no part of an address."""
    known = snapshot.derived
    if "fragment ids" not in known:
        ids = snapshot.manifest.fragment_ids
        known["fragment ids"] = BitMap(ids if max(ids, default=0) < 1 << 32 else ())
    found: BitMap = known["fragment ids"]
    return found


def clipped(cut: Cut | None, span: tuple[int, int]) -> Cut:
    """The part of a cut that is in a stretch of rows; None means all of them."""
    start, stop = span
    if cut is None:
        return (span,)
    if isinstance(cut, tuple):
        parts = ((max(start, first), min(stop, end)) for first, end in cut)
        return tuple(each for each in parts if each[0] < each[1])
    return cut[(cut >= start) & (cut < stop)]


def _stretch(cut: Cut) -> tuple[int, int]:
    if isinstance(cut, tuple):
        return cut[0][0], cut[-1][1]
    return int(cut[0]), int(cut[-1]) + 1


def _row_count(fragment: Fragment, cut: Cut) -> int:
    if isinstance(cut, tuple):
        return sum(min(stop, fragment.physical_rows) - start for start, stop in cut)
    return len(cut)


def _counted(count: int, what: str) -> str:
    return f"{count} {what if count == 1 else what + 's'}"
