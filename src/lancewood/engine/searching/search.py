"""A search: by a vector, by words, or by both, among rows that meet a condition.

pylance finds rows, and our own readers fetch their columns. By both, each search gives more rows
than are asked for, and the ranks in the two are fused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancewood.data.index_search import NOTHING, Found, SearchedVersion, Words
from lancewood.engine.base import as_list, check_number
from lancewood.engine.rows import ScanPlan, plan_scan, take_addresses, take_row_ids
from lancewood.engine.schema import Columns, Parameters, Projection, project, project_path
from lancewood.engine.searching.allowed import AllowedRows, allowed_rows
from lancewood.engine.searching.columns import find_text_column
from lancewood.engine.searching.nearest import (
    DISTANCE,
    NearestSearch,
    VectorOptions,
    plan_nearest,
    rows_of,
    searched_version,
)
from lancewood.engine.searching.ranking import fused, settled
from lancewood.engine.searching.vectors import as_vectors
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import InvalidInputError
from lancewood.model.index import Index, inverted_details

SCORE = "_score"
QUERY = "query_index"
_NO_OPTIONS = VectorOptions()
_LEAST_FUSED, _TIMES_FUSED = 100, 4
"""Number of rows that each of both searches gives: at least, and as a multiple of ``k``."""


@dataclass(frozen=True, kw_only=True)
class VectorAsked:
    """Vectors to be near to, and how."""

    search: NearestSearch
    numbers: npt.NDArray[Any] = field(repr=False)
    """One vector, or several in two dimensions."""

    @property
    def is_batch(self) -> bool:
        return self.numbers.ndim == 2

    def find(self, snapshot: Snapshot, k: int, allowed: AllowedRows | None) -> Found:
        return self.search.find(snapshot, np.atleast_2d(self.numbers), k, allowed)


@dataclass(frozen=True, kw_only=True)
class TextAsked:
    """Words to be found."""

    version: SearchedVersion
    words: Words
    rows: int
    """Number of rows in the version: no more can be found."""

    def find(self, snapshot: Snapshot, k: int, allowed: AllowedRows | None) -> Found:
        k = min(k, self.rows)
        if not k:
            return NOTHING
        ids = None if allowed is None else allowed.encode()

        def ask(_: npt.NDArray[np.int64], k: int) -> Found:
            return self.version.matches(self.words, k, ids)

        return settled(ask, 1, k, best_is_high=True)


@dataclass(frozen=True, kw_only=True)
class Search:
    """A checked search in one version."""

    snapshot: Snapshot
    k: int
    vector: VectorAsked | None
    text: TextAsked | None
    condition: ScanPlan | None
    projection: Projection

    @property
    def _added(self) -> pa.Field:
        name = SCORE if self.text is not None else DISTANCE
        return pa.field(name, pa.float32(), False)

    @property
    def _is_batch(self) -> bool:
        return self.vector is not None and self.vector.is_batch

    def table(self) -> pa.Table:
        """The rows that were found, best first, with their distances or scores."""
        found = self._found()
        rows = take_addresses(self.snapshot, found.addresses, self.projection)
        values = pa.array(found.values, pa.float32())
        rows = rows.append_column(self._added, values)
        if self._is_batch:
            numbers = pa.array(found.queries, pa.int32())
            rows = rows.add_column(0, pa.field(QUERY, pa.int32(), False), numbers)
        return rows

    def _found(self) -> Found:
        allowed = None if self.condition is None else allowed_rows(self.condition)
        if allowed is not None and not len(allowed):
            return NOTHING
        if allowed is not None and len(allowed) == self.snapshot.manifest.row_count:
            allowed = None
        asked = [each for each in (self.vector, self.text) if each is not None]
        if len(asked) == 1:
            return asked[0].find(self.snapshot, self.k, allowed)
        many = max(_LEAST_FUSED, _TIMES_FUSED * self.k)
        found = [each.find(self.snapshot, many, allowed) for each in asked]
        addresses, scores = fused([each.addresses for each in found], self.k)
        return Found(np.zeros(len(addresses), np.int32), addresses, scores)


def plan_search(
    snapshot: Snapshot,
    *,
    vector: Any = None,
    like: int | None = None,
    text: str | None = None,
    column: str | None = None,
    text_column: str | None = None,
    k: int = 10,
    where: str | None = None,
    parameters: Parameters = None,
    columns: Columns = None,
    options: VectorOptions = _NO_OPTIONS,
) -> Search:
    """The search that a caller asks for; raises InvalidInputError, NotFoundError or
    UnsupportedError before anything is searched."""
    has_vector = vector is not None or like is not None
    if vector is not None and like is not None:
        raise InvalidInputError("give vector= or like=, not both: either says what to be near to")
    if not has_vector and text is None:
        raise InvalidInputError("search needs vector=, like= or text=")
    if text_column is not None and not (has_vector and text is not None):
        raise InvalidInputError(
            "text_column= is for a search by vector and text; otherwise column= says which column"
        )
    if not has_vector and options != _NO_OPTIONS:
        raise InvalidInputError(
            "metric=, refine=, nprobes= and use_index= are for a search by vector: leave them out"
        )
    projection = search_projection(snapshot, columns, parameters)
    asked_vector = None
    if has_vector:
        search = plan_nearest(snapshot, column, options)
        asked_vector = VectorAsked(search=search, numbers=_vector(snapshot, search, vector, like))
        if asked_vector.is_batch and text is not None:
            raise InvalidInputError("a search by vector and text takes one vector")
    asked_text = None
    if text is not None:
        asked_text = plan_words(snapshot, text_column if has_vector else column, text)
    return Search(
        snapshot=snapshot,
        k=check_number("k", k, least=1),
        vector=asked_vector,
        text=asked_text,
        condition=condition_plan(snapshot, where, parameters, columns),
        projection=projection,
    )


def search_projection(
    snapshot: Snapshot, columns: Columns, parameters: Parameters = None
) -> Projection:
    """The columns to fetch; raises InvalidInputError for one that is called like those that a
    search adds."""
    if columns is not None and not isinstance(columns, Mapping):
        columns = as_list("columns", columns)
    projection = project(snapshot.schema, columns, parameters=parameters)
    for name in (DISTANCE, SCORE, QUERY):
        if name in projection.names:
            raise InvalidInputError(
                f"column {name!r} is called like one that a search adds: leave it out with "
                f"columns=, or give it another name: columns={{'other': '{name}'}}",
                column=name,
            )
    return projection


def condition_plan(
    snapshot: Snapshot, where: str | None, parameters: Parameters, columns: Columns
) -> ScanPlan | None:
    """The scan for the rows that may be found; None means all."""
    if where is None:
        if parameters is not None and not isinstance(columns, Mapping):
            raise InvalidInputError(
                "parameters are given, but neither where nor columns hold SQL text"
            )
        return None
    return plan_scan(
        snapshot,
        columns=(),
        where=where,
        parameters=parameters,
        with_row_id=True,
        with_row_address=True,
    )


def plan_words(snapshot: Snapshot, column: str | None, text: str) -> TextAsked:
    """The search for words; a text in double quotes is a phrase.

    Raises InvalidInputError where there are none, and where the index of the column knows no
    phrases.
    """
    try:
        words = text.strip()
        is_text = bool(words.encode())
    except (AttributeError, UnicodeEncodeError):
        is_text = False
    if not is_text:
        raise InvalidInputError(f"text takes words to search for, got {text!r}")
    searched = find_text_column(snapshot, column)
    is_phrase = len(words) > 2 and words[0] == words[-1] == '"' and '"' not in words[1:-1]
    if is_phrase:
        if searched.index is not None:
            _check_positions(searched.index)
        words = words[1:-1]
    return TextAsked(
        version=searched_version(snapshot),
        words=Words(searched.pylance_name, words, is_phrase),
        rows=rows_of(snapshot),
    )


def _check_positions(index: Index) -> None:
    if not inverted_details(index).with_position:
        raise InvalidInputError(
            f"index {index.name!r} does not know where in a text its words are, so it finds no "
            "phrase: leave the quotes out, or build it with options={'with_position': True}"
        )


def _vector(
    snapshot: Snapshot, search: NearestSearch, vector: Any, like: int | None
) -> npt.NDArray[Any]:
    searched = search.column
    if like is None:
        return as_vectors(vector, searched)
    number = check_number("like", like)
    rows = take_row_ids(snapshot, [number], project_path(snapshot.schema, searched.path))
    found: Any = rows[searched.path[0]][0]
    for name in searched.path[1:]:
        found = found[name] if found.is_valid else found
    if not found.is_valid:
        raise InvalidInputError(
            f"the row with id {number} has no vector in column {searched.name!r}", row_id=number
        )
    return as_vectors(found, searched)
