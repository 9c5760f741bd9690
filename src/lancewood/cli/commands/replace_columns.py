"""``lw table replace-columns``: other values for whole columns of some fragments."""

from __future__ import annotations

from typing import Annotated

import typer

import lancewood as lw
from lancewood.cli import file_options, options
from lancewood.cli.output import UNCHANGED, Output, counted
from lancewood.cli.progress import reading_rows, task_bars
from lancewood.cli.revision_options import Branch
from lancewood.cli.snapshots import opened_to_write
from lancewood.jobs.columns.replace import ReplaceColumns
from lancewood.jobs.runner import LocalRunner


def command(
    uri: options.Uri,
    files: file_options.Files,
    fragment: Annotated[
        list[int],
        typer.Option(
            "--fragment",
            metavar="N",
            min=0,
            help="A fragment whose rows get the values, as files lists it. May be repeated.",
        ),
    ],
    format: file_options.Format = None,
    cast: file_options.Casts = None,
    delimiter: file_options.Delimiter = None,
    header: file_options.Header = True,
    names: file_options.Names = None,
    null_value: file_options.NullValues = None,
    dry_run: options.DryRun = False,
    message: options.Message = None,
    properties: options.Properties = None,
    branch: Branch = None,
    storage_option: options.StorageOptions = None,
    unsafe: options.Unsafe = False,
    json: options.Json = False,
) -> None:
    """Replace the values of columns in some fragments.

    The columns of the files, which the table has too; their rows are those of the fragments, one by
    one, without the deleted ones.

    JSON keys: uri, version, dry_run, columns, fragments, rows.
    """
    facts = options.commit_facts(message, properties)
    csv = file_options.csv_options(delimiter, header, names, null_value)
    snapshot = opened_to_write(uri, storage_option, branch, unsafe=unsafe)
    table = lw.Table(snapshot)
    sources = file_options.sources(files, format, cast, table.schema, csv)
    with task_bars(wanted=not json) as tell:
        runner = LocalRunner(progress=tell)
        reader = sources.reader(reading_rows(tell, sources.total_rows))
        if dry_run:
            rows = reader.read_all()
            ReplaceColumns(snapshot, fragment, rows, runner)
            replaced = rows.num_rows
        else:
            table = table.replace_columns(fragment, reader, runner=runner, **facts)
            replaced = table.counts.updated
    told = (
        f"{', '.join(sources.schema.names)} of {counted(replaced, 'row')} in {table.uri}, version "
        f"{table.version}"
    )
    document = {
        "uri": table.uri,
        "version": table.version,
        "dry_run": dry_run,
        "columns": sources.schema.names,
        "fragments": fragment,
        "rows": replaced,
    }
    Output(as_json=json).document(
        document, f"would replace {told}; {UNCHANGED}" if dry_run else f"replaced {told}"
    )
