"""The micro-batches of a stream: each is a run, whose id says which batch of which stream it is.

Spark repeats a batch that it does not know to be done, with the same rows and the same number. Its
run is then already published, continues, or starts anew, like any run with that id. Batches are
called from a Spark thread; errors are kept for the caller that started the stream.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, TypeAlias

from lancewood.errors import LancewoodError
from lancewood.pipeline.context import storage_texts
from lancewood.pipeline.definition.model import Pipeline
from lancewood.pipeline.frames.refusals import failed
from lancewood.pipeline.report.facts import Ending, Listener, RunFacts, Silence
from lancewood.pipeline.report.markup import counted, short_hash
from lancewood.pipeline.report.verdict import is_published, row_changes
from lancewood.pipeline.running.folder import RunFolder
from lancewood.pipeline.running.ledger import Ledger
from lancewood.pipeline.running.outcome import FACTS, shown
from lancewood.pipeline.streaming.summary import Summary
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
