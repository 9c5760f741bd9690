"""``lw table drop-columns``, ``rename-column`` and ``cast-column``."""

from __future__ import annotations

from typing import Annotated

import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.output import UNCHANGED, Output, counted
from lancewood.cli.progress import task_runner
from lancewood.cli.tables import Branch, counts_of, table_to_write
from lancewood.table import parse_type


def drop_columns_command(
    uri: options.Uri,
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAMES...", help="Columns; a dot leads into a struct: a.b"),
    ],
    dry_run: options.DryRun = False,
    message: options.Message = None,
    properties: options.Properties = None,
    branch: Branch = None,
    storage_option: options.StorageOptions = None,
    unsafe: options.Unsafe = False,
    json: options.Json = False,
) -> None:
    """Remove columns.

    Data files stay as they are, and older versions have the columns still. Indices of them go.

    JSON keys: uri, version, dry_run, columns.
    """
    facts = options.commit_facts(message, properties)
    table = table_to_write(uri, storage_option, branch, unsafe=unsafe)
    with task_runner(wanted=not json) as runner:
        table = table.drop_columns(names, dry_run=dry_run, runner=runner, **facts)
    told = f"{counted(len(names), 'column')} of {table.uri}, version {table.version}"
    told = f"would remove {told}; {UNCHANGED}" if dry_run else f"removed {told}"
    document = {"uri": table.uri, "version": table.version, "dry_run": dry_run, "columns": names}
    Output(as_json=json).document(document, told)


def rename_column_command(
    uri: options.Uri,
    old: Annotated[
        str, typer.Argument(metavar="OLD", help="The column; a dot leads into a struct: a.b")
    ],
    new: Annotated[str, typer.Argument(metavar="NEW", help="Its new name, without the way to it.")],
    dry_run: options.DryRun = False,
    message: options.Message = None,
    properties: options.Properties = None,
    branch: Branch = None,
    storage_option: options.StorageOptions = None,
    unsafe: options.Unsafe = False,
    json: options.Json = False,
) -> None:
    """Give a column another name.

    No data file is touched, and indices stay.

    JSON keys: uri, version, dry_run, old, new.
    """
    facts = options.commit_facts(message, properties)
    table = table_to_write(uri, storage_option, branch, unsafe=unsafe)
    table = table.rename_column(old, new, dry_run=dry_run, **facts)
    told = f"column {old} to {new} in {table.uri}, version {table.version}"
    told = f"would rename {told}; {UNCHANGED}" if dry_run else f"renamed {told}"
    document = {"uri": table.uri, "version": table.version, "dry_run": dry_run}
    Output(as_json=json).document({**document, "old": old, "new": new}, told)


def cast_column_command(
    uri: options.Uri,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The column; a dot leads into a struct: a.b")
    ],
    type: Annotated[
        str, typer.Argument(metavar="TYPE", help="Its new type, as in int64 or 'list<float>'.")
    ],
    dry_run: options.DryRun = False,
    message: options.Message = None,
    properties: options.Properties = None,
    branch: Branch = None,
    storage_option: options.StorageOptions = None,
    unsafe: options.Unsafe = False,
    json: options.Json = False,
) -> None:
    """Give a column another type.

    Its values are written anew, those of other columns are not. A value that the type cannot hold
    is an error, and nothing changes. Indices of the column go.

    A dry run tries every value.

    JSON keys: uri, version, dry_run, column, type.
    """
    facts = options.commit_facts(message, properties)
    kind = parse_type(type)
    table = table_to_write(uri, storage_option, branch, unsafe=unsafe)
    with task_runner(wanted=not json) as runner:
        table = table.cast_column(name, kind, dry_run=dry_run, runner=runner, **facts)
    told = f"column {name} of {table.uri} is {kind} already, version {table.version}"
    if counts_of(table, lw.ColumnCounts).columns:
        told = f"column {name} of {table.uri} is {kind}, version {table.version}"
        if dry_run:
            told = (
                f"would cast column {name} of {table.uri}, version {table.version}, to {kind}; "
                f"{UNCHANGED}"
            )
    document = {"uri": table.uri, "version": table.version, "dry_run": dry_run}
    Output(as_json=json).document({**document, "column": name, "type": str(kind)}, told)
