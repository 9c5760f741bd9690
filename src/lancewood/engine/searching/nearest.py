"""The nearest rows to vectors: planned by the manifest, found by pylance, fetched by us."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lancewood.data.index_search import NOTHING, Found, Nearest, SearchedVersion
from lancewood.engine.base import check_number
from lancewood.engine.rows import plan_scan
from lancewood.engine.searching.allowed import AllowedRows
from lancewood.engine.searching.columns import (
    SearchedColumn,
    checked_metric,
    find_vector_column,
)
from lancewood.engine.searching.distances import compared
from lancewood.engine.searching.ranking import ranked, settled
from lancewood.engine.snapshot import Snapshot, dataset_address
from lancewood.errors import InvalidInputError, UnsupportedError
from lancewood.model.ids import is_detached
from lancewood.model.index import Index, metric_of, vector_details

DISTANCE = "_distance"
REFINE = 10
"""How many times ``k`` rows are compared by their vectors, where an index keeps codes instead of
vectors; docs/search.md says what that gives."""


@dataclass(frozen=True, kw_only=True)
class VectorOptions:
    """How a caller wants vectors to be searched."""

    metric: str | None = None
    refine: int | None = None
    nprobes: int | None = None
    use_index: bool = True

    def check(self) -> None:
        """Raise InvalidInputError for numbers that mean nothing."""
        for name in ("refine", "nprobes"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), least=1)


@dataclass(frozen=True)
class NearestSearch:
    """A checked search by vectors. Small, and pickles."""

    version: SearchedVersion
    column: SearchedColumn
    asked: Nearest
    rows: int
    """Number of rows in the version: no more can be found, and pylance makes room for all asked."""

    def find(
        self,
        snapshot: Snapshot,
        vectors: npt.NDArray[Any],
        k: int,
        allowed: AllowedRows | None = None,
    ) -> Found:
        """The ``k`` nearest rows to each vector, nearest first, vector after vector.

        Few rows that are allowed are compared by themselves.
        """
        k = min(k, self.rows)
        asked = self.asked
        if asked.refine is not None:
            asked = replace(asked, refine=min(asked.refine, -(-self.rows // max(k, 1))))
        few = None if allowed is None else allowed.few
        if few is not None:
            return compared(snapshot, self.column, few, vectors, k, asked.metric)
        ids = None if allowed is None else allowed.encode()

        def ask(queries: npt.NDArray[np.int64], k: int) -> Found:
            return self.version.nearest(asked, vectors[queries], k, ids)

        if not k:
            return NOTHING
        if asked.use_index:
            return ranked(ask(np.arange(len(vectors)), k), k)
        return settled(ask, len(vectors), k)


def plan_nearest(snapshot: Snapshot, column: str | None, options: VectorOptions) -> NearestSearch:
    """The search in a column; raises InvalidInputError, and UnsupportedError for a table that
    pylance cannot open."""
    options.check()
    searched = find_vector_column(snapshot, column)
    uses_index = options.use_index and searched.index is not None
    asked = Nearest(
        searched.pylance_name,
        searched_metric(searched, options),
        uses_index,
        _refine(searched.index, options.refine) if uses_index else None,
        options.nprobes if uses_index else None,
    )
    return NearestSearch(searched_version(snapshot), searched, asked, rows_of(snapshot))


def rows_of(snapshot: Snapshot) -> int:
    """How many rows a search can find."""
    known = snapshot.manifest.row_count
    return plan_scan(snapshot).count() if known is None else known


def searched_version(snapshot: Snapshot) -> SearchedVersion:
    """What pylance searches; raises UnsupportedError if it cannot open that."""
    location, head = snapshot.location, snapshot.manifest
    if location.store.location("data") is None:
        raise UnsupportedError(
            f"{location.uri} is in the memory of this process, where pylance, which searches, "
            "cannot read it: keep the table on a disk or in an object store"
        )
    if not is_detached(head.version) and snapshot.landed_version != head.version:
        raise UnsupportedError(
            f"{location.uri} is searched by versions, and this is a state of a transaction that is "
            "none yet: search after its commit, or scan here"
        )
    identity = f"{head.transaction_file} {head.timestamp_ns}"
    return SearchedVersion(dataset_address(snapshot), identity)


def searched_metric(searched: SearchedColumn, options: VectorOptions) -> str:
    """What distances are: as the index has them, also for a search without it."""
    index = searched.index
    asked = None if options.metric is None else checked_metric(searched.type, options.metric)
    if asked is not None and not (index is not None and options.use_index):
        return asked
    own = None if index is None else _own_metric(index)
    if index is not None and options.use_index:
        if asked is None and own is None:
            raise UnsupportedError(
                f"index {index.name!r} does not say by which metric it was built, as those of "
                "earlier programs: give metric=, or build it anew"
            )
        if asked is not None and own is not None and asked != own:
            raise InvalidInputError(
                f"index {index.name!r} on column {searched.name!r} finds by {own}, not by {asked}: "
                "leave metric= out, or compare all vectors with use_index=False"
            )
    return asked or checked_metric(searched.type, own)


def _own_metric(index: Index) -> str | None:
    return None if vector_details(index).WhichOneof("stored") is None else metric_of(index)


def _refine(index: Index | None, asked: int | None) -> int | None:
    if asked is not None or index is None:
        return asked
    return None if vector_details(index).WhichOneof("stored") == "whole" else REFINE
