"""``lw table add-columns`` and ``replace-columns``: new columns, or new values for whole ones."""

from __future__ import annotations

from typing import Annotated, Any

import pyarrow as pa
import typer

import lancewood as lw
from lancewood.cli import file_options, options
from lancewood.cli.output import UNCHANGED, Output, counted
from lancewood.cli.progress import reading_rows, task_bars
from lancewood.cli.tables import Branch, counts_of, table_to_write
from lancewood.table import parse_column


def add_columns_command(
    uri: options.Uri,
    set: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=SQL",
            help="A column and the expression that it is computed by. May be repeated.",
        ),
    ] = None,
    null: Annotated[
        list[str] | None,
        typer.Option(
            "--null", metavar="NAME:TYPE", help="A column that is null everywhere. May be repeated."
        ),
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="The columns of a file: a row for each row of the table, or with --on by key. May "
            "be repeated.",
        ),
    ] = None,
    on: Annotated[
        list[str] | None,
        typer.Option(
            "--on",
            metavar="A,B",
            help="Columns of table and file that make the key; a row without a match gets nulls.",
        ),
    ] = None,
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
    """Add columns: computed, empty, or from a file.

    Only the new columns are written, and nothing at all for --null. A dot leads into a struct: a.b.

    JSON keys: uri, version, dry_run, columns. A column has name and type.
    """
    if sum(bool(each) for each in (set, null, source)) != 1:
        raise typer.BadParameter("give one of --set, --null and --from")
    if on and not source:
        raise typer.BadParameter("--on is for the key of a file, which --from names")
    facts = options.commit_facts(message, properties)
    expressions = options.expressions(set, "--set")
    fields = pa.schema([parse_column(each) for each in null or ()])
    csv = file_options.csv_options(delimiter, header, names, null_value)
    table = table_to_write(uri, storage_option, branch, unsafe=unsafe)
    with task_bars(wanted=not json) as tell:
        new: Any = expressions or fields
        if source:
            sources = file_options.sources(source, format, cast, table.schema, csv)
            new = sources.reader(reading_rows(tell, sources.total_rows))
        runner = lw.LocalRunner(progress=tell)
        table = table.add_columns(
            new, on=options.names(on), dry_run=dry_run, runner=runner, **facts
        )
    columns = counts_of(table, lw.ColumnCounts).columns
    told = ", ".join(f"{each.name} ({each.type})" for each in columns)
    told = f"{told} to {table.uri}, version {table.version}"
    document = {
        "uri": table.uri,
        "version": table.version,
        "dry_run": dry_run,
        "columns": [{"name": each.name, "type": str(each.type)} for each in columns],
    }
    Output(as_json=json).document(
        document, f"would add {told}; {UNCHANGED}" if dry_run else f"added {told}"
    )


def replace_columns_command(
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
    table = table_to_write(uri, storage_option, branch, unsafe=unsafe)
    sources = file_options.sources(files, format, cast, table.schema, csv)
    with task_bars(wanted=not json) as tell:
        table = table.replace_columns(
            fragment,
            sources.reader(reading_rows(tell, sources.total_rows)),
            dry_run=dry_run,
            runner=lw.LocalRunner(progress=tell),
            **facts,
        )
    replaced = counts_of(table, lw.ColumnCounts).rows
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
