"""Diffs: which rows and cells differ between two states of a table, or between two tables.

``compare`` aligns the rows of two states by their ids and places, and says what is known without
values; ``values`` reads the values of the rest. ``by_marks`` answers for two versions of one line
by the marks of rows. ``plan`` decides what a diff compares, ``tasks`` make its rows, here or
elsewhere on the portions of ``splitting``; ``rows`` is what people ask for. ``touching`` says
whether certain rows differ between two states.
"""

from __future__ import annotations

from lancewood.jobs.diff.by_marks import RowChanges, Side, find_changes
from lancewood.jobs.diff.changed_rows import ChosenRows, project_changes, rows_since, rows_until
from lancewood.jobs.diff.columns import ColumnPair, paired_columns, places
from lancewood.jobs.diff.compare import Comparing, compare
from lancewood.jobs.diff.plan import (
    DiffPlan,
    DiffRequest,
    comparable_keys,
    is_one_table,
    not_unique,
    nothing_before,
    plan_diff,
)
from lancewood.jobs.diff.ranges import ALL_IDS, IdRange, id_ranges
from lancewood.jobs.diff.rows import DiffRows
from lancewood.jobs.diff.splitting import (
    Costs,
    DiffCutting,
    DiffPortion,
    Sending,
    SentFragments,
    sent_whole,
)
from lancewood.jobs.diff.states import Comparison, Doubt, Part, Places, State
from lancewood.jobs.diff.tasks import DELETED, INSERTED, DiffShape, DiffTask
from lancewood.jobs.diff.touching import Touching
from lancewood.jobs.diff.values import (
    BlobCells,
    DifferingRows,
    RowReader,
    cast_or_null,
    differing_rows,
    portions,
)

__all__ = [
    "ALL_IDS",
    "DELETED",
    "INSERTED",
    "BlobCells",
    "ChosenRows",
    "ColumnPair",
    "Comparing",
    "Comparison",
    "Costs",
    "DiffCutting",
    "DiffPlan",
    "DiffPortion",
    "DiffRequest",
    "DiffRows",
    "DiffShape",
    "DiffTask",
    "DifferingRows",
    "Doubt",
    "IdRange",
    "Part",
    "Places",
    "RowChanges",
    "RowReader",
    "Sending",
    "SentFragments",
    "Side",
    "State",
    "Touching",
    "cast_or_null",
    "comparable_keys",
    "compare",
    "differing_rows",
    "find_changes",
    "id_ranges",
    "is_one_table",
    "not_unique",
    "nothing_before",
    "paired_columns",
    "places",
    "plan_diff",
    "portions",
    "project_changes",
    "rows_since",
    "rows_until",
    "sent_whole",
]
