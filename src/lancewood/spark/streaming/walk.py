"""Walking through the versions of a table: how far a batch goes, and which rows it has.

What a batch has follows from its two offsets alone, today and after a restart. Versions that only
append are read from the newest of them, one manifest for all.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from lancewood.engine.snapshot import Snapshot
from lancewood.errors import FormatError, InvalidInputError, LancewoodError
from lancewood.model.fragment import Fragment
from lancewood.model.ids import Version
from lancewood.model.manifest import decode_fragment
from lancewood.spark.streaming.compare import compare, rows_for
from lancewood.spark.streaming.fitting import Fitting
from lancewood.spark.streaming.history import History, Kind, Step
from lancewood.spark.streaming.offsets import Offset
from lancewood.spark.streaming.options import OnChange
from lancewood.spark.streaming.portions import FragmentRows, StreamRows

_MOST_KEPT = 8
_APPENDING = (Kind.APPEND, Kind.STILL)


@dataclass
class Walk:
    """One stream's way through a history."""

    history: History
    fitting: Fitting
    on_change: OnChange
    _compared: OrderedDict[Version, tuple[StreamRows, ...]] = field(default_factory=OrderedDict)
    _whole_rows: FragmentRows | None = None
    _known: Offset | None = None
    """The last offset that the table was held against."""

    def advance(
        self, start: Offset, newest: Version, *, max_rows: int | None, max_versions: int | None
    ) -> Offset:
        """How far a batch goes that begins here.

        A version that the stream cannot read ends the batch before it; only a batch that would
        begin with it raises. Raises InvalidInputError for an offset beyond the table.
        """
        if start.version > newest + 1:
            raise _replaced(self.history, start, f"the newest is {newest}")
        if start.version <= newest or self._known is None:
            self._check_known(start)
        last = newest if max_versions is None else min(newest, start.version + max_versions - 1)
        at, left = start, max_rows
        try:
            for count, uuid in self._counts(start, Version(last)):
                if at.index > count:
                    raise _beyond(self.history, at, count)
                rest = count - at.index
                if left is not None and rest > left:
                    return at.within(at.index + left, uuid) if left else at
                left = None if left is None else left - rest
                at = at.past(uuid)
        except LancewoodError:
            if at == start:
                raise
        return at

    def rows(self, start: Offset, end: Offset) -> Iterator[StreamRows]:
        """The rows between two offsets, in order. Raises what ``advance`` raises."""
        if start.origin != end.origin or end.is_before(start):
            raise InvalidInputError(
                f"a batch is to go from {start.encode()} to {end.encode()}, which does not follow "
                "it: the offsets are of different streams. Start the query with a new "
                "checkpointLocation"
            )
        for each in (start, end):
            if each != self._known:
                self._check_known(each)
        last = end.version if end.index else Version(end.version - 1)
        for version, parts in self._brought(start, last):
            low = start.index if version == start.version else 0
            total = sum(each.row_count for each in parts)
            high = end.index if version == end.version else total
            if not low <= high <= total:
                raise _beyond(self.history, end if version == end.version else start, total)
            yield from _window(parts, low, high)

    def _check_known(self, at: Offset) -> None:
        """Raise InvalidInputError if this is not the table that the stream has read before: one
        that was dropped and made again in the meantime may have as many versions."""
        found = self.history.identity(at.newest_read) if at.after else ""
        if found and found != at.after:
            raise _replaced(self.history, at, "that version is another one now")
        self._known = at

    def _counts(self, start: Offset, last: Version) -> Iterator[tuple[int, str]]:
        """How many rows each version has for the stream, and the version's identity."""
        first = start.version
        if start.is_in_whole and first <= last:
            yield self._whole(first).row_count, self.history.step(first).uuid
            first = Version(first + 1)
        for step in self.history.steps(_range(first, last)):
            if step.kind is Kind.APPEND:
                yield step.rows, step.uuid
            elif step.kind is Kind.STILL:
                yield 0, step.uuid
            else:
                yield sum(each.row_count for each in self._changed(step)), step.uuid

    def _brought(
        self, start: Offset, last: Version
    ) -> Iterator[tuple[Version, tuple[StreamRows, ...]]]:
        """The rows of each version that has some."""
        first = start.version
        if start.is_in_whole and first <= last:
            yield first, (self._whole(first),)
            first = Version(first + 1)
        run: list[Step] = []
        for step in self.history.steps(_range(first, last)):
            if step.kind in _APPENDING:
                run.append(step)
                continue
            yield from self._appended(run)
            run = []
            yield step.version, self._changed(step)
        yield from self._appended(run)

    def _changed(self, step: Step) -> tuple[StreamRows, ...]:
        """The rows of a version that did not only append."""
        if step.kind is Kind.BEGIN:
            raise InvalidInputError(
                f"{self.history.uri} began anew in version {step.version}: the branch was reset, "
                "and its rows are others now. Start the query with a new checkpointLocation",
                version=step.version,
            )
        self.fitting.view(self.history.load(step.version))
        if step.kind is Kind.REWRITE:
            return ()
        known = self._compared.get(step.version)
        if known is None:
            found = compare(self.history, step)
            known = rows_for(step, found, self.on_change, self.history.uri)
            self._compared[step.version] = known
            while len(self._compared) > _MOST_KEPT:
                self._compared.popitem(last=False)
        return known

    def _whole(self, version: Version) -> FragmentRows:
        """All rows of the version that the stream begins with."""
        if self._whole_rows is None or self._whole_rows.version != version:
            snapshot = self.history.load(version)
            self.fitting.view(snapshot)
            raws = snapshot.manifest.message.fragments
            counts = [each.physical_rows for each in snapshot.manifest.fragments]
            for each in snapshot.manifest.fragments if not all(counts) else ():
                each.check_counted()
            physical = np.array(counts, np.int64)
            self._whole_rows = FragmentRows.of(snapshot, version, raws, physical)
        return self._whole_rows

    def _appended(self, run: Sequence[Step]) -> Iterator[tuple[Version, tuple[StreamRows, ...]]]:
        """The fragments of appends that follow each other, from the manifest of the last."""
        appends = [each for each in run if each.fragments]
        if not appends:
            return
        found = _tails(self.history.load(appends[-1].version), appends)
        if found is None:
            alone = (_tails(self.history.load(each.version), [each]) for each in appends)
            found = list(chain.from_iterable(each or [None] for each in alone))
        for step, rows in zip(appends, found, strict=True):
            if rows is None:
                raise FormatError(
                    f"{step.describe()} of {self.history.uri} does not end with the fragments that "
                    "its transaction says it added",
                    version=step.version,
                )
            yield step.version, (rows,)


