"""Conditions on single columns as a typed tree: computed by pyarrow as DuckDB would, and the bounds
that they set.

Three truth values; NaN equals itself and is larger than every number; -0.0 equals 0.0; texts are
compared by their bytes. The constants are of the column's own (decoded) type.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

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
    sides = [_values(bounds([each])) for each in parts]
    for path in sides[0]:
        if all(path in each for each in sides):
            yield Bound(path, "in", pa.concat_arrays([each[path] for each in sides]))


def _values(found: Iterable[Bound]) -> dict[Path, pa.Array]:
    values: dict[Path, pa.Array] = {}
    for path, op, value in found:
        if op == "in":
            values[path] = value
        elif op == "=":
            assert isinstance(value, pa.Scalar)
            values[path] = pa.array([value], value.type)
    return values


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
