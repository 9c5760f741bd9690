"""How much a condition is about, for dry runs: rows, and the fragments that hold them.

Reads the columns of the condition and nothing else.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow.compute as pc

import lancewood as lw
from lancewood.cli.output import counted

_ADDRESS = "_rowaddr"


class Matched(NamedTuple):
    """What a condition is true for."""

    rows: int
    fragments: int

    def __str__(self) -> str:
        return f"{counted(self.rows, 'row')} in {counted(self.fragments, 'fragment')}"


def matched(table: lw.Table, where: str | None) -> Matched:
    """The rows of a condition, or all; raises InvalidInputError where it cannot be evaluated."""
    if where is None:
        return Matched(table.count_rows(), table.stats().fragments)
    rows, fragments = 0, set[int]()
    for batch in table.scan([], where, with_row_address=True).to_batches():
        rows += batch.num_rows
        fragments.update(pc.unique(pc.shift_right(batch.column(_ADDRESS), 32)).to_pylist())
    return Matched(rows, len(fragments))
