"""Comparisons, IN, IS and the three-valued AND, OR and NOT.

A constant is never rounded to the column's type: where no value equals it, the comparison becomes
one with the nearest value below, or "true wherever it is not null". NaN equals itself and is larger
than every number, as in DuckDB, Spark and PostgreSQL.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lancewood.errors import InvalidInputError
from lancewood.expr.convert import fit, plain, read_text_as
from lancewood.expr.literals import (
    literal_from,
    members_in,
    scalar_from_units,
    scalar_in,
    units,
)
from lancewood.expr.nodes import Literal, Node, apply, describe, is_null, null, null_boolean
from lancewood.expr.types import COUNTED, NUMBERS, common_type, family, limits

ALWAYS, NEVER = "always", "never"
"""Names of the nodes that are true, or false, wherever their argument is not null."""

_FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_COMPUTE = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_ORDERED = frozenset({"text", "binary", "boolean", *NUMBERS, *COUNTED})


def compare(operator: str, left: Node, right: Node) -> Node:
    """``left operator right``; raises InvalidInputError where the types do not fit."""
    left, right = plain(left), plain(right)
    left, right = read_text_as(left, right), read_text_as(right, left)
    _check_comparable(left, right)
    if is_null(left) or is_null(right):
        return null(pa.bool_())
    if isinstance(left, Literal) and not isinstance(right, Literal):
        operator, left, right = _FLIPPED[operator], right, left
    if isinstance(right, Literal) and not pt.is_null(left.type):
        return _compare_with_constant(operator, left, right)
    target = common_type(left.type, right.type)
    return _compare_alike(operator, fit(left, target), fit(right, target))


def is_distinct(left: Node, right: Node) -> Node:
    """IS DISTINCT FROM: unequal, where two nulls are equal."""
    return negate(is_not_distinct(left, right))


def is_not_distinct(left: Node, right: Node) -> Node:
    """IS NOT DISTINCT FROM: equal, where two nulls are equal."""
    equal = compare("=", left, right)

    def build(equal: Any, left: Any, right: Any) -> Any:
        return pc.coalesce(equal, pc.and_kleene(pc.is_null(left), pc.is_null(right)))

    return apply("is not distinct from", [equal, left, right], pa.bool_(), build)


def is_in(value: Node, items: Sequence[Node], values: Sequence[Any] = ()) -> Node:
    """IN: true on a match, else null if the value or an item is null, else false.

    ``values`` are further items, as plain Python values; there may be thousands.
    """
    value = plain(value)
    members = members_in(values, value.type) if values else None
    if members is None:
        items = [*items, *(literal_from(each) for each in values)]
        members = pa.nulls(0, value.type)
    items = [read_text_as(plain(each), value) for each in items]
    for each in items:
        _check_comparable(value, each)
    if is_null(value):
        return null(pa.bool_())
    literals = [each for each in items if isinstance(each, Literal) and each.value.is_valid]
    wider = [each for each in literals if _meets_wider(value, each)]
    equal = [scalar_in(each, value.type) for each in literals if each not in wider]
    scalars = [each for each in equal if each is not None]
    members = pa.concat_arrays([members, pa.array(scalars, value.type)])
    others = [each for each in items if not isinstance(each, Literal)] + wider
    found = [_is_in_members(value, members), *(compare("=", value, each) for each in others)]
    if any(is_null(each) for each in items) or None in values:
        found.append(null(pa.bool_()))
    return found[0] if len(found) == 1 else any_of(found)


def is_missing(value: Node) -> Node:
    """IS NULL, for a value of any type; NaN is not null."""
    return apply("is null", [value], pa.bool_(), pc.is_null)


def is_truth(value: Node, wanted: bool) -> Node:
    """IS TRUE or IS FALSE: never null."""
    value = _boolean(value)
    name = "is true" if wanted else "is false"

    def build(value: Any) -> Any:
        value = value if wanted else pc.invert(value)
        return pc.coalesce(value, pa.scalar(False))

    return apply(name, [value], pa.bool_(), build)


def all_of(values: Sequence[Node]) -> Node:
    """AND: false if one is, else null if one is, else true."""
    return _chain("and", pc.and_kleene, values)


def any_of(values: Sequence[Node]) -> Node:
    """OR: true if one is, else null if one is, else false."""
    return _chain("or", pc.or_kleene, values)


def negate(value: Node) -> Node:
    """NOT: null stays null."""
    return apply("not", [_boolean(value)], pa.bool_(), pc.invert)


def _chain(name: str, join: Callable[[Any, Any], Any], values: Sequence[Node]) -> Node:
    def build(*values: Any) -> Any:
        rest = list(values)
        while len(rest) > 1:  # a balanced tree keeps the depth small
            pairs = [join(a, b) for a, b in zip(rest[::2], rest[1::2], strict=False)]
            rest = pairs + rest[len(pairs) * 2 :]
        return rest[0]

    return apply(name, [_boolean(each) for each in values], pa.bool_(), build)


def _boolean(node: Node) -> Node:
    node = plain(node)
    if pt.is_null(node.type):
        return fit(node, pa.bool_())
    if not pt.is_boolean(node.type):
        raise InvalidInputError(f"{describe(node)} is not a condition; compare it with something")
    return node


def _check_comparable(left: Node, right: Node) -> None:
    kinds = {family(left.type), family(right.type)} - {"null"}
    bare = any(isinstance(each, Literal) and each.bare for each in (left, right))
    if kinds <= _ORDERED:
        if common_type(left.type, right.type) is not None:
            return
        if kinds <= NUMBERS and any(isinstance(each, Literal) for each in (left, right)):
            return
        if kinds <= {"date", "timestamp"} and bare and _wall_time_is_bare(left, right):
            return
    raise InvalidInputError(
        f"cannot compare {describe(left)} with {describe(right)}: the types do not fit; "
        "cast one of them"
    )


def _wall_time_is_bare(left: Node, right: Node) -> bool:
    """Whether the side without a zone is a constant, which then takes the other's zone."""
    naive = left if getattr(left.type, "tz", None) is None else right
    return isinstance(naive, Literal) and naive.bare


