"""Conditions as typed trees: read from DuckDB, computed by pyarrow as DuckDB would, and the bounds
that they set.

DuckDB parses, types and splits a condition, and gives back what it would offer to a source of rows,
by a private name, used in the releases that it was tried with. In others there are no trees:
conditions mean the same, but do not prune and are slower.

Trees have three truth values; NaN equals itself and is larger than every number; -0.0 equals 0.0;
texts are compared by their bytes. The constants are of the column's own (decoded) type.
"""

from __future__ import annotations

import functools
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lancewood.expr.columns import type_at
from lancewood.expr.database import EXPRESSIONS

Path: TypeAlias = tuple[str, ...]

_BEFORE_SURROGATES = 0xD7FF
"""No text has the code point after it."""
_COMPUTE = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


class Bound(NamedTuple):
    """``path op value``, which every row that a predicate keeps meets. For pruning.

    ``op`` is one of = <> < <= > >= with a scalar in the column's (decoded) type, "in" with an array
    of them (empty: no row matches), or "is null" and "is not null" with None.
    """

    path: Path
    op: str
    value: pa.Scalar | pa.Array | None


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """A column compared with a constant, which is neither null nor NaN."""

    path: Path
    op: str
    value: pa.Scalar


@dataclass(frozen=True, slots=True, eq=False)
class Membership:
    """A column compared with some constants, none of which is null or NaN."""

    path: Path
    values: pa.Array


@dataclass(frozen=True, slots=True, eq=False)
class Prefix:
    """A column of texts compared with a beginning, which is not empty."""

    path: Path
    text: pa.Scalar


@dataclass(frozen=True, slots=True)
class NullTest:
    """Whether a column is null, or is not."""

    path: Path
    is_null: bool


@dataclass(frozen=True, slots=True, eq=False)
class Junction:
    """Two conditions or more, joined by AND or by OR."""

    op: str
    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Negation:
    """NOT of a condition."""

    part: Tree


Tree: TypeAlias = Comparison | Membership | Prefix | NullTest | Junction | Negation


def truth(tree: Tree, column: Callable[[Path], Any]) -> Any:
    """True, false or null for each row; ``column`` gives the decoded values at a path."""
    match tree:
        case Comparison(path, op, value):
            values = column(path)
            found = _COMPUTE[op](values, value)
            has_nan = op in (">", ">=") and pt.is_floating(values.type)
            return pc.or_kleene(found, pc.is_nan(values)) if has_nan else found
        case Membership(path, members):
            values = column(path)
            if pt.is_floating(members.type):
                values, members = _unsigned_zeros(values), _unsigned_zeros(members)
            found = pc.is_in(values, value_set=members)
            return pc.if_else(pc.is_valid(values), found, None) if values.null_count else found
        case Prefix(path, text):
            return pc.starts_with(column(path), text.as_py())
        case NullTest(path, is_null):
            return pc.is_null(column(path)) if is_null else pc.is_valid(column(path))
        case Junction(op, parts):
            join = pc.and_kleene if op == "AND" else pc.or_kleene
            return reduce(join, (truth(each, column) for each in parts))
        case Negation(part):
            return pc.invert(truth(part, column))


def paths(tree: Tree) -> Iterator[Path]:
    """The columns and fields that a condition is about."""
    match tree:
        case Junction(_, parts):
            for part in parts:
                yield from paths(part)
        case Negation(part):
            yield from paths(part)
        case _:
            yield tree.path


def bounds(trees: Iterable[Tree]) -> Iterator[Bound]:
    """The bounds that conditions joined by AND set; functions, NOT and most of OR set none."""
    for tree in trees:
        match tree:
            case Comparison(path, op, value):
                yield Bound(path, op, value)
            case Membership(path, members):
                yield Bound(path, "in", members)
            case Prefix(path, text):
                yield from _beginning(path, text)
            case NullTest(path, is_null):
                yield Bound(path, "is null" if is_null else "is not null", None)
            case Junction("AND", parts):
                yield from bounds(parts)
            case Junction(_, parts):
                yield from _alternatives(parts)


