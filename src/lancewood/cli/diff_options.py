"""The options of commands that show rows that differ: which rows, and how they are shown.

One set for ``lw table diff`` and ``lw diff --rows``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lancewood.cli import options
from lancewood.cli.file_options import DifferingRows
from lancewood.cli.output import Output

if TYPE_CHECKING:
    from lancewood.cli.showing import ShownDiff
    from lancewood.table import Diff


@dataclass(frozen=True, kw_only=True)
class DiffOptions(DifferingRows):
    """Which rows of a diff are shown, and how."""

    columns: options.Columns = None
    where: Annotated[
        str | None,
        typer.Option(
            "--where", "-w", metavar="SQL", help="Only such rows: 'before.price < after.price'."
        ),
    ] = None
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            metavar="CHANGE",
            help="Only rows that were deleted, inserted or updated. May be repeated.",
        ),
    ] = None
    on: Annotated[
        list[str] | None,
        typer.Option(
            "--on",
            metavar="A,B",
            help="The key: rows that only one revision has are the same if these columns are.",
        ),
    ] = None
    stat: Annotated[
        bool, typer.Option("--stat", help="Only how many rows, and cells by column.")
    ] = False
    cells: Annotated[bool, typer.Option("--cells", help="One line for each cell that differs.")] = (
        False
    )

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of ``lancewood.diff`` and its like."""
        return {
            "columns": options.names(self.columns),
            "where": self.where,
            "change": options.names(self.only),
            "on": options.names(self.on),
        }

    @property
    def about_rows(self) -> list[str]:
        """The given options that mean something for rows alone."""
        given = {
            **{f"--{name}": getattr(self, name) for name in ("columns", "where", "only", "on")},
            "--cells": self.cells or None,
            "--limit": self.limit,
            "--format": self.format,
            "--safe": self.safe or None,
        }
        return [name for name, value in given.items() if value is not None]

    def check(self, *, as_json: bool) -> None:
        """Raise BadParameter for options that do not go together."""
        if self.format is not None and self.stat:
            raise typer.BadParameter("--format stands alone, without --stat")
        super().check(as_json=as_json)

    def show(
        self, found: Diff, output: Output, about: Mapping[str, Any], title: str | None = None
    ) -> ShownDiff:
        """Show a diff. ``about`` begins the document of ``--stat``, ``title`` is the name of the
        table where several are shown."""
        from lancewood.cli.showing import ShownDiff

        output.short = not self.full
        shown = ShownDiff(found, output, self.limit, title)
        if self.stat:
            shown.stat(about)
        elif self.format is not None:
            shown.file(self.format, cells=self.cells, safe=self.safe)
        elif self.cells:
            shown.cells()
        else:
            shown.rows()
        return shown
