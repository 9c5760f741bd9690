"""``lw table drop-columns``, ``rename-column`` and ``cast-column``."""

from __future__ import annotations

from typing import Annotated

import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.output import UNCHANGED, counted
from lancewood.cli.tables import PlannedWriting, counts_of, stands, stays
from lancewood.table import parse_type


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
