"""``lw table delete`` and ``lw table update``: changing the rows that a condition selects.

A dry run counts these rows and their fragments. It reads only the columns of the condition.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import pyarrow.compute as pc
import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.output import UNCHANGED, Output, counted
from lancewood.cli.progress import task_runner
from lancewood.cli.tables import Branch, opened_to_write, table_to_write
from lancewood.jobs.rows.assignments import Assignments

_ADDRESS = "_rowaddr"


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
    output = Output(as_json=json)
    document = {"uri": table.uri, "version": table.version, "dry_run": dry_run}
    if dry_run:
        found = _matched(table, where)
        output.document(
            {**document, "deleted": found.rows, "fragments": found.fragments},
            f"would delete {found} of {table.uri}, version {table.version}; {UNCHANGED}",
        )
        return
    if where is None:
        about = f"{table.uri} has {counted(table.count_rows(), 'row')}, and there is no --where."
        options.confirm("Delete all of them?", about, yes=yes, json=json)
    with task_runner(wanted=not json) as runner:
        after = table.delete("true" if where is None else where, runner=runner, **facts)
    deleted = after.counts.deleted
    told = f"deleted {counted(deleted, 'row')} of {after.uri}, version {after.version}"
    if not deleted:
        told = f"no row matched; {after.uri} stays at version {after.version}"
    output.document({**document, "version": after.version, "deleted": deleted}, told)


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
    snapshot = opened_to_write(uri, storage_option, branch, unsafe=unsafe)
    table = lw.Table(snapshot)
    output = Output(as_json=json)
    document = {"uri": table.uri, "version": table.version, "dry_run": dry_run}
    if dry_run:
        Assignments(snapshot.schema, values)
        found = _matched(table, where)
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


class _Matched(NamedTuple):
    """What a condition selects."""

    rows: int
    fragments: int

    def __str__(self) -> str:
        return f"{counted(self.rows, 'row')} in {counted(self.fragments, 'fragment')}"


def _matched(table: lw.Table, where: str | None) -> _Matched:
    """The rows of a condition, or all; raises InvalidInputError if it cannot be evaluated."""
    if where is None:
        return _Matched(table.count_rows(), table.stats().fragments)
    rows, fragments = 0, set[int]()
    for batch in table.scan([], where, with_row_address=True).to_batches():
        rows += batch.num_rows
        fragments.update(pc.unique(pc.shift_right(batch.column(_ADDRESS), 32)).to_pylist())
    return _Matched(rows, len(fragments))
