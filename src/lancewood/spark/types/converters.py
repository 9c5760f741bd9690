"""Converters of columns, each decided once and used for every batch, and what is said of a value
that cannot go where its column goes.

A converter takes an array and returns one of its ``target`` type, or the array itself if it has
that type already. Only what Spark decides late is unknown in advance: the zone of a timestamp, and
whether texts come with wide offsets.

Lists, structs and maps keep their shape, and only what is inside is converted. Below a null list or
struct there may be any values; a converter that checks values never sees those. Slices are cut to
what they show.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancewood.errors import InvalidInputError, LancewoodError, UnsupportedError
from lancewood.jobs.rows.fitting import cast_number
from lancewood.spark.types.schemas import leaf_in_spark

_LONGEST = 80


@dataclass(frozen=True)
class ColumnPath:
    """A column, or a field below one, on its way out of a table or into one."""

    path: str
    is_read: bool
    """From the table to Spark; else from Spark to the table."""

    def below(self, name: str) -> ColumnPath:
        """A field of this column."""
        return ColumnPath(f"{self.path}.{name}", self.is_read)

    def refused(self, shown: str, kind: object) -> LancewoodError:
        """The error for a value that ``kind`` cannot hold."""
        if self.is_read:
            return UnsupportedError(
                f"column {self.path!r} holds {shown}, which Spark's {kind} cannot hold; leave the "
                "column out with columns=, or compute another there",
                column=self.path,
                value=shown,
            )
        return InvalidInputError(
            f"column {self.path!r} holds {shown}, which does not fit the table's {kind}; "
            f"{_instead(kind)} in Spark first",
            column=self.path,
            value=shown,
        )

    def null(self, count: int) -> LancewoodError:
        """The error for nulls that the table does not allow."""
        return InvalidInputError(
            f"column {self.path!r} may not be null, but {count} values are", column=self.path
        )

    def too_large(self) -> LancewoodError:
        """The error for a batch that Spark's offsets of 32 bits cannot address."""
        return UnsupportedError(
            f"column {self.path!r} has more than 2 GB in one batch; read smaller batches with "
            "batch_rows=",
            column=self.path,
        )

    def unexpected(self, kind: pa.DataType, wanted: pa.DataType, cause: Exception) -> Exception:
        """The error for an array of another type than was announced."""
        kinds = UnsupportedError if self.is_read else InvalidInputError
        return kinds(
            f"column {self.path!r} came as {kind} and cannot become {wanted}: {cause}",
            column=self.path,
        )


def _instead(kind: object) -> str:
    """What can be done about a value that does not fit."""
    if isinstance(kind, pa.DataType) and pa.types.is_decimal(kind):
        found = leaf_in_spark(kind)
        name = "…" if found is None else f"DECIMAL({found.precision},{found.scale})"
        return f"change it, or write CAST(… AS {name}),"
    return "cast or change it"


def first_refused(array: pa.Array, convert: Callable[[pa.Array], object]) -> pa.Array | None:
    """The first value, as an array of one, that ``convert`` raises ArrowInvalid for.

    None where each value passes alone.
    """
    start, length = 0, len(array)
    while length > 1:
        half = length // 2
        if _passes(array.slice(start, half), convert):
            start += half
            length -= half
        else:
            length = half
    one = array.slice(start, length)
    return None if _passes(one, convert) else one


def _passes(array: pa.Array, convert: Callable[[pa.Array], object]) -> bool:
    try:
        convert(array)
    except pa.ArrowInvalid:
        return False
    return True


def shown(one: pa.Array) -> str:
    """The only value of an array, as people read it."""
    kind = one.type
    if pa.types.is_timestamp(kind):
        text = str(one.view(pa.timestamp(kind.unit)).cast(pa.string())[0].as_py())
        if text.startswith("<"):  # beyond the years that Arrow can write
            return f"{one.view(pa.int64())[0].as_py()} {kind.unit} since 1970"
        return f"{text}Z" if kind.tz else text
    if pa.types.is_date64(kind):
        return f"{one.view(pa.int64())[0].as_py()} ms since 1970"
    if pa.types.is_duration(kind):
        return f"{one.view(pa.int64())[0].as_py()} {kind.unit}"
    if pa.types.is_time(kind):
        return str(one.cast(pa.string())[0].as_py())
    value = one[0].as_py()
    text = str(value) if pa.types.is_decimal(kind) else repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


BFLOAT16_STORAGE: pa.DataType = pa.binary(2)
_FLOAT: pa.DataType = pa.float32()
_NAN = 0x7FC0
_MOST_OFFSET = (1 << 31) - 1


class Converter(Protocol):
    """Turns arrays of one column into arrays of ``target``."""

    @property
    def target(self) -> pa.DataType: ...

    @property
    def checks(self) -> bool:
        """Whether the converter may refuse a value, and so must not see values below a null."""
        ...

    def __call__(self, array: pa.Array) -> pa.Array: ...


