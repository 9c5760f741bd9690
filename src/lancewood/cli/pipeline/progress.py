"""What a person sees of a run while it works, on stderr: a bar for each stage on a terminal, a line
for each stage elsewhere, nothing where the output is JSON.

Does not tell how the run ended: that is the summary's, on stdout.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

from lancewood.cli.output import for_drawing, padded
from lancewood.pipeline.report.events import Listener, Silence
from lancewood.pipeline.report.facts import RunFacts
from lancewood.pipeline.report.figures import counted, duration, size
from lancewood.pipeline.report.markup import shown

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_MOST_NAME = 40


@contextmanager
def run_progress(*, wanted: bool) -> Iterator[Listener]:
    """Who listens to a run while the block works."""
    if not wanted:
        yield Silence()
        return
    if not sys.stderr.isatty():
        yield StageLines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[tasks]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(file=for_drawing(sys.stderr)), transient=True) as bars:
        yield StageBars(bars)


class StageLines(Silence):
    """A line for each stage that is done, for logs."""

    def ended(self, stage: str, seconds: float, **amounts: int | None) -> None:
        self.told(f"{stage}: {_told(seconds, **amounts)}")

    def told(self, text: str) -> None:
        print(shown(text), file=sys.stderr, flush=True)


class StageBars(Silence):
    """A bar for the stage that works, and above it a line for each that is done."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}
        self._lock = Lock()

    def begun(self, stage: str) -> None:
        with self._lock:
            self._end(stage)
            name = padded(shown(stage, _MOST_NAME), _MOST_NAME)
            self._tasks[stage] = self._bars.add_task(name, total=None, tasks="")

    def moved(self, stage: str, done: int, total: int) -> None:
        with self._lock:
            task = self._tasks.get(stage)
            if task is None:  # a word that came late, of a stage that is over
                return
            tasks = f"{done:,} of {counted(total, 'task')}" if total else counted(done, "task")
            self._bars.update(task, completed=done, total=total or None, tasks=tasks)

    def ended(self, stage: str, seconds: float, **amounts: int | None) -> None:
        with self._lock:
            self._end(stage)
        name = padded(shown(stage, _MOST_NAME), _MOST_NAME)
        self.told(f"{name} {_told(seconds, **amounts)}")

    def told(self, text: str) -> None:
        from rich.text import Text

        self._bars.console.print(Text(shown(text)), soft_wrap=True)

    def over(self, facts: RunFacts) -> None:
        with self._lock:
            for stage in list(self._tasks):
                self._end(stage)

    def _end(self, stage: str) -> None:
        task = self._tasks.pop(stage, None)
        if task is not None:
            self._bars.remove_task(task)


def _told(
    seconds: float,
    *,
    rows: int | None = None,
    bytes: int | None = None,
    files: int | None = None,
) -> str:
    told = [
        *([] if rows is None else [counted(rows, "row")]),
        *([] if bytes is None else [size(bytes)]),
        *([] if files is None else [counted(files, "file")]),
        duration(seconds),
    ]
    return ", ".join(told)
