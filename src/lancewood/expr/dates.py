"""Functions of dates, times and timestamps: their parts, and cutting them to a unit.

A timestamp with a zone is read as wall time in its own zone. Weeks are ISO weeks and begin on
Monday; ``dayofweek`` counts from Sunday = 0. There is no "now": pass the time as a parameter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lancewood.errors import InvalidInputError
from lancewood.expr.convert import plain
from lancewood.expr.nodes import Literal, Node, describe
from lancewood.expr.signature import Argument, FunctionSignature, call_signature
from lancewood.expr.types import NANOSECONDS

_UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
_MOMENT = Argument("moment")
_CLOCK = (Argument("clock"),)
_DATE = (Argument("date", convert=pa.timestamp("us")),)


def _day_of_week(value: Any) -> Any:
    return pc.day_of_week(value, count_from_zero=True, week_start=7)


def _iso_day_of_week(value: Any) -> Any:
    return pc.day_of_week(value, count_from_zero=False, week_start=1)


def _calendar(build: Callable[[Any], Any]) -> tuple[FunctionSignature, ...]:
    return (FunctionSignature((_MOMENT,), pa.int64(), build),)


def _clock(build: Callable[[Any], Any]) -> tuple[FunctionSignature, ...]:
    return (
        FunctionSignature(_CLOCK, pa.int64(), build),
        FunctionSignature(_DATE, pa.int64(), build),
    )


def _truncate(value: Any, unit: str) -> Any:
    name = unit.lower().removesuffix("s")
    if name not in _UNITS:
        raise InvalidInputError(f"{unit!r} is not a unit; there are {', '.join(_UNITS)}")
    return pc.floor_temporal(value, unit=name)


def _date_trunc(unit: Argument, moment: Argument) -> FunctionSignature:
    return FunctionSignature((unit, moment), lambda type_: type_, _truncate)


def _epoch(type_: pa.DataType) -> FunctionSignature:
    scale = pa.scalar(10**9 / NANOSECONDS[type_.unit])

    def build(value: Any) -> Any:
        return pc.divide(value.cast(pa.int64()).cast(pa.float64(), safe=False), scale)

    return FunctionSignature((Argument("timestamp"),), pa.float64(), build)


_UNIT = Argument("text", constant=True)
_PARTS: dict[str, tuple[FunctionSignature, ...]] = {
    "year": _calendar(pc.year),
    "quarter": _calendar(pc.quarter),
    "month": _calendar(pc.month),
    "week": _calendar(pc.iso_week),
    "day": _calendar(pc.day),
    "dayofweek": _calendar(_day_of_week),
    "isodow": _calendar(_iso_day_of_week),
    "dayofyear": _calendar(pc.day_of_year),
    "hour": _clock(pc.hour),
    "minute": _clock(pc.minute),
    "second": _clock(pc.second),
}
_PART_ALIASES = {
    "dow": "dayofweek",
    "weekday": "dayofweek",
    "doy": "dayofyear",
    "dayofmonth": "day",
    "weekofyear": "week",
}

SIGNATURES: dict[str, tuple[FunctionSignature, ...]] = {
    **_PARTS,
    **{alias: _PARTS[name] for alias, name in _PART_ALIASES.items()},
    "date_trunc": (
        _date_trunc(_UNIT, Argument("timestamp")),
        _date_trunc(_UNIT, Argument("date", convert=pa.timestamp("us"))),
    ),
}


def date_part(part: Node, moment: Node) -> Node:
    """EXTRACT(part FROM moment) and date_part('part', moment)."""
    if not isinstance(part, Literal) or not pt.is_string(part.type) or not part.value.is_valid:
        raise InvalidInputError(f"the part of a date has to be constant text: {describe(part)}")
    written = part.value.as_py()
    name = written.lower()
    moment = plain(moment)
    if name == "epoch" and pt.is_timestamp(moment.type):
        return call_signature("epoch", (_epoch(moment.type),), (moment,))
    name = name if name in {*_PARTS, *_PART_ALIASES} else name.removesuffix("s")
    if name not in {*_PARTS, *_PART_ALIASES}:
        known = ", ".join([*_PARTS, *_PART_ALIASES, "epoch"])
        raise InvalidInputError(f"{written!r} is not a part of a {moment.type}; there are {known}")
    return call_signature(name, SIGNATURES[name], (moment,))
