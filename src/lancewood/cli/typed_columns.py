"""Columns of Parquet and Arrow files as other types, without a loss.

Knows which types are near enough to be turned into each other unasked. Does not read texts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lancewood.cli.text_forms import encoded, from_read, is_bytes, is_text
from lancewood.errors import InvalidInputError

_FAMILIES: tuple[Callable[[pa.DataType], bool], ...] = (
    pa.types.is_integer,
    pa.types.is_date,
    pa.types.is_time,
    pa.types.is_duration,
    pa.types.is_decimal,
    is_text,
    is_bytes,
)
"""Types among which a cast keeps each value, or fails."""


def may_become(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a column of the one type may be appended as the other, its values permitting."""
    if found == wanted:
        return True
    if pa.types.is_dictionary(found):
        return may_become(found.value_type, wanted)
    if pa.types.is_dictionary(wanted):
        return may_become(found, wanted.value_type)
    if pa.types.is_timestamp(found) and pa.types.is_timestamp(wanted):
        return bool(found.tz == wanted.tz)
    if pa.types.is_floating(found) and pa.types.is_floating(wanted):
        return bool(found.bit_width <= wanted.bit_width)
    if pa.types.is_struct(found) and pa.types.is_struct(wanted):
        return [each.name for each in found] == [each.name for each in wanted] and all(
            may_become(ours.type, theirs.type) for ours, theirs in zip(found, wanted, strict=True)
        )
    if pa.types.is_fixed_size_list(found) and pa.types.is_fixed_size_list(wanted):
        same = found.list_size == wanted.list_size
        return same and may_become(found.value_type, wanted.value_type)
    for is_list in (pa.types.is_list, pa.types.is_large_list):
        if is_list(wanted) and (pa.types.is_list(found) or pa.types.is_large_list(found)):
            return may_become(found.value_type, wanted.value_type)
    return any(test(found) and test(wanted) for test in _FAMILIES)


def retyped(array: Any, kind: pa.DataType) -> Any:
    """A typed column as another type; raises InvalidInputError for a value that would change."""
    if array.type == kind:
        return array
    if is_text(array.type) and not is_text(kind):
        return from_read(array, kind)
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, retyped(array, kind.storage_type))
    try:
        if pa.types.is_dictionary(kind):
            return encoded(retyped(array, kind.value_type), kind)
        return pc.cast(array, kind)
    except pa.ArrowException as cause:
        raise InvalidInputError(f"a value cannot be {kind}: {cause}") from cause
