"""Nested Arrow arrays, brought to exactly the type that a table's schema requires.

Arrays are renamed, reordered, filled and wrapped without copying values. Nothing is cast except a
string or binary to its wider or plain sibling. JSON columns are stored as JSONB bytes and decoded
to text here; the codec itself encodes them on writing. Kinds of JSONB numbers that the codec never
writes (decimals, dates) are refused.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lancewood.errors import FormatError
from lancewood.format.logical_type import JSON, list_size_of_structs
from lancewood.model.ids import FieldId
from lancewood.model.schema import Field

Mask: TypeAlias = npt.NDArray[np.bool_]

_MAX_DEPTH = 256
_ARRAY, _OBJECT, _SCALAR = 0x80000000, 0x40000000, 0x20000000
_NULL, _STRING, _NUMBER, _FALSE, _TRUE, _CONTAINER = range(6)


@dataclass(frozen=True, slots=True)
class FieldPart:
    """One source of a field: an array and the names of its nodes."""

    array: pa.Array
    names: Mapping[FieldId, str] | None = None
    """The name of each node in the array, by field id; None for the names of the table."""
    is_renamed: bool = False

    def child(self, field: Field, *, masked: bool = False) -> FieldPart | None:
        """The part of a struct's child; None if this source does not hold it.

        ``masked`` makes the child null wherever the struct is.
        """
        name = field.name if self.names is None else self.names.get(field.id)
        index = -1 if name is None else self.array.type.get_field_index(name)
        if index < 0:
            return None
        return self.with_array(self.array.flatten()[index] if masked else self.array.field(index))

    def with_array(self, array: pa.Array) -> FieldPart:
        """Another array under the names of this one."""
        return FieldPart(array, self.names, self.is_renamed)


def assemble(
    field: Field, target: pa.DataType, parts: Sequence[FieldPart], length: int
) -> pa.Array:
    """The column (or node) ``field`` with exactly the type ``target``, of ``length`` rows.

    Children that no part holds are null. A struct held by several parts is valid where any of them
    is. Raises FormatError if parts disagree about the length of lists.
    """
    if not parts:
        return pa.nulls(length, target)
    if field.is_blob:
        return parts[0].array
    if len(parts) == 1 and not parts[0].is_renamed:
        array = parts[0].array
        if array.type.equals(target, check_metadata=True) and not any(
            each.logical_type.startswith("dict:") for each in field.walk()
        ):
            return array
    if isinstance(target, pa.BaseExtensionType) and field.logical_type != JSON:
        return target.wrap_array(assemble(field, target.storage_type, parts, length))
    parts = [each.with_array(_storage(each.array)) for each in parts]
    kind = field.logical_type
    if kind == "struct":
        return _struct(field, target, parts, length)
    if kind == "map":
        return _map(field, target, parts[0])
    if field.children:
        if len(parts) == 1:
            return _list(field, target, parts[0])
        return _merged_list(field, target, parts)
    return _leaf(parts[0].array, target, kind)


def assemble_live(
    field: Field, target: pa.DataType, parts: Sequence[FieldPart], live: Mask
) -> pa.Array:
    """The column ``field`` where parts need to agree about its live rows alone.

    Writers put what they like into the deleted rows of a new file: pylance puts null or empty
    lists there. Such rows are as the first part has them. Raises what ``assemble`` raises.
    """
    mask, rows = pa.array(live), int(live.sum())
    of_live = [each.with_array(each.array.filter(mask)) for each in parts]
    whole = assemble(field, target, of_live, rows)
    places = np.arange(len(live)) + rows
    places[live] = np.arange(rows)
    of_first = assemble(field, target, parts[:1], len(live))
    return pa.concat_arrays([whole, of_first]).take(pa.array(places))


def _struct(field: Field, target: pa.DataType, parts: Sequence[FieldPart], length: int) -> pa.Array:
    children = []
    shared = len(parts) > 1  # the struct may be valid in another part
    for child, arrow in zip(field.children, target, strict=True):
        below = [part.child(child, masked=shared) for part in parts]
        found = [each for each in below if each is not None]
        children.append(assemble(child, arrow.type, found, length))
    mask = None
    if all(each.array.null_count for each in parts):
        mask = parts[0].array.is_null()
        for part in parts[1:]:
            mask = pc.and_(mask, part.array.is_null())
    return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)


def _list(field: Field, target: pa.DataType, part: FieldPart) -> pa.Array:
    array = part.array
    values = part.with_array(array.values)
    child = assemble(field.children[0], target.value_type, [values], len(values.array))
    own = 1 if list_size_of_structs(field.logical_type) is not None else 2
    return pa.Array.from_buffers(
        target, len(array), array.buffers()[:own], -1, array.offset, children=[child]
    )


def _merged_list(field: Field, target: pa.DataType, parts: Sequence[FieldPart]) -> pa.Array:
    first = parts[0].array
    size = list_size_of_structs(field.logical_type)
    lengths = pc.list_value_length(first)
    if not all(pc.list_value_length(each.array).equals(lengths) for each in parts[1:]):
        raise FormatError(
            f"the files that share the list {field.name!r} disagree about its lengths",
            column=field.name,
        )
    values = []
    for each in parts:
        array = each.array
        inner = (
            array.flatten()
            if size is None
            else array.values.slice(array.offset * size, len(array) * size)
        )
        values.append(each.with_array(inner))
    child = assemble(field.children[0], target.value_type, values, len(values[0].array))
    mask = first.is_null() if first.null_count else None
    if size is not None:
        return pa.FixedSizeListArray.from_arrays(child, type=target, mask=mask)
    is_large = pa.types.is_large_list(target)
    index = pa.int64() if is_large else pa.int32()
    ends = pc.cumulative_sum(pc.fill_null(lengths, 0).cast(index))
    offsets = pa.concat_arrays([pa.array([0], index), ends])
    made = pa.LargeListArray if is_large else pa.ListArray
    return made.from_arrays(offsets, child, type=target, mask=mask)


def _map(field: Field, target: pa.DataType, part: FieldPart) -> pa.Array:
    array = part.array
    key, value = field.children[0].children
    keys = assemble(key, target.key_type, [part.with_array(array.keys)], len(array.keys))
    items = assemble(value, target.item_type, [part.with_array(array.items)], len(array.items))
    entries = pa.StructArray.from_arrays(
        [keys, items], fields=[target.key_field, target.item_field]
    )
    return pa.Array.from_buffers(
        target, len(array), array.buffers()[:2], -1, array.offset, children=[entries]
    )


def _leaf(array: pa.Array, target: pa.DataType, kind: str) -> pa.Array:
    array = _storage(array)
    if kind == JSON:
        text = decode_jsonb(array) if pa.types.is_large_binary(array.type) else array
        return target.wrap_array(text.cast(target.storage_type))
    if pa.types.is_fixed_size_list(target):
        child = _leaf(array.values, target.value_type, "")
        return pa.Array.from_buffers(
            target, len(array), array.buffers()[:1], -1, array.offset, children=[child]
        )
    if pa.types.is_dictionary(target) and pa.types.is_dictionary(array.type):
        indices, values = _without_null_value(array)
        values = _leaf(values, target.value_type, "")
        return pa.DictionaryArray.from_arrays(indices, values)
    if array.type.equals(target, check_metadata=True):
        return array
    return array.cast(target)


def _without_null_value(array: pa.DictionaryArray) -> tuple[pa.Array, pa.Array]:
    """Indices and values without a null value: Arrow cannot concatenate dictionaries that have
    one."""
    indices, values = array.indices, array.dictionary
    if not len(values):
        return pa.nulls(len(indices), indices.type), values  # the codec stores zeros below a null
    if not values.null_count:
        return indices, values
    there = values.is_valid()
    moved = pc.subtract(pc.cumulative_sum(there.cast(pa.int64())), 1)
    located_files = pc.if_else(there, moved, pa.scalar(None, pa.int64())).cast(indices.type)
    return located_files.take(indices), values.drop_null()


def _storage(array: pa.Array) -> pa.Array:
    return array.storage if isinstance(array.type, pa.BaseExtensionType) else array


def decode_jsonb(column: pa.Array) -> pa.Array:
    """A column of JSONB bytes as strings of JSON text, nulls kept; raises FormatError."""
    try:
        texts = [None if each is None else jsonb_to_text(each) for each in column.to_pylist()]
    except (struct.error, IndexError, UnicodeDecodeError) as cause:
        raise FormatError("a JSON value is cut short or malformed") from cause
    return pa.array(texts, pa.string())


def jsonb_to_text(value: bytes) -> str:
    """One JSONB value as compact JSON text; object keys keep their stored order."""
    return json.dumps(
        _value(memoryview(value), 0), separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def _value(data: memoryview, depth: int) -> object:
    """The value in these bytes, which are a container's own: it cannot reach beyond them."""
    if depth > _MAX_DEPTH:
        raise FormatError(f"a JSON value is nested more than {_MAX_DEPTH} deep")
    (header,) = struct.unpack_from(">I", data)
    count, kind = header & 0x1FFFFFFF, header & 0xE0000000
    total = {_SCALAR: 1, _ARRAY: count, _OBJECT: 2 * count}.get(kind)
    if total is None or 4 * total > len(data):
        raise FormatError(f"a JSON value begins with the unknown header {header:#x}")
    entries = struct.unpack_from(f">{total}I", data, 4)
    items: list[object] = []
    at = 4 + 4 * total
    for entry in entries:
        end = at + (entry & 0x0FFFFFFF)
        if end > len(data):
            raise FormatError("a JSON value is cut short")
        items.append(_item(data[at:end], entry >> 28 & 0x7, depth))
        at = end
    if kind == _SCALAR:
        return items[0]
    if kind == _ARRAY:
        return items
    keys = [each for each in items[:count] if isinstance(each, str)]
    if len(keys) != count:
        raise FormatError("a JSON object has a key that is no text")
    return dict(zip(keys, items[count:], strict=True))


