"""The columnar door: a source of our own in Java, which Spark compiles, fed by Python workers.

Knows how the source gets into a Spark, what it is told of a planned read, and how a worker hands
batches over. Reads no table: what a worker does for a request is given to it.
"""

from __future__ import annotations

from lancewood.spark.columnar.door import (
    planned_frame,
    prepare,
    say_once,
    why_closed,
    why_not_tried,
)
from lancewood.spark.columnar.protocol import ColumnReference, PlannedRead

__all__ = [
    "ColumnReference",
    "PlannedRead",
    "planned_frame",
    "prepare",
    "say_once",
    "why_closed",
    "why_not_tried",
]
