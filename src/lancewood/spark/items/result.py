"""What a job over many items did: figures, and on demand each item.

Knows nothing of repositories.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lancewood.repo.items.outcome import Done, Outcome, Tally

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class ItemsDone:
    """Figures of a job; they add up to ``items``."""

    run: str | None
    """The id of the run; None for what has none."""
    items: int
    written: int
    """Items that have a new snapshot, a new tag, or were imported."""
    unchanged: int
    """Items that were so before."""
    already: int
    """Items to which the same run had done it before, perhaps in another attempt."""
    moved: int
    """Items whose tag was moved."""
    refused: int
    """Items to which nothing was done; with ``on_error="report"`` only."""
    refusals: tuple[Outcome, ...] = ()
    """The first few of those, with the reasons."""
    details: DataFrame | None = field(default=None, compare=False, repr=False)
    """With ``details=True`` a row for each item: item, done, hash, error, why."""

    @classmethod
    def of(cls, tally: Tally, run: str | None, details: DataFrame | None) -> ItemsDone:
        return cls(
            run,
            tally.items,
            tally[Done.WRITTEN],
            tally[Done.UNCHANGED],
            tally[Done.ALREADY],
            tally[Done.MOVED],
            tally[Done.REFUSED],
            tuple(tally.refusals),
            details,
        )
