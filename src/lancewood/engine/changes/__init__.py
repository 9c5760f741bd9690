"""Which rows differ between two versions, and reading those rows."""

from __future__ import annotations

from lancewood.engine.changes.change_rows import ChosenRows, project_changes, rows_since, rows_until
from lancewood.engine.changes.changes import RowChanges, Side, find_changes

__all__ = [
    "ChosenRows",
    "RowChanges",
    "Side",
    "find_changes",
    "project_changes",
    "rows_since",
    "rows_until",
]
