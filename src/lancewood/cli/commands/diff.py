"""``lw table diff``: which rows and cells differ between two revisions of a table."""

from __future__ import annotations

from typing import Annotated

import typer

from lancewood.cli import options
from lancewood.cli.diff_options import DiffOptions
from lancewood.cli.tables import BranchOptions
from lancewood.table import diff


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
    *,
    asked: DiffOptions,
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
    asked.check(as_json=given.json)
    table = given.to_compare(uri)
    one = given.compared(uri, table, a)
    other = table if b is None else given.compared(uri, table, b)
    about = {"uri": table.uri, "from": a, "to": b or table.version}
    found = diff(one, other, **asked.arguments)
    shown = asked.show(found, given.output, about)
    asked.end(each.is_different for each in [shown])
