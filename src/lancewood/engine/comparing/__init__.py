"""Which rows and cells of two states of a table differ, and reading them side by side.

``compare`` says what is known without values; ``differing_rows`` reads the values of the rest.
"""

from __future__ import annotations

from lancewood.engine.comparing.cells import (
    DifferingRows,
    Places,
    RowReader,
    cast_or_null,
    differing_rows,
    portions,
)
from lancewood.engine.comparing.columns import ColumnPair, paired_columns, places
from lancewood.engine.comparing.compare import Comparison, Doubt, Part, State, apart, compare

__all__ = [
    "ColumnPair",
    "Comparison",
    "DifferingRows",
    "Doubt",
    "Part",
    "Places",
    "RowReader",
    "State",
    "apart",
    "cast_or_null",
    "compare",
    "differing_rows",
    "paired_columns",
    "places",
    "portions",
]
