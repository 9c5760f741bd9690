"""Lines of history: what else is known of the versions of one, and where lines were merged.

A version that brought the work of another line wrote it only here. A row that came with one of that
line's files was written there, and is followed on that line. So is a row that a merge put together
from both sides: it is found there by its id, and the values that are the same were written there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancewood.engine.rows import Ids, Ints, RowFacts
from lancewood.engine.snapshot import Snapshot, common_version
from lancewood.errors import NotFoundError
from lancewood.jobs.blame.history import History, Writer
from lancewood.jobs.blame.tracing import (
    Names,
    Rows,
    Tracer,
    differences,
    found_among,
    located,
    names_in,
)
from lancewood.jobs.diff import Comparison, compare, paired_columns, places
from lancewood.model.fragment import Fragment
from lancewood.model.ids import Version
from lancewood.model.schema import CREATED_AT, LAST_UPDATED_AT, ROW_ID, Field

_Mask: TypeAlias = npt.NDArray[np.bool_]
_File: TypeAlias = tuple[str, int, int]
"""A file: path, size, and how many rows it has."""
_ELSEWHERE = ""
"""No column is called so."""


class Line:
    """The history that leads to a state, of a table alone."""

    fields: tuple[pa.Field, ...] = ()
    """What else is said of a version."""

    def __init__(self, history: History) -> None:
        self.history = history

    def said(self, writer: Writer) -> Sequence[Any]:
        """The values of the fields for a version."""
        return ()

    def merged(self, writer: Writer) -> Iterator[Line]:
        """The lines whose work a version brought."""
        yield from ()


@dataclass(frozen=True, eq=False)
class Origins:
    """For each row or cell the version that wrote it, and the line that the version is on; and for
    each row the same of the version that inserted it."""

    versions: Ids
    is_exact: npt.NDArray[np.bool_]
    on: Ints
    """The line of each, by its number."""
    created: Ids
    created_on: Ints


class Following:
    """Follows rows, and remembers the lines that they lead to."""

    def __init__(self, line: Line, *, cells: bool) -> None:
        self.lines = [line]
        self._is_by_cell = cells
        self._merged = dict[tuple[int, Version], tuple[int, ...]]()

    def origins(self, rows: Rows, columns: Sequence[str]) -> Origins:
        """Where rows of the newest version of the first line come from."""
        return self._follow(0, rows, tuple(columns))

    def _follow(self, number: int, rows: Rows, names: Names) -> Origins:
        """Columns without a name are not followed; by cell, nothing is known of theirs."""
        history = self.lines[number].history
        known = [at for at, name in enumerate(names) if name is not None]
        columns = [name for name in names if name is not None]
        written = Tracer(history, columns, cells=self._is_by_cell).trace(rows)
        width = len(names) if self._is_by_cell else 1
        chosen = known if self._is_by_cell else [0]
        versions = np.zeros((len(rows), width), np.uint64)
        is_exact = np.ones((len(rows), width), np.bool_)
        versions[:, chosen], is_exact[:, chosen] = written.versions, written.is_exact
        found = Origins(
            versions,
            is_exact,
            np.full((len(rows), width), number, np.int64),
            rows.created.copy(),
            np.full(len(rows), number, np.int64),
        )
        for version in np.unique(np.append(versions, found.created)).tolist():
            for other in self._beyond(number, Version(version)):
                self._go_on(number, other, Version(version), rows, names, found)
        return found

    def _beyond(self, number: int, version: Version) -> tuple[int, ...]:
        """The numbers of the lines whose work a version brought."""
        at = number, version
        if version and at not in self._merged:
            line = self.lines[number]
            others = list(line.merged(line.history.writer(version)))
            first = len(self.lines)
            self.lines += others
            self._merged[at] = tuple(range(first, first + len(others)))
        return self._merged.get(at, ())

    def _go_on(
        self, number: int, other: int, version: Version, rows: Rows, names: Names, found: Origins
    ) -> None:
        """Replace what a version brought by where it comes from on another line."""
        newest = self.lines[number].history.newest
        theirs = self.lines[other].history.newest
        try:
            brought = self.lines[number].history.made_by(version)
        except NotFoundError:
            return
        for find in (_in_same_files, _with_same_values):
            cells = (found.versions == version) & (found.on == number)
            fresh = (found.created == version) & (found.created_on == number)
            concerned = np.flatnonzero(np.logical_or.reduce(cells, axis=1) | fresh)
            if not len(concerned):
                return
            called = names_in(brought, newest, self._open_names(names, cells))
            there, _ = located(brought, rows.only(concerned))
            for twins in find(brought, theirs, there, called, by_cell=self._is_by_cell):
                self._take_over(other, twins, cells, fresh, found)

    def _open_names(self, names: Names, cells: _Mask) -> Names:
        """The columns of which some cells are still to be followed; all of them if none are, and
        if rows are followed as a whole."""
        is_open = [bool(column.any()) for column in cells.T]
        if not self._is_by_cell or not any(is_open):
            return names
        return tuple(name if wanted else None for name, wanted in zip(names, is_open, strict=True))

    def _take_over(
        self, other: int, twins: _Twins, cells: _Mask, fresh: _Mask, found: Origins
    ) -> None:
        """Replace where the chosen cells, and the fresh rows, come from by what the other line says
        of their twins."""
        at = twins.rows.at
        here = cells[at] & twins.is_same
        chosen = np.flatnonzero(here.any(axis=1) | fresh[at])
        at, here = at[chosen], here[chosen]
        rows = replace(twins.rows.only(chosen), at=np.arange(len(at)))
        beyond = self._follow(other, rows, twins.names)
        for mine, new in (
            (found.versions, beyond.versions),
            (found.is_exact, beyond.is_exact),
            (found.on, beyond.on),
        ):
            mine[at] = np.where(here, new, mine[at])
        found.created[at] = np.where(fresh[at], beyond.created, found.created[at])
        found.created_on[at] = np.where(fresh[at], beyond.created_on, found.created_on[at])


@dataclass(frozen=True, eq=False)
class _Twins:
    """Rows of one state as another state has them."""

    rows: Rows
    names: Names
    """What the columns are called there."""
    is_same: _Mask
    """For each row and column whether the value is the same; one column for rows as a whole."""


def _in_same_files(
    mine: Snapshot, theirs: Snapshot, rows: Rows, names: Names, *, by_cell: bool
) -> Iterator[_Twins]:
    """Rows of one state that another has in the same files, and the values that are in the same
    places."""
    holding = dict[_File, list[Fragment]]()
    for each in theirs.manifest.fragments:
        for file in _files(each):
            holding.setdefault(file, []).append(each)
    for number, here in rows.by_fragment():
        fragment = mine.manifest.fragment(number)
        twins = {each.id: each for file in _files(fragment) for each in holding.get(file, ())}
        for twin in twins.values():
            columns = tuple(
                None if name is None else _twin(mine.schema.by_name[name], fragment, theirs, twin)
                for name in names
            )
            if not any(columns) or (not by_cell and _ELSEWHERE in columns):
                continue
            facts = RowFacts(theirs, twin)
            part = rows.only(here[~facts.are_deleted(rows.offsets[here])])
            if not len(part):
                continue
            ids, created, updated = (
                facts.column_at(each, part.offsets).to_numpy()
                for each in (ROW_ID, CREATED_AT, LAST_UPDATED_AT)
            )
            owner = np.full(len(part), twin.id, np.int64)
            found = Rows(part.at, ids, owner, part.offsets, created, updated)
            known = tuple(each or None for each in columns)
            yield _Twins(found, known, _all_same(found, known, by_cell))


def _with_same_values(
    mine: Snapshot, theirs: Snapshot, rows: Rows, names: Names, *, by_cell: bool
) -> Iterator[_Twins]:
    """Rows of one state that another has under the same ids in other files, as where a merge put
    rows together that both sides had changed. The values of the columns are read in both states."""
    common = common_version(theirs, mine)
    pairs = {each.name: each for each in paired_columns(theirs, mine, common)}
    wanted = {name: pairs[name] for name in names if name is not None and name in pairs}
    if not wanted:
        return
    known = tuple(wanted[name].before.name if name in wanted else None for name in names)
    number_of = {name: at for at, name in enumerate(names)}
    rows = rows.only(np.argsort(rows.ids))
    for comparison in compare(theirs, mine, common, tuple(wanted.values())):
        found = _rows_before(comparison, rows)
        is_same = _all_same(found, known, by_cell)
        for at, differing in differences((comparison,), found.ids, tuple(wanted.values())):
            if not by_cell:
                is_same[at] = False
                continue
            for position, pair in enumerate(differing.columns):
                is_same[at[differing.cells[:, position]], number_of[pair.name]] = False
        if len(found):
            yield _Twins(found, known, is_same)


def _all_same(rows: Rows, names: Names, by_cell: bool) -> _Mask:
    """Every value counts as the same, if the column is known at all."""
    known = [name is not None for name in names] if by_cell else [True]
    return np.tile(np.array(known, np.bool_), (len(rows), 1))


def _rows_before(comparison: Comparison, rows: Rows) -> Rows:
    """Rows of the later state, by ascending ids, as the earlier one has them. An id that the two
    states may have given to different rows leads to none."""
    before, after = comparison.before, comparison.after
    here, _ = found_among(after.rows, [each.fragment.id for each in after.parts], rows)
    at = np.searchsorted(rows.ids, here.ids)
    is_it = (here.fragments == rows.fragments[at]) & (here.offsets == rows.offsets[at])
    numbers = [each.fragment.id for each in before.parts]
    return found_among(before.rows, numbers, here.only(is_it))[0]


def _files(fragment: Fragment) -> list[_File]:
    """The files of a fragment. Two fragments of a state may share some: a row that is at an offset
    in both is deleted in one of them."""
    rows = fragment.physical_rows
    return [(file.path, file.file_size_bytes, rows) for file in fragment.message.files]


def _twin(column: Field, fragment: Fragment, theirs: Snapshot, twin: Fragment) -> str | None:
    """The name of a column in another state whose values are in the same place; ``_ELSEWHERE`` if
    it has others there, None if it does not have the column."""
    place = places(fragment, column)
    by_id = {each.id: each for each in theirs.schema.fields}
    found = [theirs.schema.by_name.get(column.name), by_id.get(column.id)]
    for each in found:
        if each is not None and places(twin, each) == place:
            return each.name
    return None if found == [None, None] else _ELSEWHERE
