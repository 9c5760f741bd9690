"""Texts merged by lines, three ways, as git does it.

The lines of two texts are paired as by the histogram diff that git merges with: around the rarest
lines that both have, the longest stretch first. A stretch that was changed may often be shown a few
lines higher or lower; it is where a stretch of the other text stands beside it, else as low as it
can be. Changes of the two sides that touch or overlap are one place: if both made the same of it,
that is taken, else it is a conflict. Pure: texts in, a text out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Favor: TypeAlias = Literal["ours", "theirs"]
"""The side that is taken where both changed the same lines: git's ``-X``."""

_MOST_BYTES = 32 << 20
"""Larger texts are not merged by lines."""
_MOST_OFTEN = 64
"""A line that a stretch has more often is no mark to pair lines by."""
_MOST_WORK = 20_000_000
"""How many lines are looked at, over and over, before what is left counts as changed."""
_MARKER = 7
_NEAR = 3
"""Conflicts with so few lines between them are shown as one."""


@dataclass(frozen=True, slots=True)
class MergedText:
    """A merged text; places in conflict hold both sides between markers."""

    text: bytes
    is_clean: bool


def is_text(data: bytes) -> bool:
    """Whether bytes can be merged by lines: UTF-8 without NUL, and not too large."""
    if len(data) > _MOST_BYTES or b"\0" in data:
        return False
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def merge_texts(
    base: bytes, ours: bytes, theirs: bytes, *, favor: Favor | None = None, depth: int = 0
) -> MergedText:
    """The text ``ours`` with what was changed from ``base`` to ``theirs``.

    ``depth`` is how many merges this one is made for, as the base of the next: it makes markers
    longer, so that those of different merges are told apart.
    """
    sides = _Sides(_lines(base), _lines(ours), _lines(theirs))
    found, is_clean = list[bytes](), True
    for place in sides.places():
        if place.ours == place.theirs or not place.is_theirs:
            found += place.ours
        elif not place.is_ours:
            found += place.theirs
        elif favor is not None:
            found += place.ours if favor == "ours" else place.theirs
        else:
            is_clean = False
            found += _marked(place.ours, place.theirs, _MARKER + 2 * depth)
    return MergedText(b"".join(found), is_clean)


def _lines(text: bytes) -> list[bytes]:
    """The lines with their ends; a carriage return ends none."""
    found = [each + b"\n" for each in text.split(b"\n")]
    last = found.pop()[:-1]
    return [*found, last] if last else found


@dataclass(frozen=True, slots=True)
class _Change:
    """The lines ``start`` to ``stop`` of a base, which are ``begin`` to ``end`` in another text."""

    start: int
    stop: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class _Place:
    """A stretch of the base, as each side has it, and who changed it."""

    ours: Sequence[bytes]
    theirs: Sequence[bytes]
    is_ours: bool
    is_theirs: bool


@dataclass(frozen=True, slots=True)
class _Sides:
    base: Sequence[bytes]
    ours: Sequence[bytes]
    theirs: Sequence[bytes]

    def places(self) -> Iterator[_Place]:
        """The whole base, in stretches."""
        here, there = _changes(self.base, self.ours), _changes(self.base, self.theirs)
        at = first = second = 0
        ours_at = theirs_at = 0
        while first < len(here) or second < len(there):
            next_two = here[first : first + 1] + there[second : second + 1]
            start = min(each.start for each in next_two)
            yield self._same(at, start)
            ours_at, theirs_at = ours_at + start - at, theirs_at + start - at
            stop, mine, others = start, first, second
            while True:  # whatever touches what was found so far
                if mine < len(here) and here[mine].start <= stop:
                    stop, mine = max(stop, here[mine].stop), mine + 1
                elif others < len(there) and there[others].start <= stop:
                    stop, others = max(stop, there[others].stop), others + 1
                else:
                    break
            ours_end = _across(here[first:mine], stop, ours_at - start)
            theirs_end = _across(there[second:others], stop, theirs_at - start)
            yield _Place(
                self.ours[ours_at:ours_end],
                self.theirs[theirs_at:theirs_end],
                mine > first,
                others > second,
            )
            at, first, second = stop, mine, others
            ours_at, theirs_at = ours_end, theirs_end
        yield self._same(at, len(self.base))

    def _same(self, start: int, stop: int) -> _Place:
        lines = self.base[start:stop]
        return _Place(lines, lines, is_ours=False, is_theirs=False)


def _across(changes: Sequence[_Change], stop: int, shift: int) -> int:
    """Where line ``stop`` of the base is on a side: ``shift`` further before these changes."""
    if not changes:
        return stop + shift
    return changes[-1].end + stop - changes[-1].stop


def _marked(ours: Sequence[bytes], theirs: Sequence[bytes], size: int) -> Iterator[bytes]:
    """Both sides of a conflict, between markers; lines that both have stand once."""
    changes = [*_joined(_changes(ours, theirs))]
    at = 0
    for each in changes if ours and theirs else [_Change(0, len(ours), 0, len(theirs))]:
        yield from ours[at : each.start]
        yield b"<" * size + b" Temporary merge branch 1\n"
        yield from _ended(ours[each.start : each.stop])
        yield b"=" * size + b"\n"
        yield from _ended(theirs[each.begin : each.end])
        yield b">" * size + b" Temporary merge branch 2\n"
        at = each.stop
    yield from ours[at:]


