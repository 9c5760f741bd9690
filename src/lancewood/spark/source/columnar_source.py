"""``format("lance")`` through the columnar door: from options to a planned read.

Runs in a worker beside the driver. Whatever is not a plain read of rows is left to the source that
Spark runs in Python, errors included: it tells them in its own way.
"""

from __future__ import annotations

from collections.abc import Mapping

from lancewood.spark.columnar import PlannedRead
from lancewood.spark.reading.columnar_read import columnar_read
from lancewood.spark.reading.plan import plan_read
from lancewood.spark.source.lance_source import TableSource, assumed_slots
from lancewood.spark.source.options import Use, check_use


def plan_source(options: Mapping[str, str], slots: int) -> PlannedRead | None:
    """The read that options describe, for a Spark that runs ``slots`` tasks at once.

    None for a table about the table, for a stream, and for a limit that tasks cannot keep to.
    """
    source = TableSource(options)
    asked = source.asked
    if asked.metadata is not None or asked.streaming:
        return None
    check_use(asked, Use.READ)
    scan = source.scan()
    if asked.partitions is not None:
        slots = assumed_slots(asked.partitions)
    plan = plan_read(scan.snapshot, scan.request, slots)
    return None if plan.limit is not None else columnar_read(plan, scan, slots)
