"""How values are written in CSV and JSON, which have fewer types than a table, and read back.

Bytes are base64. Times, dates and decimals are text, a duration is a number of its unit, a map is a
list of objects with ``key`` and ``value``. In CSV, nested values are JSON, in which NaN, Infinity
and -Infinity are numbers.
"""

from __future__ import annotations

import base64
import binascii
import decimal
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lancewood.errors import InvalidInputError, UnsupportedError
from lancewood.files.formats import is_beyond, shortened, too_large
from lancewood.files.json_text import json_text_with_nan

_TEXT = pa.string()
_OUT_OF_RANGE = "<value out of range"
_FORMULA = r"^[=+\-@\t\r]"


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type for JSON: only numbers, strings, bytes, lists and structs."""
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if pa.types.is_duration(kind):
        return pa.int64()
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_temporal(kind) or pa.types.is_decimal(kind):
        return _TEXT
    if pa.types.is_map(kind):
        entry = [pa.field("key", plain_type(kind.key_type), False)]
        entry.append(pa.field("value", plain_type(kind.item_type)))
        return pa.list_(pa.struct(entry))
    return _with_children(kind, plain_type)


def to_plain(array: Any) -> Any:
    """An array as its plain type."""
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    wanted = plain_type(array.type)
    return array if array.type == wanted else pc.cast(array, wanted)


def as_json_texts(values: Any) -> list[str | None]:
    """Each value of an array as JSON; None for a null."""
    return [
        None if each is None else json_text_with_nan(each) for each in to_plain(values).to_pylist()
    ]


def check_in_range(batch: pa.RecordBatch) -> None:
    """Raise UnsupportedError for a date or time that has no text, such as one in year 300,000."""
    for name, each in zip(batch.schema.names, batch.columns, strict=True):
        if _is_out_of_range(to_plain(each), each.type):
            raise UnsupportedError(
                f"column {name!r} has a date or time that cannot be written as text; leave it out "
                "with --columns, or use another --format: parquet, arrow",
                column=name,
            )


def _is_out_of_range(plain: Any, kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return _is_out_of_range(plain, kind.storage_type)
    if pa.types.is_dictionary(kind):
        return _is_out_of_range(plain, kind.value_type)
    if pa.types.is_temporal(kind) and pa.types.is_string(plain.type):
        return bool(pc.any(pc.starts_with(plain, _OUT_OF_RANGE)).as_py())
    if pa.types.is_struct(kind):
        parts = zip(plain.flatten(), kind, strict=True)
        return any(_is_out_of_range(part, each.type) for part, each in parts)
    if pa.types.is_map(kind):
        key, value = plain.flatten().flatten()
        return _is_out_of_range(key, kind.key_type) or _is_out_of_range(value, kind.item_type)
    return is_list(kind) and _is_out_of_range(plain.flatten(), kind.value_type)


def plain_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch that ``to_pylist`` turns into values of JSON and bytes."""
    arrays = [to_plain(each) for each in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def csv_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch with types that the CSV writer knows."""
    arrays = []
    for each in batch.columns:
        plain = to_plain(each)
        if _is_nested(plain.type) or is_bytes(plain.type):
            plain = pa.array([_csv_text(v) for v in plain.to_pylist()], _TEXT)
        arrays.append(plain)
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _csv_text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return json_text_with_nan(value)


def safe_for_spreadsheets(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch in which no string and no column name begins like a formula.

    An apostrophe is put in front, as OWASP advises against CSV injection. Numbers stay as they are.
    """
    arrays = []
    for each in batch.columns:
        if pa.types.is_dictionary(each.type):
            each = each.cast(each.type.value_type)
        if pa.types.is_string(each.type) or pa.types.is_large_string(each.type):
            quote, nothing = (pa.scalar(text, each.type) for text in ("'", ""))
            marked = pc.binary_join_element_wise(quote, each, nothing)
            each = pc.if_else(pc.match_substring_regex(each, _FORMULA), marked, each)
        arrays.append(each)
    names = [f"'{name}" if re.match(_FORMULA, name) else name for name in batch.schema.names]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def json_read_type(kind: pa.DataType) -> pa.DataType:
    """The type to ask the JSON reader for if it does not know the wanted one."""
    if is_bytes(kind) or isinstance(kind, pa.BaseExtensionType):
        return _TEXT
    if pa.types.is_decimal(kind):
        return kind
    if pa.types.is_fixed_size_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(json_read_type(kind.value_type))
    if pa.types.is_struct(kind) or pa.types.is_list(kind):
        return _with_children(kind, json_read_type)
    plain = plain_type(kind)
    return plain if plain == kind or not _is_nested(plain) else json_read_type(plain)


def csv_read_type(kind: pa.DataType) -> pa.DataType:
    """The type to ask the CSV reader for."""
    if _is_nested(kind) or is_bytes(kind) or isinstance(kind, pa.BaseExtensionType):
        return _TEXT
    if pa.types.is_dictionary(kind):
        return csv_read_type(kind.value_type)
    if pa.types.is_float16(kind):
        return pa.float32()
    return _TEXT if pa.types.is_decimal256(kind) else kind


def from_read(array: Any, kind: pa.DataType) -> Any:
    """What a reader returned, as the wanted type; raises InvalidInputError if a value does not
    fit."""
    if array.type == kind:
        return array
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, from_read(array, kind.storage_type))
    with _fitting(kind):
        if pa.types.is_dictionary(kind):
            return encoded(from_read(array, kind.value_type), kind)
        if (pa.types.is_string(array.type) and _is_nested(kind)) or _holds_special(kind):
            return pa.array([_value(each, kind) for each in array.to_pylist()], kind)
        return _cast(array, kind)


