"""``lw add``: a table that is there becomes part of the repository."""

from __future__ import annotations

from typing import Annotated

import typer

from lancewood.catalog.names import checked_table, home_uri, table_at_home
from lancewood.cli import options
from lancewood.cli.output import Output
from lancewood.cli.repository import words
from lancewood.cli.repository.finding import repository
from lancewood.cli.repository.telling import committed_facts, committed_text
from lancewood.git.homes import below


def command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What commits call the table.")],
    uri: Annotated[
        str | None,
        typer.Argument(
            metavar="[URI]",
            help="Where the table is; tables/NAME.lance of the repository if left out.",
        ),
    ] = None,
    message: words.Messages = None,
    author: words.Author = None,
    branch: words.OnBranch = None,
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """Take a table into the repository, as a commit.

    The table stays where it is, and is pinned as it stands. There is no index as in git: it is
    committed at once.

    JSON keys: branch, hash, new, tables, diverged, taken_in.
    """
    meant = table_at_home(name.rstrip("/"))
    if meant is not None:
        raise typer.BadParameter(f"{name!r} is a path: lw add {meant} takes that table in")
    with repository(storage_option) as repo:
        place = below(repo.home, home_uri(checked_table(name))) if uri is None else uri
        text = words.paragraphs(message)
        done = repo.add(name, place, branch=branch, message=text, author=author)
        Output(as_json=json).document(committed_facts(done), committed_text(repo, done))
