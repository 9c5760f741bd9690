"""``lw table config``: the table's own settings."""

from __future__ import annotations

from typing import Annotated

import typer

from lancewood.cli import options
from lancewood.cli.tables import Committing, Revision


def config_command(
    uri: options.Uri,
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Settings to change; without any, show all."),
    ] = None,
    unset: Annotated[
        list[str] | None,
        typer.Option("--unset", metavar="KEY", help="Remove a setting. May be repeated."),
    ] = None,
    *,
    revision: Revision,
    write: Committing,
) -> None:
    """Show, set or unset the table's settings.

    JSON keys: uri, version, config.
    """
    changes: dict[str, str | None] = {**options.pairs(settings, "config")}
    for key in unset or ():
        if key in changes:
            raise typer.BadParameter(f"{key!r} is to be set and unset at once")
        changes[key] = None
    if changes and revision.is_past:
        raise typer.BadParameter(
            "--version, --tag, --as-of and --at are for reading; only the newest changes"
        )
    if changes:
        table = write.to_write(uri, revision.branch).set_config(changes, **write.facts)
    else:
        table = write.to_read(uri, revision)
    config = dict(sorted(table.config.items()))
    document = {"uri": table.uri, "version": table.version, "config": config}
    write.output.facts(document, list(config.items()))
