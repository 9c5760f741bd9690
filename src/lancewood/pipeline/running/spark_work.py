"""What a run has Spark do, and the session that does it.

A run knows the order of things; these functions know how each is done, and tests without Spark
replace them. Spark logs every failing task and query with dozens of Java frames. As a run reports
failures in our own words, those logs are off meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from lancewood.pipeline.checks.running import check_tables, plan_checks, run_checks
from lancewood.pipeline.context import RunContext
from lancewood.pipeline.definition.model import Pipeline
from lancewood.pipeline.frames.frames import Frames
from lancewood.pipeline.frames.refusals import spark_may_be_gone
from lancewood.pipeline.frames.without_spark import check_python, has_no_news
from lancewood.pipeline.loading.load import load_files, load_target
from lancewood.pipeline.loading.planning import plan_targets
from lancewood.pipeline.loading.quarantine import load_quarantine
from lancewood.pipeline.report.following import following
from lancewood.spark.abilities import PIPELINES, release_here, require
from lancewood.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


Session: TypeAlias = Any
"""A Spark session; a run passes it on, and only asks for its version."""
_TALKATIVE = (
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.TaskSetManager",
    "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution",
)


class SparkWork:
    """The functions that do the work of a run."""

    has_no_news = staticmethod(has_no_news)
    plan_targets = staticmethod(plan_targets)
    plan_checks = staticmethod(plan_checks)
    load_target = staticmethod(load_target)
    load_quarantine = staticmethod(load_quarantine)
    load_files = staticmethod(load_files)
    run_checks = staticmethod(run_checks)
    following = staticmethod(following)

    def check_file(self, context: RunContext) -> None:
        """Check the file as far as possible without Spark, and that this Spark can do it."""
        require("a pipeline", PIPELINES, release_here())
        check_python(context.pipeline)
        check_tables(context.pipeline, context)

    def frames(
        self,
        spark: Session,
        context: RunContext,
        states: Mapping[str, Any],
        overrides: Mapping[str, Any],
    ) -> Frames:
        """The frames, from the states of incremental sources and frames that replace sources."""
        return Frames(spark, context.pipeline, context, states, overrides)


def start_session(pipeline: Pipeline) -> Session:
    """A session as the file asks for, or the one that already runs on that master; any running one
    if the file names no master."""
    said = dict(pipeline.spark)
    master = said.pop("master", None)
    return session(master, app_name=f"lancewood {pipeline.name}", conf=said)


@contextmanager
def quiet(spark: SparkSession) -> Iterator[None]:
    """Keep Spark from logging failing tasks and queries inside the block; a Spark Connect server
    has its own log."""
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