def _item(data: memoryview, kind: int, depth: int) -> object:
    if kind == _NULL:
        return None
    if kind == _STRING:
        return str(data, "utf-8")
    if kind == _NUMBER:
        return _number(bytes(data))
    if kind in (_FALSE, _TRUE):
        return kind == _TRUE
    if kind == _CONTAINER:
        return _value(data, depth + 1)
    raise FormatError(f"a JSON value has an entry of the unknown kind {kind}")


def _number(data: bytes) -> int | float | None:
    """The number; None, as in pylance, for one that JSON cannot express."""
    kind, rest = data[0] >> 4, data[1:]
    if kind == 0:
        return 0
    if kind in (1, 2, 3):  # NaN and the infinities
        return None
    if kind in (4, 5) and len(rest) in (1, 2, 4, 8):
        return int.from_bytes(rest, "big", signed=kind == 4)
    if kind == 6 and len(rest) == 8:
        number = float(struct.unpack(">d", rest)[0])
        return number if math.isfinite(number) else None
    raise FormatError(f"a JSON number has the unknown kind {data[0]:#x}")


def without_offset(array: pa.Array) -> pa.Array:
    """The array, copied where the codec's writer cannot handle a slice.

    It misreads sliced structs, and refuses lists over an empty slice of strings with an offset.
    """
    matters = _has_offset if contains_struct(array.type) else _is_over_no_text
    return _copied(array) if matters(array) else array


