"""What was found in its order: by distance or score, and where these are equal by row address, so
that the same search has the same answer. Pure functions of arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from lancewood.data.index_search import Found

Ask = Callable[[npt.NDArray[np.int64], int], Found]
"""Asks some queries, by their numbers from 0, for this many rows each."""
RANKS_FROM = 60
"""The constant of reciprocal rank fusion: a row gets 1 / (60 + its rank), of each search."""
_MOST_TIED = 1 << 16


def ranked(found: Found, k: int, *, best_is_high: bool = False) -> Found:
    """The ``k`` best rows of each query, best first, query after query."""
    values = -found.values if best_is_high else found.values
    order = np.lexsort((found.addresses, values, found.queries))
    queries = found.queries[order]
    kept = order[ranks(queries) < k]
    return Found(found.queries[kept], found.addresses[kept], found.values[kept])


def ranks(queries: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """The place of each row in its query, from 0, where the rows of a query follow each other."""
    begins = np.flatnonzero(np.diff(queries, prepend=queries[:1] - 1))
    return np.arange(len(queries)) - np.repeat(begins, np.diff(begins, append=len(queries)))


def settled(ask: Ask, queries: int, k: int, *, best_is_high: bool = False) -> Found:
    """The ``k`` best rows of each query, asking for more candidates while a tie at rank ``k`` could
    still change which these are."""
    parts, left, asked = [], np.arange(queries), k + 1
    while True:
        found = ranked(ask(left, asked), asked, best_is_high=best_is_high)
        is_tied = _tied(found, len(left), k, asked)
        is_last = asked - k >= _MOST_TIED
        done = ~is_tied[found.queries] if not is_last else np.ones(len(found.queries), np.bool_)
        numbers = left[found.queries[done]].astype(np.int32)
        parts.append(Found(numbers, found.addresses[done], found.values[done]))
        left = left[is_tied]
        if is_last or not len(left):
            together = Found(*map(np.concatenate, zip(*parts, strict=True)))
            return ranked(together, k, best_is_high=best_is_high)
        asked = k + min(8 * asked, _MOST_TIED)


def _tied(found: Found, queries: int, k: int, asked: int) -> npt.NDArray[np.bool_]:
    """The queries whose last row is as good as the ``k``-th: others may be, too."""
    counts = np.bincount(found.queries, minlength=queries)
    ends = np.cumsum(counts)
    is_tied: npt.NDArray[np.bool_] = counts == asked
    last = ends[is_tied] - 1
    at_k = (ends - counts)[is_tied] + k - 1
    is_tied[is_tied] = found.values[last] == found.values[at_k]
    return is_tied


def fused(
    searches: Sequence[npt.NDArray[np.uint64]], k: int
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.float32]]:
    """The addresses that rank best in all searches together, and their scores: reciprocal rank
    fusion."""
    every = np.concatenate(searches)
    shares = [1 / (RANKS_FROM + 1 + np.arange(len(each))) for each in searches]
    addresses, back = np.unique(every, return_inverse=True)
    scores = np.bincount(back, np.concatenate(shares), minlength=len(addresses))
    order = np.lexsort((addresses, -scores))[:k]
    return addresses[order], scores[order].astype(np.float32)
