"""Values for a column of a table: which types may become its type, and how they do.

What is stored has to be what was meant: a number that does not fit, a fraction for an integer, a
text for a number are errors, not roundings. Knows Arrow and Python values; no rows, no files.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lancewood.errors import InvalidInputError
from lancewood.expr.literals import literal_from, parse_moment, scalar_in
from lancewood.expr.nodes import Literal
from lancewood.expr.types import NUMBERS, family, plain_type

_TEMPORAL = frozenset({"date", "timestamp", "time"})
_NESTED = frozenset({"struct", "map", "list"})


def can_become(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether values of one type may be stored in a column of another, as far as they fit."""
    source, target = plain_type(source), plain_type(target)
    one, other = family(source), family(target)
    if pt.is_null(source):
        return True
    if {one, other} <= NUMBERS:
        return True
    if one == "list" and other == "list":
        return can_become(source.value_type, target.value_type)
    if one == "struct" and other == "struct":
        names = {each.name: each.type for each in source}
        return {each.name for each in target} == names.keys() and all(
            can_become(names[each.name], each.type) for each in target
        )
    if one == "timestamp" and other == "timestamp":
        return (source.tz is None) == (target.tz is None)
    if one == "date" and other == "timestamp":
        return target.tz is None
    return source == target if one in ("map", "other") else one == other


def fitted(values: Any, target: pa.DataType) -> Any:
    """An array with exactly the type ``target``; raises InvalidInputError for what does not fit."""
    storage = _storage_type(target)
    if isinstance(values.type, pa.BaseExtensionType):
        values = values.storage
    if pt.is_null(values.type):
        values = pa.nulls(len(values), storage)
    if not values.type.equals(storage, check_metadata=True):
        try:
            made = values.cast(storage)
        except pa.ArrowException as cause:
            raise InvalidInputError(str(cause)) from cause
        _check_finite(values, made)
        values = made
    return target.wrap_array(values) if isinstance(target, pa.BaseExtensionType) else values


def fitted_value(value: Any, target: pa.DataType) -> pa.Array:
    """One Python value, a pyarrow or numpy scalar, or a list or mapping of them, as an array.

    Raises InvalidInputError for a value that the type does not hold.
    """
    if isinstance(value, pa.Scalar) and family(plain_type(value.type)) in _NESTED:
        value = value.as_py()
    if value is None:
        return pa.nulls(1, target)
    plain = plain_type(target)
    if family(plain) in _NESTED:
        return fitted(_nested(value, _storage_type(target)), target)
    literal = literal_from(value)
    if not literal.value.is_valid:
        return pa.nulls(1, target)
    return fitted(pa.array([_met(literal, plain, value)], plain), target)


def text_as_moment(text: str, target: pa.DataType) -> pa.Array:
    """A constant text as the date, time or timestamp of a column."""
    plain = plain_type(target)
    return fitted(pa.array([_met(parse_moment(text, plain), plain, text)], plain), target)


def is_moment(target: pa.DataType) -> bool:
    """Whether a constant text may stand for a value of the type."""
    return family(plain_type(target)) in _TEMPORAL


def _met(literal: Literal, plain: pa.DataType, value: Any) -> pa.Scalar:
    is_zoned = pt.is_timestamp(literal.type) and literal.type.tz is not None
    if is_zoned and not (pt.is_timestamp(plain) and plain.tz is not None):
        raise InvalidInputError(f"{value!r} has a zone, the column has none")
    found = scalar_in(literal, plain)
    if found is None:
        raise InvalidInputError(f"{value!r} is no value of {plain}")
    return found


def _nested(value: Any, storage: pa.DataType) -> pa.Array:
    if hasattr(value, "tolist"):
        value = value.tolist()
    try:
        made = pa.array([value], storage)
    except (pa.ArrowException, OverflowError, ValueError, TypeError) as cause:
        raise InvalidInputError(f"it is no value of {storage}: {cause}") from cause
    if not _is_kept(value, made[0].as_py()):
        raise InvalidInputError(f"{storage} would not hold all of it")
    return made


def _is_kept(given: Any, made: Any) -> bool:
    """Whether a nested value is still what it was: Arrow drops fractions and unknown keys."""
    if hasattr(given, "tolist"):
        given = given.tolist()
    if isinstance(made, dict):
        return (
            isinstance(given, Mapping)
            and given.keys() <= made.keys()
            and all(_is_kept(given.get(key), each) for key, each in made.items())
        )
    if isinstance(made, list):
        items = list(given.items()) if isinstance(given, Mapping) else list(given)
        return len(items) == len(made) and all(map(_is_kept, items, made))
    if isinstance(made, tuple):
        return all(map(_is_kept, given, made))
    if isinstance(made, float):
        return math.isinf(made) == math.isinf(given)
    return bool(given == made)


def _check_finite(values: Any, made: Any) -> None:
    """A float that is too large for a smaller float becomes infinite without a word."""
    if not pt.is_floating(made.type) or not pt.is_floating(values.type):
        return
    grown = pc.and_(pc.is_inf(made.cast(pa.float64())), pc.is_finite(values))
    if pc.any(grown).as_py():
        raise InvalidInputError(f"a value is too large for {made.type}")


def _storage_type(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
