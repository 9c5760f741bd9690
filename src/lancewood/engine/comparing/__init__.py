"""Which rows and cells of two states of a table differ, and reading them side by side.

``compare`` says what is known without values; ``differing_rows`` reads the values of the rest.
"""

from __future__ import annotations

from lancewood.engine.comparing.cells import (
    DifferingRows,
    Places,
    RowReader,
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
    "compare",
    "differing_rows",
    "paired_columns",
    "places",
    "portions",
]
