"""The rules of a ``Resolve``, compiled for the columns of one table: decisions on single conflicts,
and cells computed by SQL over the sides.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancewood.data.differing import Mask
from lancewood.engine.rows import Ints, nameless
from lancewood.errors import InvalidInputError
from lancewood.expr import Expression, Predicate, parse_expression, parse_predicate, shorten
from lancewood.jobs.merge.conflicts import CONFLICT, SIDES, SideRows, Sides, as_struct
from lancewood.jobs.merge.resolve import (
    EACH,
    TAKE,
    TAKES,
    Resolve,
    check_takes,
    told_apart,
    value_columns,
)
from lancewood.jobs.rows.fitting import (
    can_become,
    constant_value,
    fitted,
    fitting_expression,
    is_moment,
    texts_as_moments,
)


@dataclass(frozen=True, eq=False)
class MatchingDecisions:
    """The decisions on some conflicts."""

    names: list[str]
    """The conflicts that are decided."""
    takes: tuple[tuple[str, Mask], ...]
    """Conflicts that each word of ``take`` decides."""
    values: Mapping[str, pa.Array]
    """Given values by column, one for each conflict; null where none is given."""


class Rules:
    """What a ``Resolve`` says, compiled for the columns of one table.

    Raises InvalidInputError for columns that are not there, and for SQL that is wrong or whose
    values can never be stored in their column. ``opaque`` columns can be given sides only; SQL for
    ``"*"`` passes them over.
    """

    def __init__(self, resolve: Resolve, values: pa.Schema, opaque: Collection[str] = ()) -> None:
        self._values, self._opaque = values, frozenset(opaque)
        self._sides = pa.schema([(each, pa.struct(list(values))) for each in SIDES])
        self.columns = self._column_rules(resolve.columns)
        self.winner = None if resolve.winner is None else self._winner(resolve.winner)
        self._decisions = None
        if resolve.decisions is not None:
            self._decisions = self._fitted(resolve.decisions)

    @property
    def has_decisions(self) -> bool:
        """Whether there are decisions on single conflicts."""
        return self._decisions is not None

    def decisions_on(self, names: pa.Array) -> MatchingDecisions:
        """What is decided about conflicts of these names."""
        assert self._decisions is not None
        known = self._decisions
        index = pc.index_in(names, value_set=known.column(CONFLICT).combine_chunks())
        chosen = known.take(index).combine_chunks()
        takes = []
        if TAKE in known.schema.names:
            said = chosen.column(TAKE)
            takes = [(each, _mask(pc.fill_null(pc.equal(said, each), False))) for each in TAKES]
        given = value_columns(known).items()
        values = {name: _one(chosen.column(column)) for name, column in given}
        return MatchingDecisions(names.filter(index.is_valid()).to_pylist(), tuple(takes), values)

    def wins(self, sides: Sides, rows: Ints) -> Mask:
        """Whether theirs wins, for some of the rows."""
        assert self.winner is not None
        return _mask(self.winner.mask(needed(self.winner, sides, rows)))

    def _column_rules(self, given: Mapping[str, str]) -> dict[str, str | CellRule]:
        """The rule for each column that has one: a side, or what is computed."""
        for name in given:
            if name != EACH:
                self._check_column(name, "columns")
        found: dict[str, str | CellRule] = {}
        for name in (*self._values.names, *sorted(self._opaque)):
            own = given.get(name)
            text = given.get(EACH) if own is None else own
            if text is None:
                continue
            if text in SIDES:
                found[name] = text
            elif name not in self._opaque:
                found[name] = self._cell_rule(name, text, is_each=own is None)
            elif own is not None:
                raise InvalidInputError(
                    f"column {name!r} holds blobs, which are not computed: its rule is 'ours', "
                    f"'theirs' or 'base', got {text!r}",
                    column=name,
                )
        return found

    def _cell_rule(self, name: str, text: str, *, is_each: bool) -> CellRule:
        field = self._values.field(name)
        known = pa.schema([(each, field.type) for each in SIDES]) if is_each else self._sides
        said = f"the rule {EACH!r} for column {name!r}" if is_each else f"the rule for {name!r}"
        way_out = f"; give {name!r} a rule of its own" if is_each else ""
        try:
            expression = parse_expression(text, known)
            if not is_each:
                check_cells_named(expression, name)
            return compiled(name, expression, field, is_each)
        except InvalidInputError as cause:
            raise InvalidInputError(
                f"{said}: {speaking(cause, name)}{way_out}", **{**cause.facts, "column": name}
            ) from cause

    def _winner(self, text: str) -> Predicate:
        try:
            predicate = parse_predicate(text, self._sides)
            check_cells_named(predicate, "x")
        except InvalidInputError as cause:
            raise InvalidInputError(f"winner: {speaking(cause, 'x')}", **cause.facts) from cause
        return predicate

    def _check_column(self, name: str, of: str) -> None:
        if name not in self._values.names and name not in self._opaque:
            names = ", ".join((*self._values.names, *sorted(self._opaque)))
            raise InvalidInputError(
                f"{of} of resolve names {name!r}, which is no column of the merged table: they "
                f"are {names}",
                column=name,
            )

    def _fitted(self, decisions: pa.Table) -> pa.Table:
        """The decisions, with values as the columns have them."""
        opaque = [pa.field(each, pa.large_binary()) for each in sorted(self._opaque)]
        decisions = told_apart(decisions, pa.schema([*self._values, *opaque]))
        check_takes(decisions)
        for name, given in value_columns(decisions).items():
            self._check_column(name, "decisions")
            if name in self._opaque:
                raise InvalidInputError(
                    f"decisions give values for {name!r}, which holds blobs; take a side",
                    column=name,
                )
            target = self._values.field(name).type
            column = _one(decisions.column(given))
            try:
                made = given_as(column, target)
            except InvalidInputError as cause:
                raise InvalidInputError(
                    f"decisions: column {name!r}: {cause.message}", column=name
                ) from cause
            at = decisions.schema.get_field_index(given)
            decisions = decisions.set_column(at, pa.field(given, target), made)
        return decisions


def _one(column: Any) -> Any:
    """A column as one array."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    return pa.concat_arrays([pa.nulls(0, column.type), *column.chunks])


