"""The checked tree: every node has an Arrow type and can become a value.

A node's ``build`` is written once, against ``pyarrow.compute``, whose functions take arrays and
``pc.Expression`` alike: ``evaluate`` uses it for both. Nodes hold functions and are not pickled; an
Expression keeps its text instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lancewood.errors import InvalidInputError

MAX_WEIGHT = 200_000
"""How many compute calls one expression may become, counting repeated parts again."""

DECODE = "decode"
"""The name of the node that ``convert.plain`` puts around a column."""


def null_boolean() -> pa.Scalar:
    """NULL, where a truth value is expected. Made on demand: the first scalar loads pandas."""
    return pa.scalar(None, pa.bool_())


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A top-level column, or a struct field inside one, as the schema stores it."""

    path: tuple[str, ...]
    type: pa.DataType
    weight: int = 1
    can_fail: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """A constant. A ``bare`` one was written plainly and takes the type of what it meets."""

    value: pa.Scalar
    bare: bool = False
    weight: int = 1
    can_fail: bool = False

    @property
    def type(self) -> pa.DataType:
        return self.value.type


@dataclass(frozen=True, slots=True, eq=False)
class Apply:
    """A function of nodes. ``members``, for ``bounds``, are the values of an IN list, or the text
    that what is LIKE a pattern begins with."""

    name: str
    args: tuple[Node, ...]
    type: pa.DataType
    build: Callable[..., Any]
    fallible: bool
    weight: int
    can_fail: bool
    members: pa.Array | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """The result of the first condition that is true; the last result has no condition."""

    conditions: tuple[Node, ...]
    results: tuple[Node, ...]
    type: pa.DataType
    weight: int
    can_fail: bool


@dataclass(frozen=True, slots=True, eq=False)
class Coalesce:
    """The first value that is not null."""

    args: tuple[Node, ...]
    type: pa.DataType
    weight: int
    can_fail: bool


Node = Column | Literal | Apply | Case | Coalesce


def apply(
    name: str,
    args: Sequence[Node],
    type_: pa.DataType,
    build: Callable[..., Any],
    *,
    fallible: bool = False,
    copies: int = 1,
    bare: bool = False,
    members: pa.Array | None = None,
) -> Node:
    """A call of ``build`` on ``args``, folded to a literal where all of them are.

    ``fallible`` says that some values make it fail; ``copies`` how often it uses each argument. A
    constant that fails is not folded: it may be in a branch that is never taken.
    """
    node = Apply(
        name,
        tuple(args),
        type_,
        build,
        fallible,
        _weigh(args, copies),
        fallible or any(each.can_fail for each in args),
        members,
    )
    literals = [each.value for each in args if isinstance(each, Literal)]
    if not literals or len(literals) != len(args):
        return node
    try:
        value = build(*(pa.repeat(each, 1) for each in literals))
    except pa.ArrowException:
        return node
    return Literal(value if isinstance(value, pa.Scalar) else value[0], bare=bare)


def case(conditions: Sequence[Node], results: Sequence[Node]) -> Case:
    """A Case over results of one type; the last is for when no condition is true."""
    every = (*conditions, *results)
    can_fail = any(each.can_fail for each in every)
    return Case(tuple(conditions), tuple(results), results[0].type, _weigh(every, 1), can_fail)


def coalesce(args: Sequence[Node]) -> Coalesce:
    """A Coalesce over values of one type."""
    can_fail = any(each.can_fail for each in args)
    return Coalesce(tuple(args), args[0].type, _weigh(args, 2), can_fail)


def null(type_: pa.DataType) -> Literal:
    """NULL of a type."""
    return Literal(pa.scalar(None, type_))


def is_null(node: Node) -> bool:
    """Whether the node is the constant NULL."""
    return isinstance(node, Literal) and not node.value.is_valid


def describe(node: Node) -> str:
    """The node for a message: what it is and its type."""
    match node:
        case Column():
            what = f"column {'.'.join(node.path)!r}"
        case Apply() if node.name == DECODE:
            return describe(node.args[0])
        case Literal():
            what = f"constant {_text(node.value)[:60]}"
        case Apply():
            what = f"the result of {node.name}"
        case _:
            what = f"the result of {type(node).__name__.upper()}"
    return f"{what} ({node.type})"


def _text(value: pa.Scalar) -> str:
    if not value.is_valid:
        return "NULL"
    try:
        return repr(value.as_py())
    except (OverflowError, ValueError):  # outside of Python's calendar
        return f"{value.value}"


def walk(node: Node) -> list[Node]:
    """The node and everything below it, in the order of the text."""
    found, stack = [], [node]
    while stack:
        each = stack.pop()
        found.append(each)
        if isinstance(each, Apply | Coalesce):
            stack += reversed(each.args)
        elif isinstance(each, Case):
            stack += reversed((*each.conditions, *each.results))
    return found


def _weigh(args: Sequence[Node], copies: int) -> int:
    weight = 1 + copies * sum(each.weight for each in args)
    if weight > MAX_WEIGHT:
        raise InvalidInputError("the expression is too large; split it or compute it in steps")
    return weight
