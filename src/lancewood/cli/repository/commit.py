"""``lw commit``: recording where the tables stand."""

from __future__ import annotations

from typing import Annotated

import typer

from lancewood import Repository
from lancewood.cli import options
from lancewood.cli.output import Output
from lancewood.cli.repository import words
from lancewood.cli.repository.finding import repository
from lancewood.cli.repository.telling import committed_facts, committed_text


def command(
    message: words.Messages = None,
    author: words.Author = None,
    branch: words.OnBranch = None,
    adopt: words.Adopt = False,
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="What is done anyway, for fingers used to git.")
    ] = False,
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """Record all tables of the branch as they stand at one moment.

    Like git commit -a: there is no index, and who wrote them does not matter. If no table differs
    from the last commit, there is no new one, and that is no error.

    JSON keys: branch, hash, new, tables, diverged, taken_in.
    """
    text = words.paragraphs(message)
    if text is None:
        raise typer.BadParameter("-m TEXT is needed: lw opens no editor")
    with repository(storage_option) as repo:
        done = repo.commit(text, branch=branch, author=author, adopt=adopt)
        told = committed_text(repo, done) if done.is_new else _nothing(repo, branch)
        Output(as_json=json).document(committed_facts(done), told)


def _nothing(repo: Repository, branch: str | None) -> str:
    """Why there is no commit; tables that were never added are the likely reason."""
    if branch is None and repo.status().untracked:
        return 'nothing to commit but untracked tables (use "lw add NAME")'
    return "nothing to commit, tables clean"
