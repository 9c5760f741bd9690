"""What a run did, in figures: filled in while it runs, and then shown as text, JSON or a page.

Plain values, without secrets: everything in here may be shown to anybody who may see the tables.

What a run says while it works. Whoever listens draws bars, or nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol


class Ending(StrEnum):
    """How a run ended."""

    PUBLISHED = "published"
    NOTHING_NEW = "nothing new"
    """Nothing came in, or nothing changed: no commit was made."""
    ALREADY_PUBLISHED = "already published"
    """This run id was published before."""
    REVERTED = "reverted"
    """It was published before, and taken back since; ``RunFacts.error`` tells by which commit."""
    CHECKS_FAILED = "checks failed"
    TOO_MANY_BAD_ROWS = "too many bad rows"
    DRY_RUN = "dry run"
    FAILED = "failed"
    """An error; ``RunFacts.error`` tells."""


@dataclass(slots=True)
class SourceFacts:
    name: str
    kind: str
    """``csv``, ``binaryFile``, ``lance table``, ``sql``, …"""
    where: str
    """Path, table or uri, without secrets."""
    rows: int | None = None
    files: int | None = None
    bytes: int | None = None
    since: str | None = None
    """What an incremental source was read since."""
    is_derived: bool = False
    """Whether it is a query over other sources, whose rows are counted there."""


@dataclass(slots=True)
class TargetFacts:
    table: str
    mode: str
    rows_before: int | None = None
    """None: there was no such table."""
    rows_after: int | None = None
    inserted: int | None = None
    updated: int | None = None
    deleted: int | None = None
    columns_added: tuple[str, ...] = ()
    files: int = 0
    bytes: int = 0
    version: int | None = None
    seconds: float = 0.0
    duplicates: int | None = None
    """Rows of the frame that were left out because another one of their key was kept."""
    replaced: int | None = None
    """The rows that were there before an overwrite: they are not among the deleted."""


@dataclass(slots=True)
class CheckFacts:
    name: str
    kind: str
    """``sql``, ``not null``, ``unique``, ``accepted``, ``rows``, ``schema``, ``references``."""
    table: str | None
    is_passed: bool
    is_warning: bool = False
    asked: str = ""
    """What must hold, in words: ``photos.id is never null``."""
    found: str = ""
    """The figure: ``0 of 1,204 rows``, ``1,204 rows, 3.1 % more than before``."""
    failing_rows: int = 0
    """Counted, also beyond those that are kept."""
    columns: tuple[str, ...] = ()
    sample: tuple[tuple[str, ...], ...] = ()
    """The first failing rows, each value as a short text."""
    kept_at: str | None = None
    """The Lance table with the failing rows."""
    seconds: float = 0.0


@dataclass(slots=True)
class QuarantineFacts:
    table: str
    rows: int = 0
    limit: str = ""
    is_beyond: bool = False
    """Whether there are more than the limit allows."""
    by_reason: tuple[tuple[str, str, int], ...] = ()
    """(source or step, reason, rows), most first, at most twenty."""
    sample: tuple[tuple[str, str, str, str, str], ...] = ()
    """A few of the rows: source or step, reason, file, line, and the row as JSON with short
    values; file and line are empty where they are not known."""


@dataclass(slots=True)
class StageFacts:
    name: str
    seconds: float
    rows: int | None = None
    bytes: int | None = None
    files: int | None = None
    begun: float | None = None
    """Seconds after the run began; None: when the stage before ended."""
    is_failed: bool = False
    """Whether an error ended it."""


@dataclass(slots=True)
class PastRun:
    """An earlier published run, for the plots: newest last."""

    run: str
    commit: str
    seconds_since_epoch: int
    rows: dict[str, int]
    """By table."""


@dataclass(slots=True)
class RunFacts:
    pipeline: str
    run: str
    repository: str
    branch: str
    """The one published into."""
    run_branch: str
    started: str
    """ISO 8601, UTC."""
    file: str = ""
    ending: Ending = Ending.FAILED
    seconds: float = 0.0
    attempts: int = 1
    batches: int | None = None
    """Of a stream: how many micro-batches these are the facts of."""
    parameters: dict[str, str] = field(default_factory=dict)
    full_refresh: list[str] = field(default_factory=list)
    """The tables that the run makes anew."""
    sources: list[SourceFacts] = field(default_factory=list)
    targets: list[TargetFacts] = field(default_factory=list)
    checks: list[CheckFacts] = field(default_factory=list)
    quarantine: QuarantineFacts | None = None
    stages: list[StageFacts] = field(default_factory=list)
    base_commit: str | None = None
    commit: str | None = None
    tag: str | None = None
    graph: list[str] = field(default_factory=list)
    """Lines of ``lw log --graph`` of the branch, newest first, at most twenty commits."""
    past: list[PastRun] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    """Lancewood, Spark, Python."""
    error: str | None = None
    what_next: list[str] = field(default_factory=list)
    """Commands that a person may want to type now."""
    folder: str = ""
    """Where report and failing rows are kept."""

    def to_json(self) -> dict[str, Any]:
        """As plain values, for ``--json`` and ``report.json``."""
        from dataclasses import asdict

        return asdict(self)


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
