"""Converters of columns without fields below them, each decided once and used for every batch.

A converter is called with an array and gives one of its ``target`` type: the array itself where
the type is right already. What it was not told at birth is only what Spark decides late: the zone
of a timestamp, and whether texts come with wide offsets. Knows nothing of schemas.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from lancewood.spark.types.refusal import Column, first_refused, shown

BFLOAT16_STORAGE: pa.DataType = pa.binary(2)
_FLOAT: pa.DataType = pa.float32()
_NAN = 0x7FC0


class Converter(Protocol):
    """Turns arrays of one column into arrays of ``target``."""

    @property
    def target(self) -> pa.DataType: ...

    @property
    def checks(self) -> bool:
        """Whether it may refuse a value, so that it must see none that lies below a null."""
        ...

    def __call__(self, array: pa.Array) -> pa.Array: ...


def storage_of(array: pa.Array) -> pa.Array:
    """The array without an extension type around it."""
    return array.storage if isinstance(array.type, pa.BaseExtensionType) else array


def is_exactly(array: pa.Array, kind: pa.DataType) -> bool:
    """Whether the array is of this type, with the same names and metadata below."""
    return bool(array.type.equals(kind, check_metadata=True))


@dataclass(frozen=True)
class Cast:
    """Another Arrow type for the same values; one that would change is refused."""

    column: Column
    target: pa.DataType
    via: tuple[pa.DataType, ...] = ()
    """Types to pass on the way, where Arrow has no direct one."""
    checks: bool = False
    name: str = ""
    """What people call the target, if not by its Arrow type."""

    def __call__(self, array: pa.Array) -> pa.Array:
        if array.type.equals(self.target):
            return array
        array = storage_of(array)
        try:
            return self._cast(array)
        except pa.ArrowInvalid as cause:
            bad = first_refused(array, self._cast)
            if bad is None:
                raise self.column.too_large() from cause
            raise self.column.refused(shown(bad), self.name or self.target) from cause
        except pa.ArrowNotImplementedError as cause:
            raise self.column.unexpected(array.type, self.target, cause) from cause

    def _cast(self, array: pa.Array) -> pa.Array:
        for kind in (*self.via, self.target):
            array = array if array.type.equals(kind) else array.cast(kind)
        return array


@dataclass(frozen=True)
class NarrowFloat:
    """A narrower float of the same value."""

    column: Column
    target: pa.DataType
    checks: bool = True

    def __call__(self, array: pa.Array) -> pa.Array:
        if array.type.equals(self.target):
            return array
        if pa.types.is_integer(array.type):
            whole = Cast(self.column, pa.float64(), name=str(self.target))
            array = whole(array)
        narrow = array.cast(self.target)
        if not len(array):
            return narrow
        before = array.to_numpy(zero_copy_only=False)
        with np.errstate(invalid="ignore"):
            after = narrow.to_numpy(zero_copy_only=False).astype(before.dtype)
            bad = (before != after) & np.isfinite(before)
        if bad.any():
            raise self.column.refused(repr(float(before[bad.argmax()])), self.target)
        return narrow


@dataclass(frozen=True)
class FromBfloat16:
    """The upper half of a float32 becomes one."""

    target: pa.DataType = _FLOAT
    checks: bool = False

    def __call__(self, array: pa.Array) -> pa.Array:
        array = storage_of(array)
        data = array.buffers()[1]
        if data is None:
            return pa.nulls(len(array), self.target)
        halves = np.frombuffer(data, np.uint16)[array.offset : array.offset + len(array)]
        floats = (halves.astype(np.uint32) << 16).view(np.float32)
        mask = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
        return pa.array(floats, self.target, mask=mask)


@dataclass(frozen=True)
class ToBfloat16:
    """The upper half of a float32, where the lower is zero."""

    column: Column
    target: pa.DataType = BFLOAT16_STORAGE
    checks: bool = True

    def __call__(self, array: pa.Array) -> pa.Array:
        floats = NarrowFloat(self.column, _FLOAT)(array)
        values = floats.fill_null(0).to_numpy(zero_copy_only=False)
        bits, nan = values.view(np.uint32), np.isnan(values)
        bad = ((bits & 0xFFFF) != 0) & ~nan
        if bad.any():
            raise self.column.refused(repr(float(values[bad.argmax()])), "bfloat16")
        halves = (bits >> 16).astype(np.uint16)
        halves[nan] = _NAN
        valid = floats.is_valid().buffers()[1] if floats.null_count else None
        return pa.Array.from_buffers(self.target, len(array), [valid, pa.py_buffer(halves)])


@dataclass(frozen=True)
class Decoded:
    """The values of a dictionary."""

    values: Converter
    checks: bool = True
    """Below a null there may be an index of no value."""

    @property
    def target(self) -> pa.DataType:
        return self.values.target

    def __call__(self, array: pa.Array) -> pa.Array:
        array = storage_of(array)
        is_coded = pa.types.is_dictionary(array.type)
        return self.values(array.dictionary_decode() if is_coded else array)


@dataclass(frozen=True)
class Encoded:
    """A dictionary over the values, one for each batch."""

    column: Column
    target: pa.DataType
    values: Converter
    checks: bool = True

    def __call__(self, array: pa.Array) -> pa.Array:
        encoded = self.values(array).dictionary_encode()
        try:
            indices = encoded.indices.cast(self.target.index_type)
        except pa.ArrowInvalid as cause:
            found = f"{len(encoded.dictionary)} different values in one batch"
            raise self.column.refused(found, self.target) from cause
        return pa.DictionaryArray.from_arrays(
            indices, encoded.dictionary, ordered=self.target.ordered
        )


@dataclass(frozen=True)
class Wrapped:
    """An extension type around what another converter gives."""

    target: pa.DataType
    storage: Converter

    @property
    def checks(self) -> bool:
        return self.storage.checks

    def __call__(self, array: pa.Array) -> pa.Array:
        return self.target.wrap_array(self.storage(storage_of(array)))


@dataclass(frozen=True)
class Void:
    """Nulls of a type, for a column that has nothing else."""

    target: pa.DataType
    checks: bool = False

    def __call__(self, array: pa.Array) -> pa.Array:
        return pa.nulls(len(array), self.target)
