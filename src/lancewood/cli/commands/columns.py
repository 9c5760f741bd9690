"""``lw table add-columns``, ``replace-columns``, ``drop-columns``, ``rename-column`` and ``cast-
column``: columns that are added, computed anew, taken away, or called and typed otherwise.
"""

from __future__ import annotations

from typing import Annotated, Any

import pyarrow as pa
import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.file_options import FileOptions, Files
from lancewood.cli.output import UNCHANGED, counted
from lancewood.cli.progress import reading_rows, task_bars
from lancewood.cli.tables import PlannedWriting, counts_of, stands, stays
from lancewood.table import parse_column, parse_type


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


def drop_columns_command(
    uri: options.Uri,
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAMES...", help="Columns; a dot leads into a struct: a.b"),
    ],
    *,
    write: PlannedWriting,
) -> None:
    """Remove columns.

    Data files stay as they are, and older versions have the columns still. Indices of them go.

    JSON keys: uri, version, branch, dry_run, columns.
    """
    table = write.table(uri)
    with write.runner() as runner:
        table = table.drop_columns(names, runner=runner, **write.facts)
    what = f"{counted(len(names), 'column')} of {stands(table)}"
    write.answer(table, write.outcome("remove", "removed", what), columns=names)


def rename_column_command(
    uri: options.Uri,
    old: Annotated[
        str, typer.Argument(metavar="OLD", help="The column; a dot leads into a struct: a.b")
    ],
    new: Annotated[str, typer.Argument(metavar="NEW", help="Its new name, without the way to it.")],
    *,
    write: PlannedWriting,
) -> None:
    """Give a column another name.

    No data file is touched, and indices stay.

    JSON keys: uri, version, branch, dry_run, old, new.
    """
    table = write.table(uri).rename_column(old, new, **write.facts)
    what = f"column {old} to {new} in {stands(table)}"
    write.answer(table, write.outcome("rename", "renamed", what), old=old, new=new)


def cast_column_command(
    uri: options.Uri,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The column; a dot leads into a struct: a.b")
    ],
    type: Annotated[
        str, typer.Argument(metavar="TYPE", help="Its new type, as in int64 or 'list<float>'.")
    ],
    *,
    write: PlannedWriting,
) -> None:
    """Give a column another type.

    Its values are written anew, those of other columns are not. A value that the type cannot hold
    is an error, and nothing changes. Indices of the column go.

    A dry run tries every value.

    JSON keys: uri, version, branch, dry_run, column, type.
    """
    kind = parse_type(type)
    table = write.table(uri)
    with write.runner() as runner:
        table = table.cast_column(name, kind, runner=runner, **write.facts)
    text = f"column {name} is {kind} already; {stays(table)}"
    if counts_of(table, lw.ColumnCounts).columns:
        text = f"column {name} is {kind} in {stands(table)}"
        if write.dry_run:
            text = f"would cast column {name} of {stands(table)}, to {kind}; {UNCHANGED}"
    write.answer(table, text, column=name, type=str(kind))