def storage_of(array: pa.Array) -> pa.Array:
    """The array without its extension type."""
    return array.storage if isinstance(array.type, pa.BaseExtensionType) else array


def is_exactly(array: pa.Array, kind: pa.DataType) -> bool:
    """Whether the array has this type, with the same names and metadata inside."""
    return bool(array.type.equals(kind, check_metadata=True))


@dataclass(frozen=True)
class Unchanged:
    """Arrays that have their type already."""

    target: pa.DataType
    checks: bool = False

    def __call__(self, array: pa.Array) -> pa.Array:
        return array


@dataclass(frozen=True)
class LosslessCast:
    """Casts values to another Arrow type; a value that would change is refused."""

    column: ColumnPath
    target: pa.DataType
    checks: bool = False
    name: str = ""
    """The name of the target for people, if not its Arrow type."""

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
        return cast_number(array, self.target)


@dataclass(frozen=True)
class NarrowFloat:
    """Casts values to a narrower float."""

    column: ColumnPath
    target: pa.DataType
    checks: bool = True

    def __call__(self, array: pa.Array) -> pa.Array:
        if array.type.equals(self.target):
            return array
        if pa.types.is_integer(array.type):
            whole = LosslessCast(self.column, pa.float64(), name=str(self.target))
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
    """A float32 with the bfloat16 as its upper half."""

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
    """The upper half of a float32 whose lower half is zero."""

    column: ColumnPath
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
    """The values of a dictionary array."""

    values: Converter
    checks: bool = True
    """Below a null there may be an invalid index."""

    @property
    def target(self) -> pa.DataType:
        return self.values.target

    def __call__(self, array: pa.Array) -> pa.Array:
        array = storage_of(array)
        is_coded = pa.types.is_dictionary(array.type)
        return self.values(array.dictionary_decode() if is_coded else array)


@dataclass(frozen=True)
class Encoded:
    """A dictionary array, with a dictionary for each batch."""

    column: ColumnPath
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
    """An extension type around the result of another converter."""

    target: pa.DataType
    storage: Converter

    @property
    def checks(self) -> bool:
        return self.storage.checks

    def __call__(self, array: pa.Array) -> pa.Array:
        return self.target.wrap_array(self.storage(storage_of(array)))


@dataclass(frozen=True)
class Void:
    """Nulls of a type, for a column without any values."""

    target: pa.DataType
    checks: bool = False

    def __call__(self, array: pa.Array) -> pa.Array:
        return pa.nulls(len(array), self.target)


def is_list(kind: pa.DataType) -> bool:
    """Whether a type is a list type of tables: no list view, which only Arrow has."""
    tests = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(test(kind) for test in tests)


@dataclass(frozen=True)
class Lists:
    """Any kind of lists to lists or large lists."""

    column: ColumnPath
    target: pa.DataType
    element: Converter

    @property
    def checks(self) -> bool:
        return self.element.checks or _is_required(self.column, self.target.value_field)

    def __call__(self, array: pa.Array) -> pa.Array:
        if is_exactly(array, self.target) and not self.checks:
            return array
        array = storage_of(array)
        offsets, values = _spans(array, clean=self.checks)
        values = self.element(values)
        _check_all_there(self.column.below("element"), self.target.value_field, values)
        is_large = pa.types.is_large_list(self.target)
        make = pa.LargeListArray if is_large else pa.ListArray
        locations = _as_arrow(offsets, self.column, is_large=is_large)
        return make.from_arrays(locations, values, type=self.target, mask=_mask(array))


@dataclass(frozen=True)
class FixedSizeLists:
    """Lists that all have the length of the target to fixed-size lists."""

    column: ColumnPath
    target: pa.DataType
    element: Converter
    checks: bool = True

    def __call__(self, array: pa.Array) -> pa.Array:
        size = self.target.list_size
        offsets, values = _spans(array, clean=True)
        lengths = np.diff(offsets)
        valid = _valid(array)
        wrong = lengths != size if valid is None else (lengths != size) & valid
        if wrong.any():
            found = f"a list of {lengths[wrong.argmax()]} values"
            raise self.column.refused(found, self.target)
        values = self.element(values)
        _check_all_there(self.column.below("element"), self.target.value_field, values)
        dense = pa.FixedSizeListArray.from_arrays(values, type=self.target)
        if valid is None:
            return dense
        return dense.take(pa.array(np.cumsum(valid) - 1, pa.int64(), mask=~valid))


