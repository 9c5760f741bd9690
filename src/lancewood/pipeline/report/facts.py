"""What a run did, in figures, and what it reports while it works: its stages, and how many tasks of
Spark are done.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, is_dataclass
from enum import StrEnum
from itertools import repeat
from threading import Event, Thread
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Protocol,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from lancewood.spark.tasks import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_Facts = TypeVar("_Facts")


class Ending(StrEnum):
    """How a run ended."""

    PUBLISHED = "published"
    NOTHING_NEW = "nothing new"
    """Nothing came in, or nothing changed: there is no commit."""
    ALREADY_PUBLISHED = "already published"
    """This run id was published before."""
    REVERTED = "reverted"
    """The run was published before and reverted since; ``RunFacts.error`` names the commit."""
    CHECKS_FAILED = "checks failed"
    TOO_MANY_BAD_ROWS = "too many bad rows"
    DRY_RUN = "dry run"
    FAILED = "failed"
    """An error; see ``RunFacts.error``."""


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
    """The point from which on an incremental source was read."""
    passed_over: int | None = None
    """Files that Spark leaves out for their names, which begin with ``_`` or ``.``; None: unknown,
    as it is wherever files are not on a disk of this machine."""
    is_derived: bool = False
    """Whether the source is a query over other sources, where its rows are counted."""


@dataclass(slots=True)
class TargetFacts:
    table: str
    mode: str
    rows_before: int | None = None
    """Number of rows before the run; None: the table did not exist."""
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
    """Rows of the frame left out because another row with the same key was kept."""
    replaced: int | None = None
    """The rows there were before an overwrite; they do not count as deleted."""
    indices_created: tuple[str, ...] = ()
    indices_extended: tuple[str, ...] = ()
    indices_waiting: tuple[str, ...] = ()
    """Left to a later run: the table has too few rows, no row of it changed, or the index was made
    beside the repository meanwhile."""
    indices_left_out: tuple[str, ...] = ()
    """Built on the run's branch and not published as built, because others wrote meanwhile; the
    next run builds what is missing."""


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
    """Number of all failing rows, not just of those that are kept."""
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
    """Whether there are more bad rows than the limit allows."""
    by_reason: tuple[tuple[str, str, int], ...] = ()
    """(source or step, reason, rows), most first, at most twenty."""
    sample: tuple[tuple[str, str, str, str, str], ...] = ()
    """A few of the rows: source or step, reason, file, line, and the row as JSON with short values.
    File and line are empty if unknown."""


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
    """Whether the stage ended with an error."""


@dataclass(slots=True)
class PastRun:
    """An earlier published run, for the plots: newest last."""

    run: str
    commit: str
    seconds_since_epoch: int
    rows: dict[str, int]
    """Number of rows in each table."""


@dataclass(slots=True)
class RunFacts:
    """What a run did, in figures."""

    pipeline: str
    run: str
    repository: str
    branch: str
    """The branch to publish into."""
    run_branch: str
    started: str
    """ISO 8601, UTC."""
    file: str = ""
    ending: Ending = Ending.FAILED
    seconds: float = 0.0
    attempts: int = 1
    batches: int | None = None
    """The number of micro-batches of a stream."""
    parameters: dict[str, str] = field(default_factory=dict)
    full_refresh: list[str] = field(default_factory=list)
    """The tables that the run rebuilds."""
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
    """Commands that a person may want to type next."""
    folder: str = ""
    """Where the report and failing rows are kept."""

    def to_json(self) -> dict[str, Any]:
        """Plain values, for ``--json`` and ``report.json``."""
        return asdict(self)


def from_json(kind: type[_Facts], document: Any) -> _Facts:
    """A dataclass such as ``SourceFacts`` from the values that JSON has for it; unknown keys are
    passed over. Raises TypeError for a value of another type, and for a missing one."""
    if type(document) is not dict:
        raise TypeError(f"{document!r:.80} is no object of JSON")
    types = get_type_hints(kind)
    known = [name for name in types if name in document]
    return kind(**{name: _typed(document[name], types[name]) for name in known})


def _typed(value: Any, hint: Any) -> Any:
    """The value itself, lists as the tuples that they were before."""
    hint = getattr(hint, "__supertype__", hint)
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return None if value is None else _typed(value, inner[0])
    if is_dataclass(hint) and isinstance(hint, type):
        return from_json(hint, value)
    if origin in (tuple, list) and type(value) is list:
        kinds = inner if origin is tuple and Ellipsis not in inner else repeat(inner[0], len(value))
        return origin(_typed(*each) for each in zip(value, kinds, strict=True))
    if hint is float and type(value) is int:
        return float(value)
    if type(value) is not hint:
        raise TypeError(f"{value!r:.80} is not of a type that is written there")
    return value


class Listener:
    """Hears of each stage, on the thread of the run; ``moved`` may come from any thread.

    Does nothing with it: subclasses override what they want to hear.
    """

    def begun(self, stage: str) -> None:
        """A stage begins, such as ``load photos`` or ``check``."""

    def moved(self, stage: str, done: int, total: int) -> None:
        """``done`` of ``total`` tasks of Spark are done, as far as known."""

    def ended(
        self,
        stage: str,
        seconds: float,
        *,
        rows: int | None = None,
        bytes: int | None = None,
        files: int | None = None,
    ) -> None:
        """A stage is done. A failed stage does not end; ``over`` follows."""

    def noted(self, text: str) -> None:
        """Something worth a line."""

    def over(self, facts: RunFacts) -> None:
        """The run is over, however it ended."""


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


_EVERY_SECONDS = 0.25


class Tracker(Protocol):
    """What is asked of Spark's ``StatusTracker``."""

    def getActiveJobsIds(self) -> Sequence[int]: ...

    def getJobInfo(self, jobId: int) -> Any: ...

    def getStageInfo(self, stageId: int) -> Any: ...


