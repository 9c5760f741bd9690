"""Following rows back to the versions that wrote the values that they have.

A row is marked with the version that last changed it, so that versions in between need not be
looked at. A mark is a hint: the version may have written the values that were there, or added a
column. So the row is compared with what it was in the version before, and if nothing differs, it is
followed from there on. Some writers change rows in place and do not mark them. That shows in the
files of the row's fragment: if the version of the mark does not have the same ones, the version
that brought them is searched for by halves, and looked at in the same way. A restored row was
written by whoever wrote it first.

Rows are followed together, newest versions first, so that each version is looked at once for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from lancewood.engine.rows import Ids, Ints, LiveRows, RowFacts, stretches_of
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import NotFoundError
from lancewood.jobs.blame.history import History, Ranges
from lancewood.jobs.diff import ColumnPair, DifferingRows, Doubt, differing_rows, places
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId, Version
from lancewood.model.schema import CREATED_AT, LAST_UPDATED_AT, ROW_ID, Field

Names: TypeAlias = tuple[str | None, ...]
"""What the asked columns are called in a version; None for one that it does not have."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of one version: which of the asked ones, where they are, and how they are marked."""

    at: Ints
    ids: Ids
    fragments: Ints
    """The ids of their fragments."""
    offsets: Ints
    created: Ids
    updated: Ids

    def __len__(self) -> int:
        return len(self.at)

    def only(self, chosen: npt.NDArray[np.bool_] | Ints) -> Rows:
        return Rows(*(getattr(self, each.name)[chosen] for each in fields(self)))

    @staticmethod
    def together(parts: Sequence[Rows]) -> Rows:
        return Rows(
            *(np.concatenate([getattr(each, one.name) for each in parts]) for one in fields(Rows))
        )

    def by_fragment(self) -> Iterator[tuple[FragmentId, Ints]]:
        """Each fragment that has some of the rows, and which of them."""
        order = np.argsort(self.fragments, kind="stable")
        bounds = np.flatnonzero(np.diff(self.fragments[order], prepend=-1, append=-1))
        for low, high in pairwise(bounds.tolist()):
            yield FragmentId(int(self.fragments[order[low]])), order[low:high]


@dataclass(frozen=True, eq=False)
class Written:
    """For each row and column the version that wrote the value; one column if rows are asked for
    as a whole."""

    versions: Ids
    is_exact: npt.NDArray[np.bool_]


class Tracer:
    """Follows rows of the newest version of a history, by some of its columns: each cell, or the
    last change of any of them."""

    def __init__(self, history: History, columns: Sequence[str], *, cells: bool) -> None:
        self._history, self._columns, self._is_by_cell = history, tuple(columns), cells

    def trace(self, rows: Rows) -> Written:
        """Which versions wrote the rows; ``at`` counts them from 0."""
        return _Tracing(self._history, self._columns, self._is_by_cell, len(rows)).run(rows)


