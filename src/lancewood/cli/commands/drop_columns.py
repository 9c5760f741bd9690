"""``lw table drop-columns``: columns leave the schema."""

from __future__ import annotations

from typing import Annotated

import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.output import UNCHANGED, Output, counted
from lancewood.cli.progress import task_runner
from lancewood.cli.revision_options import Branch
from lancewood.cli.snapshots import opened_to_write
from lancewood.engine.evolve import drop_columns


def command(
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
    snapshot = opened_to_write(uri, storage_option, branch, unsafe=unsafe)
    table = lw.Table(snapshot)
    if dry_run:
        drop_columns(snapshot.schema, names)
    else:
        with task_runner(wanted=not json) as runner:
            table = table.drop_columns(names, runner=runner, **facts)
    told = f"{counted(len(names), 'column')} of {table.uri}, version {table.version}"
    told = f"would remove {told}; {UNCHANGED}" if dry_run else f"removed {told}"
    document = {"uri": table.uri, "version": table.version, "dry_run": dry_run, "columns": names}
    Output(as_json=json).document(document, told)