@contextmanager
def following(spark: SparkSession, listener: Listener, stage: str) -> Iterator[None]:
    """Tell the listener how many tasks are done of those that are known, while the block runs."""
    if is_connect(spark):
        yield
        return
    tally = TaskTally(spark.sparkContext.statusTracker())
    is_over = Event()
    thread = Thread(target=_watch, args=(tally, listener, stage, is_over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


class TaskTally:
    """The tasks of all jobs that began after the first look. What is done never grows less."""

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker
        self._older = set(tracker.getActiveJobsIds())
        self._running: dict[int, tuple[int, int]] = {}
        self._finished = 0
        self._told = (0, 0)

    def look(self) -> tuple[int, int] | None:
        """Tasks done, and tasks known; None if that was reported before."""
        active = [each for each in self._tracker.getActiveJobsIds() if each not in self._older]
        for job in [each for each in self._running if each not in active]:
            self._finished += self._settled(job)
        for job in active:
            self._running[job] = self._tasks(job)
        done = self._finished + sum(done for done, _ in self._running.values())
        known = self._finished + sum(known for _, known in self._running.values())
        done = max(done, self._told[0])
        now = done, max(known, done)
        if now == self._told:
            return None
        self._told = now
        return now

    def _settled(self, job: int) -> int:
        """The tasks of a job that is over. Stages whose results were there already ran none."""
        done, _ = self._tasks(job)
        before, _ = self._running.pop(job)
        return max(done, before)

    def _tasks(self, job: int) -> tuple[int, int]:
        info = self._tracker.getJobInfo(job)
        stages = (
            [] if info is None else [self._tracker.getStageInfo(each) for each in info.stageIds]
        )
        found = [each for each in stages if each is not None]
        return sum(each.numCompletedTasks for each in found), sum(each.numTasks for each in found)


def _watch(tally: TaskTally, listener: Listener, stage: str, is_over: Event) -> None:
    is_last = False
    while not is_last:
        is_last = is_over.wait(_EVERY_SECONDS)
        try:
            found = tally.look()
        except Exception:  # a session that ends meanwhile: whoever uses it hears of that
            return
        if found is not None:
            listener.moved(stage, *found)
