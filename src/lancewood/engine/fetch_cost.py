"""Whether rows of a column are better fetched one by one, or read with all that lies between.

A model in nanoseconds, measured on local files (``bench/filtered.py``): reading on is cheap, a
value that is fetched alone costs the decoding of the chunk around it. Knows no files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa

from lancewood.data.wanted import is_fixed_width

CALL = 2_000_000.0
"""What one more call of the codec costs, with all that hangs on it."""


class _Cost(NamedTuple):
    """Of one value, and of each byte of it."""

    read: float
    read_byte: float
    take: float
    take_byte: float


_FIXED = _Cost(3.0, 0.8, 6_000.0, 0.6)
_VARIABLE = _Cost(20.0, 1.2, 6_000.0, 0.6)


def savings(
    schema: pa.Schema, widths: Mapping[str, float], rows: int, span: int
) -> dict[str, float]:
    """What each column saves if all of the span is read for the sake of so many rows in it.

    ``widths`` are stored bytes per row. Below zero it is better to fetch the rows alone.
    """
    return {
        each.name: _saving(_FIXED if is_fixed_width(each.type) else _VARIABLE, width, rows, span)
        for each, width in ((each, widths[each.name]) for each in schema)
    }


def _saving(cost: _Cost, width: float, rows: int, span: int) -> float:
    if rows == span:
        return rows * cost.take
    taking = rows * (cost.take + cost.take_byte * width)
    return taking - span * (cost.read + cost.read_byte * width)
