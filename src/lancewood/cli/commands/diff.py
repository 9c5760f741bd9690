"""``lw table diff``: which rows and cells differ between two revisions of a table."""

from __future__ import annotations

from typing import Annotated

import typer

from lancewood.cli import options
from lancewood.cli.file_options import ToStdout, check_safe
from lancewood.cli.showing_diffs import DIFFERENT, ShownDiff
from lancewood.cli.tables import BranchOptions
from lancewood.table import diff

Stat = Annotated[bool, typer.Option("--stat", help="Only how many rows, and cells by column.")]
Cells = Annotated[bool, typer.Option("--cells", help="One line for each cell that differs.")]
Only = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        metavar="CHANGE",
        help="Only rows that were deleted, inserted or updated. May be repeated.",
    ),
]
On = Annotated[
    list[str] | None,
    typer.Option(
        "--on",
        metavar="A,B",
        help="The key: rows that only one revision has are the same if these columns are.",
    ),
]
ExitCode = Annotated[
    bool, typer.Option("--exit-code", help="Exit with 1 if there are differences, as git does.")
]


def diff_command(
    uri: options.UriOrName,
    a: Annotated[
        str,
        typer.Argument(
            metavar="A", help="The earlier revision: a number, a tag, a branch, branch:number."
        ),
    ],
    b: Annotated[
        str | None, typer.Argument(metavar="B", help="The later one; the newest version without.")
    ] = None,
    columns: options.Columns = None,
    where: Annotated[
        str | None,
        typer.Option(
            "--where", "-w", metavar="SQL", help="Only such rows: 'before.price < after.price'."
        ),
    ] = None,
    only: Only = None,
    on: On = None,
    stat: Stat = False,
    cells: Cells = False,
    limit: options.Limit = None,
    exit_code: ExitCode = False,
    format: ToStdout = None,
    safe: options.Safe = False,
    *,
    given: BranchOptions,
) -> None:
    """Show which rows and cells differ between two revisions.

    They may be on any branches. + is a row that B has and A has not, - the other way round, ~ one
    that both have with other values. Files that were rewritten, new, renamed and cast columns are
    no changes of rows. Rows are known by their stable ids; those that were written anew by --on, or
    by the primary key.

    JSON lines with keys: _change, _rowid, _columns, before, after; with --cells _rowid, the key,
    column, before and after as JSON texts. With --stat one document with uri, from, to, inserted,
    updated, deleted, unchanged, cells and columns.
    """
    if format is not None and (given.json or stat):
        raise typer.BadParameter("--format stands alone, without --json and --stat")
    check_safe(safe, format)
    table = given.to_compare(uri)
    one = given.compared(uri, table, a)
    other = table if b is None else given.compared(uri, table, b)
    found = diff(
        one,
        other,
        on=options.names(on),
        columns=options.names(columns),
        where=where,
        change=options.names(only),
    )
    shown = ShownDiff(found, given.output, limit)
    if stat:
        shown.stat({"uri": table.uri, "from": a, "to": b or table.version})
    elif format is not None:
        shown.file(format, cells=cells, safe=safe)
    elif cells:
        shown.cells()
    else:
        shown.rows()
    if exit_code and shown.is_different:
        raise typer.Exit(DIFFERENT)
