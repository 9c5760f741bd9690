"""What a predicate says about single columns: simple conditions that every matching row meets.

For pruning: a file or fragment whose statistics contradict one of them holds no matching row. NaN
counts as larger than every number.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

import pyarrow as pa
import pyarrow.types as pt

from lancewood.expr.compare import ALWAYS, NEVER
from lancewood.expr.convert import column_of
from lancewood.expr.nodes import Apply, Column, Literal, Node, is_null

_BEFORE_SURROGATES = 0xD7FF
"""No text has the code point after it."""
_COMPARISONS = frozenset({"=", "<>", "<", "<=", ">", ">="})


class Bound(NamedTuple):
    """``path op value``. The value is a scalar in the column's (decoded) type.

    ``op`` is one of = <> < <= > >=, "in" with a tuple of scalars (empty: no row matches), or
    "is null" and "is not null" with None.
    """

    path: tuple[str, ...]
    op: str
    value: pa.Scalar | tuple[pa.Scalar, ...] | None


def find_bounds(node: Node) -> tuple[Bound, ...]:
    """The bounds among the conditions that are joined by AND at the top, and the values that all
    sides of an OR together allow a column to have; other conditions are left out."""
    found, stack = [], [node]
    while stack:
        each = stack.pop()
        if isinstance(each, Apply) and each.name == "and":
            stack += reversed(each.args)
        else:
            found += _bounds(each)
    return tuple(found)


def _bounds(node: Node) -> list[Bound]:
    if isinstance(node, Apply) and node.name == "or":
        return _alternatives(node)
    if isinstance(node, Apply) and node.name == "like":
        column = column_of(node.args[0])
        return [] if column is None or node.members is None else _beginning(column, node.members)
    bound = _bound(node)
    return [] if bound is None else [bound]


def _alternatives(node: Apply) -> list[Bound]:
    """The values of columns that every side of an OR limits to some."""
    sides = [dict(_values(find_bounds(each))) for each in _sides(node)]
    shared = [path for path in sides[0] if all(path in each for each in sides)] if sides else []
    return [
        Bound(path, "in", tuple(chain.from_iterable(each[path] for each in sides)))
        for path in shared
    ]


def _sides(node: Apply) -> Iterator[Node]:
    """What OR joins, but for nulls, which keep no row."""
    stack: list[Node] = [node]
    while stack:
        each = stack.pop()
        if isinstance(each, Apply) and each.name == "or":
            stack += reversed(each.args)
        elif not is_null(each):
            yield each


def _values(bounds: Iterable[Bound]) -> Iterator[tuple[tuple[str, ...], list[pa.Scalar]]]:
    for path, op, value in bounds:
        if op == "in" and isinstance(value, tuple):
            yield path, list(value)
        elif op == "=" and isinstance(value, pa.Scalar):
            yield path, [value]


def _beginning(column: Column, prefix: pa.Array) -> list[Bound]:
    """The bounds of texts that begin with another: texts are ordered by their code points."""
    text: str = prefix[0].as_py()
    found = [Bound(column.path, ">=", prefix[0])]
    last = ord(text[-1])
    if last not in (_BEFORE_SURROGATES, sys.maxunicode):
        after = pa.scalar(text[:-1] + chr(last + 1), prefix.type)
        found.append(Bound(column.path, "<", after))
    return found


def _bound(node: Node) -> Bound | None:
    if isinstance(node, Column) and pt.is_boolean(node.type):
        return Bound(node.path, "=", pa.scalar(True))
    if not isinstance(node, Apply):
        return None
    name = node.name
    if name == "not":
        return _negated(node.args[0])
    column = column_of(node.args[0])
    if column is None:
        return None
    if name in _COMPARISONS and isinstance(node.args[1], Literal):
        return Bound(column.path, name, node.args[1].value)
    if name == "in" and node.members is not None:
        return Bound(column.path, "in", tuple(node.members))
    if name == "is null":
        return Bound(column.path, "is null", None)
    if name in (ALWAYS, NEVER):
        return Bound(column.path, *(("is not null", None) if name == ALWAYS else ("in", ())))
    if name in ("is true", "is false") and pt.is_boolean(column.type):
        return Bound(column.path, "=", pa.scalar(name == "is true"))
    return None


def _negated(node: Node) -> Bound | None:
    if isinstance(node, Column) and pt.is_boolean(node.type):
        return Bound(node.path, "=", pa.scalar(False))
    if isinstance(node, Apply) and node.name == "is null":
        column = column_of(node.args[0])
        return None if column is None else Bound(column.path, "is not null", None)
    return None
