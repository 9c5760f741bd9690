"""``lw table delete`` and ``lw table update``: changing the rows that a condition selects.

A dry run counts these rows and their fragments. It reads only the columns of the condition.
"""

from __future__ import annotations

from typing import Annotated

import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.output import UNCHANGED, Output, counted
from lancewood.cli.progress import task_runner
from lancewood.cli.tables import Branch, counts_of, table_to_write


def delete_command(
    uri: options.Uri,
    where: options.Where = None,
    yes: options.Yes = False,
    dry_run: options.DryRun = False,
    message: options.Message = None,
    properties: options.Properties = None,
    branch: Branch = None,
    storage_option: options.StorageOptions = None,
    unsafe: options.Unsafe = False,
    json: options.Json = False,
) -> None:
    """Delete rows.

    Those for which --where is true; without it all of them, after a question. Older versions keep
    them.

    JSON keys: uri, version, dry_run, deleted. A dry run adds fragments, in which the rows are.
    """
    facts = options.commit_facts(message, properties)
    table = table_to_write(uri, storage_option, branch, unsafe=unsafe)
    if where is None and not dry_run:
        about = f"{table.uri} has {counted(table.count_rows(), 'row')}, and there is no --where."
        options.confirm("Delete all of them?", about, yes=yes, json=json)
    with task_runner(wanted=not json) as runner:
        after = table.delete(
            "true" if where is None else where, dry_run=dry_run, runner=runner, **facts
        )
    _tell(Output(as_json=json), "delete", after, counts_of(after, lw.RowCounts).deleted, dry_run)


def update_command(
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
    table = table_to_write(uri, storage_option, branch, unsafe=unsafe)
    with task_runner(wanted=not json) as runner:
        after = table.update(
            values, where, rewrite=rewrite.value, dry_run=dry_run, runner=runner, **facts
        )
    _tell(Output(as_json=json), "update", after, counts_of(after, lw.RowCounts).updated, dry_run)


def _tell(output: Output, verb: str, after: lw.Table, rows: int, dry_run: bool) -> None:
    document = {"uri": after.uri, "version": after.version, "dry_run": dry_run, f"{verb}d": rows}
    told = f"{verb}d {counted(rows, 'row')} of {after.uri}, version {after.version}"
    if dry_run:
        fragments = document["fragments"] = counts_of(after, lw.RowCounts).fragments
        told = (
            f"would {verb} {counted(rows, 'row')} in {counted(fragments, 'fragment')} of "
            f"{after.uri}, version {after.version}; {UNCHANGED}"
        )
    elif not rows:
        told = f"no row matched; {after.uri} stays at version {after.version}"
    output.document(document, told)
