"""What becomes of rows that both sides of a merge may have changed.

Each side has a row as the base does, has changed cells of it, or has deleted it. What only one side
did is taken; different cells that both changed are put together; the rest is a conflict, unless a
rule or a decision says what comes of it. A cell is changed if its value is another one, in the
merged type: neither moving nor rewriting a row changes it. Works on whole columns in memory; knows
no files and no versions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancewood.data.differing import Mask, differing
from lancewood.engine.rows import Ints, nameless
from lancewood.engine.schema import Path
from lancewood.errors import InvalidInputError
from lancewood.jobs.merge.compiled_rules import CellRule, GivenCells, Rules
from lancewood.jobs.merge.conflicts import (
    DELETE_UPDATE,
    INSERT_INSERT,
    ONE_KEY,
    OURS,
    SIDES,
    THEIRS,
    UPDATE_DELETE,
    UPDATE_UPDATE,
    CellChanges,
    ConflictShape,
    Sides,
    named_cells,
)
from lancewood.jobs.merge.resolve import DELETE, Resolve
from lancewood.model.schema import ROW_ID

Codes: TypeAlias = npt.NDArray[np.int8]


_KINDS = pa.array([None, UPDATE_UPDATE, UPDATE_DELETE, DELETE_UPDATE, INSERT_INSERT])


_FREE, _UPDATED, _DELETED_THERE, _DELETED_HERE, _INSERTED = range(5)


_FROM_BASE, _FROM_OURS, _FROM_THEIRS, _GIVEN = range(len(SIDES) + 1)
"""Where a cell comes from: a side, or after those the values that were given for it."""


class RowFate(IntEnum):
    """What becomes of a row."""

    OURS = 0
    """The row is as ours has it, or absent if ours does not have it."""
    THEIRS = 1
    """The row of theirs is taken as it is."""
    WRITTEN = 2
    """A row is written that neither side has."""
    GONE = 3
    """The row of ours is deleted."""
    CONFLICT = 4


@dataclass(frozen=True, eq=False)
class ResolvedRows:
    """What becomes of some rows."""

    fates: Codes
    """One ``RowFate`` for each row."""
    written: pa.RecordBatch
    """The rows that are written, in order; without opaque columns."""
    opaque: Mapping[str, Codes]
    """By opaque column: whose cell each written row has, 0 the base's, 1 ours, 2 theirs."""
    conflicts: pa.RecordBatch
    """The rows in conflict, as ``ConflictShape`` shows them."""
    resolved: int
    """Number of conflicting rows that a rule or a decision resolved."""
    joined: int
    """Number of rows with some cells that ours changed and others that theirs changed."""
    used: Sequence[str] = ()
    """The conflicts on which there are decisions."""


@dataclass(frozen=True, eq=False)
class RowResolver:
    """How rows of one table are decided. Pickles; raises InvalidInputError for bad rules."""

    schema: pa.Schema = field(repr=False)
    """The merged schema, opaque columns included."""
    resolve: Resolve = field(default_factory=Resolve)
    key: tuple[Path, ...] = ()
    table: str = ""
    """The name that conflicts are known by."""
    by_rows: bool = False
    """Whether every row that both changed is a conflict, whichever cells."""
    opaque: frozenset[str] = frozenset()
    """Columns whose values are not given: of their cells it is only known where they differ."""
    fresh: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())
    """Columns that came since the base, on one side and on both. Cells of them change no row; those
    of the former have no other side."""

    def __post_init__(self) -> None:
        _ = self.rules  # raises for a bad rule now

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without cached values."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @cached_property
    def values(self) -> pa.Schema:
        """The columns whose values are given."""
        return pa.schema([each for each in self.schema if each.name not in self.opaque])

    @cached_property
    def shape(self) -> ConflictShape:
        """What conflicts look like."""
        return ConflictShape(self.table, self.values, self.key)

    @cached_property
    def rules(self) -> Rules:
        """The rules of ``resolve``, compiled for these columns."""
        return Rules(self.resolve, self.values, self.opaque)

    @cached_property
    def _fresh(self) -> tuple[Mask, Mask]:
        """Which columns one side added, and which both did."""
        one, both = (
            np.array([name in each for name in self.schema.names], np.bool_) for each in self.fresh
        )
        return one, both

    def decide(self, sides: Sides) -> ResolvedRows:
        """What becomes of the rows; raises InvalidInputError if a rule gives what cannot be."""
        cells = _cell_changes(self.schema.names, sides)
        states = _States.of(sides, cells, self._fresh, by_rows=self.by_rows)
        rows = np.flatnonzero(states.is_open)
        merging = _CellMerge(self, sides.take(rows), cells.take(rows), states.take(rows))
        merging.apply_rules()
        fates = states.fates.copy()
        fates[rows] = merging.fates
        is_free = merging.kinds == _FREE
        return ResolvedRows(
            fates=fates,
            written=merging.written(),
            opaque=merging.opaque_choice(),
            conflicts=merging.conflicts(),
            resolved=int((~is_free & ~merging.is_open).sum()),
            joined=int((is_free & (fates[rows] == RowFate.WRITTEN)).sum()),
            used=merging.used,
        )

    def settled(self, sides: Sides, names: Sequence[str]) -> tuple[Codes, Mask]:
        """Decide rows that may differ in these columns alone, as far as no other column is needed;
        and tell which rows are left open, as they are put together or in conflict."""
        at = [self.schema.get_field_index(each) for each in names]
        fresh = self._fresh[0][at], self._fresh[1][at]
        states = _States.of(sides, _cell_changes(names, sides), fresh, by_rows=self.by_rows)
        return states.fates, states.is_open

    def key_collisions(self, sides: Sides) -> ResolvedRows:
        """Rows of both sides that are different ones, and got one key: nothing decides them."""
        kinds, none = pa.array([ONE_KEY] * len(sides), pa.string()), np.empty(0, np.int64)
        cells = named_cells([], np.empty((0, len(sides)), np.bool_))
        return ResolvedRows(
            fates=np.full(len(sides), RowFate.CONFLICT, np.int8),
            written=sides.take(none).ours.values,
            opaque={},
            conflicts=self.shape.rows(self.shape.names_of(kinds, sides), kinds, cells, sides),
            resolved=0,
            joined=0,
        )


