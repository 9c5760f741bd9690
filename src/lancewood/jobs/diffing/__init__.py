"""Diffs: which rows two states of a table, or two tables, do not have in common.

``plan`` decides what is compared, ``rows`` makes rows and cells of it.
"""

from __future__ import annotations

from lancewood.jobs.diffing.plan import DiffPlan, is_one_table, nothing_before, plan_diff
from lancewood.jobs.diffing.rows import DiffRows, check_kinds

__all__ = [
    "DiffPlan",
    "DiffRows",
    "check_kinds",
    "is_one_table",
    "nothing_before",
    "plan_diff",
]
