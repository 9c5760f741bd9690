"""Every item below a folder, one after the other; what cannot be read is told in the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from lancewood.cli.output import note
from lancewood.errors import LancewoodError
from lancewood.git.repository import GitRepository
from lancewood.repo.items.finding import find_items
from lancewood.repo.items.looking import opened
from lancewood.repo.items.on_disk import path_on_disk
from lancewood.repo.items.outcome import Done, Outcome, Tally

Folder: TypeAlias = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="What the items are below, at any depth.")
]


class Every:
    """Goes through the items, and counts what became of them."""

    def __init__(self, folder: Path, what: str, *, json: bool) -> None:
        self._folder = path_on_disk(folder, "a folder of items")
        self._what = what
        self._notes = not json
        self.tally = Tally()

    def rows(
        self, rows_of: Callable[[GitRepository, str], Iterator[Any]], *, fsync: bool | None = False
    ) -> Iterator[Any]:
        """The rows of all items. For people, an item that fails gets a note on stderr."""
        for item in find_items(self._folder):
            try:
                with opened(self._folder, item, fsync=fsync) as git:
                    yield from rows_of(git, item)
            except LancewoodError as error:
                if self._notes:
                    note(f"lw: {item!r}: {error.message}")
                self.tally.add(Outcome.refused(item, error))
            else:
                self.tally.add(Outcome(item, Done.UNCHANGED))

    def check(self) -> None:
        """Raise the error of the first item that failed, when all others are done."""
        self.tally.check(f"{self._what} failed for", told_above=self._notes)
