"""Spark's daemons of Python workers load what our tasks need before they fork one.

Python runs this at its start where this folder is on its path. Spark has a daemon for the workers
of its tasks, and one for each module that plans something of a source (``create_data_source``,
``write_into_data_source``, …), for which no setting names another daemon. Tests start hundreds of
workers: one that failed is never used again. Forking after pylance was imported is safe, as long as
it was not used.
"""

from __future__ import annotations

import sys

DAEMON = ["-m", "pyspark.daemon"]


def load(worker: str) -> None:
    """What our tasks load, and the module of the workers, without what is said about that."""
    import gc
    import warnings
    from importlib import import_module

    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    warnings.filterwarnings("ignore", "lance is not fork-safe", UserWarning)
    for name in (
        "pandas",
        "pyspark.sql.connect",
        "lancewood.data.codec",
        "lancewood.spark.reading.task",
        "lancewood.spark.source.lance_source",
        "lancewood.spark.writing.work",
        worker,
    ):
        import_module(name)
    gc.collect()
    gc.freeze()


if sys.orig_argv[1:3] == DAEMON:
    load(sys.orig_argv[3])
