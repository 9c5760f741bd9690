"""What a run is put together from: the parts that do its work, its stages and its session.

A run knows the order of things; the parts know how each is done, and a test can replace them. Spark
logs every failing task and query with dozens of Java frames. As a run reports failures in our own
words, those logs are off meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import pyarrow as pa

from lancewood.pipeline.definition.model import Check, Pipeline, Target
from lancewood.pipeline.frames.refusals import spark_may_be_gone
from lancewood.pipeline.report.facts import (
    CheckFacts,
    Listener,
    QuarantineFacts,
    RunFacts,
    SourceFacts,
    StageFacts,
    TargetFacts,
)
from lancewood.pipeline.running.context import RunContext
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


class RunFrames(Protocol):
    """What a run needs of its frames; see ``frames.frames``."""

    def check(self) -> None: ...

    def is_empty(self) -> bool | None: ...

    def news(self) -> str: ...

    def counted(self) -> Sequence[SourceFacts]: ...

    def states(self) -> Mapping[str, Any]: ...

    def file_tables(self) -> Sequence[tuple[str, Any]]: ...

    def close(self) -> None: ...


class RunChecks(Protocol):
    def __call__(
        self,
        spark: Session,
        pipeline: Pipeline,
        context: RunContext,
        folder: Path,
        *,
        around: Callable[[Check], AbstractContextManager[object]],
    ) -> Sequence[CheckFacts]: ...


@dataclass(frozen=True, slots=True)
class Parts:
    """The functions that do the work of a run."""

    has_no_news: Callable[[Pipeline, RunContext, Mapping[str, Any]], bool]
    """Whether it is certain, before Spark starts, that no incremental source has news."""
    check_file: Callable[[Pipeline, RunContext], None]
    """Refuses what can be refused before Spark starts."""
    frames: Callable[
        [Session, Pipeline, RunContext, Mapping[str, Any], Mapping[str, Any]], RunFrames
    ]
    """Opens the frames, from the states of incremental sources and frames that replace sources."""
    plan_targets: Callable[[Session, RunContext, Any], Mapping[str, pa.Schema]]
    """Refuses targets that cannot be loaded, before anything is written; returns the columns that
    their tables will have."""
    load_target: Callable[[Session, RunContext, Target, Any, Listener], TargetFacts]
    load_quarantine: Callable[[Session, RunContext, Pipeline, Any], QuarantineFacts]
    load_files: Callable[[Session, RunContext, str, Any], None]
    """Appends the files that a source has read to their table."""
    plan_checks: Callable[[Session, Pipeline, RunContext, Mapping[str, pa.Schema]], None]
    """Refuses checks that cannot be made, before anything is written."""
    run_checks: RunChecks
    page: Callable[[RunFacts], str]
    """The report as a page."""
    following: Callable[[Session, Listener, str], AbstractContextManager[Any]]
    """Reports how far Spark's tasks are during a stage."""


@dataclass(frozen=True, slots=True)
class Stages:
    """The stages of a run: reported to the listener, and kept with their times."""

    listener: Listener
    facts: RunFacts
    _started: float = field(default_factory=time.monotonic)

    @contextmanager
    def __call__(self, name: str) -> Iterator[StageFacts]:
        """One stage; its figures can be set on what it yields. A failed stage is kept as such, and
        the listener does not hear of its end."""
        self.listener.begun(name)
        begun = time.monotonic()
        stage = StageFacts(name, 0.0, begun=begun - self._started, is_failed=True)
        try:
            yield stage
            stage.is_failed = False
        finally:
            stage.seconds = time.monotonic() - begun
            self.facts.stages.append(stage)
        self.listener.ended(
            name, stage.seconds, rows=stage.rows, bytes=stage.bytes, files=stage.files
        )


def new_facts(pipeline: Pipeline, run: str, run_branch: str, started: datetime) -> RunFacts:
    """The facts of a run that begins."""
    return RunFacts(
        pipeline=pipeline.name,
        run=run,
        repository=pipeline.repository,
        branch=pipeline.branch,
        run_branch=run_branch,
        started=started.isoformat(timespec="seconds"),
        file=str(pipeline.file),
        parameters=dict(pipeline.parameters),
        full_refresh=[*pipeline.full_refresh],
    )


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
