"""What the batches of a stream say: all that their runs do, but each ends with a line.

The stream is over once, and tells that by itself.
"""

from __future__ import annotations

from lancewood.pipeline.report.events import Listener, Silence
from lancewood.pipeline.report.facts import RunFacts
from lancewood.pipeline.report.figures import counted, short_hash
from lancewood.pipeline.report.verdict import is_published, row_changes


class BatchListener(Silence):
    """Listens to the run of one batch for who listens to the stream."""

    def __init__(self, listener: Listener, batch: int) -> None:
        self._listener, self._batch = listener, batch

    def begun(self, stage: str) -> None:
        self._listener.begun(stage)

    def moved(self, stage: str, done: int, total: int) -> None:
        self._listener.moved(stage, done, total)

    def ended(self, stage: str, seconds: float, **amounts: int | None) -> None:
        self._listener.ended(stage, seconds, **amounts)

    def told(self, text: str) -> None:
        self._listener.told(text)

    def over(self, facts: RunFacts) -> None:
        self._listener.told(batch_line(facts, self._batch))


def batch_line(facts: RunFacts, batch: int) -> str:
    """How a batch ended, in a line."""
    told = [f"batch {batch}: {facts.ending.value}"]
    if is_published(facts):
        inserted = row_changes(facts.targets)[0]
        told += [] if inserted is None else [f"{counted(inserted, 'row')} inserted"]
        told.append(f"commit {short_hash(facts.commit)}")
    return ", ".join(told)
