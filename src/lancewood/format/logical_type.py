"""The ``logical_type`` strings of leaves, and the Arrow types they mean.

Only the grammar of one string: a struct, a list, a map and a fixed-size list of structs get their
Arrow type from their children, in ``format.arrow``.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa

from lancewood.errors import FormatError
from lancewood.model.schema import EXTENSION_METADATA, EXTENSION_NAME

BFLOAT16 = "lance.bfloat16"
JSON = "json"
PARENTS = frozenset({"struct", "list", "list.struct", "large_list", "large_list.struct", "map"})

_MAX_NESTED_LISTS = 16
_MAX_LIST_SIZE = (1 << 31) - 1
_UNITS = ("s", "ms", "us", "ns")

_PLAIN: dict[str, pa.DataType] = {
    "null": pa.null(),
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "halffloat": pa.float16(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "large_string": pa.large_string(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "date32:day": pa.date32(),
    "date64:ms": pa.date64(),
    "time32:s": pa.time32("s"),
    "time32:ms": pa.time32("ms"),
    "time64:us": pa.time64("us"),
    "time64:ns": pa.time64("ns"),
    **{f"duration:{unit}": pa.duration(unit) for unit in _UNITS},
}
_NAMES = {kind: name for name, kind in _PLAIN.items()}
_VARIABLE = frozenset({"string", "large_string", "binary", "large_binary"})
_FIXED_SIZE_LIST = re.compile(r"fixed_size_list:(.*):([0-9]{1,10})\Z", re.DOTALL)
_NUMBER = re.compile(r"-?[0-9]{1,10}\Z")


def is_parent(text: str) -> bool:
    """Whether a field of this logical type has child fields."""
    return text in PARENTS or list_size_of_structs(text) is not None


def list_size_of_structs(text: str) -> int | None:
    """The n of ``fixed_size_list:struct:n``, the only fixed-size list with a child field."""
    found = _FIXED_SIZE_LIST.match(text)
    return _list_size(text, found[2]) if found and found[1] == "struct" else None


def decode_leaf_type(text: str) -> pa.DataType:
    """The Arrow type of a leaf; raises FormatError for a string outside the grammar.

    ``json`` is the Arrow extension over strings; its bytes in the file are handled by ``data``.
    """
    if text in _PLAIN:
        return _PLAIN[text]
    if text == JSON:
        return pa.json_(pa.string())
    head, _, rest = text.partition(":")
    reader = _READERS.get(head)
    if reader is None:
        raise _unknown(text)
    try:
        return reader(text, rest)
    except (ValueError, OverflowError, pa.ArrowException) as cause:
        raise _unknown(text) from cause


def encode_leaf_type(kind: pa.DataType) -> str | None:
    """The logical type of an Arrow leaf type; None if the format has none.

    Views become their plain kind. For an extension type, pass its storage type.
    """
    if kind in _NAMES:
        return _NAMES[kind]
    if pa.types.is_fixed_size_binary(kind):
        return f"fixed_size_binary:{kind.byte_width}"
    if pa.types.is_timestamp(kind):
        return f"timestamp:{kind.unit}:{kind.tz or '-'}"
    if pa.types.is_decimal128(kind):
        return f"decimal:128:{kind.precision}:{kind.scale}"
    if pa.types.is_decimal256(kind):
        return f"decimal:256:{kind.precision}:{kind.scale}"
    if pa.types.is_fixed_size_list(kind):
        element = _encode_element(kind.value_field)
        return None if element is None else f"fixed_size_list:{element}:{kind.list_size}"
    if pa.types.is_dictionary(kind):
        value, index = encode_leaf_type(kind.value_type), encode_leaf_type(kind.index_type)
        return None if not _fits_dictionary(value) else f"dict:{value}:{index}:false"
    return {"string_view": "string", "binary_view": "binary"}.get(str(kind))


def _encode_element(element: pa.Field) -> str | None:
    metadata = element.metadata or {}
    kind = element.type
    name = metadata.get(EXTENSION_NAME.encode(), b"").decode(errors="replace")
    if isinstance(kind, pa.BaseExtensionType):
        name, kind = kind.extension_name, kind.storage_type
    if name == BFLOAT16 and kind == pa.binary(2):
        return BFLOAT16
    if name:
        return None
    text = encode_leaf_type(kind)
    return text if text is not None and _fits_list(text) else None


def _fits_list(text: str) -> bool:
    return text not in _VARIABLE and text != JSON and not text.startswith("dict:")


def _fits_dictionary(value: str | None) -> bool:
    # A colon in the value type would make the string ambiguous; pylance refuses it too.
    return value is not None and ":" not in value and value not in ("null", JSON)


def _list_size(text: str, digits: str) -> int:
    size = int(digits)
    if not 0 < size <= _MAX_LIST_SIZE:
        raise _unknown(text)
    return size


def _read_fixed_size_list(text: str, _rest: str) -> pa.DataType:
    sizes: list[int] = []
    element = text
    while found := _FIXED_SIZE_LIST.match(element):
        sizes.append(_list_size(text, found[2]))
        element = found[1]
        if len(sizes) > _MAX_NESTED_LISTS:
            raise _unknown(text)
    if not sizes or not (element == BFLOAT16 or _fits_list(element)):
        raise _unknown(text)
    if element == BFLOAT16:
        item = pa.field(
            "item", pa.binary(2), metadata={EXTENSION_NAME: BFLOAT16, EXTENSION_METADATA: ""}
        )
    else:
        item = pa.field("item", decode_leaf_type(element))
    for size in reversed(sizes):
        item = pa.field("item", pa.list_(item, size))
    return item.type


def _read_fixed_size_binary(text: str, rest: str) -> pa.DataType:
    if not rest.isascii() or not rest.isdigit() or not 0 < int(rest[:11]) <= _MAX_LIST_SIZE:
        raise _unknown(text)
    return pa.binary(int(rest))


def _read_timestamp(text: str, rest: str) -> pa.DataType:
    unit, colon, zone = rest.partition(":")
    if unit not in _UNITS or not colon or not zone:
        raise _unknown(text)
    return pa.timestamp(unit, None if zone == "-" else zone)


def _read_decimal(text: str, rest: str) -> pa.DataType:
    parts = rest.split(":")
    if len(parts) != 3 or not all(_NUMBER.match(each) for each in parts):
        raise _unknown(text)
    width, precision, scale = (int(each) for each in parts)
    make: Callable[[int, int], pa.DataType] | None = {
        128: pa.decimal128,
        256: pa.decimal256,
    }.get(width)
    if make is None or abs(scale) > 127:
        raise _unknown(text)
    return make(precision, scale)


def _read_dictionary(text: str, rest: str) -> pa.DataType:
    parts = rest.split(":")
    if len(parts) != 3 or parts[2] not in ("false", "true") or not _fits_dictionary(parts[0]):
        raise _unknown(text)
    value, index = _PLAIN.get(parts[0]), _PLAIN.get(parts[1])
    if value is None or index is None or not pa.types.is_integer(index):
        raise _unknown(text)
    return pa.dictionary(index, value)


def _unknown(text: str) -> FormatError:
    shown = text if len(text) <= 80 else text[:77] + "..."
    return FormatError(
        f"logical type {shown!r} is not one that Lancewood knows", logical_type=shown
    )


_READERS: dict[str, Callable[[str, str], pa.DataType]] = {
    "fixed_size_list": _read_fixed_size_list,
    "fixed_size_binary": _read_fixed_size_binary,
    "timestamp": _read_timestamp,
    "decimal": _read_decimal,
    "dict": _read_dictionary,
}
