"""What cells become that both sides of a merge changed, by SQL over the sides: a rule is compiled
for a column, and computed for rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lancewood.engine.rows import Ints, nameless
from lancewood.errors import InvalidInputError
from lancewood.expr import Expression, shorten
from lancewood.jobs.merge.conflicts import SIDES, SideRows, Sides, as_struct
from lancewood.jobs.rows.fitting import (
    can_become,
    constant_value,
    fitted,
    fitting_expression,
    is_moment,
    texts_as_moments,
)


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
