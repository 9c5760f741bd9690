"""``lw remove``: a table is no longer part of the repository."""

from __future__ import annotations

from typing import Annotated

import typer

from lancewood.cli import options
from lancewood.cli.output import Output
from lancewood.cli.repository import words
from lancewood.cli.repository.finding import repository
from lancewood.cli.repository.telling import committed_facts, committed_text


def command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The table.")],
    message: words.Messages = None,
    author: words.Author = None,
    branch: words.OnBranch = None,
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """Take a table out of the repository, as a commit.

    The table itself stays, and so do commits that pin it: lw table drop is what deletes a table.

    JSON keys: branch, hash, new, tables, diverged, taken_in.
    """
    with repository(storage_option) as repo:
        text = words.paragraphs(message)
        done = repo.remove(name, branch=branch, message=text, author=author)
        Output(as_json=json).document(committed_facts(done), committed_text(repo, done))
