"""What a write through Spark did."""

from __future__ import annotations

from dataclasses import dataclass, field

from lancewood.jobs.counts import RowCounts


@dataclass(frozen=True, slots=True)
class Written:
    """The outcome of one write."""

    uri: str
    branch: str | None
    """None on main."""
    version: int
    """The new version; of a write that was skipped, the newest one that was seen."""
    counts: RowCounts = field(default_factory=RowCounts)
    files: int | None = 0
    """New data files; None for a merge, which does not count them."""
    bytes: int | None = 0
    """Their size."""
    skipped: bool = False
    """Nothing was written: the batch is in the table already, or mode is "ignore" and there is a
    table."""
