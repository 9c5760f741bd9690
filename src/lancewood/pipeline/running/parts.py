"""The parts that a run puts together: who makes frames, loads, checks and draws.

A run knows the order of things, and these know how each is done. A test puts others in their place.

The stages of a run: told to who listens when they begin and end, and kept with their time.

The session of a run that was not given one: with the settings that the file has.

Spark logs every task and query that fails, through dozens of Java frames. Who runs a pipeline
hears of it in our words, so those logs are off meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
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
from lancewood.pipeline.running.ground import RunGround
from lancewood.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


Session: TypeAlias = Any
"""A session of Spark; a run hands it on, and asks it for nothing but its version."""


class RunFrames(Protocol):
    """What a run asks of its frames; see ``frames.frames``."""

    def check(self) -> None: ...

    def is_empty(self) -> bool | None: ...

    def news(self) -> str: ...

    def counted(self) -> Sequence[SourceFacts]: ...

    def states(self) -> Mapping[str, Any]: ...

    def file_tables(self) -> Sequence[tuple[str, Any]]: ...

    def close(self) -> None: ...


class MakeFrames(Protocol):
    def __call__(
        self,
        spark: Session,
        pipeline: Pipeline,
        ground: RunGround,
        states: Mapping[str, Any],
        overrides: Mapping[str, Any],
    ) -> RunFrames: ...


class RunChecks(Protocol):
    def __call__(
        self,
        spark: Session,
        pipeline: Pipeline,
        ground: RunGround,
        folder: Path,
        *,
        around: Callable[[Check], AbstractContextManager[object]],
    ) -> Sequence[CheckFacts]: ...


@dataclass(frozen=True, slots=True)
class Parts:
    """Who does what in a run."""

    has_no_news: Callable[[Pipeline, RunGround, Mapping[str, Any]], bool]
    """Whether it is certain, before Spark starts, that no incremental source has anything new."""
    check_file: Callable[[Pipeline, RunGround], None]
    """Refuses what can be refused without Spark, before it starts."""
    frames: MakeFrames
    plan_targets: Callable[[Session, RunGround, Any], Mapping[str, pa.Schema]]
    """Refuses targets that cannot be loaded, before anything is written; gives the columns that
    their tables will have."""
    load_target: Callable[[Session, RunGround, Target, Any, Listener], TargetFacts]
    load_quarantine: Callable[[Session, RunGround, Pipeline, Any], QuarantineFacts]
    load_files: Callable[[Session, RunGround, str, Any], None]
    """Appends the files that a source has read to their table; see ``real_parts``."""
    plan_checks: Callable[[Session, Pipeline, RunGround, Mapping[str, pa.Schema]], None]
    """Refuses checks that cannot be made, before anything is written."""
    run_checks: RunChecks
    page: Callable[[RunFacts], str]
    """The report as a page."""
    following: Callable[[Session, Listener, str], AbstractContextManager[Any]]
    """Tells how far Spark's tasks are while a stage lasts."""


@dataclass(frozen=True, slots=True)
class Stages:
    """What happens, one after the other."""

    listener: Listener
    facts: RunFacts
    _started: float = field(default_factory=time.monotonic)

    @contextmanager
    def __call__(self, name: str) -> Iterator[StageFacts]:
        """A stage; what it did can be noted in what it gives. One that fails is kept as such, and
        who listens does not hear of its end."""
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


def start_session(pipeline: Pipeline) -> Session:
    """A session as the file asks for, or the one that runs on that master already; where the file
    names no master, any that runs."""
    said = dict(pipeline.spark)
    master = said.pop("master", None)
    return session(master, app_name=f"lancewood {pipeline.name}", conf=said)


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
