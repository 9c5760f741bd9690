"""A progress bar on stderr for long work, where a person is looking.

Shows what is done so far, and of rows their bytes. Does nothing when stderr is not a
terminal, or the output is JSON.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from lancewood.cli.output import human_size

Advance: TypeAlias = Callable[[int, int], None]
"""Called with the rows, or other things, and the bytes that were just done."""


@contextmanager
def progress(
    what: str, *, total: int | None, wanted: bool, things: str = "rows"
) -> Iterator[Advance]:
    """Show how far the work is while the block runs."""
    if not wanted or not sys.stderr.isatty():
        yield lambda rows, size: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn(f"{{task.completed:,.0f}} {things}  {{task.fields[bytes]}}"),
        TimeElapsedColumn(),
    )
    done = [0]
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total, bytes="")

        def advance(rows: int, size: int) -> None:
            done[0] += size
            bar.update(task, advance=rows, bytes=human_size(done[0]) if done[0] else "")

        yield advance
