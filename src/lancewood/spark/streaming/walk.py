"""Walking through the versions of a table: how far a batch goes, and which rows it has.

The rows of a batch follow from its two offsets alone, today and after a restart. Versions that only
append are read from the newest of them, one manifest for all. Other versions are compared with the
one before. With stable row ids that is exact. Without them only fragments can be compared: an
overwrite, or new fragments beside untouched ones, is clear, but an update is not. Comparing reads
manifests, deletion files and row id sequences; a column only where ``jobs.diff`` does.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np

from lancewood.engine.rows import LiveRows, cut_at
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import FormatError, InvalidInputError, LancewoodError, UnsupportedError
from lancewood.jobs.diff import RowChanges, find_changes
from lancewood.model.fragment import Fragment
from lancewood.model.ids import Version
from lancewood.model.manifest import decode_fragment, peek_fragment_id
from lancewood.model.transaction import Delete, Merge, Overwrite, Restore
from lancewood.spark.streaming.fitting import StreamFitting
from lancewood.spark.streaming.history import History, Offset, VersionKind, VersionStep
from lancewood.spark.streaming.options import OnChange
from lancewood.spark.streaming.task import FragmentRows, PickedRows, RowChange, StreamRows

_MOST_KEPT = 8
_APPENDING = (VersionKind.APPEND, VersionKind.STILL)


@dataclass
class Walk:
    """One stream's way through a history."""

    history: History
    fitting: StreamFitting
    on_change: OnChange
    _compared: OrderedDict[Version, tuple[StreamRows, ...]] = field(default_factory=OrderedDict)
    _whole_rows: FragmentRows | None = None
    _known: Offset | None = None
    """The last offset that was checked against the table."""

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
        """Raise InvalidInputError if this is not the table that the stream has read before.

        A table that was dropped and made again may have as many versions.
        """
        found = self.history.identity(at.newest_read) if at.after else ""
        if found and found != at.after:
            raise _replaced(self.history, at, "that version is another one now")
        self._known = at

    def _counts(self, start: Offset, last: Version) -> Iterator[tuple[int, str]]:
        """The number of rows of each version for the stream, and the version's identity."""
        first = start.version
        if start.is_in_whole and first <= last:
            yield self._whole(first).row_count, self.history.step(first).uuid
            first = Version(first + 1)
        for step in self.history.steps(_range(first, last)):
            if step.kind is VersionKind.APPEND:
                yield step.rows, step.uuid
            elif step.kind is VersionKind.STILL:
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
        run: list[VersionStep] = []
        for step in self.history.steps(_range(first, last)):
            if step.kind in _APPENDING:
                run.append(step)
                continue
            yield from self._appended(run)
            run = []
            yield step.version, self._changed(step)
        yield from self._appended(run)

    def _changed(self, step: VersionStep) -> tuple[StreamRows, ...]:
        """The rows of a version that did more than append."""
        if step.kind is VersionKind.BEGIN:
            raise InvalidInputError(
                f"{self.history.uri} began anew in version {step.version}: the branch was reset, "
                "and its rows are others now. Start the query with a new checkpointLocation",
                version=step.version,
            )
        self.fitting.view(self.history.load(step.version))
        if step.kind is VersionKind.REWRITE:
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
        """All rows of the version with which the stream begins."""
        if self._whole_rows is None or self._whole_rows.version != version:
            snapshot = self.history.load(version)
            self.fitting.view(snapshot)
            self._whole_rows = _whole(snapshot, snapshot.manifest.message.fragments)
        return self._whole_rows

    def _appended(
        self, run: Sequence[VersionStep]
    ) -> Iterator[tuple[Version, tuple[StreamRows, ...]]]:
        """The fragments of consecutive appends, from the manifest of the last."""
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


def _tails(snapshot: Snapshot, appends: Sequence[VersionStep]) -> list[FragmentRows | None] | None:
    """The last fragments of a version, append by append; None if they do not match the appends."""
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
    """The rows from position ``low`` to before ``high``."""
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


@dataclass(frozen=True)
class Compared:
    """What a version did to rows."""

    inserted: tuple[StreamRows, ...] = ()
    """Rows that no earlier version had."""
    returned: tuple[StreamRows, ...] = ()
    """Rows that an earlier version had."""
    updated: tuple[StreamRows, ...] = ()
    deleted: tuple[StreamRows, ...] = ()
    is_mixed: bool = False
    """Whether changed rows cannot be told apart from new ones."""
    has_changed: bool = False
    """Whether anything besides new rows happened."""