def _joined(changes: Sequence[_Change]) -> Iterator[_Change]:
    """The changes, those that are near each other as one."""
    last: _Change | None = None
    for each in changes:
        if last is not None and each.start - last.stop <= _NEAR:
            last = _Change(last.start, each.stop, last.begin, each.end)
            continue
        if last is not None:
            yield last
        last = each
    if last is not None:
        yield last


def _ended(lines: Sequence[bytes]) -> Iterator[bytes]:
    for each in lines:
        yield each if each.endswith(b"\n") else each + b"\n"


def _changes(before: Sequence[bytes], after: Sequence[bytes]) -> list[_Change]:
    """What must be changed in one text to make it the other, in order."""
    numbers: dict[bytes, int] = {}
    one = [numbers.setdefault(each, len(numbers)) for each in before]
    other = [numbers.setdefault(each, len(numbers)) for each in after]
    pairing = _Pairing(one, other)
    pairing.run()
    gone, new = _gaps(pairing.gone), _gaps(pairing.new)
    _slide(one, gone, new)
    _slide(other, new, gone)
    found, at, to = [], 0, 0
    for removed, added in zip(gone, new, strict=True):
        if removed or added:
            found.append(_Change(at, at + removed, to, to + added))
        at, to = at + removed + 1, to + added + 1
    return found


class _Pairing:
    """Which lines of two texts are the same; the others are marked."""

    def __init__(self, before: list[int], after: list[int]) -> None:
        self._before = before
        self._after = after
        self._work = _MOST_WORK
        self.gone = bytearray(len(before))
        self.new = bytearray(len(after))

    def run(self) -> None:
        todo = [(0, len(self._before), 0, len(self._after))]
        while todo:
            start, stop, begin, end = todo.pop()
            if start == stop or begin == end:
                self._mark(start, stop, begin, end)
                continue
            found = self._rarest(start, stop, begin, end)
            if found is None:
                self._mark(*self._trimmed(start, stop, begin, end))
                continue
            at, to, size = found
            todo.append((start, at, begin, to))
            todo.append((at + size, stop, to + size, end))

    def _mark(self, start: int, stop: int, begin: int, end: int) -> None:
        self.gone[start:stop] = b"\1" * (stop - start)
        self.new[begin:end] = b"\1" * (end - begin)

    def _rarest(self, start: int, stop: int, begin: int, end: int) -> tuple[int, int, int] | None:
        """The longest stretch that both have around a line that the first has most rarely: where
        it is in both, and its length. None if there is none, or none that is rare enough."""
        self._work -= stop - start + end - begin
        if self._work < 0:
            return None
        before, after = self._before, self._after
        places: dict[int, list[int]] = {}
        for at in range(start, stop):
            places.setdefault(before[at], []).append(at)
        found, longest, rarest = None, 1, _MOST_OFTEN + 1
        to = begin
        while to < end:
            follow = to + 1
            known = places.get(after[to], ())
            seen = -1
            for at in known if len(known) <= rarest else ():
                if at < seen:  # it is in the stretch before
                    continue
                first, second, count = at, to, len(known)
                while first > start and second > begin and before[first - 1] == after[second - 1]:
                    first, second = first - 1, second - 1
                    count = min(count, len(places[before[first]]))
                last, until = at + 1, to + 1
                while last < stop and until < end and before[last] == after[until]:
                    count = min(count, len(places[before[last]]))
                    last, until = last + 1, until + 1
                self._work -= last - first
                follow = max(follow, until)
                if last - first > longest or count < rarest:
                    found, longest, rarest = (first, second, last - first), last - first, count
                seen = last
            to = follow
        return found if rarest <= _MOST_OFTEN else None

    def _trimmed(self, start: int, stop: int, begin: int, end: int) -> tuple[int, int, int, int]:
        """The stretches without the lines that both begin and end with."""
        before, after = self._before, self._after
        while start < stop and begin < end and before[start] == after[begin]:
            start, begin = start + 1, begin + 1
        while start < stop and begin < end and before[stop - 1] == after[end - 1]:
            stop, end = stop - 1, end - 1
        return start, stop, begin, end


def _gaps(marked: bytearray) -> list[int]:
    """How many marked lines stand before each that is not, and at the end."""
    found = [0]
    for each in marked:
        if each:
            found[-1] += 1
        else:
            found.append(0)
    return found


def _slide(lines: Sequence[int], gaps: list[int], others: Sequence[int]) -> None:
    """Move stretches of marked lines to where they are to be shown.

    A stretch can move down by one line if the line after it is its first one, and up likewise;
    stretches that meet are one from then on. ``others`` are the gaps of the other text.
    """
    at = start = 0

    def up() -> bool:
        nonlocal at, start
        size = gaps[at]
        if not at or lines[start - 1] != lines[start + size - 1]:
            return False
        gaps[at], at = 0, at - 1
        start -= 1 + gaps[at]
        gaps[at] += size
        return True

    def down() -> bool:
        nonlocal at, start
        size = gaps[at]
        if at + 1 == len(gaps) or lines[start] != lines[start + size]:
            return False
        gaps[at], at = 0, at + 1
        start += 1
        gaps[at] += size
        return True

    while at < len(gaps):
        size = 0
        while gaps[at] != size:
            size = gaps[at]
            while up():
                pass
            highest, beside = at, bool(others[at])
            while down():
                beside = beside or bool(others[at])
        if size and at > highest and beside:
            while not others[at]:
                up()
        start += gaps[at] + 1
        at += 1
