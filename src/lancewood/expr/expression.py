"""Expression and Predicate: a text of DuckDB's SQL, checked against a schema, that can be computed.

They keep the text, the schema and the parameters, and are rebuilt from them after pickling, so that
a plan can send them to workers. They do no I/O and hold no data. One statement of DuckDB computes
all rows that are handed over at once, and costs a millisecond or two: hand over many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancewood.errors import InvalidInputError
from lancewood.expr import tree as trees
from lancewood.expr.columns import (
    Path,
    array_at,
    as_readable,
    readable_rows,
    readable_schema,
    readable_type,
    resolve,
    type_at,
)
from lancewood.expr.database import EXPRESSIONS
from lancewood.expr.syntax import Parameters, Syntax, given_values, kept, parse, shorten, written
from lancewood.expr.tree import Bound, Tree, translated

_ROW = "`row`"
"""A name that no column of a table has."""


@dataclass(frozen=True, eq=False)
class Expression:
    """A value for each row. Made by ``parse_expression``; immutable, and picklable."""

    sql: str
    schema: pa.Schema = field(repr=False)
    parameters: Parameters = field(default=None, repr=False)

    def __post_init__(self) -> None:
        _ = self.type

    def __getstate__(self) -> dict[str, Any]:
        return {"sql": self.sql, "schema": self.schema, "parameters": self.parameters}

    @cached_property
    def type(self) -> pa.DataType:
        """The Arrow type of the values: a column's own, and DuckDB's for what is computed."""
        if self.column is not None:
            return type_at(self.column, self.schema)
        if not self.paths:
            return self._constant.type
        # A row of nulls, since over no row DuckDB would not read a constant: x > 'no number'.
        nulls = [pa.nulls(1, each.type) for each in self._readable]
        row = pa.Table.from_arrays(nulls, schema=self._readable)
        return self._asked(self._syntax.select, row).type

    @cached_property
    def paths(self) -> tuple[Path, ...]:
        """The columns and struct fields that are read, in the schema's order of columns.

        A field is left out where its whole parent is read too.
        """
        return resolve(self._syntax.names, self.schema)

    @property
    def columns(self) -> tuple[str, ...]:
        """The top-level columns that are read, in the schema's order."""
        return tuple(dict.fromkeys(path[0] for path in self.paths))

    @property
    def column(self) -> Path | None:
        """The path of the column or field, if the expression is nothing else; None if it
        computes."""
        return self.paths[0] if self._syntax.node["class"] == "COLUMN_REF" else None

    def evaluate(self, rows: pa.RecordBatch | pa.Table) -> Any:
        """One value a row: an Array for a RecordBatch, a ChunkedArray for a Table.

        The data may hold other columns too, and of a struct only the fields that ``paths`` names.
        Raises InvalidInputError for missing columns, other types, and values that cannot be
        computed (a failed CAST, an integer overflow).
        """
        if self.column is not None:
            return array_at(self.column, rows, self.schema)
        if self.paths:
            found = self._asked(self._syntax.select, self._left(rows))
        else:
            found = pa.chunked_array([pa.repeat(self._constant[0], rows.num_rows)])
        return found if isinstance(rows, pa.Table) else _one(found)

    @cached_property
    def _syntax(self) -> Syntax:
        if not isinstance(self.sql, str):
            raise InvalidInputError(f"an expression is SQL text, not {type(self.sql).__name__}")
        return parse(self.sql)

    @cached_property
    def _values(self) -> dict[str, Any]:
        return given_values(self._syntax, self.parameters)

    @cached_property
    def _readable(self) -> pa.Schema:
        return readable_schema(self.paths, self.schema)

    @cached_property
    def _constant(self) -> pa.Array:
        """The one value of an expression that reads no column."""
        return _one(self._asked(self._syntax.select, pa.table({_ROW: [0]})))

    def _left(self, rows: Any, passing: pa.BooleanArray | None = None) -> pa.Table:
        """What DuckDB is asked about: the rows that are passing (None: all)."""
        given = readable_rows(self.paths, rows, self.schema, self._readable)
        return given if passing is None else given.filter(passing)

    def _asked(self, select: str, rows: pa.Table, where: str = "") -> pa.ChunkedArray:
        """The only column of DuckDB's answer to a query over some rows."""
        import duckdb

        try:
            with EXPRESSIONS.lent() as cursor:
                return cursor.column(select, rows, where, self._values)
        except duckdb.Error as cause:
            raise self._failure(cause) from cause
        except RuntimeError as cause:  # what DuckDB makes of Ctrl-C
            if "interrupted" not in str(cause):
                raise
            raise KeyboardInterrupt from cause

    def _failure(self, cause: Exception) -> InvalidInputError:
        """The error for what DuckDB raised over the text."""
        import duckdb

        if isinstance(cause, duckdb.InternalError | duckdb.FatalException):
            EXPRESSIONS.discard()
        reason = str(cause).split("\n", 1)[0].split(", or SET", 1)[0]
        way_out = ""
        if isinstance(cause, duckdb.ConversionException | duckdb.OutOfRangeException):
            way_out = "; TRY(…) and TRY_CAST give NULL instead of failing"
        return InvalidInputError(
            f"{shorten(self.sql)} cannot be computed: {reason}{way_out}", sql=self.sql
        )


