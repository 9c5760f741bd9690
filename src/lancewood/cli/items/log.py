"""``lw items log``: the commits of every item."""

from __future__ import annotations

from typing import Annotated

import typer

from lancewood.cli import options
from lancewood.cli.items.every import Every, Folder
from lancewood.cli.output import Output, moment
from lancewood.cli.repository import words
from lancewood.cli.repository.telling import short
from lancewood.repo.items.looking import HISTORY, history_of

_TIMES = ("author_time", "commit_time")


def command(
    folder: Folder,
    revision: words.Revision = "HEAD",
    limit: Annotated[
        int | None,
        typer.Option("--max-count", "-n", metavar="N", min=0, help="At most N of each item."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Show the commits of every item, newest first.

    JSON lines with keys: item, position, hash, parents, tree, author, author_email, author_time,
    committer, committer_email, commit_time, message, run.
    """
    every = Every(folder, "reading history", json=json)
    found = every.rows(lambda git, item: history_of(git, item, revision, limit))
    if json:
        told = ({**row, **{each: moment(row[each]) for each in _TIMES}} for row in found)
        Output(as_json=True).rows(HISTORY, ([row[key] for key in HISTORY] for row in told))
    else:
        Output(as_json=False).rows(
            ("item", "hash", "time", "author", "run", "message"),
            (
                [
                    row["item"],
                    short(row["hash"]),
                    moment(row["commit_time"]),
                    row["author"],
                    row["run"] or "",
                    row["message"].partition("\n")[0],
                ]
                for row in found
            ),
            cut=True,
        )
    every.check()
