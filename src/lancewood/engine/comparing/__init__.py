"""Which rows and cells of two states of a table differ, and reading them side by side.

``compare`` says what is known without values; ``differing_rows`` reads the values of the rest.
"""

from __future__ import annotations

from lancewood.engine.comparing.cells import (
    BlobCells,
    DifferingRows,
    Places,
    RowReader,
    cast_or_null,
    differing_rows,
    portions,
)
from lancewood.engine.comparing.columns import ColumnPair, paired_columns, places
from lancewood.engine.comparing.compare import Comparing, apart, compare
from lancewood.engine.comparing.ranges import ALL_IDS, IdRange, id_ranges
from lancewood.engine.comparing.states import Comparison, Doubt, Part, State

__all__ = [
    "ALL_IDS",
    "BlobCells",
    "ColumnPair",
    "Comparing",
    "Comparison",
    "DifferingRows",
    "Doubt",
    "IdRange",
    "Part",
    "Places",
    "RowReader",
    "State",
    "apart",
    "cast_or_null",
    "compare",
    "differing_rows",
    "id_ranges",
    "paired_columns",
    "places",
    "portions",
]
