"""Bringing nodes to one type: the implicit conversions, which change no value.

Decides which types can be combined, and how a plain constant takes the type of what it meets. What
may lose something is in ``cast``.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.types as pt

from lancewood.errors import InvalidInputError
from lancewood.expr.literals import parse_moment, scalar_in
from lancewood.expr.nodes import (
    DECODE,
    Apply,
    Column,
    Literal,
    Node,
    apply,
    describe,
    is_null,
    null,
)
from lancewood.expr.types import common_type, family, plain_type

TEMPORAL = frozenset({"date", "timestamp", "time"})


def plain(node: Node) -> Node:
    """The node in a type that can be computed with: a dictionary decoded, a view copied."""
    target = plain_type(node.type)
    if target == node.type:
        return node
    return apply(DECODE, [node], target, lambda value: value.cast(target))


def column_of(node: Node) -> Column | None:
    """The column that a node is, decoded or not; None for any other node."""
    if isinstance(node, Apply) and node.name == DECODE:
        (node,) = node.args
    return node if isinstance(node, Column) else None


def fit(node: Node, type_: pa.DataType) -> Node:
    """A node in a type that holds all its values (see ``common_type``)."""
    if node.type == type_:
        return node
    if is_null(node):
        return null(type_)
    if isinstance(node, Literal):
        value = scalar_in(node, type_)
        if value is not None:
            return Literal(value, bare=node.bare)
    safe = not (pt.is_floating(type_))
    fallible = pt.is_timestamp(type_) or pt.is_duration(type_) or pt.is_time(type_)
    return apply(
        "cast", [node], type_, lambda value: value.cast(type_, safe=safe), fallible=fallible
    )


def bare_text(node: Node) -> str | None:
    """The text, if the node is one that was written plainly."""
    if isinstance(node, Literal) and node.bare and pt.is_string(node.type):
        text: str | None = node.value.as_py()
        return text
    return None


def read_text_as(node: Node, other: Node) -> Node:
    """A bare text beside a date, time or timestamp, read as one; any other node unchanged."""
    text = bare_text(node)
    if text is None or family(other.type) not in TEMPORAL:
        return node
    return read_moment(text, other.type, describe(other))


def read_moment(text: str, type_: pa.DataType, whose: str) -> Literal:
    """A text as a moment of a type; a zone only where the type has one."""
    moment = parse_moment(text, type_)
    zoned = pt.is_timestamp(moment.type) and moment.type.tz is not None
    if zoned and not (pt.is_timestamp(type_) and type_.tz):
        raise InvalidInputError(f"{text!r} has a zone, {whose} has none; leave the offset out")
    return moment


def unify(nodes: Sequence[Node]) -> list[Node]:
    """The nodes in the one type that holds them all; raises InvalidInputError if there is none."""
    nodes = [plain(each) for each in nodes]
    typed = [each for each in nodes if not (isinstance(each, Literal) and each.bare)]
    first = next((each for each in typed if family(each.type) in TEMPORAL), None)
    if first is not None:
        nodes = [read_text_as(each, first) for each in nodes]
    target = pa.null()
    for each in typed:
        target = _meet(target, each.type, nodes)
    for each in nodes:
        if isinstance(each, Literal) and each.bare and each.value.is_valid:
            target = _meet_bare(target, each, nodes)
    if pt.is_decimal(target) and not any(pt.is_decimal(each.type) for each in typed):
        target = pa.float64()
    return [fit(each, target) for each in nodes]


def bare_decimal_as_float(node: Node) -> Node:
    """A decimal that stands alone in the text as a float64, as expected of 0.5."""
    if isinstance(node, Literal) and node.bare and pt.is_decimal(node.type):
        return fit(node, pa.float64())
    return node


def _meet(one: pa.DataType, other: pa.DataType, nodes: Sequence[Node]) -> pa.DataType:
    found = common_type(one, other)
    if found is None:
        raise InvalidInputError(
            f"no type holds all of {', '.join(map(describe, nodes))}; cast them to one type"
        )
    return found


def _meet_bare(target: pa.DataType, literal: Literal, nodes: Sequence[Node]) -> pa.DataType:
    fits = family(target) != "null" and scalar_in(literal, target) is not None
    if family(literal.type) in ("integer", "decimal", "float") and pt.is_floating(target):
        return target if fits else pa.float64()
    return target if fits else _meet(target, literal.type, nodes)
