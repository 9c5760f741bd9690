"""The process that the columnar door starts beside an executor: see ``columnar.server``.

Run by Java as ``python -m lancewood.spark.worker_server MARK``, which says what Java was made of:
where that came from another machine, this Lancewood may be another one. Beside a driver its workers
plan what ``format("lance")`` reads. Whatever is not a plain read of rows is left to the source that
Spark runs in Python, errors included: it tells them in its own way.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from importlib import import_module
from typing import BinaryIO

from lancewood.spark.columnar.jar import mark
from lancewood.spark.columnar.planned import PythonCommand
from lancewood.spark.columnar.server import Serve, run
from lancewood.spark.columnar.worker import Worker
from lancewood.spark.reading.columnar_read import columnar_read
from lancewood.spark.reading.plan import plan_read
from lancewood.spark.source.lance_source import TableSource, assumed_slots
from lancewood.spark.source.options import Use, check_use
from lancewood.version import RELEASE

_LOADED = (
    "lance.file",
    "pyspark.sql.types",
    "lancewood.data.codec",
    "lancewood.engine.rows",
    "lancewood.expr",
    "lancewood.spark.reading.task",
    "lancewood.spark.types",
    "duckdb",
)
"""Modules that the first request would import."""


def load() -> Serve:
    """Import everything, and give what a worker does."""
    # The server forks, and has used nothing of it.
    warnings.filterwarnings("ignore", "lance is not fork-safe", UserWarning)
    for each in _LOADED:
        import_module(each)

    def serve(incoming: BinaryIO, out: BinaryIO) -> None:
        Worker(incoming, out, plan_source).serve()

    return serve


def plan_source(options: Mapping[str, str], slots: int) -> bytes | None:
    """The read that options describe, encoded, for a Spark that runs ``slots`` tasks at once.

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
    return (
        None if plan.limit is not None else columnar_read(plan, scan, slots).encode(PythonCommand())
    )


if __name__ == "__main__":
    if sys.argv[1:] != [mark()]:
        sys.exit(f"Lancewood {RELEASE} is here, and another one where the read was planned")
    run(load)
