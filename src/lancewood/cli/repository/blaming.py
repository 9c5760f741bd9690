"""``lw blame``: which commit brought what is in a table."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from lancewood.cli.paging import paged
from lancewood.cli.repository.names import InRepository
from lancewood.cli.repository.showing import Revision
from lancewood.cli.showing_blames import BlameOptions


def blame_command(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The name of the table.")],
    revision: Revision = "HEAD",
    *,
    asked: BlameOptions,
    here: InRepository,
) -> None:
    """Show which commit brought each row or cell.

    Values count: what was written again, compacted, or got another column did not change. A line
    has the commit, its author and moment, and the row: its primary key, or else its first columns.
    ^ says that versions that had to be read were cleaned up: then it is the commit of the version
    that the row is marked with.

    JSON lines with keys: _rowid, _inserted, _changed; and one for each column that is shown.
    _inserted and _changed have version, branch, time, operation, message, commit, author, email,
    commit_time, commit_message, and _changed has exact. With --cells _column, _value and _written
    instead of these two.
    """
    output = here.output
    with here.repository() as repo, paged(output, is_text=asked.format is None):
        schema = repo.at(revision).table(table).schema
        asked.show(partial(repo.blame, table, revision=revision), schema, output)
