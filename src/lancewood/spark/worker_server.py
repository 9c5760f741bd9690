"""The process that the columnar door starts beside an executor: see ``columnar.server``.

Run by Java as ``python -m lancewood.spark.worker_server``.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from importlib import import_module
from typing import BinaryIO

from lancewood.spark.columnar.planned import PythonCommand
from lancewood.spark.columnar.server import Serve, run
from lancewood.spark.columnar.worker import Worker
from lancewood.spark.source.columnar_source import plan_source

_LOADED = (
    "lance.file",
    "pyspark.sql.types",
    "lancewood.data.codec",
    "lancewood.engine.rows",
    "lancewood.expr",
    "lancewood.spark.reading.task",
    "lancewood.spark.types",
    "sqlglot.dialects.duckdb",
)
"""What the first request would import."""


def load() -> Serve:
    """Import everything, and give what a worker does."""
    # The server forks, and has used nothing of it.
    warnings.filterwarnings("ignore", "lance is not fork-safe", UserWarning)
    for each in _LOADED:
        import_module(each)

    def serve(incoming: BinaryIO, out: BinaryIO) -> None:
        Worker(incoming, out, _planned).serve()

    return serve


def _planned(options: Mapping[str, str], slots: int) -> bytes | None:
    found = plan_source(options, slots)
    return None if found is None else found.encode(PythonCommand())


if __name__ == "__main__":
    run(load)