@dataclass(frozen=True, eq=False)
class Predicate(Expression):
    """A condition. Made by ``parse_predicate``."""

    def __post_init__(self) -> None:
        if self.is_exact:  # every condition in it was typed already
            return
        kind = readable_type(self.type)
        if kind is not None and not (pa.types.is_boolean(kind) or pa.types.is_null(kind)):
            raise InvalidInputError(
                f"{shorten(self.sql)} is not a condition but of type {self.type}; "
                "compare it with something",
                sql=self.sql,
            )

    def mask(self, rows: pa.RecordBatch | pa.Table) -> pa.BooleanArray:
        """True for each row that WHERE keeps; a null condition does not keep its row."""
        if not self.paths:
            value = self._constant[0].as_py()
            return pa.repeat(pa.scalar(value is True), rows.num_rows)
        passing = self._passing(rows)
        if passing is not None and (self.is_exact or not passing.true_count):
            return passing
        places = np.arange(rows.num_rows) if passing is None else np.flatnonzero(passing)
        needed = self._left(rows, passing).append_column(_ROW, pa.array(places))
        kept = self._asked(f'SELECT "{_ROW}"', needed, f"WHERE ({self.sql}\n)")
        found = np.zeros(rows.num_rows, np.bool_)
        found[kept.to_numpy()] = True
        return pa.array(found)

    def count(self, rows: pa.RecordBatch | pa.Table) -> int:
        """How many rows WHERE keeps: DuckDB counts what it would have to name one by one."""
        if not self.paths or self.is_exact:
            return int(self.mask(rows).true_count)
        left = self._left(rows, self._passing(rows))
        if not left.num_rows:
            return 0
        return int(self._asked("SELECT count(*)", left, f"WHERE ({self.sql}\n)")[0].as_py())

    def bounds(self) -> tuple[Bound, ...]:
        """Simple conditions on single columns that every kept row meets, for pruning.

        They are necessary, not sufficient: functions and comparisons of columns are left out, and
        so is OR, unless all of its sides name values of a column.
        """
        if not self.paths:
            return ()
        return tuple(trees.bounds(each for each in self._conditions if each is not None))

    @cached_property
    def _conditions(self) -> Sequence[Tree | None]:
        """What the text joins by AND, as far as DuckDB tells; None for a condition without tree."""
        import duckdb

        if not self.paths:
            return ()
        text = written(self._syntax, self._values)
        if text is None:
            return ()
        try:
            return translated(text, self._readable, self.schema, self._values)
        except duckdb.Error as cause:
            raise self._failure(cause) from cause

    @property
    def is_exact(self) -> bool:
        """Whether its trees are the whole condition. No tree at all says nothing: DuckDB gives none
        for a text that is always true, nor for one that never is."""
        return bool(self._conditions) and None not in self._conditions

    def _passing(self, rows: Any) -> pa.BooleanArray | None:
        """The rows that meet the conditions that are trees; None where there is none."""
        known = tuple(each for each in self._conditions if each is not None)
        if not known:
            return None

        @cache
        def column(path: Path) -> Any:
            """The values of a column as trees compare them."""
            array = array_at(path, rows, self.schema)
            is_encoded = pa.types.is_dictionary(array.type) or pa.types.is_float16(array.type)
            kind = readable_type(array.type) if is_encoded else None
            return array if kind is None else as_readable(array, kind)

        passing = _one(trees.truth(trees.Junction("AND", known), column))
        return pc.fill_null(passing, False) if passing.null_count else passing


@dataclass(frozen=True, eq=False)
class TreePredicate(Predicate):
    """A condition that is given as trees, which AND joins; ``sql`` only shows it to people."""

    trees: tuple[Tree, ...] = ()

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "trees": self.trees}

    @cached_property
    def paths(self) -> tuple[Path, ...]:
        return resolve((path for tree in self.trees for path in trees.paths(tree)), self.schema)

    @cached_property
    def _conditions(self) -> Sequence[Tree]:
        return self.trees


def parse_expression(sql: str, schema: pa.Schema, parameters: Parameters = None) -> Expression:
    """The expression that a text means over a schema.

    ``parameters`` fill in ``$name`` (a mapping) or ``?`` and ``$1`` (a sequence). Raises
    InvalidInputError for a text that is not one supported expression, unknown columns or functions,
    types that do not fit, and missing parameters.
    """
    return Expression(sql, schema, kept(parameters))


def parse_predicate(sql: str, schema: pa.Schema, parameters: Parameters = None) -> Predicate:
    """The condition that a text means over a schema; ``parse_expression`` says what is raised."""
    return Predicate(sql, schema, kept(parameters))


def _one(values: Any) -> Any:
    """Values as one array."""
    if not isinstance(values, pa.ChunkedArray):
        return values
    return values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()
