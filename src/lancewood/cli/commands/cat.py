"""``lw table cat``: rows as they are read."""

from __future__ import annotations

from typing import Annotated

import typer

from lancewood.cli import options
from lancewood.cli.output import Output
from lancewood.cli.revision_options import NEWEST, Revision, with_revision
from lancewood.cli.rows import print_rows
from lancewood.cli.snapshots import table_to_read


@with_revision
def command(
    uri: options.UriOrName,
    where: options.Where = None,
    columns: options.Columns = None,
    limit: options.Limit = None,
    offset: options.Offset = 0,
    with_row_id: Annotated[
        bool, typer.Option("--with-row-id", help="Show the id of each row as _rowid.")
    ] = False,
    revision: Revision = NEWEST,
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """Show rows, all of them or those of a filter.

    JSON lines, with a key for each column.
    """
    table = table_to_read(uri, storage_option, revision)
    scan = table.scan(
        options.names(columns), where, limit=limit, offset=offset, with_row_id=with_row_id
    )
    print_rows(scan, Output(as_json=json))
