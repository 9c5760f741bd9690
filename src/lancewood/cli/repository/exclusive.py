"""``lw exclusive``: whether anybody but transactions of the repository may write to its tables."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from lancewood.cli import options
from lancewood.cli.output import Output
from lancewood.cli.repository import words
from lancewood.cli.repository.finding import repository
from lancewood.cli.repository.telling import short


class Setting(StrEnum):
    """What the tables are to be."""

    ON = "on"
    OFF = "off"


def command(
    setting: Annotated[
        Setting | None,
        typer.Argument(metavar="[on|off]", help="Without a word, what it is now is told."),
    ] = None,
    author: words.Author = None,
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """Keep the tables for transactions of the repository, or open them to every writer.

    Others (pylance, Spark, lw table) still read and tag them, and are refused everything else. The
    tables are told by a commit on every branch. Work that was merged is left as it is.

    JSON keys: exclusive, commits. A commit has branch, hash and tables.
    """
    with repository(storage_option) as repo:
        done = () if setting is None else repo.exclusive(setting is Setting.ON, author=author)
        is_exclusive = repo.is_exclusive
    told = ["exclusive: only transactions write to the tables" if is_exclusive else "open to all"]
    told += [f"[{each.branch} {short(each.hash)}] {', '.join(each.tables)}" for each in done]
    commits = [{"branch": e.branch, "hash": e.hash, "tables": list(e.tables)} for e in done]
    document = {"exclusive": is_exclusive, "commits": commits}
    Output(as_json=json).document(document, "\n".join(told))