def _tails(snapshot: Snapshot, appends: Sequence[Step]) -> list[FragmentRows | None] | None:
    """The last fragments of a version, append by append; None if they are not those."""
    raws, name = snapshot.manifest.message.fragments, snapshot.manifest.name
    end, found = len(raws), list[FragmentRows | None]()
    for step in reversed(appends):
        own = list(raws[max(end - step.fragments, 0) : end])
        fragments = [Fragment(decode_fragment(raw, name)) for raw in own]
        physical = np.array([each.physical_rows for each in fragments], np.int64)
        paths = [each.files[0].path if each.files else "" for each in fragments]
        if not paths or (paths[0], paths[-1]) != step.ends or int(physical.sum()) != step.rows:
            return None
        found.append(FragmentRows.of(snapshot, step.version, own, physical))
        end -= step.fragments
    return found[::-1]


def _window(parts: Sequence[StreamRows], low: int, high: int) -> Iterator[StreamRows]:
    """Of rows one after the other those from one position to before another."""
    at = 0
    for each in parts:
        begin, end = max(low - at, 0), min(high - at, each.row_count)
        at += each.row_count
        if begin < end:
            yield each.cut(begin, end)


def _range(first: int, last: int) -> list[Version]:
    return [Version(each) for each in range(first, last + 1)]


def _replaced(history: History, start: Offset, why: str) -> InvalidInputError:
    return InvalidInputError(
        f"the stream has read {history.uri} up to version {start.newest_read}, but {why}: the "
        "table was dropped and made again, reset, or is an older copy. Start the query with a new "
        "checkpointLocation",
        version=start.version,
    )


def _beyond(history: History, at: Offset, count: int) -> InvalidInputError:
    return InvalidInputError(
        f"the checkpoint says that {at.index} rows of version {at.version} of {history.uri} are "
        f"read, but it has {count} for this stream: the table was replaced, or onChange is another "
        "than before. Start the query with a new checkpointLocation",
        version=at.version,
    )
