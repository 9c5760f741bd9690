"""Expression and Predicate: SQL text that was checked against a schema and can be evaluated.

They keep the text, the schema and the parameters, and are rebuilt from them after pickling, so that
a plan can send them to workers. They do no I/O and hold no data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lancewood.errors import InvalidInputError
from lancewood.expr.bounds import Bound, find_bounds
from lancewood.expr.check import Parameters, check
from lancewood.expr.convert import bare_decimal_as_float, fit, plain
from lancewood.expr.evaluate import evaluate, to_expression
from lancewood.expr.lower import lower
from lancewood.expr.nodes import Column, Literal, Node, describe, walk
from lancewood.expr.parse import parse, shorten
from lancewood.expr.types import NUMBERS, family


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """A value for each row. Made by ``parse_expression``; immutable, and picklable."""

    sql: str
    schema: pa.Schema = field(repr=False)
    parameters: Parameters = field(repr=False)
    _node: Node = field(repr=False)

    @property
    def type(self) -> pa.DataType:
        """The Arrow type of the values."""
        return self._node.type

    @property
    def column(self) -> tuple[str, ...] | None:
        """The path of the column or field, if the expression is nothing else; None if it
        computes."""
        return self._node.path if isinstance(self._node, Column) else None

    @property
    def columns(self) -> tuple[str, ...]:
        """The top-level columns that are read, in the schema's order."""
        needed = {path[0] for path in self.paths}
        return tuple(name for name in self.schema.names if name in needed)

    @property
    def paths(self) -> tuple[tuple[str, ...], ...]:
        """The columns and struct fields that are read, in the schema's order of columns.

        A field is left out where its whole parent is read too.
        """
        every = {node.path: None for node in walk(self._node) if isinstance(node, Column)}
        outer = [path for path in every if not any(path[:n] in every for n in range(1, len(path)))]
        return tuple(sorted(outer, key=lambda path: self.schema.names.index(path[0])))

    def to_pyarrow(self) -> pc.Expression:
        """The same as a pyarrow expression, for scanners and filters of pyarrow's own.

        Unlike ``evaluate``, it computes every branch of CASE and COALESCE for every row, so that a
        CAST in a branch that is not taken can fail, and does not bound strings that a function
        makes longer. It may call functions that this process has registered: do not send it to
        another one, send the Expression.
        """
        return to_expression(self._node)

    def evaluate(self, batch: pa.RecordBatch | pa.Table) -> Any:
        """One value a row: an Array for a RecordBatch, a ChunkedArray for a Table.

        The data may hold other columns too, and of a struct only the fields that ``paths`` names.
        Raises InvalidInputError for missing columns, other types, and values that cannot be
        computed (a failed CAST, an integer overflow).
        """
        if isinstance(batch, pa.Table):
            chunks = [self._evaluate_batch(each) for each in _batches(batch)]
            return pa.chunked_array(chunks, self.type)
        return self._evaluate_batch(batch)

    def _evaluate_batch(self, batch: pa.RecordBatch) -> pa.Array:
        try:
            return evaluate(self._node, batch)
        except pa.ArrowException as error:
            raise InvalidInputError(
                f"{shorten(self.sql)} cannot be computed: {error}; TRY_CAST gives NULL instead "
                "of failing, and CASE can leave such rows out",
                sql=self.sql,
            ) from error

    def __reduce__(self) -> tuple[Any, ...]:
        return _build, (type(self), self.sql, self.schema, self.parameters)


@dataclass(frozen=True, slots=True, eq=False)
class Predicate(Expression):
    """A condition. Made by ``parse_predicate``."""

    def mask(self, batch: pa.RecordBatch | pa.Table) -> pa.BooleanArray:
        """True for each row that WHERE keeps; a null condition does not keep its row."""
        values = self.evaluate(batch)
        if isinstance(values, pa.ChunkedArray):
            values = pa.concat_arrays([pa.nulls(0, pa.bool_()), *values.chunks])
        return pc.fill_null(values, False) if values.null_count else values

    def bounds(self) -> tuple[Bound, ...]:
        """Simple conditions on single columns that every kept row meets, for pruning.

        They are necessary, not sufficient: functions and comparisons of columns are left out, and
        so is OR, unless all of its sides name values of a column.
        """
        return find_bounds(self._node)


