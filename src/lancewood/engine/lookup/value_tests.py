"""What the bounds on one column say of values, and of ranges of values.

An answer may be yes too often, never no too often: whoever asks judges the rows once more by the
whole condition. A NaN counts as larger than every number, at whichever end an index has it, and
-0.0 equals 0.0. Reads nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lancewood.expr import Bound

Bits: TypeAlias = npt.NDArray[np.bool_]
Ints: TypeAlias = npt.NDArray[np.int64]
Numbers: TypeAlias = npt.NDArray[np.integer[Any]]

OTHER_TYPE = "its values are of another type than those of the condition"
_COMPARE = {
    "=": pc.equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


class Budget(NamedTuple):
    """What a lookup may cost."""

    named: int
    """The rows that an index may name."""
    scanned: int
    """The rows that are looked at if it is not asked."""


class Ranges(NamedTuple):
    """Stretches of values: the pages of a BTREE, the zones of a ZONEMAP."""

    lows: pa.Array
    """The smallest value of each stretch; null where it is not known."""
    highs: pa.Array
    rows: Ints
    nulls: Ints
    """Number of rows in each stretch that are null."""
    nans: Bits
    """Whether each stretch may have a NaN."""

    @classmethod
    def of(
        cls, lows: pa.Array, highs: pa.Array, rows: Ints, nulls: Ints, nans: Ints | None = None
    ) -> Ranges:
        """The ranges. One that begins or ends with a NaN has one, whatever ``nans`` counts, and one
        that begins with nulls may have negative ones right after them."""
        known = np.zeros(len(lows), np.bool_) if nans is None else nans > 0
        if pt.is_floating(lows.type):
            known = known | _open(lows) | _bits(pc.is_nan(highs))
        return cls(lows, highs, rows, nulls, known)

    @property
    def size(self) -> int:
        """Number of bytes that the stretches take in memory."""
        return int(self.lows.nbytes + self.highs.nbytes + 17 * len(self.rows))


class _Test(NamedTuple):
    """One bound; ``value`` is an array for "in", None for "is null"."""

    op: str
    value: Any


class ValueTests:
    """The bounds on one column, all of which a wanted row meets."""

    def __init__(self, path: tuple[str, ...], tests: Sequence[_Test]) -> None:
        self.path = path
        self._tests = tests
        self.is_list = any(each.op == "in" for each in tests)
        """Whether single values are wanted, and not all from one to another."""

    @cached_property
    def numbers(self) -> Numbers | None:
        """The only values that are wanted, rising; None where tests are others, or values no whole
        numbers."""
        found = as_numbers(self._tests[0].value) if self.is_list and len(self._tests) == 1 else None
        return None if found is None else np.sort(found)

    @classmethod
    def among(cls, bounds: Iterable[Bound]) -> list[ValueTests]:
        """The tests of every column that bounds narrow; those that hardly do are left out."""
        found: dict[tuple[str, ...], list[_Test]] = {}
        for each in bounds:
            test = _test(each)
            if test is not None:
                found.setdefault(each.path, []).append(test)
        return [cls(path, tests) for path, tests in found.items()]

    @classmethod
    def any_of(cls, path: tuple[str, ...], values: pa.Array) -> ValueTests:
        """The test whether a column has one of these values, none of which is null."""
        return cls(path, [_Test("in", values)])

    def fit(self, kind: pa.DataType) -> bool:
        """Whether values of this type can be compared with those of the tests as they are."""
        return all(each.value is None or each.value.type == kind for each in self._tests)

    def meet(self, values: pa.Array) -> Bits:
        """Which of the values may be wanted."""
        found = np.ones(len(values), np.bool_)
        for each in self._tests:
            found &= _meets(each, values)
        return found

    def reach(self, ranges: Ranges) -> Bits:
        """Which of the ranges may have a wanted value."""
        found = np.ones(len(ranges.rows), np.bool_)
        for each in self._tests:
            found &= _reaches(each, ranges)
        return found


def as_numbers(values: pa.Array) -> Numbers | None:
    """Values that are whole numbers to Arrow, none of them null; None for others."""
    kind = values.type
    if values.null_count or not (pt.is_integer(kind) or pt.is_temporal(kind)):
        return None
    if pt.is_temporal(kind):
        values = values.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    numbers: Numbers = values.to_numpy()
    return numbers


def _test(bound: Bound) -> _Test | None:
    """The bound, if it narrows.

    Inside a struct nulls are not looked for: below a null struct an index may have any value.
    """
    if bound.op == "is null":
        return _Test(bound.op, None) if len(bound.path) == 1 else None
    if bound.op == "in":
        assert isinstance(bound.value, pa.Array)
        return _Test(bound.op, bound.value) if len(bound.value) else None
    value = bound.value
    is_compared = bound.op in _COMPARE and isinstance(value, pa.Scalar) and value.is_valid
    return _Test(bound.op, value) if is_compared else None


def _meets(test: _Test, values: pa.Array) -> Bits:
    op, value = test
    if op == "is null":
        return _bits(pc.is_null(values))
    if op == "in":
        found = _bits(pc.is_in(_unsigned_zero(values), value_set=_unsigned_zero(value)))
        if pt.is_floating(value.type) and pc.any(pc.is_nan(value)).as_py():
            found |= _bits(pc.is_nan(values))
        return found
    if _is_nan(value):
        return _bits(pc.is_valid(values) if op in ("<", "<=") else pc.is_nan(values))
    found = _bits(_COMPARE[op](values, value))
    if op in (">", ">=") and pt.is_floating(values.type):
        found |= _bits(pc.is_nan(values))
    return found


def _reaches(test: _Test, ranges: Ranges) -> Bits:
    op, value = test
    if op == "is null":
        return ranges.nulls > 0
    has_values = ranges.rows > ranges.nulls
    if op == "in":
        return has_values & _holds_any(ranges, value)
    if _is_nan(value):
        return has_values if op in ("<", "<=") else has_values & ranges.nans
    found = has_values
    if op in ("=", "<", "<="):
        below = pc.less if op == "<" else pc.less_equal
        found = found & (_bits(below(ranges.lows, value)) | _open(ranges.lows))
    if op in ("=", ">", ">="):
        above = pc.greater if op == ">" else pc.greater_equal
        found = found & (_bits(above(ranges.highs, value)) | _open(ranges.highs) | ranges.nans)
    return found


def _holds_any(ranges: Ranges, members: pa.Array) -> Bits:
    """Which of the ranges have one of the members between their ends."""
    lows, highs, members = map(_unsigned_zero, (ranges.lows, ranges.highs, members))
    found = np.zeros(len(lows), np.bool_)
    if pt.is_floating(members.type):
        is_nan = pc.is_nan(members)
        if is_nan.true_count:
            found |= ranges.nans
        members = members.filter(pc.invert(is_nan))
    if not len(members):
        return found
    ranks = pc.rank(pa.concat_arrays([lows, highs, members]), tiebreaker="dense").to_numpy()
    low, high, wanted = np.split(ranks, (len(lows), 2 * len(lows)))
    wanted = np.sort(wanted)
    low = np.where(_open(lows), 0, low)
    high = np.where(_open(highs), wanted[-1], high)
    return found | (np.searchsorted(wanted, low) < np.searchsorted(wanted, high, side="right"))


def _open(ends: pa.Array) -> Bits:
    """Where an end says nothing: it is not known, or a NaN, which an index may have at either
    end."""
    missing = _bits(pc.is_null(ends))
    return missing | _bits(pc.is_nan(ends)) if pt.is_floating(ends.type) else missing


def _is_nan(value: pa.Scalar) -> bool:
    return pt.is_floating(value.type) and math.isnan(value.as_py())


def _unsigned_zero(values: pa.Array) -> pa.Array:
    """The values with 0.0 for -0.0, which would be ranked and hashed apart."""
    return pc.add(values, pa.scalar(0, values.type)) if pt.is_floating(values.type) else values


def _bits(mask: pa.BooleanArray) -> Bits:
    if mask.null_count:
        mask = pc.fill_null(mask, False)
    found: Bits = mask.to_numpy(zero_copy_only=False)
    return found
