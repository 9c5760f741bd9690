"""``lw table rename-column``: another name for a column."""

from __future__ import annotations

from typing import Annotated

import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.output import UNCHANGED, Output
from lancewood.cli.revision_options import Branch
from lancewood.cli.snapshots import opened_to_write
from lancewood.engine.evolve import rename_column


def command(
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
    snapshot = opened_to_write(uri, storage_option, branch, unsafe=unsafe)
    table = lw.Table(snapshot)
    if dry_run:
        rename_column(snapshot.schema, old, new)
    else:
        table = table.rename_column(old, new, **facts)
    told = f"column {old} to {new} in {table.uri}, version {table.version}"
    told = f"would rename {told}; {UNCHANGED}" if dry_run else f"renamed {told}"
    document = {"uri": table.uri, "version": table.version, "dry_run": dry_run}
    Output(as_json=json).document({**document, "old": old, "new": new}, told)