class _Tracing:
    def __init__(
        self, history: History, columns: tuple[str, ...], is_by_cell: bool, count: int
    ) -> None:
        self._history, self._columns, self._is_by_cell = history, columns, is_by_cell
        width = len(columns) if is_by_cell else 1
        self._versions = np.zeros((count, width), np.uint64)
        self._is_exact = np.ones((count, width), np.bool_)
        self._open = np.ones((count, width), np.bool_)
        self._waiting = dict[Version, dict[Names, list[Rows]]]()

    def run(self, rows: Rows) -> Written:
        self._load_marks(rows)
        self._push(self._history.newest.manifest.version, self._columns, rows)
        while self._waiting:
            version = max(self._waiting)
            for names, parts in self._waiting.pop(version).items():
                self._look(version, names, Rows.together(parts))
        return Written(self._versions, self._is_exact)

    def _load_marks(self, rows: Rows) -> None:
        """Load the versions that marks name, and those before them, newest first."""
        last = self._history.landed
        marks = sorted({each for each in rows.updated.tolist() if each <= last}, reverse=True)
        changed = set(rows.updated[rows.updated > rows.created].tolist())
        wanted = ((each, each - 1) if each in changed else (each,) for each in marks)
        self._history.load(Version(each) for pair in wanted for each in pair)

    def _push(self, version: Version, names: Names, rows: Rows) -> None:
        if len(rows):
            self._waiting.setdefault(version, {}).setdefault(names, []).append(rows)

    def _settle(self, rows: Rows, versions: Ids | int, *, is_exact: bool = True) -> None:
        """What is still open of the rows was written by these versions."""
        open_ = self._open[rows.at]
        said = np.broadcast_to(np.asarray(versions, np.uint64).reshape(-1, 1), open_.shape)
        self._versions[rows.at] = np.where(open_, said, self._versions[rows.at])
        self._is_exact[rows.at] = np.where(open_, is_exact, self._is_exact[rows.at])
        self._open[rows.at] = False

    def _settle_cells(self, at: Ints, column: int, version: int) -> None:
        chosen = at[self._open[at, column]]
        self._versions[chosen, column] = version
        self._open[chosen, column] = False

    def _look(self, version: Version, names: Names, rows: Rows) -> None:
        """Rows as a version has them: go to the versions that may have written them."""
        history = self._history
        if version == history.newest.manifest.version and not history.is_landed:
            self._look_at_unlanded(names, rows)
            return
        snapshot = history.at(version)
        stops = self._stops(snapshot, names, rows)
        for stop in np.unique(stops).tolist():
            chosen = rows.only(stops == stop)
            self._step(Version(stop), self._names_at(Version(stop), snapshot, names), chosen)

    def _look_at_unlanded(self, names: Names, rows: Rows) -> None:
        """A state that is not a version yet, against what it was built on."""
        last = self._history.landed
        fresh = rows.created > last
        self._settle(rows.only(fresh), rows.created[fresh])
        rows = rows.only(~fresh)
        try:
            compared = self._history.unlanded()
        except NotFoundError:
            self._settle(rows, rows.updated, is_exact=False)
            return
        self._compare(compared, Version(last + 1), names, rows)
        marks = np.maximum(rows.updated, np.uint64(last + 1)).reshape(-1, 1)
        said = self._versions[rows.at]
        self._versions[rows.at] = np.where(said > last, marks, said)

    def _names_at(self, stop: Version, later: Snapshot, names: Names) -> Names:
        """The columns in an earlier version whose fragments hold the same fields."""
        if stop == later.manifest.version:
            return names
        return names_in(self._history.at(stop), later, names)

    def _stops(self, snapshot: Snapshot, names: Names, rows: Rows) -> Ids:
        """For each row the newest version up to this one that may have written it."""
        newest = snapshot.manifest.version
        stops = np.full(len(rows), newest, np.uint64)
        for number, here in rows.by_fragment():
            fragment = snapshot.manifest.fragment(number)
            columns = self._open_fields(snapshot, names, rows.at[here])
            top = newest
            for mark in sorted(set(rows.updated[here].tolist()), reverse=True):
                if mark >= newest:
                    continue
                marked = here[rows.updated[here] <= mark]
                if not self._holds(Version(mark), fragment, columns):
                    stops[marked] = self._first_with(fragment, columns, mark, top)
                    break
                stops[marked] = top = Version(mark)
        return stops

    def _open_fields(self, snapshot: Snapshot, names: Names, at: Ints) -> list[Field]:
        """The columns that are still followed for some of the rows."""
        wanted = self._open_columns(at) if self._is_by_cell else [True] * len(names)
        return [
            snapshot.schema.by_name[name]
            for name, is_wanted in zip(names, wanted, strict=True)
            if is_wanted and name is not None
        ]

    def _open_columns(self, at: Ints) -> list[bool]:
        return [bool(self._open[at, column].any()) for column in range(len(self._columns))]

    def _holds(self, version: Version, fragment: Fragment, columns: Sequence[Field]) -> bool:
        """Whether a version is there and has the columns of a fragment in the same files. A column
        of nulls is in no file; only the schema says from which version on it is there."""
        try:
            snapshot = self._history.at(version)
            found = snapshot.manifest.fragment(fragment.id)
        except NotFoundError:
            return False
        if self._is_by_cell and any(each.id not in snapshot.schema.by_id for each in columns):
            return False
        if found.message.files == fragment.message.files:
            return True
        return all(places(found, each) == places(fragment, each) for each in columns)

    def _first_with(
        self, fragment: Fragment, columns: Sequence[Field], low: int, high: int
    ) -> Version:
        """A version after ``low``, up to ``high``, that has columns of a fragment in the same files
        as ``high``, while the one before it has not, or is gone."""
        while high - low > 1:
            middle = (low + high) // 2
            if self._holds(Version(middle), fragment, columns):
                high = middle
            else:
                low = middle
        return Version(high)

    def _step(self, version: Version, names: Names, rows: Rows) -> None:
        """Settle what a version wrote of the rows, and follow the rest to where it took it from."""
        fresh = rows.created >= version
        self._settle(rows.only(fresh), version)
        rows = rows.only(~fresh)
        if not len(rows):
            return
        history = self._history
        try:
            source = history.copied(version)
            if source is not None and source < version:
                self._follow(history.at(source), names, rows, (), version)
                return
            compared = history.before(version)
        except NotFoundError:
            self._settle(rows, rows.updated, is_exact=False)
            return
        self._compare(compared, version, names, rows)

    def _compare(self, compared: Ranges, version: Version, names: Names, rows: Rows) -> None:
        """Settle the rows or cells that differ from the version before, and go on with the rest."""
        pairs = {each.name: each for each in compared[0].columns}
        wanted = [pairs[name] for name in names if name is not None and name in pairs]
        before = tuple(
            pairs[name].before.name if name is not None and name in pairs else None
            for name in names
        )
        if not any(before):
            self._settle(rows, version)
            return
        if self._is_by_cell:
            for column, name in enumerate(before):
                if name is None:
                    self._settle_cells(rows.at, column, version)
        rows = rows.only(np.argsort(rows.ids))
        columns = {name: column for column, name in enumerate(names)}
        for here, found in differences(compared, rows.ids, wanted):
            at = rows.at[here]
            if not self._is_by_cell:
                self._settle_cells(at, 0, version)
                continue
            for number, pair in enumerate(found.columns):
                self._settle_cells(at[found.cells[:, number]], columns[pair.name], version)
        left = rows.only(np.flatnonzero(np.logical_or.reduce(self._open[rows.at], axis=1)))
        self._follow(compared[0].before.snapshot, before, left, compared, version)

    def _follow(
        self,
        snapshot: Snapshot,
        names: Names,
        rows: Rows,
        compared: Ranges,
        later: Version,
    ) -> None:
        """Go on with rows in an earlier version. Those that it does not have were made later."""
        found, missing = located(snapshot, rows, compared)
        self._settle(missing, later)
        self._push(snapshot.manifest.version, names, found)


