"""The values for ``$name``, ``$1`` and ``?`` in a text: checked, and as constants of DuckDB's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any, TypeAlias
from uuid import UUID

import pyarrow as pa

from lancewood.errors import InvalidInputError
from lancewood.expr.syntax import Syntax

Parameters: TypeAlias = Mapping[str, Any] | Sequence[Any] | None
"""Values for ``$name`` (a mapping), or for ``?`` and ``$1`` (a sequence)."""

_MOST_WRITTEN = 100
"""How many values of a list are written as constants."""

_SCALARS = (bool, int, float, str, bytes, Decimal, date, time, timedelta, UUID)
_MOST_DIGITS = 38
_INT32, _INT64 = 1 << 31, 1 << 63


def kept(parameters: Parameters) -> Parameters:
    """The parameters as plain Python values; raises InvalidInputError for what are none."""
    if parameters is None:
        return None
    if isinstance(parameters, Mapping):
        return dict(parameters)
    if isinstance(parameters, str | bytes) or not isinstance(parameters, Sequence):
        raise InvalidInputError(
            "parameters are a mapping for $name, or a list for $1 and ?, not "
            f"{type(parameters).__name__}"
        )
    return tuple(parameters)


def given_values(syntax: Syntax, parameters: Parameters) -> dict[str, Any]:
    """The value of every parameter that a text names, as DuckDB takes it.

    A mapping may hold others too. Raises InvalidInputError for one that is missing, for values left
    over in a list, and for a value that DuckDB has no constant for.
    """
    names = list(dict.fromkeys(name for name, _, _ in syntax.parameters))
    known = dict(parameters) if isinstance(parameters, Mapping) else {}
    if isinstance(parameters, Sequence):
        known = {str(number): value for number, value in enumerate(parameters, 1)}
        most = max((int(name) for name in names if name.isdecimal()), default=0)
        if len(known) > most and (most or not names):
            raise InvalidInputError(
                f"{len(known)} parameters are given, the text names {most}", sql=syntax.text
            )
    for name in names:
        if name not in known:
            given = f"given are {', '.join(map(repr, known))}" if known else "none is given"
            way = "" if name.isdecimal() or isinstance(parameters, Mapping | None) else " by name"
            raise InvalidInputError(
                f"there is no parameter {name!r}: {given}{way}", sql=syntax.text
            )
    return {name: _plain(known[name], name) for name in names}


def written(syntax: Syntax, values: Mapping[str, Any]) -> str | None:
    """The text with constants in the place of its parameters, but for long lists, which stay
    parameters of a known type; None where a value has no constant."""
    text = syntax.text.encode()
    for name, start, end in sorted(syntax.parameters, key=lambda each: -each[1]):
        value = values[name]
        is_long = isinstance(value, list) and len(value) > _MOST_WRITTEN
        constant = _typed_list(name, value) if is_long else _constant(value)
        if constant is None or text[start:end] not in (b"?", f"${name}".encode()):
            return None
        text = text[:start] + constant.encode() + text[end:]
    return text.decode()


def _typed_list(name: str, values: list[Any]) -> str | None:
    kinds = {type(each) for each in values} - {type(None)}
    kind = "HUGEINT" if kinds == {int} else "VARCHAR" if kinds == {str} else None
    return None if kind is None else f"CAST(${name} AS {kind}[])"


def _constant(value: Any) -> str | None:
    import duckdb

    if isinstance(value, list):
        found = [_constant(each) for each in value]
        return None if any(each is None for each in found) else f"[{', '.join(map(str, found))}]"
    if isinstance(value, dict) or (isinstance(value, str) and not value.isprintable()):
        return None
    try:
        constant = str(duckdb.ConstantExpression(value))
    except (duckdb.Error, TypeError, ValueError):
        return None
    if type(value) is int and -_INT64 <= value < _INT64:
        # As a parameter it has a type; a number that is written takes that of what it meets.
        is_small = -_INT32 <= value < _INT32
        return f"CAST({constant} AS {'INTEGER' if is_small else 'BIGINT'})"
    return constant


def _plain(value: Any, name: str) -> Any:
    """A value as Python's own: scalars and arrays of pyarrow and numpy are taken apart."""
    try:
        if isinstance(value, pa.Scalar):
            value = value.as_py()
        elif isinstance(value, pa.Array | pa.ChunkedArray):
            value = value.to_pylist()
        elif hasattr(value, "dtype") and hasattr(value, "tolist"):
            value = value.tolist()
        elif isinstance(value, tuple | range):
            value = list(value)
    except (pa.ArrowException, ValueError, OverflowError, MemoryError) as cause:
        raise InvalidInputError(f"parameter {name!r} has no value in Python: {cause}") from cause
    if isinstance(value, list):
        return [_plain(each, name) for each in value]
    if isinstance(value, dict):
        return {key: _plain(each, name) for key, each in value.items()}
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as cause:
            raise InvalidInputError(f"parameter {name!r} holds half a character") from cause
    if isinstance(value, int) and not -(1 << 127) <= value < 1 << 127:
        raise InvalidInputError(f"parameter {name!r} is a number of more than 128 bits: {value}")
    if isinstance(value, Decimal) and value.is_finite():
        _, digits, exponent = value.as_tuple()
        if max(len(digits) + int(exponent), len(digits), -int(exponent)) > _MOST_DIGITS:
            raise InvalidInputError(f"parameter {name!r} has more than 38 digits: {value}")
    if value is not None and not isinstance(value, _SCALARS):
        raise InvalidInputError(
            f"parameter {name!r} is a value of type {type(value).__name__}, which cannot be a SQL "
            "constant"
        )
    return value
