"""Functions of numbers: rounding, absolute values, roots and logarithms.

Rounding keeps integers integers and decimals decimals; roots and logarithms are float64, and
outside their domain NaN or infinite, never an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lancewood.expr.signature import Argument, FunctionSignature, same_type
from lancewood.expr.types import decimal_type

_AWAY = "half_towards_infinity"
_INTEGER = Argument("integer", convert=pa.int64())
_FLOAT = Argument("float")
_NUMBER = Argument("number", convert=pa.float64())
_DIGITS = Argument("integer", constant=True, optional=True)


def _one_digit_more(type_: pa.DataType) -> pa.DataType:
    """A type with room for 9.9 to become 10."""
    return decimal_type(min(type_.precision + 1, 76), type_.scale)


_EXACT = Argument("decimal")
_DECIMAL = Argument("decimal", convert=_one_digit_more)


def _round(value: Any, digits: int = 0) -> Any:
    return pc.round(value, ndigits=digits, round_mode=_AWAY)


def _round_integer(value: Any, digits: int = 0) -> Any:
    return value if digits >= 0 else _round(value, max(digits, -19))


def _sign(value: Any) -> Any:
    one, zero, minus_one = (pa.scalar(each, pa.int8()) for each in (1, 0, -1))
    below = pc.if_else(pc.less(value, pa.scalar(0.0)), minus_one, zero)
    return pc.if_else(pc.greater(value, pa.scalar(0.0)), one, below)


def _floating(build: Callable[..., Any], count: int = 1) -> tuple[FunctionSignature, ...]:
    return (FunctionSignature((_NUMBER,) * count, pa.float64(), build),)


def _whole(build: Callable[[Any], Any]) -> tuple[FunctionSignature, ...]:
    return (
        FunctionSignature((_INTEGER,), pa.int64(), lambda value: value),
        FunctionSignature((_FLOAT,), same_type, build),
        FunctionSignature((_DECIMAL,), same_type, build, fallible=True),
    )


SIGNATURES: dict[str, tuple[FunctionSignature, ...]] = {
    "abs": (
        FunctionSignature((_INTEGER,), pa.int64(), pc.abs_checked, fallible=True),
        FunctionSignature((_FLOAT,), same_type, pc.abs),
        FunctionSignature((_EXACT,), same_type, pc.abs),
    ),
    "sign": (FunctionSignature((_NUMBER,), pa.int8(), _sign, copies=2),),
    "round": (
        FunctionSignature((_INTEGER, _DIGITS), pa.int64(), _round_integer, fallible=True),
        FunctionSignature((_FLOAT, _DIGITS), same_type, _round),
        FunctionSignature((_DECIMAL, _DIGITS), same_type, _round, fallible=True),
    ),
    "floor": _whole(pc.floor),
    "ceil": _whole(pc.ceil),
    "sqrt": _floating(pc.sqrt),
    "exp": _floating(pc.exp),
    "ln": _floating(pc.ln),
    "log10": _floating(pc.log10),
    "log2": _floating(pc.log2),
    "power": _floating(pc.power, 2),
}
