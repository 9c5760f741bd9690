"""The micro-batches of a stream: each is a run, whose id says which batch of which stream it is;
and their figures together, as if they were one run.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, TypeAlias

from lancewood.errors import LancewoodError
from lancewood.pipeline.context import storage_texts
from lancewood.pipeline.definition.model import Pipeline
from lancewood.pipeline.frames.refusals import failed
from lancewood.pipeline.loading.quarantine import MOST_REASONS
from lancewood.pipeline.report.facts import (
    Ending,
    Listener,
    QuarantineFacts,
    RunFacts,
    Silence,
    SourceFacts,
    StageFacts,
    TargetFacts,
)
from lancewood.pipeline.report.lines import is_published, row_changes
from lancewood.pipeline.report.markup import counted, short_hash, total
from lancewood.pipeline.running.folder import RunFolder
from lancewood.pipeline.running.ledger import Ledger
from lancewood.pipeline.running.publishing import FACTS, shown
from lancewood.repo import Repository

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


RunBatch: TypeAlias = Callable[..., RunFacts]
"""``start.run_pipeline``, which is above this room."""
KEPT_REPORTS = 100
"""Number of newest batches whose reports are kept; an interval of seconds makes thousands a day."""
_ID_DIGITS = 16
_STOPPING = (Ending.CHECKS_FAILED, Ending.TOO_MANY_BAD_ROWS)


class StoppedError(Exception):
    """Tells Spark that the batch is not done; we report the reason."""


def batch_run_id(pipeline: str, stream: str, batch: int) -> str:
    """The run id of one batch; ``stream`` is the id that Spark keeps in the checkpoint."""
    return f"{stream_name(pipeline, stream)}-{batch}"


def stream_name(pipeline: str, stream: str) -> str:
    """The name of a stream; another checkpoint is another stream."""
    return f"{pipeline}-{stream.replace('-', '')[:_ID_DIGITS]}"


@dataclass
class Batches:
    """The batches of one stream, one after the other."""

    pipeline: Pipeline
    source: str
    run_batch: RunBatch
    listener: Listener
    summary: Summary
    failure: BaseException | None = None
    """What ended the stream, if anything did."""
    _stream: Future[str] = field(default_factory=Future, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)
    _is_stopping: bool = False
    _is_busy: bool = False

    def begin(self, stream: str) -> None:
        """Set the id of the stream, for which batches wait."""
        self._stream.set_result(stream)
        self._report_a_reset(f"{stream_name(self.pipeline.name, stream)}-")

    def stop(self) -> None:
        """Let no further batch begin."""
        self._is_stopping = True

    @property
    def is_stopping(self) -> bool:
        return self._is_stopping

    @property
    def is_idle(self) -> bool:
        """Whether no batch is running; once stopped, none will."""
        with self._lock:
            return not self._is_busy

    def take(self, rows: DataFrame, batch: int) -> None:
        """For ``foreachBatch``: raises StoppedError if the batch is not done."""
        with self._lock:
            if self._is_stopping:
                raise StoppedError("the stream is stopped")
            self._is_busy = True
        try:
            is_done = self._run(rows, batch)
        except BaseException as error:  # raised by the caller that waits for the stream
            self.failure, self._is_stopping = error, True
            found = error.facts.get(FACTS) if isinstance(error, LancewoodError) else None
            if isinstance(found, RunFacts):
                self.summary.fail(found)
            raise StoppedError(f"batch {batch}: {shown(self.pipeline, error)}") from None
        finally:
            with self._lock:
                self._is_busy = False
        if not is_done:
            raise StoppedError(str(self.summary.facts.error))

    def _run(self, rows: DataFrame, batch: int) -> bool:
        """Whether the stream may continue with the next batch."""
        self._forget_report(batch - KEPT_REPORTS)
        if self._is_empty(rows):
            return True
        run = batch_run_id(self.pipeline.name, self._stream.result(), batch)
        facts = self.run_batch(
            self.pipeline,
            run_id=run,
            spark=rows.sparkSession,
            listener=BatchListener(self.listener, batch),
            overrides={self.source: rows},
        )
        self.summary.add(facts)
        if facts.ending in _STOPPING:
            self._is_stopping = True
            self.summary.stop(facts, batch)
            return False
        return True

    def _report_a_reset(self, prefix: str) -> None:
        """The checkpoint does not know if the branch was reset to before some of its batches."""
        pipeline = self.pipeline
        repository = Repository.open(pipeline.repository, storage_options=storage_texts(pipeline))
        ledger = Ledger(repository, pipeline.name, pipeline.branch)
        noted = ledger.all_noted(prefix)
        numbers = (run.removeprefix(prefix) for run in noted)
        newest_first = sorted((int(each) for each in numbers if each.isdecimal()), reverse=True)
        runs = (f"{prefix}{number}" for number in newest_first)
        lost = [*takewhile(lambda run: ledger.is_lost(noted[run], run), runs)]
        if lost:
            which = lost[0] if len(lost) == 1 else f"{lost[-1]} to {lost[0]}"
            self.listener.noted(
                f"branch {pipeline.branch} was reset and has lost {which}: what the checkpoint "
                "counts as done is not read again; a new checkpoint reads everything"
            )

    def _is_empty(self, rows: DataFrame) -> bool:
        """A batch without rows changes nothing, whatever the mode of a target."""
        try:
            return rows.isEmpty()
        except Exception as error:
            raise failed(self.pipeline, error, f"reading {self.source!r}") from None

    def _forget_report(self, batch: int) -> None:
        run = batch_run_id(self.pipeline.name, self._stream.result(), batch)
        folder = RunFolder.of(Path(self.pipeline.repository), self.pipeline.name, run)
        if folder.is_there:
            shutil.rmtree(folder.path, ignore_errors=True)


class BatchListener(Silence):
    """Passes on what a batch's run reports; at its end a line, as only the stream is over once."""

    def __init__(self, listener: Listener, batch: int) -> None:
        self._listener, self._batch = listener, batch

    def begun(self, stage: str) -> None:
        self._listener.begun(stage)

    def moved(self, stage: str, done: int, total: int) -> None:
        self._listener.moved(stage, done, total)

    def ended(self, stage: str, seconds: float, **amounts: int | None) -> None:
        self._listener.ended(stage, seconds, **amounts)

    def noted(self, text: str) -> None:
        self._listener.noted(text)

    def over(self, facts: RunFacts) -> None:
        self._listener.noted(batch_line(facts, self._batch))