def from_json(values: Iterable[Any], kind: pa.DataType) -> Any:
    """Values as JSON has them, as an array of the wanted type; raises InvalidInputError if one
    does not fit."""
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, from_json(values, kind.storage_type))
    with _fitting(kind):
        if pa.types.is_dictionary(kind):
            return encoded(from_json(values, kind.value_type), kind)
        return pa.array([_value(each, kind) for each in values], kind)


@contextmanager
def _fitting(kind: pa.DataType) -> Iterator[None]:
    """Say of values that do not fit that they do not."""
    try:
        yield
    except (pa.ArrowException, ValueError, TypeError, KeyError, OverflowError) as cause:
        raise InvalidInputError(f"a value cannot be {kind}: {cause}") from cause
    except RecursionError as cause:
        raise InvalidInputError(f"a value cannot be {kind}: it is nested too deep") from cause


def encoded(values: Any, kind: pa.DataType) -> Any:
    """Values as a dictionary and indices; raises ArrowInvalid if they are too many."""
    found = values.dictionary_encode()
    places = pc.cast(found.indices, kind.index_type)
    return pa.DictionaryArray.from_arrays(places, found.dictionary, ordered=kind.ordered)


def _cast(array: Any, kind: pa.DataType) -> Any:
    if pa.types.is_time(kind) and pa.types.is_string(array.type):
        # Arrow reads a time of day only as part of a timestamp.
        moments = pc.binary_join_element_wise("1970-01-01", array, " ")
        array = pc.cast(moments, pa.timestamp(kind.unit))
    return pc.cast(array, kind)


