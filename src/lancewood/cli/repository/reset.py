"""``lw reset``: a branch and its tables go back to a commit."""

from __future__ import annotations

from typing import Annotated

import typer

from lancewood.cli import options
from lancewood.cli.output import Output
from lancewood.cli.repository import words
from lancewood.cli.repository.finding import repository
from lancewood.cli.repository.telling import by_table, committed_facts, one_line


def command(
    revision: words.Revision = "HEAD",
    soft: Annotated[
        bool, typer.Option("--soft", help="Move the branch only, and leave tables as they are.")
    ] = False,
    hard: Annotated[
        bool, typer.Option("--hard", help="What is done without --soft, for fingers used to git.")
    ] = False,
    branch: words.OnBranch = None,
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """Put the branch and its tables back to a commit.

    Each table that differs gets a new version with the content of that commit: numbers only grow,
    and older versions stay. lw reflog tells where the branch was.

    JSON keys: branch, hash, new, tables, diverged, taken_in, done.
    """
    if soft and hard:
        raise typer.BadParameter("--soft and --hard do not go together")
    with repository(storage_option) as repo:
        done = repo.reset(revision, branch=branch, soft=soft)
        assert done.hash is not None
        name = "HEAD" if done.branch == repo.head.branch else done.branch
        told = f"{name} is now at {one_line(repo.at(done.hash).commit)}"
        Output(as_json=json).document({**committed_facts(done), "done": by_table(done)}, told)
