"""``lw table delete``: rows that a condition names."""

from __future__ import annotations

from lancewood.cli import options
from lancewood.cli.matched import matched
from lancewood.cli.output import UNCHANGED, Output, counted
from lancewood.cli.progress import task_runner
from lancewood.cli.questions import confirm
from lancewood.cli.revision_options import Branch
from lancewood.cli.snapshots import table_to_write

_ALL = "true"


def command(
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
        found = matched(table, where)
        output.document(
            {**document, "deleted": found.rows, "fragments": found.fragments},
            f"would delete {found} of {table.uri}, version {table.version}; {UNCHANGED}",
        )
        return
    if where is None:
        about = f"{table.uri} has {counted(table.count_rows(), 'row')}, and there is no --where."
        confirm("Delete all of them?", about, yes=yes, json=json)
    with task_runner(wanted=not json) as runner:
        after = table.delete(_ALL if where is None else where, runner=runner, **facts)
    deleted = after.counts.deleted
    told = f"deleted {counted(deleted, 'row')} of {after.uri}, version {after.version}"
    if not deleted:
        told = f"no row matched; {after.uri} stays at version {after.version}"
    output.document({**document, "version": after.version, "deleted": deleted}, told)
