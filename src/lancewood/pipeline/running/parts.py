"""The parts that a run puts together: who makes frames, loads, checks and draws.

A run knows the order of things, and these know how each is done. A test puts others in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from lancewood.pipeline.definition.model import Check, Pipeline, Target
from lancewood.pipeline.report.events import Listener
from lancewood.pipeline.report.facts import (
    CheckFacts,
    QuarantineFacts,
    RunFacts,
    SourceFacts,
    TargetFacts,
)
from lancewood.pipeline.running.ground import RunGround

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
