"""Functions that pyarrow lacks, over arrays, usable inside ``pc.Expression`` as well.

A kernel is a Python function of arrays. On arrays it is simply called; in an Expression it is
registered with Arrow, once a process for each pair of types, under a unique name.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

_REGISTRATION = threading.Lock()


@dataclass(frozen=True)
class Kernel:
    """A named function from arrays or scalars to one array; ``types`` are its arguments'."""

    name: str
    types: tuple[pa.DataType, ...]
    result: pa.DataType
    run: Callable[..., pa.Array]

    def call(self, *values: Any) -> Any:
        """The function on arrays, or an Expression that will call it."""
        if not any(isinstance(each, pc.Expression) for each in values):
            return self.run(*_as_arrays(values))
        return pc.Expression._call(self._registered(), list(values))

    def _registered(self) -> str:
        name = f"lancewood.{self.name}({', '.join(map(str, self.types))}) -> {self.result}"
        with _REGISTRATION:
            if name not in pc.list_functions():
                pc.register_scalar_function(
                    self._run_in_arrow,
                    name,
                    {"summary": self.name, "description": "A kernel of Lancewood's."},
                    {f"argument{index}": each for index, each in enumerate(self.types)},
                    self.result,
                )
        return name

    def _run_in_arrow(self, context: Any, *values: Any) -> pa.Array:
        if all(isinstance(each, pa.Scalar) for each in values):
            values = tuple(pa.repeat(each, context.batch_length) for each in values)
        return self.run(*_as_arrays(values))


def try_cast_kernel(source: pa.DataType, target: pa.DataType, cast: Callable[[Any], Any]) -> Kernel:
    """A cast that returns NULL for a value that cannot be cast."""

    def run(values: pa.Array) -> pa.Array:
        try:
            return cast(values)
        except pa.ArrowException:
            encoded = pc.dictionary_encode(values)
            distinct = [_cast_one(encoded.dictionary[i : i + 1]) for i in _indexes(encoded)]
            return pa.concat_arrays([pa.nulls(0, target), *distinct]).take(encoded.indices)

    def _cast_one(value: pa.Array) -> pa.Array:
        try:
            return cast(value)
        except pa.ArrowException:
            return pa.nulls(1, target)

    def _indexes(encoded: pa.DictionaryArray) -> range:
        return range(len(encoded.dictionary))

    return Kernel("try_cast", (source,), target, run)


def remainder_kernel(type_: pa.DataType) -> Kernel:
    """The floating-point remainder with the sign of the dividend."""

    def run(left: pa.Array, right: pa.Array) -> pa.Array:
        valid = pc.and_(pc.is_valid(left), pc.is_valid(right)).to_numpy(zero_copy_only=False)
        with np.errstate(all="ignore"):
            result = np.fmod(_floats(left), _floats(right))
        return pa.array(result, type_, mask=~valid)

    return Kernel("remainder", (type_, type_), type_, run)


def list_contains_kernel(lists: pa.DataType, element: pa.DataType) -> Kernel:
    """Whether a list has an element equal to the second argument; null elements never are."""

    def run(values: pa.Array, needle: pa.Array) -> pa.Array:
        parents = pc.list_parent_indices(values)
        elements = pc.list_flatten(values).cast(element)
        equal = pc.equal(elements, needle.take(parents))
        if pt.is_floating(element):
            both = pc.and_(pc.is_nan(elements), pc.is_nan(needle.take(parents)))
            equal = pc.or_(equal, both)
        found = np.zeros(len(values), dtype=bool)
        found[parents.filter(pc.fill_null(equal, False)).to_numpy(zero_copy_only=False)] = True
        nulls = pc.or_(pc.is_null(values), pc.is_null(needle))
        return pa.array(found, mask=nulls.to_numpy(zero_copy_only=False))

    return Kernel("list_contains", (lists, element), pa.bool_(), run)


def list_element_kernel(lists: pa.DataType) -> Kernel:
    """The element at a position that counts from 1, or from the end if negative; else NULL."""

    def run(values: pa.Array, positions: pa.Array) -> pa.Array:
        starts, lengths, elements = _list_parts(values)
        wanted = pc.fill_null(positions, 0).to_numpy(zero_copy_only=False)
        index = np.where(wanted > 0, wanted - 1, lengths + wanted)
        there = (wanted != 0) & (index >= 0) & (index < lengths)
        there &= pc.is_valid(values).to_numpy(zero_copy_only=False)
        return elements.take(pa.array(starts + np.where(there, index, 0), mask=~there))

    return Kernel("list_element", (lists, pa.int64()), lists.value_type, run)


def _list_parts(values: pa.Array) -> tuple[Any, Any, pa.Array]:
    """Where each list begins in the elements, and how long it is.

    Views are not cast to lists: pyarrow 26 makes invalid arrays of them.
    """
    if pt.is_fixed_size_list(values.type):
        values = values.cast(pa.large_list(values.type.field(0)))
    offsets = values.offsets.to_numpy().astype(np.int64)
    if pt.is_list_view(values.type) or pt.is_large_list_view(values.type):
        return offsets, values.sizes.to_numpy().astype(np.int64), values.values
    return offsets[:-1], np.diff(offsets), values.values


def _floats(values: pa.Array) -> Any:
    return pc.fill_null(values, 0).to_numpy(zero_copy_only=False)


def _as_arrays(values: tuple[Any, ...]) -> list[pa.Array]:
    """Scalars repeated to the length of the arrays beside them, 1 where there is none."""
    length = next((len(each) for each in values if isinstance(each, pa.Array)), 1)
    return [pa.repeat(each, length) if isinstance(each, pa.Scalar) else each for each in values]
