"""Lines of history: what else is known of the versions of one, and where lines were merged.

A version that brought the work of another line wrote it only here. A row that came with one of that
line's files was written there, and is followed on that line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancewood.engine.comparing import places
from lancewood.engine.rows import Ids, Ints, RowFacts
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import NotFoundError
from lancewood.jobs.blaming.history import History, Writer
from lancewood.jobs.blaming.tracing import Names, Rows, Tracer, located
from lancewood.model.fragment import Fragment
from lancewood.model.ids import Version
from lancewood.model.schema import CREATED_AT, LAST_UPDATED_AT, ROW_ID, Field

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
        is_here = (found.versions == version) & (found.on == number)
        is_new = (found.created == version) & (found.created_on == number)
        concerned = np.flatnonzero(np.logical_or.reduce(is_here, axis=1) | is_new)
        newest = self.lines[number].history.newest
        theirs = self.lines[other].history.newest
        try:
            brought = self.lines[number].history.made_by(version)
        except NotFoundError:
            return
        there, _ = located(brought, rows.only(concerned))
        called = _called(newest, brought, names)
        for part, columns in _same_rows(brought, theirs, there, called):
            if not any(columns) or (not self._is_by_cell and _ELSEWHERE in columns):
                continue
            names_there = tuple(each or None for each in columns)
            at = part.at
            beyond = self._follow(other, replace(part, at=np.arange(len(part))), names_there)
            here = is_here[at]
            if self._is_by_cell:
                here &= np.array([each is not None for each in names_there])
            for mine, new in (
                (found.versions, beyond.versions),
                (found.is_exact, beyond.is_exact),
                (found.on, beyond.on),
            ):
                mine[at] = np.where(here, new, mine[at])
            fresh = is_new[at]
            found.created[at] = np.where(fresh, beyond.created, found.created[at])
            found.created_on[at] = np.where(fresh, beyond.created_on, found.created_on[at])


def _called(later: Snapshot, earlier: Snapshot, names: Names) -> Names:
    """What columns are called in an earlier version: by their ids."""
    known = {each.id: each.name for each in earlier.schema.fields}
    return tuple(
        None if name is None else known.get(later.schema.by_name[name].id) for name in names
    )


def _same_rows(
    mine: Snapshot, theirs: Snapshot, rows: Rows, names: Names
) -> Iterator[tuple[Rows, Names]]:
    """Rows of one state that another has in the same files, as they are there, with the columns
    that are in the same places."""
    fragments = {_first_file(each): each for each in theirs.manifest.fragments if each.files}
    for number, here in rows.by_fragment():
        fragment = mine.manifest.fragment(number)
        twin = fragments.get(_first_file(fragment)) if fragment.files else None
        if twin is None:
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
        columns = tuple(
            None if name is None else _twin(mine.schema.by_name[name], fragment, theirs, twin)
            for name in names
        )
        yield Rows(part.at, ids, owner, part.offsets, created, updated), columns


def _first_file(fragment: Fragment) -> tuple[str, int, int]:
    first = fragment.message.files[0]
    return first.path, first.file_size_bytes, fragment.physical_rows


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