def batch_line(facts: RunFacts, batch: int) -> str:
    """How a batch ended, in one line."""
    parts = [f"batch {batch}: {facts.ending.value}"]
    if is_published(facts):
        inserted = row_changes(facts.targets)[0]
        parts += [] if inserted is None else [f"{counted(inserted, 'row')} inserted"]
        parts.append(f"commit {short_hash(facts.commit)}")
    return ", ".join(parts)


_RANK = (Ending.NOTHING_NEW, Ending.REVERTED, Ending.ALREADY_PUBLISHED, Ending.PUBLISHED)
"""The ways in which batches end well: the stream ends in the last of them in which a batch did."""


class Summary:
    """The facts of a stream that goes on."""

    def __init__(self, facts: RunFacts) -> None:
        self.facts = facts
        facts.ending, facts.batches = Ending.NOTHING_NEW, 0

    def add(self, batch: RunFacts) -> None:
        """One more batch is done. What a repeated batch brings in counts for nothing."""
        facts = self.facts
        facts.batches = (facts.batches or 0) + 1
        facts.attempts = max(facts.attempts, batch.attempts)
        facts.stages = _stages(facts.stages, batch.stages)
        facts.folder, facts.run_branch = batch.folder, batch.run_branch
        facts.graph, facts.past, facts.versions = batch.graph, batch.past, batch.versions
        if batch.commit is not None:
            facts.commit, facts.tag = batch.commit, batch.tag
        if batch.ending in _RANK:
            facts.ending = max(facts.ending, batch.ending, key=_RANK.index)
            facts.what_next = batch.what_next
        if batch.ending not in (Ending.ALREADY_PUBLISHED, Ending.REVERTED):
            facts.base_commit = facts.base_commit or batch.base_commit
            facts.checks = batch.checks or facts.checks
            facts.sources = _sources(facts.sources, batch.sources)
            facts.quarantine = _quarantine(facts.quarantine, batch.quarantine)
        if batch.ending is Ending.PUBLISHED:
            facts.targets = _targets(facts.targets, batch.targets)

    def stop(self, batch: RunFacts, number: int) -> None:
        """A batch ended without an error, and was not published: the stream ends with it."""
        facts = self.facts
        page = RunFolder(Path(batch.folder)).page
        facts.ending = batch.ending
        facts.error = (
            f"{batch.ending.value} in batch {number}, and the stream stopped before it: nothing of "
            f"it is published. Look at branch {batch.run_branch} and at {page}; the stream goes "
            "on with this batch when it is started again"
        )
        facts.what_next = batch.what_next

    def fail(self, batch: RunFacts) -> None:
        """An error ended a batch, and with it the stream: where there is something to see."""
        facts = self.facts
        facts.folder, facts.run_branch = batch.folder, batch.run_branch
        facts.stages = _stages(facts.stages, batch.stages)
        facts.what_next = batch.what_next


