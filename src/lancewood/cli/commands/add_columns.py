"""``lw table add-columns`` and ``replace-columns``: new columns, or new values for whole ones."""

from __future__ import annotations

from typing import Annotated, Any

import pyarrow as pa
import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.file_options import FileOptions, Files
from lancewood.cli.output import counted
from lancewood.cli.progress import reading_rows, task_bars
from lancewood.cli.tables import PlannedWriting, counts_of, stands
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
    *,
    files: FileOptions,
    write: PlannedWriting,
) -> None:
    """Add columns: computed, empty, or from a file.

    Only the new columns are written, and nothing at all for --null. A dot leads into a struct: a.b.

    JSON keys: uri, version, branch, dry_run, columns. A column has name and type.
    """
    if sum(bool(each) for each in (set, null, source)) != 1:
        raise typer.BadParameter("give one of --set, --null and --from")
    if on and not source:
        raise typer.BadParameter("--on is for the key of a file, which --from names")
    expressions = options.expressions(set, "--set")
    fields = pa.schema([parse_column(each) for each in null or ()])
    table = write.table(uri)
    with task_bars(wanted=not write.json) as tell:
        new: Any = expressions or fields
        if source:
            sources = files.sources(source, table.schema)
            new = sources.reader(reading_rows(tell, sources.total_rows))
        runner = lw.LocalRunner(progress=tell)
        table = table.add_columns(new, on=options.names(on), runner=runner, **write.facts)
    columns = counts_of(table, lw.ColumnCounts).columns
    names = ", ".join(f"{each.name} ({each.type})" for each in columns)
    write.answer(
        table,
        write.outcome("add", "added", f"{names} to {stands(table)}"),
        columns=[{"name": each.name, "type": str(each.type)} for each in columns],
    )


def replace_columns_command(
    uri: options.Uri,
    paths: Files,
    fragment: Annotated[
        list[int],
        typer.Option(
            "--fragment",
            metavar="N",
            min=0,
            help="A fragment whose rows get the values, as files lists it. May be repeated.",
        ),
    ],
    *,
    files: FileOptions,
    write: PlannedWriting,
) -> None:
    """Replace the values of columns in some fragments.

    The columns of the files, which the table has too; their rows are those of the fragments, one by
    one, without the deleted ones.

    JSON keys: uri, version, branch, dry_run, columns, fragments, rows.
    """
    table = write.table(uri)
    sources = files.sources(paths, table.schema)
    with task_bars(wanted=not write.json) as tell:
        table = table.replace_columns(
            fragment,
            sources.reader(reading_rows(tell, sources.total_rows)),
            runner=lw.LocalRunner(progress=tell),
            **write.facts,
        )
    replaced = counts_of(table, lw.ColumnCounts).rows
    names = sources.schema.names
    what = f"{', '.join(names)} of {counted(replaced, 'row')} in {stands(table)}"
    text = write.outcome("replace", "replaced", what)
    write.answer(table, text, columns=names, fragments=fragment, rows=replaced)
