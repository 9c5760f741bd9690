"""CAST and TRY_CAST: how a value of one type becomes one of another, as far as it can.

Floats are rounded half to even when cast to integers, decimals half away from zero; what does not
fit fails, or is NULL for TRY_CAST.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lancewood.errors import InvalidInputError
from lancewood.expr.convert import TEMPORAL, bare_text, fit, plain, read_moment
from lancewood.expr.floats import as_float
from lancewood.expr.kernels import Kernel, try_cast_kernel
from lancewood.expr.literals import scalar_in
from lancewood.expr.nodes import Literal, Node, apply, describe, is_null, null
from lancewood.expr.types import decimal_type, digits, family


def cast(node: Node, target: pa.DataType, *, strict: bool) -> Node:
    """CAST, or TRY_CAST where not ``strict``: NULL instead of failing on a value."""
    text = bare_text(node)
    if text is not None and family(target) in TEMPORAL and strict:
        return _cast_text_constant(text, target)
    node = plain(node)
    if node.type == target:
        return Literal(node.value) if isinstance(node, Literal) else node
    if is_null(node) or pt.is_null(node.type):
        return null(target) if is_null(node) else fit(node, target)
    build = _cast_build(node.type, target)
    if build is None:
        raise InvalidInputError(f"cannot cast {describe(node)} to {target}")
    if not strict:
        build = try_cast_kernel(node.type, target, build).call
    return apply("CAST", [node], target, build, fallible=strict)


def _cast_text_constant(text: str, target: pa.DataType) -> Node:
    """DATE '…' and the like: still bare, so that wall time can take the zone of what it meets."""
    moment = read_moment(text, target, f"a {target}")
    value = scalar_in(moment, target)
    if value is None and pt.is_date(target):
        value = moment.value.cast(target)
    if value is None:
        raise InvalidInputError(f"{text!r} is out of the range of {target}, or finer than its unit")
    return Literal(value, bare=True)


def _cast_build(source: pa.DataType, target: pa.DataType) -> Callable[[Any], Any] | None:
    """How a value of one plain type becomes one of another; None where it cannot."""
    route = _ROUTES.get((family(source), family(target)))
    return None if route is None else route(source, target)


_Route = Callable[[pa.DataType, pa.DataType], Callable[[Any], Any]]


def _direct(source: pa.DataType, target: pa.DataType) -> Callable[[Any], Any]:
    return lambda value: value.cast(target)


def _loose(source: pa.DataType, target: pa.DataType) -> Callable[[Any], Any]:
    return lambda value: value.cast(target, safe=False)


def _to_float(source: pa.DataType, target: pa.DataType) -> Callable[[Any], Any]:
    """Cast to a float type; a number that is too large for it fails."""
    if pt.is_float64(target) or source == pa.float16():
        return _loose(source, target)
    return Kernel("to float", (source,), target, lambda value: as_float(value, target)).call


def _from_text(source: pa.DataType, target: pa.DataType) -> Callable[[Any], Any]:
    return lambda value: pc.utf8_trim_whitespace(value).cast(target)


def _float_to_integer(source: pa.DataType, target: pa.DataType) -> Callable[[Any], Any]:
    return lambda value: pc.round(value, ndigits=0, round_mode="half_to_even").cast(target)


def _to_decimal(source: pa.DataType, target: pa.DataType) -> Callable[[Any], Any]:
    """Cast through a decimal that holds every value, so that only values that do not fit fail."""
    if pt.is_boolean(source):
        source = pa.int8()
    precision, scale = digits(source)
    wide = decimal_type(
        min(precision + max(target.scale - scale, 0) + 1, 76), max(scale, target.scale)
    )

    def build(value: Any) -> Any:
        if pt.is_integer(source):
            value = value.cast(source).cast(decimal_type(precision, 0))
        value = value.cast(wide)
        if target.scale < scale:
            value = pc.round(value, ndigits=target.scale, round_mode="half_towards_infinity")
        return value.cast(target)

    return build


def _decimal_to_integer(source: pa.DataType, target: pa.DataType) -> Callable[[Any], Any]:
    whole = _to_decimal(source, decimal_type(min(source.precision + 1, 76), 0))
    return lambda value: whole(value).cast(target)


def _between_timestamps(source: pa.DataType, target: pa.DataType) -> Callable[[Any], Any]:
    names = {"s": "second", "ms": "millisecond", "us": "microsecond", "ns": "nanosecond"}

    def build(value: Any) -> Any:
        if source.tz is not None and target.tz is None:
            value = pc.local_timestamp(value)
        naive = source.tz is None or target.tz is None
        value = pc.floor_temporal(value, unit=names[target.unit])
        return value.cast(pa.timestamp(target.unit, None if naive else source.tz)).cast(target)

    return build


_ROUTES: dict[tuple[str, str], _Route] = {
    **{("text", each): _from_text for each in ("integer", "float", "decimal", "boolean")},
    **{("text", each): _from_text for each in ("date", "timestamp")},
    ("text", "text"): _direct,
    ("text", "binary"): _direct,
    ("binary", "text"): _direct,
    ("binary", "binary"): _direct,
    **{(each, "text"): _direct for each in ("boolean", "integer", "float", "decimal")},
    **{(each, "text"): _direct for each in ("date", "timestamp", "time")},
    ("boolean", "integer"): _direct,
    ("boolean", "float"): _direct,
    ("boolean", "decimal"): _to_decimal,
    ("integer", "boolean"): _direct,
    ("integer", "integer"): _direct,
    ("integer", "float"): _loose,
    ("integer", "decimal"): _to_decimal,
    ("float", "integer"): _float_to_integer,
    ("float", "float"): _to_float,
    ("float", "decimal"): _direct,
    ("decimal", "float"): _to_float,
    ("decimal", "integer"): _decimal_to_integer,
    ("decimal", "decimal"): _to_decimal,
    ("date", "timestamp"): _direct,
    ("timestamp", "date"): _direct,
    ("timestamp", "time"): _loose,
    ("timestamp", "timestamp"): _between_timestamps,
}
