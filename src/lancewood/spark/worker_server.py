"""The process that the columnar door starts beside an executor: see ``columnar.server``.

Run by Java as ``python -m lancewood.spark.worker_server``.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import BinaryIO

from lancewood.spark.columnar.server import Serve, run
from lancewood.spark.columnar.worker import Worker

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
        Worker(incoming, out, lambda options, slots: None).serve()

    return serve


if __name__ == "__main__":
    run(load)
