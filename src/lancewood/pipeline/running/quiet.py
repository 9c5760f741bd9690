"""Spark logs every task and query that fails, through dozens of Java frames. Who runs a pipeline
hears of it in our words, so those logs are off meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lancewood.pipeline.frames.refusals import spark_may_be_gone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TALKATIVE = (
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.TaskSetManager",
    "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution",
)


@contextmanager
def quiet(spark: SparkSession) -> Iterator[None]:
    """Let Spark say nothing about tasks and queries that fail while the block runs; a server of
    Spark Connect has a log of its own."""
    java: Any = getattr(spark, "_jvm", None)
    if java is None:
        yield
        return
    logging = java.org.apache.logging.log4j
    set_level = logging.core.config.Configurator.setLevel
    before = {each: logging.LogManager.getLogger(each).getLevel() for each in _TALKATIVE}
    for each in _TALKATIVE:
        set_level(each, logging.Level.OFF)
    try:
        yield
    finally:
        with spark_may_be_gone():
            for each, level in before.items():
                set_level(each, level)