def _copied(array: pa.Array) -> pa.Array:
    try:
        return pa.concat_arrays([array])
    except IndexError:
        # Arrow itself fails on empty slices that came through its C interface.
        return array.take(pa.array(range(len(array)), pa.int64()))


def contains_struct(kind: pa.DataType) -> bool:
    """Whether there is a struct anywhere in the type, the entries of a map included."""
    kind = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    if pa.types.is_struct(kind) or pa.types.is_map(kind):
        return True
    return pa.types.is_nested(kind) and contains_struct(kind.value_type)


def _is_over_no_text(array: pa.Array) -> bool:
    """Whether the values of lists are an empty slice of strings with an offset."""
    while pa.types.is_nested(array.type):
        array = _storage(array.values)
    is_fixed = pa.types.is_primitive(array.type) or pa.types.is_fixed_size_binary(array.type)
    return bool(array.offset and not len(array) and not is_fixed)


def _has_offset(array: pa.Array) -> bool:
    array = _storage(array)
    if array.offset:
        return True
    if pa.types.is_struct(array.type):
        return any(_has_offset(array.field(index)) for index in range(array.type.num_fields))
    if pa.types.is_map(array.type):
        return _has_offset(array.keys) or _has_offset(array.items)
    return pa.types.is_nested(array.type) and _has_offset(array.values)