def _cell_changes(names: Sequence[str], sides: Sides) -> CellChanges:
    """The cells that differ, a line for each column. Where the base is not known, and the sides
    differ, both differ from it."""
    ours, theirs, apart = (np.empty((len(names), len(sides)), np.bool_) for _ in range(3))
    for line, name in enumerate(names):
        ours[line], theirs[line], apart[line] = _compared(name, sides)
    unsure = sides.unsure
    if unsure is not None and unsure.any():
        differs = (apart | (sides.ours.there != sides.theirs.there))[:, unsure]
        ours[:, unsure] = differs & sides.ours.there[unsure]
        theirs[:, unsure] = differs & sides.theirs.there[unsure]
    return CellChanges(ours, theirs, apart)


def _compared(name: str, sides: Sides) -> tuple[Mask, Mask, Mask]:
    given = sides.opaque.get(name)
    if given is not None:
        return given.ours, given.theirs, given.apart
    base, ours, theirs = (each.values.column(name) for each in sides.each)
    here, there = differing(base, ours), differing(base, theirs)
    apart = here != there
    both = np.flatnonzero(here & there)
    if len(both):
        at = pa.array(both)
        apart[both] = differing(ours.take(at), theirs.take(at))
    return here, there, apart


@dataclass(frozen=True, eq=False)
class _States:
    """What both sides did to each row."""

    fates: Codes
    """One ``RowFate`` for each row that is not open."""
    kinds: Codes
    """The kind of the conflict; ``_FREE`` where there is none."""
    left: Mask
    """The cells in conflict, a line for each column."""
    is_open: Mask
    """Whether the row has to be put together, or is in conflict."""

    @classmethod
    def of(
        cls, sides: Sides, cells: CellChanges, fresh: tuple[Mask, Mask], *, by_rows: bool
    ) -> _States:
        base, ours, theirs = (each.there for each in sides.each)
        if sides.unsure is not None:
            base = base | sides.unsure
        everywhere = base & ours & theirs
        here, there = cells.ours.any(axis=0), cells.theirs.any(axis=0)
        known, old = ~fresh[0], ~(fresh[0] | fresh[1])
        changed_here, changed_there = (each[old].any(axis=0) for each in (cells.ours, cells.theirs))
        apart = cells.apart.any(axis=0)
        fates = np.full(len(sides), RowFate.OURS, np.int8)
        fates[(~base & ~ours & theirs) | (everywhere & ~here & there)] = RowFate.THEIRS
        fates[base & ours & ~theirs & ~changed_here] = RowFate.GONE
        changed = everywhere & here & there & apart
        inserted = ~base & ours & theirs & apart
        touched = cells.apart & cells.ours & cells.theirs
        if by_rows:
            touched |= cells.apart & (changed_here & changed_there)
        left = ((touched & changed) | (cells.apart & inserted)) & known[:, np.newaxis]
        kinds = np.full(len(sides), _FREE, np.int8)
        kinds[changed & left.any(axis=0)] = _UPDATED
        kinds[base & ours & ~theirs & changed_here] = _DELETED_THERE
        kinds[base & ~ours & theirs & changed_there] = _DELETED_HERE
        kinds[inserted & left.any(axis=0)] = _INSERTED
        return cls(fates, kinds, left, changed | inserted | (kinds != _FREE))

    def take(self, rows: Ints) -> _States:
        return _States(self.fates[rows], self.kinds[rows], self.left[:, rows], self.is_open[rows])


