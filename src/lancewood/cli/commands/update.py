"""``lw table update``: values of rows that a condition names."""

from __future__ import annotations

from typing import Annotated

import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.matched import matched
from lancewood.cli.output import UNCHANGED, Output, counted
from lancewood.cli.progress import task_runner
from lancewood.cli.revision_options import Branch
from lancewood.cli.snapshots import opened_to_write
from lancewood.jobs.rows.assignments import Assignments


def command(
    uri: options.Uri,
    set: Annotated[
        list[str],
        typer.Option(
            "--set",
            metavar="NAME=SQL",
            help="A column and its new value, in which columns have their old values: "
            '"size=size + 1", "name=\'x\'". May be repeated.',
        ),
    ],
    where: options.Where = None,
    rewrite: options.Rewrite = options.WrittenAnew.AUTO,
    dry_run: options.DryRun = False,
    message: options.Message = None,
    properties: options.Properties = None,
    branch: Branch = None,
    storage_option: options.StorageOptions = None,
    unsafe: options.Unsafe = False,
    json: options.Json = False,
) -> None:
    """Change values of rows.

    Of those for which --where is true, or of all. Rows keep their ids.

    JSON keys: uri, version, dry_run, updated. A dry run adds fragments, in which the rows are.
    """
    facts = options.commit_facts(message, properties)
    values = options.expressions(set, "--set")
    snapshot = opened_to_write(uri, storage_option, branch, unsafe=unsafe)
    table = lw.Table(snapshot)
    output = Output(as_json=json)
    document = {"uri": table.uri, "version": table.version, "dry_run": dry_run}
    if dry_run:
        Assignments(snapshot.schema, values)
        found = matched(table, where)
        output.document(
            {**document, "updated": found.rows, "fragments": found.fragments},
            f"would update {found} of {table.uri}, version {table.version}; {UNCHANGED}",
        )
        return
    with task_runner(wanted=not json) as runner:
        after = table.update(values, where, rewrite=rewrite.value, runner=runner, **facts)
    updated = after.counts.updated
    told = f"updated {counted(updated, 'row')} of {after.uri}, version {after.version}"
    if not updated:
        told = f"no row matched; {after.uri} stays at version {after.version}"
    output.document({**document, "version": after.version, "updated": updated}, told)
