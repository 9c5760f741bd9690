"""``lw switch``: the current branch."""

from __future__ import annotations

from typing import Annotated

import typer

from lancewood.cli import options
from lancewood.cli.output import Output
from lancewood.cli.repository.finding import repository
from lancewood.cli.repository.telling import one_line


def command(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="The branch, or what -d names.")
    ] = None,
    revision: Annotated[
        str | None,
        typer.Argument(metavar="[REVISION]", help="With -c: where it begins. HEAD if left out."),
    ] = None,
    create: Annotated[bool, typer.Option("--create", "-c", help="Make the branch first.")] = False,
    detach: Annotated[
        bool,
        typer.Option("--detach", "-d", help="Name a commit and no branch: for reading only."),
    ] = False,
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """Make another branch the current one.

    Nothing happens to tables: on each branch of the repository they have one of their own. So
    there is nothing to stash, and what was not committed stays where it was written.

    JSON keys: branch, hash.
    """
    if create and detach:
        raise typer.BadParameter("--create and --detach do not go together")
    if revision is not None and not create:
        raise typer.BadParameter("REVISION is for --create")
    if name is None and not detach:
        raise typer.BadParameter("which branch? lw branch lists them")
    with repository(storage_option) as repo:
        before = repo.head
        if detach:
            head = repo.detach(name or "HEAD")
            told = f"HEAD is now at {one_line(repo.at().commit)}"
        else:
            assert name is not None
            head = repo.switch(name, create=create, at=revision or "HEAD")
            told = f"Switched to branch '{name}'"
            if create:
                told = f"Switched to a new branch '{name}'"
            elif before.branch == name:
                told = f"Already on '{name}'"
    Output(as_json=json).document({"branch": head.branch, "hash": head.hash}, told)
