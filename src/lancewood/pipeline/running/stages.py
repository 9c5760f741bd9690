"""The stages of a run: told to who listens when they begin and end, and kept with their time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from lancewood.pipeline.report.events import Listener
from lancewood.pipeline.report.facts import RunFacts, StageFacts


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
