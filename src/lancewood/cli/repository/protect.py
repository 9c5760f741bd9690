"""``lw protect``: the versions of a commit are kept from every cleanup."""

from __future__ import annotations

from typing import Annotated

import typer

from lancewood.cli import options
from lancewood.cli.output import Output, counted
from lancewood.cli.repository import words
from lancewood.cli.repository.finding import repository
from lancewood.cli.repository.telling import short


def command(
    revision: words.Revision = "HEAD",
    delete: Annotated[
        bool, typer.Option("--delete", "-d", help="Take the protection back.")
    ] = False,
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """Keep what a commit pins from every cleanup, pylance's too.

    Commits that lw tag names are kept already. Lancewood's own cleanup keeps whatever a commit
    pins that a branch or a tag leads to.

    JSON keys: action, hash, tables.
    """
    with repository(storage_option) as repo:
        view = repo.at(revision)
        if delete:
            repo.unprotect(view.hash)
        done = view.tables if delete else repo.protect(view.hash)
    action = "unprotected" if delete else "protected"
    told = f"{action} {counted(len(done), 'table')} of {short(view.hash)}"
    document = {"action": action, "hash": view.hash, "tables": list(done)}
    Output(as_json=json).document(document, told)
