"""Values in the type of a column: what is stored is what was meant.

A number that does not fit, a fraction for an integer, a text for a number is an error, and never
rounded; only a float is the nearest one that its column has. DuckDB reads constant texts as dates,
times and timestamps, and turns decimals into floats.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lancewood.engine.rows import nameless
from lancewood.errors import InvalidInputError
from lancewood.expr import Expression, parse_expression

_DIGITS_OF_INTEGERS = 20
"""Number of digits of the largest uint64."""
_TEXT = "value"
_MIDNIGHT = time()
_DAY = 86_400 * 10**9
_NANOSECONDS = pa.duration("ns")
_zone = re.compile(r"\d:\d.*([Zz]|[+-]\d+(:\d+)*|[A-Za-z]+/\w+)\s*$").search
_nanoseconds = re.compile(r"\.\d{7}").search


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values themselves: dictionaries decoded, extensions taken off."""
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    return plain_type(kind.value_type) if pt.is_dictionary(kind) else kind


def is_moment(kind: pa.DataType) -> bool:
    """Whether the type is a date, time or timestamp."""
    kind = plain_type(kind)
    return bool(pt.is_date(kind) or pt.is_time(kind) or pt.is_timestamp(kind))


def can_become(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether values of one type, if they fit, may be stored in a column of another."""
    if _is_uuid(target) and _is_text(source):  # what DuckDB makes of UUIDs
        return True
    source, target = plain_type(source), plain_type(target)
    if pt.is_null(source) or source == target:
        return True
    if _is_list(source) and _is_list(target):
        return can_become(source.value_type, target.value_type)
    if pt.is_struct(source) and pt.is_struct(target):
        names = {each.name: each.type for each in source}
        return {each.name for each in target} == names.keys() and all(
            can_become(names[each.name], each.type) for each in target
        )
    if pt.is_timestamp(source) and pt.is_timestamp(target):
        return (source.tz is None) == (target.tz is None)
    if pt.is_date(source) and pt.is_timestamp(target):
        return target.tz is None
    if pt.is_interval(source):
        return bool(pt.is_duration(target))
    alike = (_is_number, _is_text, _is_bytes, pt.is_date, pt.is_time, pt.is_duration)
    return any(belongs(source) and belongs(target) for belongs in alike)


def fitting_expression(expression: Expression, target: pa.DataType) -> Expression:
    """The expression whose values go into a column: DuckDB makes the floats of exact numbers.

    Raises InvalidInputError if values of this type may not be stored in the column.
    """
    source = expression.type
    if pt.is_decimal(source) and pt.is_floating(plain_type(target)):
        sql = f"CAST(({expression.sql}\n) AS DOUBLE)"
        return parse_expression(sql, expression.schema, expression.parameters)
    if not can_become(source, target):
        raise InvalidInputError(f"{expression.sql} is {source}, the column is {target}; cast it")
    return expression


def constant_value(expression: Expression, target: pa.DataType) -> pa.Array:
    """The one value of an expression that reads no column, in the type of a column.

    A text becomes the date, time or timestamp of a column that has such. Raises InvalidInputError
    for a value that does not fit.
    """
    if _is_text(expression.type) and is_moment(target):
        return texts_as_moments(expression.evaluate(nameless(1)), target)
    value = fitting_expression(expression, target).evaluate(nameless(1))
    found = fitted(value, target)
    if pt.is_floating(value.type) and pt.is_decimal(found.type) and value.null_count == 0:
        number, stored = Decimal(repr(value[0].as_py())), found[0].as_py()
        if number != stored:  # 1e28 is 9999999999999999583119736832 as a float
            raise InvalidInputError(
                f"{expression.sql} is the float {stored}, another number; write "
                f"CAST('{number:f}' AS DECIMAL({target.precision}, {target.scale}))"
            )
    return found


def fitted(values: Any, target: pa.DataType) -> Any:
    """The values with exactly the type ``target``; raises InvalidInputError if one does not fit."""
    storage = target.storage_type if isinstance(target, pa.BaseExtensionType) else target
    if isinstance(values.type, pa.BaseExtensionType):
        values = values.storage
    if pt.is_null(values.type):
        values = pa.nulls(len(values), storage)
    if _is_uuid(target) and _is_text(values.type):
        values = _as_uuids(values)
    if pt.is_interval(values.type):
        values = _as_durations(values)
    if not values.type.equals(storage, check_metadata=True):
        try:
            values = cast_number(values, storage)
        except pa.ArrowException as cause:
            raise InvalidInputError(str(cause)) from cause
    return target.wrap_array(values) if isinstance(target, pa.BaseExtensionType) else values


def fitted_rows(
    batches: Iterator[pa.RecordBatch], names: Sequence[str], given: pa.Schema, table: pa.Schema
) -> pa.RecordBatchReader:
    """The rows of a query in the types in which a table stores its columns of these names.

    Raises InvalidInputError for a value that would be another one there; about a type that is none
    for the column, the write complains.
    """
    known = {each.name: each.type for each in table}
    fields = []
    for name, kind in zip(names, given.types, strict=True):
        wanted = known.get(name, kind)
        is_cast = can_become(kind, wanted) and not pt.is_null(kind)
        fields.append(pa.field(name, wanted if is_cast else kind))
    schema = pa.schema(fields)

    def stored(array: pa.Array, column: pa.Field) -> pa.Array:
        try:
            return fitted(array, column.type)
        except InvalidInputError as cause:
            raise InvalidInputError(
                f"column {column.name!r} is {column.type}, and a value of {array.type} does not "
                f"fit: {cause.message}; write one that fits, or change the type of the column with "
                "ALTER TABLE",
                column=column.name,
            ) from cause

    def made() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            arrays = list(map(stored, batch.columns, schema))
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, made())


def cast_number(values: Any, target: pa.DataType) -> Any:
    """The values in another type. A number becomes the decimal that equals it; Arrow rounds a float
    to one, and asks of an integer that every one of its type would fit.

    Raises ArrowInvalid for a value that does not fit.
    """
    if pt.is_dictionary(target):
        return cast_number(values, target.value_type).dictionary_encode().cast(target)
    if pt.is_decimal(target) and pt.is_integer(values.type):
        return values.cast(pa.decimal128(_DIGITS_OF_INTEGERS, 0)).cast(target)
    if pt.is_floating(target) and not pt.is_integer(values.type):
        return as_float(values, target)
    made = values.cast(target)
    _check_finite(values, made)
    if pt.is_decimal(target) and pt.is_floating(values.type):
        changed = pc.not_equal(made.cast(values.type), values)
        if pc.any(changed).as_py():
            value = values.filter(changed)[0].as_py()
            raise pa.ArrowInvalid(f"{value} has more digits than {target}")
    return made


def as_float(values: Any, target: pa.DataType) -> Any:
    """The float of a type that is nearest to each number.

    Raises ArrowInvalid for a finite number that would become infinite.
    """
    numbers = values if pt.is_floating(values.type) else values.cast(pa.float64(), safe=False)
    made = numbers.cast(target, safe=False)
    _check_finite(numbers, made)
    return made


def fitted_value(value: Any, target: pa.DataType) -> pa.Array:
    """One Python value, a pyarrow or numpy scalar, or a list or mapping of them, as an array.

    Raises InvalidInputError for a value that does not fit the type.
    """
    if isinstance(value, pa.Scalar) and not pt.is_nested(value.type):
        made = pa.array([value], value.type)
    else:
        value = value.as_py() if isinstance(value, pa.Scalar) else value
        value = value.tolist() if hasattr(value, "tolist") else value
        if pt.is_nested(plain_type(target)) and value is not None:
            return fitted(_nested(value, plain_type(target)), target)
        made = _natural(value, plain_type(target))
    if not can_become(made.type, target):
        raise InvalidInputError(f"{value!r} is no value of {target}")
    return fitted(made, target)


def texts_as_moments(texts: Any, target: pa.DataType) -> Any:
    """Texts as the dates, times or timestamps of a column, as DuckDB reads them.

    Raises InvalidInputError for a text that is none, and for a zone or digits that the column does
    not keep, which DuckDB would drop.
    """
    plain = plain_type(target)
    for text in texts.drop_null().to_pylist():
        if _zone(text) and getattr(plain, "tz", None) is None:
            raise InvalidInputError(f"{text!r} has a zone, the column is {target} and has none")
        if _nanoseconds(text) and getattr(plain, "unit", "ns") != "ns":
            raise InvalidInputError(f"{text!r} has more digits than {target}")
    schema = pa.schema([(_TEXT, texts.type)])
    read = parse_expression(f"CAST({_TEXT} AS {_moment_type(target)})", schema)
    try:
        moments = read.evaluate(pa.RecordBatch.from_arrays([texts], schema=schema))
    except InvalidInputError as cause:
        shown = ", ".join(map(repr, texts.drop_null().to_pylist()[:3]))
        raise InvalidInputError(f"{shown} is no value of {target}: {cause.message}") from cause
    return fitted(moments, target)


def _moment_type(target: pa.DataType) -> str:
    """DuckDB's type that holds the moments of a column."""
    target = plain_type(target)
    if pt.is_date(target):
        return "DATE"
    suffix = "_NS" if getattr(target, "unit", "") == "ns" else ""
    if pt.is_time(target):
        return f"TIME{suffix}"
    return f"TIMESTAMP{suffix}" if target.tz is None else f"TIMESTAMPTZ{suffix}"


def _as_uuids(texts: Any) -> pa.Array:
    """The bytes of UUIDs that are written as texts."""
    try:
        found = [None if each is None else UUID(each).bytes for each in texts.to_pylist()]
    except ValueError as cause:
        raise InvalidInputError(f"a text is no UUID: {cause}") from cause
    return pa.array(found, pa.binary(16))


def _as_durations(intervals: Any) -> pa.Array:
    """DuckDB's intervals as durations: a day has 24 hours, and a month no length at all."""
    if isinstance(intervals, pa.ChunkedArray):
        return pa.chunked_array([_as_durations(each) for each in intervals.chunks], _NANOSECONDS)
    parts = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanoseconds", "<i8")])
    values = np.frombuffer(intervals.buffers()[1], parts, len(intervals), intervals.offset * 16)
    is_null = intervals.is_null().to_numpy(zero_copy_only=False)
    if values["months"][~is_null].any():
        raise InvalidInputError("an interval of months has no fixed length")
    days = pa.array(values["days"], pa.int64(), mask=is_null)
    try:
        total = pc.add_checked(pc.multiply_checked(days, _DAY), pa.array(values["nanoseconds"]))
    except pa.ArrowInvalid as cause:
        raise InvalidInputError(f"an interval is too long for a duration: {cause}") from cause
    return total.cast(_NANOSECONDS)


def _natural(value: Any, target: pa.DataType) -> pa.Array:
    """One value in the type that it has by itself; a number in one that is compared exactly."""
    if isinstance(value, int) and not isinstance(value, bool) and not -(1 << 63) <= value < 1 << 64:
        value = Decimal(value)
    if isinstance(value, float) and pt.is_decimal(target) and math.isfinite(value):
        value = Decimal(repr(value))
    if (
        isinstance(value, datetime)
        and pt.is_date(target)
        and value == datetime.combine(value, _MIDNIGHT)
    ):
        value = value.date()
    if isinstance(value, Decimal | int) and pt.is_floating(target) and not isinstance(value, bool):
        value = _as_float(value)
    kind = pa.uint64() if type(value) is int and value >= 1 << 63 else None
    if isinstance(value, datetime) and value.tzinfo is not None:
        kind = pa.timestamp("us", "UTC")
    try:
        return pa.array([value], kind)
    except (pa.ArrowException, OverflowError, ValueError, TypeError) as cause:
        raise InvalidInputError(f"{value!r} is no value of {target}: {cause}") from cause


def _as_float(value: Decimal | int) -> float:
    try:
        made = float(value)
    except OverflowError:
        made = math.inf
    if math.isinf(made) and Decimal(value).is_finite():
        raise InvalidInputError(f"{value} is too large for a float")
    return made


def _nested(value: Any, storage: pa.DataType) -> pa.Array:
    try:
        made = pa.array([value], storage)
    except (pa.ArrowException, OverflowError, ValueError, TypeError) as cause:
        raise InvalidInputError(f"it is no value of {storage}: {cause}") from cause
    if not _is_kept(value, made[0].as_py()):
        raise InvalidInputError(f"{storage} would not hold all of it")
    return made


def _is_kept(given: Any, made: Any) -> bool:
    """Whether a nested value is unchanged: Arrow drops fractions and unknown keys."""
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
    """Raise ArrowInvalid where a cast made a finite number infinite, in lists and structs too."""
    kind = made.type
    if pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind):
        _check_finite(values.flatten(), made.flatten())
    elif pt.is_struct(kind):
        for name in (each.name for each in kind):
            _check_finite(pc.struct_field(values, [name]), pc.struct_field(made, [name]))
    elif pt.is_floating(kind) and values.type != kind and not pt.is_null(values.type):
        numbers = values if pt.is_floating(values.type) else values.cast(pa.float64(), safe=False)
        grown = pc.and_(pc.is_inf(made.cast(pa.float64())), pc.is_finite(numbers))
        if pc.any(grown).as_py():
            value = numbers.filter(grown)[0].as_py()
            raise pa.ArrowInvalid(f"{value} is too large for {kind}")


def _is_uuid(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.UuidType)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pt.is_binary(kind)
        or pt.is_large_binary(kind)
        or pt.is_binary_view(kind)
        or pt.is_fixed_size_binary(kind)
    )


def _is_list(kind: pa.DataType) -> bool:
    return bool(pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind))
