"""Rows by likeness: which column and index answer, what is asked of pylance, how answers are
ranked."""

from __future__ import annotations

from lancewood.engine.searching.allowed import AllowedRows
from lancewood.engine.searching.columns import (
    checked_metric,
    find_vector_column,
    is_text,
    is_vector,
)
from lancewood.engine.searching.nearest import (
    DISTANCE,
    NearestSearch,
    VectorOptions,
    plan_nearest,
    searched_metric,
)
from lancewood.engine.searching.ranking import ranks
from lancewood.engine.searching.search import condition_plan, plan_search
from lancewood.engine.searching.vectors import as_vectors

__all__ = [
    "DISTANCE",
    "AllowedRows",
    "NearestSearch",
    "VectorOptions",
    "as_vectors",
    "checked_metric",
    "condition_plan",
    "find_vector_column",
    "is_text",
    "is_vector",
    "plan_nearest",
    "plan_search",
    "ranks",
    "searched_metric",
]
