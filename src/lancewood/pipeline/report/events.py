"""What a run says while it works. Whoever listens draws bars, or nothing."""

from __future__ import annotations

from typing import Protocol

from lancewood.pipeline.report.facts import RunFacts


class Listener(Protocol):
    """Told of each stage: called from the thread of the run, and ``moved`` from any thread."""

    def begun(self, stage: str) -> None:
        """A stage begins, such as ``load photos`` or ``check``."""

    def moved(self, stage: str, done: int, total: int) -> None:
        """So many of Spark's tasks are done, as far as they are known."""

    def ended(
        self,
        stage: str,
        seconds: float,
        *,
        rows: int | None = None,
        bytes: int | None = None,
        files: int | None = None,
    ) -> None:
        """A stage is done. One that failed does not end: ``over`` tells."""

    def told(self, text: str) -> None:
        """Something worth a line."""

    def over(self, facts: RunFacts) -> None:
        """The run is over, however it ended."""


class Silence:
    """Nobody listens; or somebody who only wants to hear some of it, in a subclass."""

    def begun(self, stage: str) -> None: ...

    def moved(self, stage: str, done: int, total: int) -> None: ...

    def ended(
        self,
        stage: str,
        seconds: float,
        *,
        rows: int | None = None,
        bytes: int | None = None,
        files: int | None = None,
    ) -> None: ...

    def told(self, text: str) -> None: ...

    def over(self, facts: RunFacts) -> None: ...
