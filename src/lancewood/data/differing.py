"""Which rows of two arrays of one type hold different values.

Null equals null, NaN equals NaN, and 0.0 equals -0.0, as in SQL's ``IS DISTINCT FROM``.
Dictionaries and extensions are compared by value; lists differ by length or by an element.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lancewood.model.segments import expand

Mask: TypeAlias = npt.NDArray[np.bool_]


def differing(one: pa.Array, other: pa.Array) -> Mask:
    """Whether the values of each row differ; both have as many rows, and types of one shape."""
    one, other = bare(one), bare(other)
    here, there = _valid(one), _valid(other)
    found: Mask = here != there
    both = here & there
    if both.any():
        found |= both & _unequal(one, other, both)
    return found


def _unequal(one: Any, other: Any, both: Mask) -> Mask:
    """Whether values differ, in rows that are null in neither array; undefined in others."""
    kind = one.type
    found: Mask
    if pa.types.is_struct(kind):
        found = np.zeros(len(one), np.bool_)
        for at in range(kind.num_fields):
            found |= differing(one.field(at), other.field(at))
    elif pa.types.is_fixed_size_list(kind):
        elements = differing(_elements(one), _elements(other))
        found = np.logical_or.reduce(elements.reshape(len(one), kind.list_size), axis=1)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        found = _unequal_lists(one, other, both)
    elif pa.types.is_floating(kind):
        left, right = (each.fill_null(0).to_numpy(zero_copy_only=False) for each in (one, other))
        found = (left != right) & ~(np.isnan(left) & np.isnan(right))
    else:
        found = _unequal_values(one, other)
    return found


def _unequal_values(one: Any, other: Any) -> Mask:
    try:
        return _mask(pc.fill_null(pc.not_equal(one, other), False))
    except pa.ArrowNotImplementedError:
        pairs = zip(one.to_pylist(), other.to_pylist(), strict=True)
        return np.array([left != right for left, right in pairs], np.bool_)


def _unequal_lists(one: Any, other: Any, both: Mask) -> Mask:
    (left, counts), (right, counts_there) = _bounds(one), _bounds(other)
    found: Mask = counts != counts_there
    rows = np.flatnonzero(both & ~found & (counts > 0))
    if not len(rows):
        return found
    length = counts[rows]
    elements = differing(
        one.values.take(pa.array(expand(left[rows].astype(np.uint64), length, 1))),
        other.values.take(pa.array(expand(right[rows].astype(np.uint64), length, 1))),
    )
    begins = np.concatenate(([0], np.cumsum(length)[:-1]))
    found[rows] = np.logical_or.reduceat(elements, begins)
    return found


def _elements(lists: Any) -> Any:
    """The elements of lists of a fixed size, those below a null list included."""
    size = lists.type.list_size
    return lists.values.slice(lists.offset * size, len(lists) * size)


def _bounds(lists: Any) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Where the elements of each list begin among all values, and how many it has."""
    offsets = lists.offsets.to_numpy().astype(np.int64)
    return offsets[:-1], np.diff(offsets)


def bare(array: Any) -> Any:
    """The values as they are stored: without extensions around them, and not by a dictionary."""
    while isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    return bare(array.dictionary_decode()) if pa.types.is_dictionary(array.type) else array


def _valid(array: pa.Array) -> Mask:
    return _mask(array.is_valid()) if array.null_count else np.ones(len(array), np.bool_)


def _mask(array: Any) -> Mask:
    return np.asarray(array.to_numpy(zero_copy_only=False), np.bool_)
