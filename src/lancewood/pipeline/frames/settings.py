"""Settings of a session that suit work with many files, for as long as it takes.

They are the session's: what others plan in it meanwhile has them, too. Only how work is cut
follows from them, never what comes out.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lancewood.spark.tasks import slots

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NO_BOUND = str(1 << 60)
_TASKS_PER_SLOT = 4
_turn = threading.Lock()


@contextmanager
def listing_many(spark: SparkSession) -> Iterator[None]:
    """Names of files, however large, come from as many tasks as run at once: Spark would make a
    task for every 128 MB that it does not read."""
    with _set(spark, {"spark.sql.files.maxPartitionBytes": _NO_BOUND}):
        yield


@contextmanager
def opening_many(spark: SparkSession) -> Iterator[None]:
    """Files that are named one by one are looked for by a few tasks: Spark would make a task for
    each of them."""
    tasks = max(8, _TASKS_PER_SLOT * slots(spark))
    name = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
    with _set(spark, {name: str(tasks)}):
        yield


@contextmanager
def _set(spark: Any, settings: Mapping[str, str]) -> Iterator[None]:
    with _turn:
        before = {name: spark.conf.get(name, None) for name in settings}
        try:
            for name, value in settings.items():
                spark.conf.set(name, value)
            yield
        finally:
            for name, was in before.items():
                if was is None:
                    spark.conf.unset(name)
                else:
                    spark.conf.set(name, was)
