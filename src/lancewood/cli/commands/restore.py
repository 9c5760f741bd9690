"""``lw table restore``: an older version becomes the newest again."""

from __future__ import annotations

from typing import Annotated

import typer

from lancewood.cli import options
from lancewood.cli.tables import Writing
from lancewood.table import MAIN


def restore_command(
    uri: options.Uri,
    target: Annotated[
        str | None,
        typer.Argument(metavar="VERSION", help="What to come back to: a number or a tag."),
    ] = None,
    tag: Annotated[
        str | None, typer.Option("--tag", metavar="NAME", help="Come back to this tag.")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--at", metavar="REVISION", help="Come back to this revision; as in URI@REVISION."
        ),
    ] = None,
    *,
    write: Writing,
) -> None:
    """Make an older version the newest again.

    It becomes a new version; those in between stay where they are. It is a version of the branch,
    said as a number or a tag, or by the uri: URI@TAG.

    JSON keys: uri, version, branch, restored.
    """
    said = {"VERSION": target, "--tag": tag, "--at": at}
    given = [name for name, value in said.items() if value is not None]
    if len(given) > 1:
        raise typer.BadParameter(f"give {' or '.join(given)}, not both")
    found = write.named(uri, write.branch)
    single = found.single
    if single is not None and given:
        raise typer.BadParameter(f"the uri says {single!r} already; leave {given[0]} out")
    if single is None and not given:
        raise typer.BadParameter("say which version to come back to: a number or a tag")
    table = old = found.table
    if target is not None and target.isdecimal():
        old = table.checkout(version=int(target))
    elif given:
        at = at if target is None else target
        old = table.checkout(tag=tag, at=at)
    restored = old.version
    if old.branch == table.branch:
        table = old.restore(**write.facts)
    else:
        table = table.restore(tag=tag, at=at, **write.facts)  # which refuses it
    on = f"version {table.version} of {table.branch or MAIN}"
    text = f"restored version {restored} of {table.main_uri} as {on}"
    write.answer(table, text, restored=restored)
