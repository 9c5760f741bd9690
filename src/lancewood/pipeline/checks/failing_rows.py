"""What a check on the rows of one table found, from a frame of those that fail.

A table without rows passes, and nothing is read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lancewood.pipeline.checks.gathering import gather
from lancewood.pipeline.checks.kind import Finding, Work, of_rows
from lancewood.pipeline.checks.relations import Relation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def find_failing(work: Work, relation: Relation, failing: Callable[[], DataFrame]) -> Finding:
    """Count the failing rows and keep some; ``failing`` makes their frame."""
    total = relation.count()
    if not total:
        return Finding(True, of_rows(0, 0))
    found = gather(failing(), work.pipeline.kept_rows)
    return Finding(not found.rows, of_rows(found.rows, total), found.rows, found)