def parse_expression(sql: str, schema: pa.Schema, parameters: Parameters = None) -> Expression:
    """The expression that SQL text means over a schema.

    ``parameters`` fill in ``:name`` and ``$name`` (a mapping) or ``?`` and ``$1`` (a sequence).
    Raises InvalidInputError for text that is not one supported expression, unknown columns or
    functions, types that do not fit, and missing parameters.
    """
    return _build(Expression, sql, schema, parameters)


def parse_number(sql: str, schema: pa.Schema, parameters: Parameters = None) -> Literal | None:
    """The exact number that SQL text, or the parameter that it names, is; None for anything else.

    As an expression, a plainly written 0.5 is a float64. Raises what ``parse_expression`` raises.
    """
    try:
        node = check(lower(parse(sql), sql), sql, schema, _keep(parameters))
    except RecursionError:
        raise InvalidInputError(f"{shorten(sql)} nests too deeply", sql=sql) from None
    if not isinstance(node, Literal) or not node.bare or not node.value.is_valid:
        return None
    return node if family(node.type) in NUMBERS else None


def parse_predicate(sql: str, schema: pa.Schema, parameters: Parameters = None) -> Predicate:
    """The condition that SQL text means over a schema; see ``parse_expression``."""
    return _build(Predicate, sql, schema, parameters)


_Kind = TypeVar("_Kind", bound=Expression)


def _build(kind: type[_Kind], sql: str, schema: pa.Schema, parameters: Parameters) -> _Kind:
    parameters = _keep(parameters)
    syntax = lower(parse(sql), sql)
    try:
        node = check(syntax, sql, schema, parameters)
        node = _boolean(node, sql) if kind is Predicate else bare_decimal_as_float(node)
        made = kind(sql, schema, parameters, node)
        _try_out(made)
    except RecursionError:
        raise InvalidInputError(f"{shorten(sql)} nests too deeply", sql=sql) from None
    return made


def _boolean(node: Node, sql: str) -> Node:
    node = plain(node)
    if pt.is_null(node.type):
        return fit(node, pa.bool_())
    if not pt.is_boolean(node.type):
        raise InvalidInputError(
            f"{shorten(sql)} is not a condition but {describe(node)}; compare it with something",
            sql=sql,
        )
    return node


def _keep(parameters: Parameters) -> Parameters:
    if parameters is None:
        return None
    if isinstance(parameters, Mapping):
        return dict(parameters)
    if isinstance(parameters, str | bytes) or not isinstance(parameters, Sequence):
        raise InvalidInputError(
            f"parameters are a mapping or a list of values, not {type(parameters).__name__}"
        )
    try:
        return tuple(parameters)
    except OverflowError as cause:
        raise InvalidInputError(f"{parameters!r} is too long for a list of parameters") from cause


def _try_out(expression: Expression) -> None:
    """Run it over no rows: what Arrow cannot do at all fails now, not in the middle of a job."""
    names = set(expression.columns)
    needed = pa.schema([each for each in expression.schema if each.name in names])
    empty = pa.RecordBatch.from_arrays([pa.nulls(0, each.type) for each in needed], schema=needed)
    try:
        found = evaluate(expression._node, empty).type
    except (pa.ArrowException, InvalidInputError) as error:
        raise InvalidInputError(
            f"{shorten(expression.sql)} cannot be computed: {error}", sql=expression.sql
        ) from error
    if found != expression.type:
        raise InvalidInputError(
            f"{shorten(expression.sql)} gives {found} where {expression.type} was expected; "
            "please report this text",
            sql=expression.sql,
        )


def _batches(table: pa.Table) -> list[pa.RecordBatch]:
    if table.num_columns == 0:
        empty = pa.RecordBatch.from_struct_array(pa.nulls(table.num_rows, pa.struct([])))
        return [empty]
    batches: list[pa.RecordBatch] = table.to_batches()
    return batches