def _alternatives(parts: Sequence[Tree]) -> Iterator[Bound]:
    """The values of columns that every side of an OR limits to some."""
    sides = [
        {
            path: value if op == "in" else pa.array([value], value.type)
            for path, op, value in bounds([each])
            if op in ("in", "=") and value is not None
        }
        for each in parts
    ]
    for path in sides[0]:
        if all(path in each for each in sides):
            yield Bound(path, "in", pa.concat_arrays([each[path] for each in sides]))


def _beginning(path: Path, prefix: pa.Scalar) -> Iterator[Bound]:
    """The bounds of texts that begin with another: texts are ordered by their code points."""
    yield Bound(path, ">=", prefix)
    text: str = prefix.as_py()
    last = ord(text[-1])
    if last not in (_BEFORE_SURROGATES, sys.maxunicode):
        yield Bound(path, "<", pa.scalar(text[:-1] + chr(last + 1), prefix.type))


def _unsigned_zeros(values: Any) -> Any:
    """The values with 0.0 for -0.0, which would be hashed apart."""
    return pc.add(values, pa.scalar(0, values.type))


TRIED_WITH = ("2.0.",)
"""How the releases of DuckDB begin whose trees and protocol for sources were tried."""
_OPERATORS = {"=": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_EXACT = (
    *(pt.is_boolean, pt.is_integer, pt.is_floating, pt.is_string, pt.is_large_string, pt.is_date32),
    *(pt.is_binary, pt.is_large_binary, pt.is_fixed_size_binary),
)
_is_plain_name = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch
_prefix = re.compile(r"(?:prefix|starts_with)\((\w+), '((?:[^'\\]|'')+)'\)").fullmatch
_member = re.compile(
    r"contains\((?:CAST\()?\$(\w+)(?: AS \w+\[\]\))?, (?:CAST\()?(\w+)(?: AS \w+\))?\)"
).fullmatch
_negated = re.compile(r"\(NOT (\w+)\)").fullmatch


class _NoTreeError(Exception):
    """A condition has no tree that is exact."""


def translated(
    text: str, readable: pa.Schema, schema: pa.Schema, values: Mapping[str, Any]
) -> list[Tree | None]:
    """The conditions that a text joins by AND, each as a tree; None where it has no exact one.

    An empty list says nothing: the text may be always true, or never. ``readable`` is the schema in
    which DuckDB is given the columns of ``schema``; ``values`` are those of parameters that are
    left in the text. Raises DuckDB's errors.
    """
    is_plain = all(_is_plain_name(name) for name in readable.names)
    found: list[Tree | None] = []
    for written, node in _offered(text, readable):
        try:
            if node is not None:
                found.append(_tree(node, schema))
            else:
                found.append(_written(written, schema, values) if is_plain else None)
        except _NoTreeError:
            found.append(None)
    return found


def tree_of(node: Any, schema: pa.Schema, names: Mapping[str, str]) -> Tree | None:
    """The tree of a condition that DuckDB offers to a source, whose columns have other ``names``
    in ``schema``; None where it has no exact one."""
    try:
        return _tree(node, schema, names)
    except _NoTreeError:
        return None


@functools.lru_cache(maxsize=256)
def _offered(text: str, readable: pa.Schema) -> list[tuple[str, Any]]:
    """DuckDB's own conditions, each as text and, if it would offer it to a source, as a node."""
    import duckdb

    door = getattr(getattr(duckdb, "_duckdb", None), "_translate_predicate", None)
    if door is None or not duckdb.__version__.startswith(TRIED_WITH):
        return []
    with EXPRESSIONS.lent() as cursor:
        conditions: list[tuple[str, Any]] = door(cursor.connection, f"({text}\n)", schema=readable)
    return conditions


def _tree(node: Any, schema: pa.Schema, names: Mapping[str, str] = MappingProxyType({})) -> Tree:
    """The tree of one of DuckDB's nodes, which are described in ``duckdb._sources.nodes``."""
    kind = type(node).__name__

    def path_of(column: Any) -> Path:
        first, *fields = column.parts
        return (names.get(first, first), *fields)

    if kind == "Binary" and node.op in ("AND", "OR"):
        return Junction(node.op, tuple(_tree(each, schema, names) for each in _joined(node)))
    if kind == "Binary" and node.op in _OPERATORS:
        path = path_of(node.left)
        value = _scalar(node.right.value, _compared_type(path, schema))
        return Comparison(path, _OPERATORS[node.op], value)
    if kind == "Unary" and node.op == "NOT":
        return Negation(_tree(node.operand, schema, names))
    if kind == "Postfix" and node.op in ("IS NULL", "IS NOT NULL"):
        return NullTest(path_of(node.operand), node.op == "IS NULL")
    if kind == "In":
        path = path_of(node.operand)
        type_ = _compared_type(path, schema)
        return Membership(
            path, pa.array([_scalar(each.value, type_) for each in node.values], type_)
        )
    raise _NoTreeError


def _joined(node: Any) -> list[Any]:
    """What a chain of ANDs or of ORs joins, however long it is."""
    found, stack = [], [node]
    while stack:
        each = stack.pop()
        if type(each).__name__ == "Binary" and each.op == node.op:
            stack += (each.right, each.left)
        else:
            found.append(each)
    return found


def _written(text: str, schema: pa.Schema, values: Mapping[str, Any]) -> Tree:
    """The tree of a condition that DuckDB gives as text alone: a boolean column, its negation, a
    beginning of a text, a column in a list of values. All columns have plain names."""
    negated, prefix, member = _negated(text), _prefix(text), _member(text)
    if member is not None and member[2] in schema.names:
        type_ = _compared_type((member[2],), schema)
        members = _member_values(values.get(member[1]), type_)
        return Membership((member[2],), members)
    if prefix is not None and prefix[1] in schema.names:
        type_ = _compared_type((prefix[1],), schema)
        if pt.is_string(type_) or pt.is_large_string(type_):
            return Prefix((prefix[1],), pa.scalar(prefix[2].replace("''", "'"), type_))
    name = negated[1] if negated is not None else text
    if name in schema.names and pt.is_boolean(schema.field(name).type):
        return Comparison((name,), "=", pa.scalar(negated is None))
    raise _NoTreeError


def _scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    """One of DuckDB's constants in the type of a column, if there is exactly this value."""
    if isinstance(value, float) and not math.isfinite(value):
        raise _NoTreeError
    try:
        if pt.is_timestamp(kind):
            return pa.scalar(value, pa.timestamp("us", kind.tz)).cast(kind)
        if pt.is_time(kind):
            return pa.scalar(value, pa.time64("us")).cast(kind)
        found = pa.scalar(value, kind)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as cause:
        raise _NoTreeError from cause
    if found.as_py() != value:
        raise _NoTreeError
    return found


def _compared_type(path: Path, schema: pa.Schema) -> pa.DataType:
    """The type in which pyarrow compares the values of a column exactly as DuckDB does."""
    kind = type_at(path, schema)
    if pt.is_dictionary(kind):
        kind = kind.value_type
    if pt.is_float16(kind):
        return pa.float32()
    if pt.is_decimal128(kind) and kind.scale >= 0:
        return kind
    if (pt.is_time(kind) or pt.is_timestamp(kind)) and kind.unit != "ns":
        return kind
    if not any(is_exact(kind) for is_exact in _EXACT):
        raise _NoTreeError
    return kind


def _member_values(values: Any, kind: pa.DataType) -> pa.Array:
    """A list of numbers or texts as values of a column's type, without nulls and what the column
    cannot have."""
    kinds = {type(each) for each in values} - {type(None)} if isinstance(values, list) else None
    if pt.is_integer(kind) and kinds == {int}:
        low = 0 if pt.is_unsigned_integer(kind) else -(1 << (kind.bit_width - 1))
        high = low + (1 << kind.bit_width)
        return pa.array([each for each in values if each is not None and low <= each < high], kind)
    if (pt.is_string(kind) or pt.is_large_string(kind)) and kinds == {str}:
        return pa.array([each for each in values if each is not None], kind)
    raise _NoTreeError
