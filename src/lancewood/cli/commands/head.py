"""``lw table head``: the first rows."""

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
    rows: Annotated[
        int, typer.Option("--rows", "-n", metavar="N", min=0, help="How many rows.")
    ] = 10,
    columns: options.Columns = None,
    revision: Revision = NEWEST,
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """Show the first rows.

    JSON lines, with a key for each column.
    """
    table = table_to_read(uri, storage_option, revision)
    print_rows(table.scan(options.names(columns), limit=rows), Output(as_json=json))