def _sources(before: Sequence[SourceFacts], now: Sequence[SourceFacts]) -> list[SourceFacts]:
    known = {each.name: each for each in before}
    return [
        replace(
            each,
            rows=total((known[each.name].rows, each.rows)),
            files=total((known[each.name].files, each.files)),
            bytes=total((known[each.name].bytes, each.bytes)),
        )
        if each.name in known
        else each
        for each in now
    ]


def _targets(before: Sequence[TargetFacts], now: Sequence[TargetFacts]) -> list[TargetFacts]:
    """Targets in the order of the file, batches added up: a table may be among them twice."""
    if not before:
        return [*now]
    return [_target(old, new) for old, new in zip(before, now, strict=True)]


def _target(old: TargetFacts, new: TargetFacts) -> TargetFacts:
    return replace(
        new,
        rows_before=old.rows_before,
        inserted=total((old.inserted, new.inserted)),
        updated=total((old.updated, new.updated)),
        deleted=total((old.deleted, new.deleted)),
        duplicates=total((old.duplicates, new.duplicates)),
        replaced=total((old.replaced, new.replaced)),
        columns_added=_either(old.columns_added, new.columns_added),
        indices_created=_either(old.indices_created, new.indices_created),
        indices_extended=_either(old.indices_extended, new.indices_extended),
        files=old.files + new.files,
        bytes=old.bytes + new.bytes,
        seconds=old.seconds + new.seconds,
    )


def _either(old: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*old, *new)))


def _quarantine(
    before: QuarantineFacts | None, now: QuarantineFacts | None
) -> QuarantineFacts | None:
    if before is None or now is None:
        return now or before
    counts: Counter[tuple[str, str]] = Counter()
    for origin, reason, rows in (*before.by_reason, *now.by_reason):
        counts[origin, reason] += rows
    most = counts.most_common(MOST_REASONS)
    by_reason = tuple((origin, reason, rows) for (origin, reason), rows in most)
    sample = now.sample or before.sample
    return replace(now, rows=before.rows + now.rows, by_reason=by_reason, sample=sample)


def _stages(before: Sequence[StageFacts], now: Sequence[StageFacts]) -> list[StageFacts]:
    """Stages of one name together, in the order in which each was first there."""
    found = {each.name: each for each in before}
    for each in now:
        old = found.get(each.name)
        found[each.name] = (
            replace(each, begun=None)
            if old is None
            else StageFacts(
                each.name,
                old.seconds + each.seconds,
                rows=total((old.rows, each.rows)),
                bytes=total((old.bytes, each.bytes)),
                files=total((old.files, each.files)),
                is_failed=old.is_failed or each.is_failed,
            )
        )
    return [*found.values()]