def _compare_with_constant(operator: str, left: Node, right: Literal) -> Node:
    if family(left.type) in COUNTED:
        return _compare_counted(operator, left, right)
    value = scalar_in(right, left.type)
    if value is None:
        target = common_type(left.type, right.type) or pa.float64()
        return _compare_alike(operator, fit(left, target), fit(right, target))
    return _compare_alike(operator, left, Literal(value, bare=right.bare))


def _compare_counted(operator: str, left: Node, right: Literal) -> Node:
    where = units(right, left.type)
    low, high = limits(left.type)
    if not isinstance(where, Fraction):
        above = math.isnan(where) or where > 0
        where = Fraction(high + 1 if above else low - 1)
    floor = math.floor(where)
    if where.denominator == 1 and low <= floor <= high:
        constant = Literal(scalar_from_units(floor, left.type), bare=right.bare)
        return _compare_alike(operator, left, constant)
    if operator in ("=", "<>"):
        return _constant_where_valid(left, operator == "<>")
    below = operator in ("<", "<=")
    if not low <= floor < high:
        return _constant_where_valid(left, below == (floor >= high))
    constant = Literal(scalar_from_units(floor, left.type), bare=right.bare)
    return _compare_alike("<=" if below else ">", left, constant)


def _constant_where_valid(node: Node, answer: bool) -> Node:
    def build(value: Any) -> Any:
        return pc.if_else(pc.is_valid(value), pa.scalar(answer), null_boolean())

    return apply(ALWAYS if answer else NEVER, [node], pa.bool_(), build)


def _compare_alike(operator: str, left: Node, right: Node) -> Node:
    """Compare two sides of the same type."""
    build, copies = _COMPUTE[operator], 1
    if pt.is_floating(left.type):
        simple = isinstance(right, Literal) and not math.isnan(right.value.as_py())
        build, copies = _float_comparison(operator, simple)
    return apply(operator, [left, right], pa.bool_(), build, copies=copies)


def _float_comparison(operator: str, simple: bool) -> tuple[Callable[[Any, Any], Any], int]:
    if simple:
        if operator in (">", ">="):
            return lambda a, b: pc.or_kleene(_COMPUTE[operator](a, b), pc.is_nan(a)), 2
        return _COMPUTE[operator], 1
    return {
        "=": _equal,
        "<>": lambda a, b: pc.invert(_equal(a, b)),
        "<": _less,
        ">=": lambda a, b: pc.invert(_less(a, b)),
        ">": lambda a, b: _less(b, a),
        "<=": lambda a, b: pc.invert(_less(b, a)),
    }[operator], 2


def _equal(a: Any, b: Any) -> Any:
    return pc.or_kleene(pc.equal(a, b), pc.and_kleene(pc.is_nan(a), pc.is_nan(b)))


def _less(a: Any, b: Any) -> Any:
    return pc.or_kleene(pc.less(a, b), pc.and_kleene(pc.invert(pc.is_nan(a)), pc.is_nan(b)))


def _meets_wider(value: Node, literal: Literal) -> bool:
    """Whether a float constant has to be compared in a wider type than the value's."""
    if not (pt.is_float32(value.type) and literal.value.is_valid):
        return False
    return scalar_in(literal, value.type) is None


def _is_in_members(value: Node, members: pa.Array) -> Node:
    if len(members) == 1:
        return compare("=", value, Literal(members[0]))
    if len(members) == 0:
        return _constant_where_valid(value, False)
    zero = pa.scalar(0, value.type) if pt.is_floating(value.type) else None
    if zero is not None:  # -0.0 equals 0.0, but hashes differently
        members = pc.add(members, zero)
    has_nan = zero is not None and pc.any(pc.is_nan(members)).as_py()

    def build(value: Any) -> Any:
        known = value if zero is None else pc.add(value, zero)
        found = pc.is_in(known, value_set=members)
        if has_nan:  # there are many, which hash differently
            found = pc.or_kleene(found, pc.is_nan(value))
        return pc.if_else(pc.is_valid(value), found, null_boolean())

    return apply("in", [value], pa.bool_(), build, copies=2, members=members)
