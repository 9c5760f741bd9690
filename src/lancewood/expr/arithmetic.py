"""``+ - * / // %`` and unary minus: which type the result has, and how it is computed.

Integers become int64 first (uint64 stays, and meets signed ones as a decimal), so that small
columns do not overflow; where int64 overflows it is an error. ``/`` is always floating-point.
Division by zero, of every kind, is NULL. Decimals are exact.
"""

from __future__ import annotations

import calendar
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lancewood.errors import InvalidInputError
from lancewood.expr.convert import fit, plain
from lancewood.expr.kernels import remainder_kernel
from lancewood.expr.literals import scalar_in
from lancewood.expr.nodes import Literal, Node, apply, describe, is_null, null
from lancewood.expr.types import NUMBERS, decimal_type, digits, family, finer

_CHECKED = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}
_FLOATING = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}


def arithmetic(operator: str, left: Node, right: Node) -> Node:
    """``left operator right``; raises InvalidInputError where the types do not fit."""
    left, right = plain(left), plain(right)
    kinds = (family(left.type), family(right.type))
    if set(kinds) <= {*NUMBERS, "null"}:
        return _numeric(operator, left, right)
    if is_null(left) or is_null(right):
        return null(left.type if is_null(right) else right.type)
    result = _temporal(operator, kinds, left, right)
    if result is None:
        raise InvalidInputError(
            f"cannot compute {describe(left)} {operator} {describe(right)}: the types do not fit"
        )
    return result


def negative(value: Node) -> Node:
    """Unary minus."""
    value = plain(value)
    if pt.is_duration(value.type) or pt.is_floating(value.type):
        return apply("-", [value], value.type, pc.negate_checked, fallible=True)
    if family(value.type) not in {*NUMBERS, "null"}:
        raise InvalidInputError(f"cannot negate {describe(value)}: it is not a number")
    zero = Literal(pa.scalar(0), bare=True)
    if pt.is_uint64(value.type) and not isinstance(value, Literal):
        return _decimal("-", zero, value, bare=False)
    return _numeric("-", zero, value)


def _numeric(operator: str, left: Node, right: Node) -> Node:
    bare = _is_bare(left) and _is_bare(right)
    if operator == "/":
        return _divide(left, right)
    if _meet_as_floats(operator, left, right):
        type_ = _float_type(left, right)
        if operator in ("+", "-", "*"):
            args = [fit(left, type_), fit(right, type_)]
            return apply(operator, args, type_, _FLOATING[operator])
        if operator == "%":
            remainder = remainder_kernel(type_).call
            return _by_divisor("%", fit(left, type_), fit(right, type_), remainder)
    elif "decimal" in (family(left.type), family(right.type)):
        if operator in ("+", "-", "*"):
            return _decimal(operator, left, right, bare)
    else:
        return _integer(operator, left, right, bare)
    raise InvalidInputError(
        f"{operator} needs integers{' or floats' if operator == '%' else ''}, not "
        f"{describe(left)} and {describe(right)}; cast them"
    )


def _is_bare(node: Node) -> bool:
    return isinstance(node, Literal) and node.bare


def _meet_as_floats(operator: str, left: Node, right: Node) -> bool:
    """Whether an operand is a float, or a plainly written 0.5 is combined with a non-constant
    integer.

    A remainder is never a decimal; constants among themselves are floats there.
    """
    if "float" in (family(left.type), family(right.type)):
        return True
    decimals = [each for each in (left, right) if pt.is_decimal(each.type)]
    if operator == "%" and decimals and all(_is_bare(each) for each in decimals):
        return True
    for one, other in ((left, right), (right, left)):
        if _is_bare(one) and pt.is_decimal(one.type) and pt.is_integer(other.type):
            return not _is_bare(other)
    return False


def _float_type(left: Node, right: Node) -> pa.DataType:
    """float32 if no operand is wider; integers up to 16 bits do not widen, nor do constants that a
    float32 can hold."""

    def narrow(node: Node) -> bool:
        small = pt.is_integer(node.type) and node.type.bit_width <= 16
        return pt.is_float32(node.type) or pt.is_null(node.type) or small or _fits_float32(node)

    some = pt.is_float32(left.type) or pt.is_float32(right.type)
    return pa.float32() if some and narrow(left) and narrow(right) else pa.float64()


