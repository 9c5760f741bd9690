"""``lw table add-columns``: columns from SQL, from a file, or of nulls."""

from __future__ import annotations

from typing import Annotated, Any

import pyarrow as pa
import typer

import lancewood as lw
from lancewood.cli import file_options, options
from lancewood.cli.new_columns import check_rows, plan_nulls, plan_sql
from lancewood.cli.output import UNCHANGED, Output
from lancewood.cli.progress import reading_rows, task_bars
from lancewood.cli.revision_options import Branch
from lancewood.cli.snapshots import opened_to_write
from lancewood.format.type_text import parse_column
from lancewood.jobs.runner import LocalRunner


def command(
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
    snapshot = opened_to_write(uri, storage_option, branch, unsafe=unsafe)
    table = lw.Table(snapshot)
    key = options.names(on)
    with task_bars(wanted=not json) as tell:
        more: dict[str, Any] = {"runner": LocalRunner(progress=tell), **facts}
        if expressions:
            columns = plan_sql(snapshot, expressions)
            new: Any = expressions
        elif null:
            columns = plan_nulls(snapshot, fields)
            new = fields
        else:
            sources = file_options.sources(source or [], format, cast, table.schema, csv)
            new = sources.reader(reading_rows(tell, sources.total_rows))
            columns = pa.schema([e for e in sources.schema if e.name not in (key or ())])
            if dry_run:
                check_rows(snapshot, new, key)
            more["on"] = key
        if not dry_run:
            table = table.add_columns(new, **more)
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
