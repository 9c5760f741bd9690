"""A piece of DuckDB's SQL with its type in Spark, and conversions between types.

Implicit casts are written out, so that DuckDB never decides on one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from lancewood.errors import InvalidInputError, UnsupportedError
from lancewood.query.kinds import (
    BIGINT,
    BINARY,
    BOOLEAN,
    CLOCK,
    DATE,
    DOUBLE,
    FLOAT,
    MOMENT,
    NULL,
    TEXT,
    common,
    duckdb_type,
    is_decimal,
    is_floating,
    is_integer,
    is_number,
    is_temporal,
    type_name,
)

FAILED = "lancewood: "
"""The prefix of errors that a query itself raises."""
_SURE_DIGITS = 15
"""A decimal with up to this many digits becomes the same double however it is read."""
_PLAIN_SCALE = 6
"""The largest scale that Java writes without an exponent."""
_SPACE = " \t\n\r"
_CONTROL = "".join(map(chr, [*range(33), 127]))
"""Characters that Spark ignores around an integer."""
_WHOLE = r"[+-]?[0-9]+"
_CLOCK = r"[0-9]{4}-[0-9]{2}-[0-9]{2}([ T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?)?"
_OFFSET = r"Z|[+-]((0[0-9]|1[0-7]):[0-5][0-9]|18:00)"
_FORMS: dict[str, Callable[[pa.DataType], bool]] = {
    _WHOLE: is_integer,
    r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?": lambda kind: kind == DOUBLE,
    r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)": is_decimal,
    r"(?i:true|false)": lambda kind: kind == BOOLEAN,
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}": lambda kind: kind == DATE,
    rf"{_CLOCK}": lambda kind: kind == CLOCK,
    rf"{_CLOCK}({_OFFSET})?": lambda kind: kind == MOMENT,
}
"""The strings that both engines parse alike, by type."""


class Typed(NamedTuple):
    """An expression."""

    sql: str
    kind: pa.DataType
    constant: str | None = None
    """The number or string, if it is a literal."""


Compile = Callable[[Any], Typed]
"""Compiles a node to an expression."""
Call = Callable[[Any, Compile], Typed]
"""Compiles the call of a function."""


def only_spark(what: str, why: str = "") -> UnsupportedError:
    """The error for what DuckDB lacks, or interprets differently."""
    because = f": {why}" if why else ""
    return UnsupportedError(
        f"{what} is answered by Spark alone{because}; ask with lw sql --spark, or with "
        "lancewood.spark.sql"
    )


def quoted(text: str) -> str:
    """A string as a DuckDB literal."""
    parts = (f"'{each}'" for each in text.replace("'", "''").split("\0"))
    return " || chr(0) || ".join(parts)


def failing(message: str) -> str:
    """An expression that ends the query with an error."""
    return f"error({quoted(FAILED + message)})"


def null(kind: pa.DataType = NULL) -> Typed:
    return Typed(f"CAST(NULL AS {duckdb_type(kind)})", kind)


def checked(value: Typed, kind: pa.DataType, what: str) -> Typed:
    """A value that has to be of a type, or NULL."""
    if value.kind == NULL:
        return null(kind)
    if value.kind != kind:
        raise InvalidInputError(f"{what} takes a {type_name(kind)}, got a {type_name(value.kind)}")
    return value


def numeric(value: Typed, what: str) -> Typed:
    """A value that has to be a number, or NULL."""
    if value.kind != NULL and not is_number(value.kind):
        raise only_spark(f"{what} of {type_name(value.kind)}", "cast it")
    return null(DOUBLE) if value.kind == NULL else value


def together(values: Sequence[Typed], what: str) -> tuple[list[Typed], pa.DataType]:
    """Values in their common type."""
    kinds = [each.kind for each in values]
    temporal = [each for each in kinds if is_temporal(each)]
    if temporal and TEXT in kinds:
        meant = common(temporal)
        assert meant is not None
        values = [_read_constant(each, meant, what) for each in values]
        kinds = [each.kind for each in values]
    kind = common(kinds)
    if kind is None:
        listed = " and ".join(dict.fromkeys(map(type_name, kinds)))
        raise only_spark(f"{what} of {listed}", "cast them to one type")
    return [fitted(each, kind) for each in values], kind


def _read_constant(value: Typed, kind: pa.DataType, what: str) -> Typed:
    if value.kind != TEXT:
        return value
    if value.constant is None:
        raise only_spark(f"{what} of string and {type_name(kind)}", "cast the string")
    return cast(value, kind)


def fitted(value: Typed, kind: pa.DataType) -> Typed:
    """A value in a wider type."""
    if value.kind == kind:
        return value
    if value.kind == NULL:
        return null(kind)
    if kind == DOUBLE and value.constant is not None and is_number(value.kind):
        return Typed(f"CAST('{value.constant}' AS DOUBLE)", DOUBLE)
    if kind == DOUBLE and is_decimal(value.kind) and value.kind.precision > _SURE_DIGITS:
        return Typed(f"CAST(CAST({value.sql} AS VARCHAR) AS DOUBLE)", DOUBLE)
    return Typed(f"CAST({value.sql} AS {duckdb_type(kind)})", kind)


def as_text(value: Typed, what: str) -> Typed:
    """A value where Spark makes a string of it."""
    return value if value.kind == TEXT else _text(value, what)


def cast(value: Typed, kind: pa.DataType, *, safe: bool = False) -> Typed:
    """CAST, or TRY_CAST if ``safe``, as Spark does in ANSI mode."""
    old, what = value.kind, f"CAST from {type_name(value.kind)} to {type_name(kind)}"
    if old in (kind, NULL):
        return fitted(value, kind)
    word = "TRY_CAST" if safe else "CAST"

    def plain(sql: str) -> Typed:
        return Typed(f"{word}({sql} AS {duckdb_type(kind)})", kind)

    if kind == TEXT:
        return _text(value, what)
    if old == TEXT:
        return _parsed(value, kind, what, safe=safe)
    if is_floating(old) and kind == BIGINT:
        # The double after the largest one, which Java clamps to the largest.
        whole, edge = f"trunc({value.sql})", "CAST(9223372036854775808 AS DOUBLE)"
        most = f"WHEN {whole} = {edge} THEN 9223372036854775807"
        return Typed(f"CASE {most} ELSE {plain(whole).sql} END", BIGINT)
    if is_number(old) and is_integer(kind):
        return plain(value.sql if is_integer(old) else f"trunc({value.sql})")
    if is_number(old) and kind == DOUBLE:
        return fitted(value, DOUBLE)
    if kind == FLOAT and (is_integer(old) or (is_floating(old) and not safe)):
        return plain(value.sql)
    if is_decimal(kind) and (is_integer(old) or is_decimal(old)):
        return plain(value.sql)
    if is_integer(old) and kind == BOOLEAN:
        return Typed(f"({value.sql} <> 0)", BOOLEAN)
    if old == BOOLEAN and is_integer(kind):
        return plain(value.sql)
    if is_temporal(old) and is_temporal(kind):
        return plain(value.sql)
    raise only_spark(what)


def _text(value: Typed, what: str) -> Typed:
    kind = value.kind
    text = f"CAST({value.sql} AS VARCHAR)"
    if kind == DATE:
        stop = failing("only Spark writes dates before 1 or after 9999 as a text; ask with --spark")
        return Typed(
            f"CASE WHEN year({value.sql}) NOT BETWEEN 1 AND 9999 THEN {stop} ELSE {text} END", TEXT
        )
    if is_decimal(kind) and kind.scale <= _PLAIN_SCALE:
        # With room for a digit before the decimal point, or DuckDB omits it.
        roomy = pa.decimal128(max(kind.precision, kind.scale + 1), kind.scale)
        return Typed(f"CAST({fitted(value, roomy).sql} AS VARCHAR)", TEXT)
    if kind in (NULL, BOOLEAN) or is_integer(kind):
        return Typed(text, TEXT)
    raise only_spark(what, "the engines write such values differently")


def _parsed(value: Typed, kind: pa.DataType, what: str, *, safe: bool) -> Typed:
    if kind == BINARY:
        return Typed(f"encode({value.sql})", BINARY)
    form = next((name for name, is_meant in _FORMS.items() if is_meant(kind)), None)
    if form is None:
        raise only_spark(what)
    if safe and form != _WHOLE:
        raise only_spark(f"TRY_{what}", "Spark reads more forms")
    space = quoted(_CONTROL if form == _WHOLE else _SPACE)
    text, name = f"trim({value.sql}, {space})", duckdb_type(kind)
    refusal = f"a string that is cast to {type_name(kind)} is none in a plain form"
    failure = "NULL" if safe else failing(f"{refusal}; --spark reads more forms")
    read = f"{'TRY_CAST' if safe else 'CAST'}({text} AS {name})"
    fits = f"WHEN regexp_full_match({text}, '{form}') THEN {read}"
    return Typed(f"CASE {fits} WHEN {value.sql} IS NOT NULL THEN {failure} END", kind)


def wide_sum(kind: pa.DataType) -> pa.DataType:
    """The type of a sum."""
    if is_integer(kind):
        return BIGINT
    if is_decimal(kind):
        return pa.decimal128(min(38, kind.precision + 10), kind.scale)
    return DOUBLE
