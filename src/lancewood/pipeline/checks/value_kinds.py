"""Which Arrow types have small values, which are bytes, and which Spark may have no room for.

Pure; executors use it, too.
"""

from __future__ import annotations

import pyarrow as pa

_MOST_FIXED_BYTES = 64


def is_small(kind: pa.DataType) -> bool:
    """Whether values are numbers, moments, texts or structs of those: no binaries, lists, maps."""
    if isinstance(kind, pa.BaseExtensionType):
        return is_small(kind.storage_type)
    if pa.types.is_struct(kind):
        return all(is_small(each.type) for each in kind)
    if pa.types.is_dictionary(kind):
        return is_small(kind.value_type)
    if pa.types.is_fixed_size_binary(kind):
        return bool(kind.byte_width <= _MOST_FIXED_BYTES)
    return not (pa.types.is_nested(kind) or is_binary(kind))


def is_binary(kind: pa.DataType) -> bool:
    """Whether values are bytes, of any length."""
    types = pa.types
    return bool(
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_binary_view(kind)
        or types.is_fixed_size_binary(kind)
    )


def may_not_fit(kind: pa.DataType) -> bool:
    """Whether values may be finer than Spark's: nanoseconds, and times of day in dates."""
    if isinstance(kind, pa.BaseExtensionType):
        return may_not_fit(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return may_not_fit(kind.value_type)
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return bool(kind.unit == "ns")
    if pa.types.is_nested(kind):
        return any(may_not_fit(kind.field(at).type) for at in range(kind.num_fields))
    return bool(pa.types.is_date64(kind))
