"""A progress bar on stderr for long work, where a person is looking.

Shows what is done so far, and of rows their bytes; a job's tasks get one bar for each kind of
work. Does nothing when stderr is not a terminal, or the output is JSON.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from lancewood.cli.output import for_drawing, human_size, visible
from lancewood.table import LocalRunner, Runner

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

Advance: TypeAlias = Callable[[int, int], None]
"""Called with the rows, or other things, and the bytes that were just done."""
Tell: TypeAlias = Callable[[str, int, int], None]
"""Called with the kind of work, how much of it is done, and how much there is."""


@contextmanager
def progress(
    what: str, *, total: int | None, wanted: bool, things: str = "rows"
) -> Iterator[Advance]:
    """Show how far the work is while the block runs."""
    if not wanted or not sys.stderr.isatty():
        yield lambda rows, size: None
        return
    done = [0]
    with bars(f"{{task.completed:,.0f}} {things}  {{task.fields[bytes]}}") as drawn:
        task = drawn.add_task(visible(what), total=total, bytes="")

        def advance(rows: int, size: int) -> None:
            done[0] += size
            drawn.update(task, advance=rows, bytes=human_size(done[0]) if done[0] else "")

        yield advance


def bars(amounts: str) -> Progress:
    """Bars on stderr, each with a name, its amounts in this form, and the time so far."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    name, amount = (TextColumn(each, markup=False) for each in ("{task.description}", amounts))
    columns = (name, BarColumn(), amount, TimeElapsedColumn())
    return Progress(*columns, console=Console(file=for_drawing(sys.stderr)), transient=True)


@contextmanager
def task_bars(*, wanted: bool) -> Iterator[Tell]:
    """Show how far each kind of work is while the block runs; a total of 0 is not known."""
    if not wanted or not sys.stderr.isatty():
        yield lambda what, done, total: None
        return
    with bars("{task.fields[tasks]}") as drawn:
        shown: dict[str, TaskID] = {}

        def tell(what: str, done: int, total: int) -> None:
            if what not in shown:
                shown[what] = drawn.add_task(visible(what), total=total or None, tasks="")
            tasks = f"{done:>{len(str(total or '?'))}}/{total or '?'}"
            drawn.update(shown[what], completed=done, total=total or None, tasks=tasks)

        yield tell


@contextmanager
def task_runner(*, wanted: bool) -> Iterator[Runner]:
    """Threads that show how many tasks of a job are done while the block runs."""
    with task_bars(wanted=wanted) as tell:
        yield LocalRunner(progress=tell)


def reading_rows(tell: Tell, total: int | None) -> Advance:
    """Shows rows of files, as they are read, beside the tasks of a job."""
    done = [0]

    def advance(rows: int, size: int) -> None:
        done[0] += rows
        tell("reading rows", done[0], total or 0)

    return advance