@dataclass(frozen=True)
class Structs:
    """Structs with the fields of the target, in its order; a missing field becomes null."""

    column: ColumnPath
    target: pa.DataType
    sources: tuple[int | None, ...]
    """The index of the field that each field of the target is made from."""
    children: tuple[Converter | None, ...]

    @property
    def checks(self) -> bool:
        return any(each is not None and each.checks for each in self.children) or any(
            _is_required(self.column, each) for each in self.target
        )

    def __call__(self, array: pa.Array) -> pa.Array:
        if is_exactly(array, self.target) and not self.checks:
            return array
        array = storage_of(array)
        parts = (
            array.flatten()
            if self.checks and array.null_count
            else [array.field(index) for index in range(array.type.num_fields)]
        )
        made = []
        for field, source, convert in zip(self.target, self.sources, self.children, strict=True):
            if source is None or convert is None:
                made.append(pa.nulls(len(array), field.type))
                continue
            made.append(convert(parts[source]))
            _check_all_there(self.column.below(field.name), field, made[-1], array.null_count)
        if not made:
            valid = array.is_valid().buffers()[1] if array.null_count else None
            return pa.StructArray.from_buffers(self.target, len(array), [valid])
        return pa.StructArray.from_arrays(made, fields=list(self.target), mask=_mask(array))


@dataclass(frozen=True)
class Maps:
    """Maps with other key or value types."""

    column: ColumnPath
    target: pa.DataType
    key: Converter
    value: Converter

    @property
    def checks(self) -> bool:
        return (
            self.key.checks
            or self.value.checks
            or _is_required(self.column, self.target.item_field)
        )

    def __call__(self, array: pa.Array) -> pa.Array:
        if is_exactly(array, self.target) and not self.checks:
            return array
        array = storage_of(array)
        offsets, entries = _spans(array, clean=self.checks)
        keys, values = self.key(entries.field(0)), self.value(entries.field(1))
        _check_all_there(self.column.below("value"), self.target.item_field, values)
        locations = _as_arrow(offsets, self.column, is_large=False)
        return pa.MapArray.from_arrays(locations, keys, values, type=self.target, mask=_mask(array))


def _is_required(column: ColumnPath, field: pa.Field) -> bool:
    """Whether nulls are refused; what a table says of itself is trusted on reading."""
    return not column.is_read and not field.nullable


def _check_all_there(
    column: ColumnPath, field: pa.Field, array: pa.Array, excused: int = 0
) -> None:
    """Raise InvalidInputError if there are more nulls than those above explain."""
    if _is_required(column, field) and array.null_count > excused:
        raise column.null(array.null_count - excused)


def _mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def _valid(array: pa.Array) -> Any:
    return array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None


def _as_arrow(offsets: Any, column: ColumnPath, *, is_large: bool) -> pa.Array:
    if is_large:
        return pa.array(offsets, pa.int64())
    if offsets[-1] > _MOST_OFFSET:
        raise column.too_large()
    return pa.array(offsets.astype(np.int32), pa.int32())


def _spans(array: pa.Array, *, clean: bool) -> tuple[Any, pa.Array]:
    """Offsets of the lists, counted from 0, and the values that they refer to.

    With ``clean`` there are no values below a null list.
    """
    kind = array.type
    if not len(array):  # such an array need not even have the one offset
        return np.zeros(1, np.int64), array.values.slice(0, 0)
    if pa.types.is_fixed_size_list(kind):
        if not (clean and array.null_count):
            size = kind.list_size
            values = array.values.slice(array.offset * size, len(array) * size)
            return np.arange(len(array) + 1, dtype=np.int64) * size, values
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        offsets = array.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
        first, last = offsets[0], offsets[-1]
        if not (clean and array.null_count and np.diff(offsets)[~_valid(array)].any()):
            return offsets - first, array.values.slice(first, last - first)
        if pa.types.is_map(kind):
            entries = pa.list_(pa.field("entries", array.values.type, False))
            array = pa.Array.from_buffers(
                entries, len(array), array.buffers()[:2], -1, array.offset, children=[array.values]
            )
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(array) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets, array.flatten()


def with_offsets(array: pa.Array) -> pa.Array:
    """The array, with lists and texts of its own below lists and maps that have no values at all.

    Before Spark 4.2, Java's Arrow does not write the one offset of those, and Lance reads it.
    """
    kind = array.type
    if not pa.types.is_nested(kind):
        return array if len(array) else pa.nulls(0, kind)
    if pa.types.is_struct(kind):
        fields = [array.field(index) for index in range(kind.num_fields)]
        sound = [with_offsets(each) for each in fields]
        if all(each is before for each, before in zip(sound, fields, strict=True)):
            return array
        return pa.StructArray.from_arrays(sound, fields=list(kind), mask=_mask(array))
    if not len(array):
        return pa.nulls(0, kind)
    values = array.values
    below = with_offsets(values)
    if below is values:
        return array
    own = array.buffers()[: 1 if pa.types.is_fixed_size_list(kind) else 2]
    return pa.Array.from_buffers(kind, len(array), own, -1, array.offset, children=[below])
