"""Few rows compared with vectors one by one, as pylance compares all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from lancewood.data.index_search import Found
from lancewood.engine.rows import take_addresses
from lancewood.engine.schema import project_path
from lancewood.engine.searching.columns import SearchedColumn
from lancewood.engine.searching.ranking import ranked
from lancewood.engine.snapshot import Snapshot

_Numbers: TypeAlias = Any


def compared(
    snapshot: Snapshot,
    searched: SearchedColumn,
    addresses: npt.NDArray[np.uint64],
    vectors: _Numbers,
    k: int,
    metric: str,
) -> Found:
    """The ``k`` rows at these addresses that are nearest to each vector, nearest first."""
    rows = take_addresses(snapshot, addresses, project_path(snapshot.schema, searched.path))
    values: Any = rows.column(searched.path[0]).combine_chunks()
    for name in searched.path[1:]:
        values = pc.struct_field(values, name)  # null where the struct is
    known = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
    # Of numbers that are null inside of a vector, pylance counts a 0.
    stored = values.take(known).flatten().fill_null(0).to_numpy(zero_copy_only=False)
    stored = stored.reshape(len(known), searched.dimension)
    if metric != "hamming":
        stored, vectors = stored.astype(np.float64), vectors.astype(np.float64)
    distances = [_METRICS[metric](stored, each) for each in vectors]
    queries = np.repeat(np.arange(len(vectors), dtype=np.int32), len(known))
    found = np.concatenate(distances).astype(np.float32)
    is_number = ~np.isnan(found)
    every = np.tile(addresses[known], len(vectors))
    return ranked(Found(queries[is_number], every[is_number], found[is_number]), k)


def _l2(stored: _Numbers, query: _Numbers) -> _Numbers:
    return ((stored - query) ** 2).sum(1)


def _dot(stored: _Numbers, query: _Numbers) -> _Numbers:
    return 1 - stored @ query


def _cosine(stored: _Numbers, query: _Numbers) -> _Numbers:
    lengths = np.linalg.norm(stored, axis=1) * np.linalg.norm(query)
    with np.errstate(divide="ignore", invalid="ignore"):
        return 1 - (stored @ query) / lengths


def _hamming(stored: _Numbers, query: _Numbers) -> _Numbers:
    return np.unpackbits(stored ^ query, axis=1).sum(1, dtype=np.int64)


_METRICS: Mapping[str, Callable[[_Numbers, _Numbers], _Numbers]] = {
    "l2": _l2,
    "dot": _dot,
    "cosine": _cosine,
    "hamming": _hamming,
}