def rows_for(
    step: VersionStep, found: Compared, on_change: OnChange, uri: str
) -> tuple[StreamRows, ...]:
    """The rows that a stream emits for a version.

    Raises UnsupportedError for a version that the stream cannot represent.
    """
    if on_change is OnChange.CHANGES:
        return (*found.deleted, *found.inserted, *found.returned, *found.updated)
    if found.has_changed and on_change is OnChange.FAIL:
        counted = {
            "updated": _count(found.updated),
            "deleted": _count(found.deleted),
            "brought back": _count(found.returned),
        }
        listed = ", ".join(f"{name} {count}" for name, count in counted.items() if count)
        raise UnsupportedError(
            f"{step.describe()} of {uri} changed rows that are there"
            + (f" ({listed})" if listed else "")
            + ", and this stream emits only rows that are new. Set option onChange to 'ignore' to "
            "pass over such changes; with stable row ids 'changes' makes a stream of all of them",
            version=step.version,
            operation=step.operation,
        )
    if found.is_mixed:
        raise UnsupportedError(
            f"{step.describe()} of {uri} changed rows and perhaps added some: without stable row "
            "ids nobody can tell which are new. Start the query with a new checkpointLocation, "
            "which begins with the whole table; a table made with stable row ids has no such limit",
            version=step.version,
            operation=step.operation,
        )
    return found.inserted


def compare(history: History, step: VersionStep) -> Compared:
    """What a version did to rows; raises NotFoundError if the one before it was cleaned up."""
    since, until = history.before(step.version), history.load(step.version)
    if since.manifest.has_stable_row_ids and until.manifest.has_stable_row_ids:
        return _by_id(find_changes(since, until), since, until)
    return _by_fragment(step, since, until)


def _by_id(found: RowChanges, since: Snapshot, until: Snapshot) -> Compared:
    version = until.manifest.version
    fresh, returned = _parted(found.inserted, since.manifest.next_row_id, version)

    def rows(
        side: Snapshot, fragments: tuple[Fragment, ...], part: LiveRows, change: RowChange
    ) -> tuple[StreamRows, ...]:
        if not part.row_count:
            return ()
        return (PickedRows.of(side, version, fragments, part, change),)

    new, old = found.until.fragments, found.since.fragments
    compared = Compared(
        inserted=rows(until, new, fresh, RowChange.INSERTED),
        returned=rows(until, new, returned, RowChange.INSERTED),
        updated=rows(until, new, found.updated, RowChange.UPDATED),
        deleted=rows(since, old, found.deleted, RowChange.DELETED),
    )
    has_changed = bool(compared.returned or compared.updated or compared.deleted)
    return replace(compared, has_changed=has_changed)


def _parted(rows: LiveRows, mark: int, version: int) -> tuple[LiveRows, LiveRows]:
    """The rows that are new in this version, and those that came back.

    Rows that the version created are new. If a writer did not record that, the id decides: ids from
    ``mark`` on had not been handed out before. Lower ids may be new, too, from a branch.
    """
    edge = np.array([mark], np.uint64)
    firsts, counts = cut_at(edge, rows.firsts, rows.counts)
    is_fresh = (firsts >= edge[0]) | (rows.part(firsts, counts).created == version)
    return (
        rows.part(firsts[is_fresh], counts[is_fresh]),
        rows.part(firsts[~is_fresh], counts[~is_fresh]),
    )


def _by_fragment(step: VersionStep, since: Snapshot, until: Snapshot) -> Compared:
    old, new = _fragments(since), _fragments(until)
    version = until.manifest.version
    if step.operation == Overwrite.__name__:
        rows = (_whole(until, list(new.values())),) if new else ()
        return Compared(inserted=rows, has_changed=bool(old))
    if step.operation in (Delete.__name__, Restore.__name__):
        return Compared(has_changed=old != new)
    added = [raw for number, raw in new.items() if number not in old]
    adds_columns = step.operation == Merge.__name__
    kept = all(
        number in new
        and (raw == new[number] or _is_kept(raw, new[number], version, adds_columns=adds_columns))
        for number, raw in old.items()
    )
    if kept:
        return Compared(inserted=(_whole(until, added),) if added else ())
    return Compared(has_changed=True, is_mixed=bool(added))


def _fragments(snapshot: Snapshot) -> dict[int, bytes]:
    name = snapshot.manifest.name
    return {peek_fragment_id(raw, name): raw for raw in snapshot.manifest.message.fragments}


def _is_kept(raw: bytes, other: bytes, version: int, *, adds_columns: bool) -> bool:
    """Whether a fragment has the same rows, and, unless columns were added, in those that were
    there the same values."""
    name = f"version {version}"
    then, now = decode_fragment(raw, name), decode_fragment(other, name)
    if then.physical_rows != now.physical_rows or then.deletion_file != now.deletion_file:
        return False
    files = {each.SerializeToString() for each in now.files}
    return adds_columns or all(each.SerializeToString() in files for each in then.files)


def _whole(snapshot: Snapshot, raws: Sequence[bytes]) -> FragmentRows:
    """All rows of fragments. Raises FormatError for one that does not count its rows."""
    name, counts = snapshot.manifest.name, []
    for raw in raws:
        fragment = Fragment(decode_fragment(raw, name))
        fragment.check_counted()
        counts.append(fragment.physical_rows)
    physical = np.array(counts, np.int64)
    return FragmentRows.of(snapshot, snapshot.manifest.version, raws, physical)


def _count(parts: tuple[StreamRows, ...]) -> int:
    return sum(each.row_count for each in parts)
