"""``lw table config``: the table's own settings."""

from __future__ import annotations

from typing import Annotated

import typer

from lancewood.cli import options
from lancewood.cli.output import Output
from lancewood.cli.tables import NEWEST, Revision, table_to_read, table_to_write, with_revision


@with_revision
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
    revision: Revision = NEWEST,
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
    if changes and revision.is_past:
        raise typer.BadParameter(
            "--version, --tag, --as-of and --at are for reading; only the newest changes"
        )
    if changes:
        table = table_to_write(uri, storage_option, revision.branch, unsafe=unsafe)
        table = table.set_config(changes, **facts)
    else:
        table = table_to_read(uri, storage_option, revision, unsafe=unsafe)
    config = dict(sorted(table.config.items()))
    document = {"uri": table.uri, "version": table.version, "config": config}
    output = Output(as_json=json)
    output.facts(document, list(config.items()))
