"""``lw table create``, ``config`` and ``drop``: an empty table, its settings, its end."""

from __future__ import annotations

import os
from functools import partial
from typing import Annotated

import pyarrow as pa
import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.output import counted
from lancewood.cli.tables import Committing, Revision, TableOptions, stands
from lancewood.files.sources import ImportOptions, SourceFiles
from lancewood.table import MAIN, parse_column


def create_command(
    uri: options.Uri,
    column: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            metavar="NAME:TYPE",
            help="A column, for example id:int64, 'id:int64 not null' or "
            "'v:fixed_size_list<float>[768]'. May be repeated.",
        ),
    ] = None,
    schema_from: Annotated[
        str | None,
        typer.Option(
            "--schema-from",
            metavar="FILE",
            help="Take the columns of a Parquet, CSV, JSON or Arrow file, or of another table.",
        ),
    ] = None,
    file_version: options.FileVersion = None,
    no_stable_row_ids: options.NoStableRowIds = False,
    *,
    write: Committing,
) -> None:
    """Make an empty table.

    JSON keys: uri, version, branch, rows.
    """
    if bool(column) == (schema_from is not None):
        raise typer.BadParameter("give --column (one or more) or --schema-from, and not both")
    table = lw.create(
        uri,
        _schema(column or [], schema_from, write.storage),
        stable_row_ids=not no_stable_row_ids,
        file_version=file_version,
        **write.reached_by,
        **write.facts,
    )
    columns = counted(len(table.schema), "column")
    write.answer(table, f"created {stands(table)}, {columns}", rows=0)


def _schema(
    columns: list[str], file: str | None, storage_options: dict[str, str] | None
) -> pa.Schema:
    if file is None:
        return pa.schema([parse_column(each) for each in columns])
    if "://" in file:
        return lw.open(file, storage_options=storage_options).schema
    if os.path.isdir(file) and lw.exists(file):
        return lw.open(file).schema
    return SourceFiles([file], ImportOptions()).schema


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

    JSON keys: uri, version, branch, config.
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
        write.note(f"changed {stands(table)}")
    else:
        table = write.to_read(uri, revision)
    config = dict(sorted(table.config.items()))
    where = {"uri": table.uri, "version": table.version, "branch": table.branch or MAIN}
    write.output.facts({**where, "config": config}, list(config.items()))


def drop_command(
    uri: options.Uri,
    yes: options.Yes = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Even if branches, tags or clones rest on its versions."),
    ] = False,
    *,
    given: TableOptions,
) -> None:
    """Delete a table.

    All versions go, for good. Only what the format owns is deleted; other files stay.

    JSON keys: uri, dropped, version.
    """
    drop = partial(lw.drop, uri, force=force, **given.reached_by)
    would = drop(dry_run=True)
    about = f"{would.uri} has version {would.version} and all before it."
    if would.was_lost:
        about = f"The manifest store knows version {would.version} of {would.uri}, which is gone."
    given.confirm("Drop it for good?", about, yes=yes)
    drop()
    document = {"uri": would.uri, "dropped": True, "version": would.version}
    given.output.document(document, f"dropped {would.uri}")
