"""``lw table config``: the table's own settings."""

from __future__ import annotations

from typing import Annotated

import typer

from lancewood.cli import options
from lancewood.cli.output import Output


def command(
    uri: options.Uri,
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Settings to change; without any, show all."),
    ] = None,
    unset: Annotated[
        list[str] | None,
        typer.Option("--unset", metavar="KEY", help="Remove a setting. May be repeated."),
    ] = None,
    version: options.AtVersion = None,
    as_of: options.AsOf = None,
    message: options.Message = None,
    properties: options.Properties = None,
    storage_option: options.StorageOptions = None,
    unsafe: options.Unsafe = False,
    json: options.Json = False,
) -> None:
    """Show, set or unset the table's settings.

    JSON keys: uri, version, config.
    """
    changes: dict[str, str | None] = {**options.pairs(settings, "config")}
    for key in unset or ():
        if key in changes:
            raise typer.BadParameter(f"{key!r} is to be set and unset at once")
        changes[key] = None
    facts = options.commit_facts(message, properties)
    if changes and (version is not None or as_of is not None):
        raise typer.BadParameter("--version and --as-of are for reading; only the newest changes")
    table = options.opened(uri, storage_option, version, as_of, unsafe=unsafe)
    if changes:
        table = table.set_config(changes, **facts)
    config = dict(sorted(table.config.items()))
    document = {"uri": table.uri, "version": table.version, "config": config}
    output = Output(as_json=json)
    output.facts(document, list(config.items()))
