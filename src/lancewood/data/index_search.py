"""Search by pylance: which rows are nearest to vectors, or hold words.

Answers are row addresses and numbers; columns are fetched by our own readers. Knows nothing of
manifests: whoever asks says which column, metric and index, and has checked them.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancewood.data.codec import Translated, not_imported
from lancewood.data.index_engine import DatasetAddress
from lancewood.errors import (
    InvalidInputError,
    LancewoodError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)

if TYPE_CHECKING:
    import lance

Vectors: TypeAlias = npt.NDArray[Any]
"""Numbers of queries: one row for each."""
_INDEX_CACHE = 1 << 30
_METADATA_CACHE = 256 << 20
"""Bytes that all searches of a process keep; those longest unused go."""
_MOST_OPEN = 8
_ADDRESS, _DISTANCE, _SCORE, _QUERY = "_rowaddr", "_distance", "_score", "query_index"


@dataclass(frozen=True)
class Nearest:
    """How vectors are searched. Small, and pickles."""

    column: str
    """The name of the column as pylance spells it."""
    metric: str
    use_index: bool
    refine: int | None = None
    nprobes: int | None = None


@dataclass(frozen=True)
class Words:
    """What is searched in texts."""

    column: str
    """The name of the column as pylance spells it."""
    text: str
    is_phrase: bool = False


class Found(NamedTuple):
    """Rows that were found, in any order."""

    queries: npt.NDArray[np.int32]
    """Which query found the row."""
    addresses: npt.NDArray[np.uint64]
    values: npt.NDArray[np.float32]
    """Distances or scores."""


NOTHING = Found(np.empty(0, np.int32), np.empty(0, np.uint64), np.empty(0, np.float32))


@dataclass(frozen=True)
class SearchedVersion:
    """The version that is searched. Small, and pickles."""

    address: DatasetAddress
    identity: str
    """Tells it from another one that is later found at the same address."""

    def nearest(
        self, asked: Nearest, vectors: Vectors, k: int, allowed: bytes | None = None
    ) -> Found:
        """The ``k`` nearest rows to each vector, among those with ``allowed`` row ids."""
        query = {
            "column": asked.column,
            "q": pa.array(vectors[0]) if len(vectors) == 1 else list(vectors),
            "k": k,
            "metric": asked.metric,
            "use_index": asked.use_index,
            "refine_factor": asked.refine,
            "nprobes": asked.nprobes,
        }
        return self._ask(_DISTANCE, allowed, nearest=query)

    def matches(self, asked: Words, k: int, allowed: bytes | None = None) -> Found:
        """The ``k`` rows with the best scores, among those with ``allowed`` row ids."""
        from lance.query import MatchQuery, PhraseQuery

        kind = PhraseQuery if asked.is_phrase else MatchQuery
        query = kind(asked.text, asked.column)
        return self._ask(_SCORE, allowed, full_text_query=query, limit=k)

    def _ask(self, value: str, allowed: bytes | None, **query: Any) -> Found:
        with Translated(partial(_judge, self.address)):
            found = (
                _DATASETS.at(self)
                .scanner(
                    columns=[value],
                    with_row_address=True,
                    row_addr_allowlist=allowed,
                    disable_scoring_autoprojection=True,
                    **query,
                )
                .to_table()
            )
        values = found[value].to_numpy().astype(np.float32, copy=False)
        queries = (
            found[_QUERY].to_numpy()
            if _QUERY in found.schema.names
            else np.zeros(len(values), np.int32)
        )
        known = ~np.isnan(values)
        return Found(queries[known], found[_ADDRESS].to_numpy()[known], values[known])


class _Datasets:
    """pylance's datasets, kept: opening a version reads its manifest, and each keeps what it has
    read of indices. They do not survive a fork."""

    def __init__(self) -> None:
        self._kept: OrderedDict[object, lance.LanceDataset] = OrderedDict()
        self._lock = threading.Lock()
        self._session: lance.Session | None = None
        self._identities: dict[object, str] = {}
        """What the session knows the versions of places by their numbers as."""
        self._orphans: list[object] = []

    def at(self, version: SearchedVersion) -> lance.LanceDataset:
        key = _key(version)
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found
            session = self._session_for(version)
        made = version.address.open(session)
        with self._lock:
            self._kept[key] = made
            dropped = self._kept.popitem(last=False) if len(self._kept) > _MOST_OPEN else None
        del dropped
        return made

    def _session_for(self, version: SearchedVersion) -> lance.Session:
        """One for all, so that what was read of an index serves the next version; another one where
        a number was that of another version: a branch that is made again counts from the same."""
        place = version.address.uri, version.address.branch, version.address.version
        if self._identities.setdefault(place, version.identity) != version.identity:
            self._session, self._identities = None, {place: version.identity}
        if self._session is None:
            import lance

            self._session = lance.Session(
                index_cache_size_bytes=_INDEX_CACHE, metadata_cache_size_bytes=_METADATA_CACHE
            )
        return self._session

    def after_fork(self) -> None:
        """Start empty in a forked child; what the parent had is kept alive unused."""
        self._orphans += [*self._kept.values(), self._session]
        self._kept, self._lock, self._session = OrderedDict(), threading.Lock(), None
        self._identities = {}


def _key(version: SearchedVersion) -> tuple[object, ...]:
    address = version.address
    bases = ((path, _sorted(options)) for path, options in sorted(address.base_options.items()))
    return (
        version.identity,
        address.uri,
        address.version,
        address.branch,
        _sorted(address.storage_options),
        tuple(bases),
    )


def _sorted(options: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(options.items())) if options else ()


_DATASETS = _Datasets()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_DATASETS.after_fork)


def _judge(address: DatasetAddress, text: str, cause: BaseException) -> LancewoodError:
    asked, lower = f"cannot search {address}", text.lower()
    if isinstance(cause, ImportError):
        return not_imported(asked, text, uri=address.uri)
    kind: type[LancewoodError] = StorageError
    if "not found" in lower or "no such file" in lower:
        kind, asked = NotFoundError, f"{asked}: a file of it, or of an index, is gone"
    elif "not supported" in lower or "not implemented" in lower:
        kind = UnsupportedError
    elif isinstance(cause, ValueError | TypeError):
        kind = InvalidInputError
    return kind(f"{asked}: {text}", uri=address.uri)
