"""From a checked tree to values: over the arrays of a batch, or as one ``pc.Expression``.

Over arrays a branch of CASE or COALESCE that is not taken cannot fail: what might fail sees NULL in
the rows that belong to another branch. An Expression does not mask rows.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lancewood.errors import InvalidInputError
from lancewood.expr.nodes import Apply, Case, Coalesce, Column, Literal, Node

LEAST_ROOM = 64 << 20
_TIMES = 4
_INPUT: ContextVar[pa.RecordBatch | None] = ContextVar("_INPUT", default=None)


def room() -> int:
    """How many bytes the strings of all rows may become by a function that makes them longer. Large
    input may become larger: small input, or none, must not fill the memory."""
    batch = _INPUT.get()
    return LEAST_ROOM if batch is None else max(LEAST_ROOM, _TIMES * batch.nbytes)


def to_expression(node: Node) -> pc.Expression:
    """The tree as a pyarrow expression over fields by name."""
    return _emit(node, _expression_leaf)


def evaluate(node: Node, batch: pa.RecordBatch) -> pa.Array:
    """The tree's values over a batch: one a row, of the tree's type.

    Raises InvalidInputError where the batch lacks a column or has another type, and for strings
    that outgrow ``room``. Errors caused by the data are raised as pyarrow's.
    """
    token = _INPUT.set(batch)
    try:
        value = _emit(node, lambda leaf: _array_leaf(leaf, batch), hiding=True)
    finally:
        _INPUT.reset(token)
    if isinstance(value, pa.Scalar):
        return pa.repeat(value, batch.num_rows)
    if len(value) != batch.num_rows:
        raise pa.ArrowInvalid(f"pyarrow gave {len(value)} values for {batch.num_rows} rows")
    return value


def _emit(
    node: Node, leaf: Callable[[Column | Literal], Any], guard: Any = None, *, hiding: bool = False
) -> Any:
    """The node's value; ``guard`` is true in the rows whose result is used."""
    match node:
        case Column() | Literal():
            return leaf(node)
        case Apply():
            args = [_emit(each, leaf, guard, hiding=hiding) for each in node.args]
            if node.fallible and guard is not None:
                args[0] = pc.if_else(guard, args[0], pa.scalar(None, node.args[0].type))
            return node.build(*args)
        case Case():
            return _emit_case(node, leaf, guard, hiding)
        case Coalesce():
            return _emit_coalesce(node, leaf, guard, hiding)


def _emit_case(node: Case, leaf: Callable[..., Any], guard: Any, hiding: bool) -> Any:
    hiding = hiding and node.can_fail
    conditions, results = [], []
    for condition, result in zip(node.conditions, node.results, strict=False):
        taken = pc.coalesce(_emit(condition, leaf, guard, hiding=hiding), pa.scalar(False))
        conditions.append(taken)
        inside = _both(guard, taken) if hiding else None
        results.append(_emit(result, leaf, inside, hiding=hiding))
        guard = _both(guard, pc.invert(taken)) if hiding else None
    results.append(_emit(node.results[-1], leaf, guard, hiding=hiding))
    names = [str(index) for index in range(len(conditions))]
    return pc.case_when(pc.make_struct(*conditions, field_names=names), *results)


def _emit_coalesce(node: Coalesce, leaf: Callable[..., Any], guard: Any, hiding: bool) -> Any:
    hiding = hiding and node.can_fail
    values = []
    for each in node.args:
        values.append(_emit(each, leaf, guard, hiding=hiding))
        guard = _both(guard, pc.is_null(values[-1])) if hiding else None
    return pc.coalesce(*values)


def _both(guard: Any, condition: Any) -> Any:
    return condition if guard is None else pc.and_kleene(guard, condition)


def _expression_leaf(leaf: Column | Literal) -> pc.Expression:
    if isinstance(leaf, Literal):
        return pc.scalar(leaf.value)
    return pc.field(leaf.path if len(leaf.path) > 1 else leaf.path[0])


def _array_leaf(leaf: Column | Literal, batch: pa.RecordBatch) -> Any:
    if isinstance(leaf, Literal):
        return leaf.value
    first, *rest = leaf.path
    found = batch.schema.get_all_field_indices(first)
    if len(found) != 1:
        raise InvalidInputError(
            f"the batch has {len(found) or 'no'} column{'s'[: len(found)]} {first!r}; "
            f"it holds {', '.join(map(repr, batch.schema.names))}"
        )
    array = batch.column(found[0])
    for name in rest:
        index = array.type.get_field_index(name) if pt.is_struct(array.type) else -1
        if index < 0:
            raise InvalidInputError(
                f"the batch has no field {'.'.join(leaf.path)!r}: {first!r} is {array.type}"
            )
        array = pc.struct_field(array, [index])
    return array if array.type == leaf.type else _retyped(array, leaf)


def _retyped(array: pa.Array, leaf: Column) -> pa.Array:
    """The array in the leaf's type; a nested type may differ only in child names or nullability."""
    if pt.is_nested(array.type) and array.type.id == leaf.type.id:
        try:
            return array.cast(leaf.type)
        except pa.ArrowException:
            pass
    raise InvalidInputError(
        f"column {'.'.join(leaf.path)!r} of the batch is {array.type}, "
        f"the expression was checked against {leaf.type}"
    )
