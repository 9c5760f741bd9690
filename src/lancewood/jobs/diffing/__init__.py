"""Diffs: which rows differ between two states of a table, or between two tables.

``plan`` decides what is compared, ``tasks`` make the rows of it, here or elsewhere on ``portions``;
``rows`` is what people ask for.
"""

from __future__ import annotations

from lancewood.jobs.diffing.plan import (
    DiffPlan,
    comparable_keys,
    is_one_table,
    not_unique,
    nothing_before,
    plan_diff,
)
from lancewood.jobs.diffing.portions import Costs, DiffCutting, DiffPortion, placed_rows, sent_whole
from lancewood.jobs.diffing.rows import DiffRows, check_kinds
from lancewood.jobs.diffing.tasks import DiffShape, DiffTask

__all__ = [
    "Costs",
    "DiffCutting",
    "DiffPlan",
    "DiffPortion",
    "DiffRows",
    "DiffShape",
    "DiffTask",
    "check_kinds",
    "comparable_keys",
    "is_one_table",
    "not_unique",
    "nothing_before",
    "placed_rows",
    "plan_diff",
    "sent_whole",
]
