"""``lw table add-columns`` and ``replace-columns``: new columns, or new values for whole ones.

A dry run checks names and types as the job itself does, and reads the rows of files to see that
they fit. It writes nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Annotated, Any

import pyarrow as pa
import typer

import lancewood as lw
from lancewood.cli import file_options, options
from lancewood.cli.output import UNCHANGED, Output, counted
from lancewood.cli.progress import reading_rows, task_bars
from lancewood.cli.tables import Branch, opened_to_write
from lancewood.engine.schema import next_field_id, plan_new_columns
from lancewood.engine.snapshot import Snapshot
from lancewood.format.type_text import parse_column
from lancewood.jobs.columns.replace import ReplaceColumns
from lancewood.jobs.columns.sources import JoinedColumns, OrderedColumns, SqlColumns, join_names
from lancewood.jobs.runner import LocalRunner


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
    snapshot = opened_to_write(uri, storage_option, branch, unsafe=unsafe)
    table = lw.Table(snapshot)
    key = options.names(on)
    with task_bars(wanted=not json) as tell:
        more: dict[str, Any] = {"runner": LocalRunner(progress=tell), **facts}
        if expressions:
            columns = _planned(snapshot, SqlColumns(expressions).columns(snapshot))
            new: Any = expressions
        elif null:
            columns = _planned(snapshot, fields, are_null=True)
            new = fields
        else:
            sources = file_options.sources(source or [], format, cast, table.schema, csv)
            new = sources.reader(reading_rows(tell, sources.total_rows))
            columns = pa.schema([e for e in sources.schema if e.name not in (key or ())])
            if dry_run:
                _check_rows(snapshot, new, key)
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


def _planned(snapshot: Snapshot, columns: pa.Schema, *, are_null: bool = False) -> pa.Schema:
    """The same columns; raises InvalidInputError if the table cannot have them."""
    plan_new_columns(
        snapshot.schema,
        columns,
        first_id=next_field_id(snapshot.manifest),
        file_version=snapshot.manifest.file_version,
        are_null=are_null,
    )
    return columns


def _check_rows(snapshot: Snapshot, rows: pa.RecordBatchReader, on: Sequence[str] | None) -> None:
    """Raise InvalidInputError if rows of files do not fit the table."""
    if on is not None:
        joined = JoinedColumns(rows.read_all(), join_names(on))
        _planned(snapshot, joined.columns(snapshot))
        return
    stream = OrderedColumns(rows)
    _planned(snapshot, stream.columns(snapshot))
    for batches in stream.of(snapshot, snapshot.manifest.fragments):
        deque(batches, maxlen=0)


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
