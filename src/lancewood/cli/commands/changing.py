"""``lw table delete``, ``update`` and ``merge``, which change rows that a condition or a key
selects, and ``add-columns``, ``replace-columns``, ``drop-columns``, ``rename-column`` and
``cast-column``.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import pyarrow as pa
import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.file_options import FileOptions, Files
from lancewood.cli.output import UNCHANGED, counted, picked
from lancewood.cli.progress import reading_rows, task_bars
from lancewood.cli.tables import PlannedWriting, counts_of, stands, stays
from lancewood.table import parse_column, parse_type


def delete_command(
    uri: options.Uri,
    where: options.Where = None,
    yes: options.Yes = False,
    *,
    write: PlannedWriting,
) -> None:
    """Delete rows.

    Those for which --where is true; without it all of them, after a question. Older versions keep
    them.

    JSON keys: uri, version, branch, dry_run, deleted. A dry run adds fragments, in which the rows
    are.
    """
    table = write.table(uri)
    if where is None and not write.dry_run:
        rows = counted(table.count_rows(), "row")
        about = f"{stands(table)}, has {rows}, and there is no --where."
        write.confirm("Delete all of them?", about, yes=yes)
    after = write.run(table.delete, "true" if where is None else where)
    _tell_rows(write, "delete", after, counts_of(after, lw.RowCounts).deleted)


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
    *,
    write: PlannedWriting,
) -> None:
    """Change values of rows.

    Of those for which --where is true, or of all. Rows keep their ids.

    JSON keys: uri, version, branch, dry_run, updated. A dry run adds fragments, in which the rows
    are.
    """
    values = options.expressions(set, "--set")
    after = write.run(write.table(uri).update, values, where, rewrite=rewrite.value)
    _tell_rows(write, "update", after, counts_of(after, lw.RowCounts).updated)


def _tell_rows(write: PlannedWriting, verb: str, after: lw.Table, rows: int) -> None:
    known = {f"{verb}d": rows}
    text = f"{verb}d {counted(rows, 'row')} of {stands(after)}"
    if write.dry_run:
        fragments = known["fragments"] = counts_of(after, lw.RowCounts).fragments
        text = (
            f"would {verb} {counted(rows, 'row')} in {counted(fragments, 'fragment')} of "
            f"{stands(after)}; {UNCHANGED}"
        )
    elif not rows:
        text = f"no row matched; {stays(after)}"
    write.answer(after, text, **known)


class Matched(StrEnum):
    """What becomes of rows of the table whose key is in the files."""

    UPDATE = "update"
    IGNORE = "ignore"
    DELETE = "delete"


class NotMatched(StrEnum):
    """What becomes of rows of the files whose key is not in the table."""

    INSERT = "insert"
    IGNORE = "ignore"


class NotMatchedBySource(StrEnum):
    """What becomes of rows of the table whose key is not in the files."""

    KEEP = "keep"
    DELETE = "delete"


def merge_command(
    uri: options.Uri,
    paths: Files,
    on: Annotated[
        list[str] | None,
        typer.Option(
            "--on",
            metavar="A,B",
            help="The columns that make the key; without it the table's own primary key.",
        ),
    ] = None,
    matched: Annotated[
        Matched, typer.Option("--matched", help="Rows of the table whose key is in the files.")
    ] = Matched.UPDATE,
    not_matched: Annotated[
        NotMatched, typer.Option("--not-matched", help="Rows of the files whose key is new.")
    ] = NotMatched.INSERT,
    not_matched_by_source: Annotated[
        NotMatchedBySource,
        typer.Option(
            "--not-matched-by-source", help="Rows of the table whose key is not in the files."
        ),
    ] = NotMatchedBySource.KEEP,
    matched_where: Annotated[
        str | None,
        typer.Option(
            "--matched-where",
            metavar="SQL",
            help="Change a matched row only if this is true: 'source.time > target.time'.",
        ),
    ] = None,
    rewrite: options.Rewrite = options.WrittenAnew.AUTO,
    *,
    files: FileOptions,
    write: PlannedWriting,
) -> None:
    """Insert, update and delete rows by key, from files.

    Files are read as by import, with the types of the table; the rows of all of them are held in
    memory. A file with some of the columns changes only those. Two rows with one key are an error.

    JSON keys: uri, version, branch, dry_run, inserted, updated, deleted, unchanged.
    """
    table = write.table(uri)
    sources = files.sources(paths, table.schema)
    chosen: dict[str, Any] = {
        "on": options.names(on),
        "matched": matched.value,
        "not_matched": not_matched.value,
        "not_matched_by_source": not_matched_by_source.value,
        "matched_where": matched_where,
        "rewrite": rewrite.value,
    }
    with task_bars(wanted=not write.json) as tell:
        runner = lw.LocalRunner(progress=tell)
        rows = sources.reader(reading_rows(tell, sources.total_rows))
        table = table.merge(rows, runner=runner, **chosen, **write.facts)
    counts = counts_of(table, lw.RowCounts)
    known = picked(counts, "inserted", "updated", "deleted", "unchanged")
    text = ", ".join(f"{number:,} {what}" for what, number in known.items())
    text = f"{text}: {stands(table)}"
    write.answer(table, f"would be {text}; {UNCHANGED}" if write.dry_run else text, **known)


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
    table = write.run(write.table(uri).drop_columns, names)
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
    table = write.run(write.table(uri).cast_column, name, kind)
    text = f"column {name} is {kind} already; {stays(table)}"
    if counts_of(table, lw.ColumnCounts).columns:
        text = f"column {name} is {kind} in {stands(table)}"
        if write.dry_run:
            text = f"would cast column {name} of {stands(table)}, to {kind}; {UNCHANGED}"
    write.answer(table, text, column=name, type=str(kind))