def differences(
    compared: Ranges, ids: Ids, columns: Sequence[ColumnPair]
) -> Iterator[tuple[Ints, DifferingRows]]:
    """Of rows that both states have, by their ascending ids, those that differ in some of the
    columns: their positions, and what differs."""
    for comparison in compared:
        for doubt in comparison.doubts:
            here = np.flatnonzero(doubt.after.find(ids) >= 0)
            if len(here):
                for found in differing_rows(comparison, _part(doubt, ids[here]), columns):
                    yield np.searchsorted(ids, comparison.after.row_ids(found.after)), found


def _part(doubt: Doubt, ids: Ids) -> Doubt:
    ones = np.ones(len(ids), np.int64)
    return Doubt(doubt.columns, doubt.before.part(ids, ones), doubt.after.part(ids, ones))


def names_in(earlier: Snapshot, later: Snapshot, names: Names) -> Names:
    """What columns of a later version are called in an earlier one: by their ids."""
    known = {field.id: field.name for field in earlier.schema.fields}
    return tuple(
        None if name is None else known.get(later.schema.by_name[name].id) for name in names
    )


def located(snapshot: Snapshot, rows: Rows, compared: Ranges = ()) -> tuple[Rows, Rows]:
    """The rows as an earlier version has them, and those that it does not have."""
    parts = list[Rows]()
    for comparison in compared:
        numbers = [each.fragment.id for each in comparison.before.parts]
        found, rows = found_among(comparison.before.rows, numbers, rows)
        parts.append(found)
    found, rows = _in_place(snapshot, rows)
    parts.append(found)
    if len(rows):
        fragments = snapshot.manifest.fragments
        stretches = (stretches_of(RowFacts(snapshot, each)) for each in fragments)
        known = LiveRows.of(stretches, snapshot.manifest.name)
        found, rows = found_among(known, [each.id for each in fragments], rows)
        parts.append(found)
    return Rows.together(parts), rows


def found_among(known: LiveRows, numbers: Sequence[int], rows: Rows) -> tuple[Rows, Rows]:
    """The rows as they are among live rows of fragments with these numbers, and those that are not
    there."""
    is_there = known.find(rows.ids) >= 0
    here = rows.only(is_there)
    at = known.part(here.ids, np.ones(len(here), np.int64))
    owners = np.asarray(numbers, np.int64)[at.fragments] if len(here) else here.fragments
    placed = Rows(here.at, here.ids, owners, at.offsets, at.created, at.updated)
    return placed, rows.only(~is_there)


def _in_place(snapshot: Snapshot, rows: Rows) -> tuple[Rows, Rows]:
    """The rows that are in the same fragments at the same offsets."""
    is_there = np.zeros(len(rows), np.bool_)
    created, updated = rows.created.copy(), rows.updated.copy()
    for number, here in rows.by_fragment():
        position = snapshot.manifest.position_of(number)
        if position is None:
            continue
        facts = RowFacts(snapshot, snapshot.manifest.fragment(number))
        count = 0 if facts.row_ids is None else len(facts.row_ids)
        here = here[rows.offsets[here] < count]
        offsets = rows.offsets[here]
        same = facts.column_at(ROW_ID, offsets).to_numpy() == rows.ids[here]
        here, offsets = here[same], offsets[same]
        is_there[here] = ~facts.are_deleted(offsets)
        created[here] = facts.column_at(CREATED_AT, offsets).to_numpy()
        updated[here] = facts.column_at(LAST_UPDATED_AT, offsets).to_numpy()
    placed = Rows(rows.at, rows.ids, rows.fragments, rows.offsets, created, updated)
    return placed.only(is_there), rows.only(~is_there)