def _fits_float32(node: Node) -> bool:
    if not (isinstance(node, Literal) and node.bare and node.value.is_valid):
        return False
    return scalar_in(node, pa.float32()) is not None


def _divide(left: Node, right: Node) -> Node:
    type_ = _float_type(left, right)
    return _by_divisor("/", fit(left, type_), fit(right, type_), pc.divide)


def _by_divisor(
    name: str,
    left: Node,
    right: Node,
    compute: Callable[[Any, Any], Any],
    *,
    fallible: bool = False,
) -> Node:
    """A division whose result is NULL where the divisor is zero."""
    type_ = right.type
    zero, nothing = pa.scalar(0).cast(type_), pa.scalar(None, type_)

    def build(left: Any, right: Any) -> Any:
        return compute(left, pc.if_else(pc.equal(right, zero), nothing, right))

    return apply(name, [left, right], type_, build, copies=4, fallible=fallible)


def _integer(operator: str, left: Node, right: Node, bare: bool) -> Node:
    type_ = _integer_type(left, right)
    if type_ is None:
        if operator not in _CHECKED:
            raise InvalidInputError(
                f"{operator} cannot mix {describe(left)} and {describe(right)}; cast one of them"
            )
        return _decimal(operator, left, right, bare)
    left, right = fit(left, type_), fit(right, type_)
    if operator in _CHECKED:
        checked = _CHECKED[operator]
        return apply(operator, [left, right], type_, checked, fallible=True, bare=bare)
    if operator == "//":
        return _by_divisor("//", left, right, pc.divide_checked, fallible=True)
    return _by_divisor("%", left, right, _integer_remainder(type_))


def _integer_type(left: Node, right: Node) -> pa.DataType | None:
    if not (pt.is_uint64(left.type) or pt.is_uint64(right.type)):
        return pa.int64()
    for each in (left, right):
        unsigned = pt.is_unsigned_integer(each.type) or pt.is_null(each.type)
        fits = isinstance(each, Literal) and each.value.is_valid and scalar_in(each, pa.uint64())
        if not (unsigned or fits):
            return None
    return pa.uint64()


def _integer_remainder(type_: pa.DataType) -> Callable[[Any, Any], Any]:
    one = pa.scalar(1, type_)
    minus_one = None if pt.is_uint64(type_) else pa.scalar(-1, type_)

    def build(left: Any, right: Any) -> Any:
        if minus_one is not None:  # the smallest integer / -1 overflows; the remainder is 0
            right = pc.if_else(pc.equal(right, minus_one), one, right)
        return pc.subtract(left, pc.multiply(pc.divide(left, right), right))

    return build


def _decimal(operator: str, left: Node, right: Node, bare: bool) -> Node:
    (p1, s1), (p2, s2) = _digits(left), _digits(right)
    scale = s1 + s2 if operator == "*" else max(s1, s2)
    whole = max(p1 - s1, p2 - s2)
    precision = p1 + p2 + 1 if operator == "*" else whole + scale + 1
    type_ = decimal_type(precision, scale)
    if type_ is None:
        raise InvalidInputError(
            f"{describe(left)} {operator} {describe(right)} needs {precision} digits, 76 are "
            "there; cast one of them to DOUBLE"
        )
    make = pa.decimal128 if precision <= 38 else pa.decimal256
    if operator == "*":
        args = [_fit_decimal(left, make(p1, s1)), _fit_decimal(right, make(p2, s2))]
    else:
        args = [_fit_decimal(each, make(precision - 1, scale)) for each in (left, right)]
    return apply(operator, args, type_, _CHECKED[operator], bare=bare)


def _digits(node: Node) -> tuple[int, int]:
    if pt.is_null(node.type):
        return 1, 0
    if _is_bare(node) and isinstance(node, Literal) and pt.is_integer(node.type):
        return len(str(abs(node.value.as_py()))), 0
    return digits(node.type)


def _fit_decimal(node: Node, type_: pa.DataType) -> Node:
    if pt.is_integer(node.type) and not isinstance(node, Literal):
        node = fit(node, decimal_type(*digits(node.type)))
    return fit(node, type_)


