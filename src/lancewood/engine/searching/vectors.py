"""Vectors that callers give, as numbers of the column's type, checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancewood.engine.searching.columns import SearchedColumn
from lancewood.errors import InvalidInputError


def as_vectors(given: Any, searched: SearchedColumn) -> npt.NDArray[Any]:
    """One vector (an array of one dimension) or several (of two) for a search in a column.

    Takes lists, numpy and Arrow arrays. Raises InvalidInputError for what holds something else than
    finite numbers, or another number of them than the column's vectors.
    """
    numbers = _numbers(given)
    name, width = searched.name, searched.dimension
    if numbers.ndim not in (1, 2) or not len(numbers):
        raise InvalidInputError(
            f"vector takes one vector or a list of vectors, got an array with the shape "
            f"{numbers.shape}"
        )
    if numbers.shape[-1] != width:
        raise InvalidInputError(
            f"vector has {numbers.shape[-1]} numbers, and those in column {name!r} have {width}",
            column=name,
        )
    dtype = searched.type.value_type.to_pandas_dtype()
    with np.errstate(over="ignore", invalid="ignore"):
        made: npt.NDArray[Any] = numbers.astype(dtype)
    is_wrong = ~np.isfinite(made) if made.dtype.kind == "f" else made != numbers
    if is_wrong.any():
        at = tuple(int(each[0]) for each in np.nonzero(is_wrong))
        raise InvalidInputError(
            f"vector holds {numbers[at]} at {at[-1]}"
            + (f" of query {at[0]}" if made.ndim == 2 else "")
            + f", which is no finite {searched.type.value_type}, as column {name!r} has them",
            column=name,
        )
    return made


def _numbers(given: Any) -> npt.NDArray[Any]:
    if isinstance(given, pa.ListScalar | pa.FixedSizeListScalar):
        given = given.values
    if isinstance(given, pa.ChunkedArray):
        given = given.combine_chunks()
    if isinstance(given, pa.Array):
        return _of_arrow(given)
    try:
        numbers = np.asarray(given)
    except (ValueError, TypeError) as cause:
        raise InvalidInputError(
            "vector takes a list of numbers, or several of one length: it holds lists of several "
            "lengths, or lists and numbers"
        ) from cause
    return _checked(numbers)


def _of_arrow(given: pa.Array) -> npt.NDArray[Any]:
    lists = 0
    rows = len(given)
    if pa.types.is_list(given.type) or pa.types.is_large_list(given.type):
        lists = len(set(given.value_lengths().to_pylist()))
    if given.null_count or lists > 1:
        raise InvalidInputError(
            "vector holds a null" if given.null_count else "vector holds lists of several lengths"
        )
    is_list = lists or pa.types.is_fixed_size_list(given.type)
    flat = given.flatten() if is_list else given
    if flat.null_count:
        raise InvalidInputError("vector holds a null")
    numbers = _checked(flat.to_numpy(zero_copy_only=False))
    return numbers.reshape(rows, -1) if is_list else numbers


def _checked(numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if numbers.dtype.kind not in "iuf":
        raise InvalidInputError(
            f"vector takes a list of numbers, or several of one length, got values of type "
            f"{numbers.dtype}"
        )
    return numbers