class _CellMerge:
    """Rows that are put together or in conflict, cell by cell, while rules decide them."""

    def __init__(
        self, resolver: RowResolver, sides: Sides, cells: CellChanges, states: _States
    ) -> None:
        self._resolver, self._rules = resolver, resolver.rules
        self._sides, self._cells, self.kinds = sides, cells, states.kinds
        self._columns = list(resolver.schema.names)
        only_theirs = cells.theirs & ~cells.ours
        self._choice = np.where(only_theirs, np.int8(_FROM_THEIRS), np.int8(_FROM_OURS))
        self._left = states.left.copy()
        """Cells in conflict that nothing has decided."""
        self._fate_left = np.isin(states.kinds, (_DELETED_THERE, _DELETED_HERE))
        """Rows of which it is not decided whether they are there."""
        self._ruled = np.zeros_like(self._left)
        """Cells that were decided one by one, and not with their row."""
        self._absent = np.zeros(len(sides), np.bool_)
        self._given = dict[int, GivenCells]()
        self.used: Sequence[str] = ()
        """The conflicts on which there were decisions."""

    @property
    def is_open(self) -> Mask:
        """Rows that are in conflict, as not all of it is decided."""
        found: Mask = self._fate_left | self._left.any(axis=0)
        return found

    def apply_rules(self) -> None:
        """Let everything decide, in its order."""
        resolve = self._resolver.resolve
        if not self.is_open.any():
            return
        if self._rules.has_decisions:
            self._apply_decisions()
        for line, name in enumerate(self._columns):
            self._apply_rule(line, self._rules.columns.get(name))
        if self._rules.winner is not None:
            self._apply_winner()
        if resolve.deletes is not None:
            stays = (self.kinds == _DELETED_THERE) == (resolve.deletes == "lose")
            self._take(OURS, self._fate_left & stays)
            self._take(THEIRS, self._fate_left & ~stays)
        if resolve.rows is not None:
            self._take(resolve.rows, self.is_open)

    @cached_property
    def fates(self) -> Codes:
        """What becomes of each row, after all rules."""
        ours = self._sides.ours.there
        found = np.full(len(self._sides), RowFate.WRITTEN, np.int8)
        found[self._is_as_in(_FROM_THEIRS, self._cells.theirs)] = RowFate.THEIRS
        found[self._is_as_in(_FROM_OURS, self._cells.ours)] = RowFate.OURS
        found[self._absent] = np.where(ours, RowFate.GONE, RowFate.OURS)[self._absent]
        found[self.is_open] = RowFate.CONFLICT
        return found

    @cached_property
    def _writes(self) -> Ints:
        return np.flatnonzero(self.fates == RowFate.WRITTEN)

    def written(self) -> pa.RecordBatch:
        """The rows that are written; raises InvalidInputError where a rule made a null that the
        schema does not allow."""
        columns = []
        for each in self._resolver.values:
            column = self._cells_of(each.name)
            if column.null_count and not each.nullable:
                self._check_nulls(each.name, column)
            columns.append(column)
        if not columns:
            return nameless(len(self._writes))
        return pa.RecordBatch.from_arrays(columns, schema=self._resolver.values)

    def opaque_choice(self) -> dict[str, Codes]:
        """Whose cell each written row has, by opaque column."""
        return {
            name: self._choice[line, self._writes]
            for line, name in enumerate(self._columns)
            if name in self._resolver.opaque
        }

    def conflicts(self) -> pa.RecordBatch:
        """The rows that are still in conflict, with the cells that are left to decide."""
        rows = np.flatnonzero(self.is_open)
        kinds, sides = self._kinds_of(rows), self._sides.take(rows)
        shape = self._resolver.shape
        cells = named_cells(self._columns, self._left[:, rows])
        return shape.rows(shape.names_of(kinds, sides), kinds, cells, sides)

    def _kinds_of(self, rows: Ints) -> pa.Array:
        return _KINDS.take(pa.array(self.kinds[rows]))

    def _apply_decisions(self) -> None:
        rows = np.flatnonzero(self.kinds != _FREE)
        names = self._resolver.shape.names_of(self._kinds_of(rows), self._sides.take(rows))
        found = self._rules.decisions_on(names)
        self.used = found.names
        for word, decided in found.takes:
            where = np.zeros(len(self._sides), np.bool_)
            where[rows[decided]] = True
            self._take(word, where)
        for name, values in found.values.items():
            at = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
            if len(at):
                self._give(self._columns.index(name), rows[at], values.take(pa.array(at)))

    def _apply_rule(self, line: int, rule: str | CellRule | None) -> None:
        rows = np.flatnonzero(self._left[line])
        if rule is None or not len(rows):
            return
        if isinstance(rule, CellRule):
            self._give(line, rows, rule.cells(self._sides, rows))
        else:
            self._settle(line, rows, SIDES.index(rule))

    def _apply_winner(self) -> None:
        rows = np.flatnonzero(self._left.any(axis=0))
        theirs, ours = np.zeros((2, len(self._sides)), np.bool_)
        theirs[rows] = self._rules.wins(self._sides, rows)
        ours[rows] = ~theirs[rows]
        self._take(THEIRS, theirs)
        self._take(OURS, ours)

    def _take(self, word: str, where: Mask) -> None:
        """Take a side for what is left of rows; a row that it does not have is then not there."""
        touched = where & self.is_open
        has = np.False_ if word == DELETE else self._sides.each[SIDES.index(word)].there
        self._absent |= touched & ~has
        if word != DELETE:
            is_whole = self._fate_left | self._resolver.resolve.whole_rows
            cells = np.where(is_whole, ~self._ruled, self._left) & (touched & has)
            self._choice[cells] = SIDES.index(word)
        self._left[:, touched] = False
        self._fate_left[touched] = False

    def _give(self, line: int, rows: Ints, values: pa.Array) -> None:
        """Give cells of a column values of their own."""
        given = self._given.setdefault(line, GivenCells.none(len(self._sides)))
        given.add(rows, values)
        self._settle(line, rows, _GIVEN)

    def _settle(self, line: int, rows: Ints, choice: int) -> None:
        self._choice[line, rows] = choice
        self._ruled[line, rows] = True
        self._left[line, rows] = False

    def _is_as_in(self, side: int, changed: Mask) -> Mask:
        """Which rows come out as a side has them; ``changed`` is where it differs from the base."""
        other = _FROM_OURS + _FROM_THEIRS - side
        same = self._choice == side
        same |= (self._choice == other) & ~self._cells.apart
        same |= (self._choice == _FROM_BASE) & ~changed
        values = self._sides.each[side].values
        for line, given in self._given.items():
            rows = np.flatnonzero(self._choice[line] == _GIVEN)
            stored = values.column(self._columns[line]).take(pa.array(rows))
            same[line, rows] = ~differing(given.at(rows), stored)
        found: Mask = self._sides.each[side].there & same.all(axis=0)
        return found

    def _cells_of(self, name: str) -> pa.Array:
        """A column of the rows that are written."""
        line, rows = self._columns.index(name), self._writes
        choice = self._choice[line, rows]
        parts, order = [], []
        for source in range(len(SIDES) + 1):
            at = np.flatnonzero(choice == source)
            if not len(at):
                continue
            order.append(at)
            if source == _GIVEN:
                parts.append(self._given[line].at(rows[at]))
            else:
                column = self._sides.each[source].values.column(name)
                parts.append(column.take(pa.array(rows[at])))
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return pa.nulls(0, self._resolver.values.field(name).type)
        return pa.concat_arrays(parts).take(pa.array(np.argsort(np.concatenate(order))))

    def _check_nulls(self, name: str, column: pa.Array) -> None:
        """Raise InvalidInputError for a null in a row that was in conflict: who decided it chose
        the null."""
        is_null = column.is_null().to_numpy(zero_copy_only=False)
        bad = self._writes[is_null & (self.kinds[self._writes] != _FREE)]
        if not len(bad):
            return
        row, shape = self._sides.take(bad[:1]), self._resolver.shape
        known = shape.keys(row)[0].as_py() if shape.key else {ROW_ID: int(row.ids[0])}
        said = ", ".join(f"{part}={value!r}" for part, value in known.items())
        raise InvalidInputError(
            f"column {name!r} may not be null, and what is decided for the row with {said} makes "
            "it null; give it a value",
            column=name,
            row_id=int(row.ids[0]),
        )
