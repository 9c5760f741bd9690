"""``lw diff``: what differs between two commits, or between one and the tables as they stand."""

from __future__ import annotations

from typing import Annotated

import typer

from lancewood.cli import options
from lancewood.cli.output import Output
from lancewood.cli.repository import words
from lancewood.cli.repository.finding import repository
from lancewood.cli.repository.telling import change_facts, stat_lines

_KEYS = (
    *("table", "change", "rows", "rows_before", "fragments", "fragments_before"),
    *("inserted", "updated", "deleted", "same_rows", "unrelated"),
    *("added_columns", "removed_columns", "renamed_columns"),
)


def command(
    before: Annotated[
        str, typer.Argument(metavar="[BEFORE]", help=f"A commit: {words.REVISIONS}.")
    ] = "HEAD",
    after: Annotated[
        str | None,
        typer.Argument(
            metavar="[AFTER]", help="Another one; the tables as they stand if left out."
        ),
    ] = None,
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """Show which tables differ, with rows, fragments and columns: a summary as git diff --stat.

    Without AFTER the tables of the current branch as they stand are compared. Rows are counted by
    what became of them where row ids can tell: on one line of a table, not between two branches
    that both went on. Rows that differ are for lw table changes to show.

    JSON lines with keys: table, change, rows, rows_before, fragments, fragments_before, inserted,
    updated, deleted, same_rows, unrelated, added_columns, removed_columns, renamed_columns. Counts
    that cannot be told are null; same_rows is true where a small table was written over by what it
    held, unrelated where both commits have a table of this name and no history that they share.
    """
    with repository(storage_option) as repo:
        changes = repo.diff(before, after)
    if json:
        Output(as_json=True).rows(_KEYS, (tuple(change_facts(each).values()) for each in changes))
        return
    for line in stat_lines(changes):
        print(line)