def add_months(operator: str, moment: Node, months: int) -> Node:
    """A constant date or timestamp plus calendar months; the day is limited to the month's last."""
    moment = plain(moment)
    constant = isinstance(moment, Literal) and family(moment.type) in ("date", "timestamp")
    if operator not in ("+", "-") or not constant or getattr(moment.type, "tz", None) is not None:
        raise InvalidInputError(
            "an INTERVAL of months or years can only be added to a constant date or timestamp "
            f"without a zone, not to {describe(moment)}: months have no fixed length"
        )
    assert isinstance(moment, Literal)
    if is_null(moment):
        return null(pa.timestamp("us"))
    start: datetime = moment.value.cast(pa.timestamp("us")).as_py()
    index = start.year * 12 + start.month - 1 + (months if operator == "+" else -months)
    year, month = divmod(index, 12)
    if not 1 <= year <= 9999:
        raise InvalidInputError(
            f"{describe(moment)} {operator} {months} months leaves the calendar"
        )
    day = min(start.day, calendar.monthrange(year, month + 1)[1])
    moved = start.replace(year=year, month=month + 1, day=day)
    return Literal(pa.scalar(moved, pa.timestamp("us")), bare=moment.bare)


def _temporal(operator: str, kinds: tuple[str, str], left: Node, right: Node) -> Node | None:
    match operator, *kinds:
        case "+", "duration", "date" | "timestamp":
            return _shift("+", right, left)
        case "+" | "-", "date" | "timestamp", "duration":
            return _shift(operator, left, right)
        case "+", "integer", "date":
            return _shift_days("+", right, left)
        case "+" | "-", "date", "integer":
            return _shift_days(operator, left, right)
        case "-", "date", "date":
            return _days_between(left, right)
        case "-", "date" | "timestamp", "date" | "timestamp":
            return _moments_apart(left, right)
        case "+" | "-", "duration", "duration":
            type_ = pa.duration(finer(left.type.unit, right.type.unit))
            args = [fit(left, type_), fit(right, type_)]
            return apply(operator, args, type_, _CHECKED[operator], fallible=True)
        case "*", "integer", "duration":
            return _times(right, left)
        case "*", "duration", "integer":
            return _times(left, right)
    return None


def _shift(operator: str, moment: Node, length: Node) -> Node:
    if pt.is_date(moment.type):
        moment = fit(moment, pa.timestamp("us"))
    name = moment.type.unit
    exact = isinstance(length, Literal) and scalar_in(length, pa.duration(name)) is not None
    name = name if exact else finer(name, length.type.unit)
    type_ = pa.timestamp(name, moment.type.tz)
    args = [fit(moment, type_), fit(length, pa.duration(name))]
    bare = _is_bare(moment)
    return apply(operator, args, type_, _CHECKED[operator], fallible=True, bare=bare)


def _shift_days(operator: str, day: Node, count: Node) -> Node:
    if pt.is_uint64(count.type):
        return _shift_days(operator, day, _small(count))

    def build(day: Any, count: Any) -> Any:
        moved = _CHECKED[operator](day.cast(pa.int32()).cast(pa.int64()), count)
        return moved.cast(pa.int32()).cast(pa.date32())

    args = [day, fit(count, pa.int64())]
    return apply(operator, args, pa.date32(), build, fallible=True, bare=_is_bare(day))


def _small(count: Node) -> Node:
    return apply("cast", [count], pa.int64(), lambda value: value.cast(pa.int64()), fallible=True)


def _days_between(left: Node, right: Node) -> Node:
    def build(left: Any, right: Any) -> Any:
        return pc.subtract(*(each.cast(pa.int32()).cast(pa.int64()) for each in (left, right)))

    return apply("-", [left, right], pa.int64(), build)


def _moments_apart(left: Node, right: Node) -> Node | None:
    types = [each.type for each in (left, right) if pt.is_timestamp(each.type)]
    zones = [getattr(each.type, "tz", None) for each in (left, right)]
    if (zones[0] is None) != (zones[1] is None):
        return None
    name = finer(types[0].unit, types[-1].unit)
    zone = None if zones[0] is None else "UTC"
    args = [fit(each, pa.timestamp(name, zone)) for each in (left, right)]
    return apply("-", args, pa.duration(name), pc.subtract_checked, fallible=True)


def _times(length: Node, count: Node) -> Node:
    count = _small(count) if pt.is_uint64(count.type) else fit(count, pa.int64())
    return apply("*", [length, count], length.type, pc.multiply_checked, fallible=True)