def _value(value: Any, kind: pa.DataType) -> Any:
    """One value from text: bytes from base64, a nested value from JSON or as JSON gave it."""
    if value is None:
        return None
    if is_bytes(kind):
        try:
            return base64.b64decode(value, validate=True)
        except binascii.Error as cause:
            raise ValueError(f"{value[:20]!r} is not base64") from cause
    if pa.types.is_dictionary(kind):
        return _value(value, kind.value_type)
    if not _is_nested(kind):
        return _leaf(value, kind)
    if isinstance(value, str):
        value = _decoded(value)
        if value is None:
            return None
    if pa.types.is_struct(kind):
        _check_keys(value, {each.name for each in kind})
        return {each.name: _value(value.get(each.name), each.type) for each in kind}
    if not isinstance(value, list):
        raise ValueError(f"{_shown(value)} is not a list")
    if pa.types.is_map(kind):
        for each in value:
            _check_keys(each, {"key", "value"})
        return [
            (_value(e["key"], kind.key_type), _value(e["value"], kind.item_type)) for e in value
        ]
    return [_value(each, kind.value_type) for each in value]


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; raises ValueError for a key that it has twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        [(key, _)] = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"it has {key!r} twice")
    return found


def _finite(text: str) -> float:
    """A number of JSON; raises ValueError where a double has it as infinity."""
    number = float(text)
    if math.isinf(number):
        raise ValueError(too_large(text, pa.float64()))
    return number


_decoded = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_finite).decode
"""The value of a text of JSON, in which NaN, Infinity and -Infinity are numbers."""


def _check_keys(value: Any, known: set[str]) -> None:
    if not isinstance(value, dict):
        raise ValueError(f"{_shown(value)} is not an object")
    for key in value:
        if key not in known:
            raise ValueError(f"it has {key!r}, which is none of {', '.join(sorted(known))}")


def _leaf(value: Any, kind: pa.DataType) -> Any:
    """A value that is not nested. Arrow alone would cut 1.5 to an integer."""
    if isinstance(value, str) and not is_text(kind):
        if _takes_numbers(kind) or pa.types.is_boolean(kind):
            raise ValueError(f"{_shown(value)} is text")
        return _cast(pa.array([value]), kind)[0].as_py()
    fits = True
    if pa.types.is_boolean(kind):
        fits = isinstance(value, bool)
    elif pa.types.is_floating(kind):
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        if fits and abs(value) != math.inf and is_beyond(value, kind):
            raise ValueError(too_large(repr(value), kind))
    elif _takes_numbers(kind):
        fits = isinstance(value, int) and not isinstance(value, bool)
    elif is_text(kind):
        fits = isinstance(value, str)
    elif pa.types.is_decimal(kind):
        fits = isinstance(value, int | decimal.Decimal) and not isinstance(value, bool)
    elif pa.types.is_temporal(kind):
        fits = False
    if not fits:
        raise ValueError(f"{_shown(value)} is none")
    return value


def _takes_numbers(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_duration(kind)
    )


def _shown(value: Any) -> str:
    return shortened(repr(value))


def is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def is_bytes(kind: pa.DataType) -> bool:
    return any(
        test(kind)
        for test in (
            pa.types.is_binary,
            pa.types.is_large_binary,
            pa.types.is_fixed_size_binary,
            pa.types.is_binary_view,
        )
    )


def is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def _is_nested(kind: pa.DataType) -> bool:
    return is_list(kind) or bool(pa.types.is_struct(kind) or pa.types.is_map(kind))


def _holds_special(kind: pa.DataType) -> bool:
    """Whether no cast makes it from text: it has bytes or a map, or a nested time or dictionary."""
    if is_bytes(kind) or pa.types.is_map(kind):
        return True
    below = [each.type for each in kind] if pa.types.is_struct(kind) else []
    below += [kind.value_type] if is_list(kind) else []
    return any(
        pa.types.is_time(each) or pa.types.is_dictionary(each) or _holds_special(each)
        for each in below
    )


def without_dictionaries(kind: pa.DataType) -> pa.DataType:
    """The type with values in place of dictionaries, at any depth but not inside maps."""
    if pa.types.is_dictionary(kind):
        return without_dictionaries(kind.value_type)
    return _with_children(kind, without_dictionaries)


def _with_children(kind: pa.DataType, change: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """A nested type with its children changed; any other type unchanged."""
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(change(each.type)) for each in kind])
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(change(kind.value_type)), kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(change(kind.value_type)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(change(kind.value_type)))
    return kind
