"""Spark prints the stack of a query that a batch ended, through every Java frame down to ours. Who
runs the stream hears of it in our words, so that log is off meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lancewood.pipeline.frames.refusals import spark_may_be_gone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TALKATIVE = "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution"


@contextmanager
def quiet(spark: SparkSession) -> Iterator[None]:
    """Let Spark say nothing about queries that fail while the block runs."""
    java: Any = spark._jvm
    logging = java.org.apache.logging.log4j
    before = logging.LogManager.getLogger(_TALKATIVE).getLevel()
    logging.core.config.Configurator.setLevel(_TALKATIVE, logging.Level.OFF)
    try:
        yield
    finally:
        with spark_may_be_gone():
            logging.core.config.Configurator.setLevel(_TALKATIVE, before)
