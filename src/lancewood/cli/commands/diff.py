"""``lw table diff``: which rows and cells differ between two revisions of a table."""

from __future__ import annotations

import contextlib
from typing import Annotated

import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.diff_options import DiffOptions
from lancewood.cli.paging import paged
from lancewood.cli.tables import BranchOptions
from lancewood.errors import InvalidInputError, LancewoodError, NotFoundError
from lancewood.table import diff


def diff_command(
    uri: options.UriOrName,
    a: Annotated[
        str,
        typer.Argument(
            metavar="A",
            help="The earlier revision: number, tag, branch, branch:number; or another table.",
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
    by the primary key. Where A is another table, that is the later one, and all rows are known by
    key.

    JSON lines with keys: _change, _rowid, _columns, before, after; with --cells _rowid, the key,
    column, before and after as JSON texts. With --stat one document with uri, from, to, inserted,
    updated, deleted, unchanged, cells and columns.
    """
    asked.check(as_json=given.json)
    table = given.to_compare(uri)
    try:
        one = given.compared(uri, table, a)
    except (NotFoundError, InvalidInputError) as missing:
        one, other = table, _another_table(given, a, b, missing)
        about = {"uri": table.uri, "from": table.version, "to": a}
    else:
        other = table if b is None else given.compared(uri, table, b)
        about = {"uri": table.uri, "from": a, "to": b or table.version}
    found = diff(one, other, **asked.arguments)
    output = given.output
    with paged(output, is_text=asked.format is None):
        shown = asked.show(found, output, about)
    asked.end(each.is_different for each in [shown])


def _another_table(
    given: BranchOptions, uri: str, later: str | None, missing: LancewoodError
) -> lw.Table:
    """The table that was named instead of a revision; raises what is missing if there is none."""
    if later is None:
        with contextlib.suppress(NotFoundError, InvalidInputError):
            return given.newest(uri)
    raise missing