def _mask(array: Any) -> Mask:
    return np.asarray(_one(array).to_numpy(zero_copy_only=False), np.bool_)


@dataclass(frozen=True, eq=False)
class CellRule:
    """A rule for the cells of a column that are in conflict."""

    name: str
    target: pa.DataType
    sql: str
    expression: Expression
    is_each: bool
    """Whether the rule speaks of the cell itself, and not of rows."""
    constant: pa.Array | None = None

    def cells(self, sides: Sides, rows: Ints) -> pa.Array:
        """The cells of some of the rows; raises InvalidInputError for values that do not fit."""
        if self.constant is not None:
            return self.constant.take(pa.array(np.zeros(len(rows), np.int64)))
        if self.is_each:
            at = pa.array(rows)
            columns = [each.values.column(self.name).take(at) for each in sides.each]
            batch = pa.RecordBatch.from_arrays(columns, names=list(SIDES))
        else:
            batch = needed(self.expression, sides, rows)
        try:
            return fitted(self.expression.evaluate(batch), self.target)
        except InvalidInputError as cause:
            raise InvalidInputError(
                f"the rule for {self.name!r}, {shorten(self.sql)}, gives a value that "
                f"does not fit {self.target}: {cause.message}",
                **{**cause.facts, "column": self.name},
            ) from cause


@dataclass(eq=False)
class GivenCells:
    """Values that were given for cells of a column."""

    parts: list[pa.Array]
    spots: Ints
    """The position of each row's value in ``parts``, counted through all of them."""

    @classmethod
    def none(cls, rows: int) -> GivenCells:
        """No values yet, for this number of rows."""
        return cls([], np.zeros(rows, np.int64))

    def add(self, rows: Ints, values: pa.Array) -> None:
        """Give some rows these values."""
        self.spots[rows] = sum(map(len, self.parts)) + np.arange(len(rows))
        self.parts.append(values)

    def at(self, rows: Ints) -> pa.Array:
        """The values that some rows were given."""
        return pa.concat_arrays(self.parts).take(pa.array(self.spots[rows]))


def compiled(name: str, expression: Expression, field: pa.Field, is_each: bool) -> CellRule:
    """The rule for a column; raises InvalidInputError for values that it can never store."""
    target = field.type
    if not expression.columns:
        constant = constant_value(expression, target)
        if constant.null_count and not field.nullable:
            raise InvalidInputError("it may not be null")
        return CellRule(name, target, expression.sql, expression, is_each, constant)
    fitting = fitting_expression(expression, target)
    fitted(pa.nulls(0, fitting.type), target)
    return CellRule(name, target, expression.sql, fitting, is_each)


def given_as(values: Any, target: pa.DataType) -> Any:
    """Constant values as those of a column; texts may be moments."""
    if pa.types.is_string(values.type) and is_moment(target):
        return texts_as_moments(values, target)
    if not can_become(values.type, target):
        raise InvalidInputError(f"{values.type} is no {target}; cast it")
    return fitted(values, target)


def check_cells_named(expression: Expression, name: str) -> None:
    """Raise InvalidInputError for SQL about a whole row."""
    for path in expression.paths:
        if len(path) == 1:
            raise InvalidInputError(
                f"{shorten(expression.sql)} speaks of a whole row; name its cells, as "
                f"{path[0]}.{name}",
                sql=expression.sql,
            )


def speaking(cause: InvalidInputError, name: str) -> str:
    """The error's message, for a user who named a column without its side."""
    unknown = cause.facts.get("name")
    if cause.facts.get("names") == list(SIDES) and unknown is not None:
        return f"write ours.{unknown}, theirs.{unknown} or base.{unknown}, not {unknown}"
    return cause.message


def needed(expression: Expression, sides: Sides, rows: Ints) -> pa.RecordBatch:
    """Rows with a struct for each side, of only the columns that ``expression`` needs."""
    arrays, names = [], []
    for name, side in zip(SIDES, sides.each, strict=True):
        needed = list(dict.fromkeys(path[1] for path in expression.paths if path[0] == name))
        if needed:
            part = SideRows(side.values.select(needed), side.there).take(rows)
            fields = [each.with_nullable(True) for each in part.values.schema]
            arrays.append(as_struct(part, fields))
            names.append(name)
    return pa.RecordBatch.from_arrays(arrays, names=names) if arrays else nameless(len(rows))
