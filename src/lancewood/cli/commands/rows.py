"""``lw table cat``, ``head`` and ``count``: reading rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Protocol

import pyarrow as pa
import typer

from lancewood.cli import options
from lancewood.cli.output import Output
from lancewood.cli.tables import Reading
from lancewood.files.text_forms import plain_batch


def cat_command(
    uri: options.UriOrName,
    where: options.Where = None,
    columns: options.Columns = None,
    limit: options.Limit = None,
    offset: options.Offset = 0,
    with_row_id: Annotated[
        bool, typer.Option("--with-row-id", help="Show the id of each row as _rowid.")
    ] = False,
    full: options.Full = False,
    *,
    read: Reading,
) -> None:
    """Show rows, all of them or those of a filter.

    JSON lines, with a key for each column.
    """
    table, output = read.table(uri), read.output_of_rows(full=full)
    scan = table.scan(
        options.names(columns), where, limit=limit, offset=offset, with_row_id=with_row_id
    )
    shown = print_rows(scan, output)
    if limit and limit <= shown and not read.json:
        output.more(table.count_rows(where) - offset - shown)


def head_command(
    uri: options.UriOrName,
    rows: Annotated[
        int, typer.Option("--rows", "-n", metavar="N", min=0, help="How many rows.")
    ] = 10,
    columns: options.Columns = None,
    full: options.Full = False,
    *,
    read: Reading,
) -> None:
    """Show the first rows.

    JSON lines, with a key for each column.
    """
    table, output = read.table(uri), read.output_of_rows(full=full)
    shown = print_rows(table.scan(options.names(columns), limit=rows), output)
    if rows:
        output.more(table.count_rows() - shown, "--rows")


def count_command(uri: options.UriOrName, where: options.Where = None, *, read: Reading) -> None:
    """Count rows.

    JSON keys: uri, version, rows.
    """
    table = read.table(uri)
    rows = table.count_rows(where)
    read.answer(table, str(rows), rows=rows)


class ReadableRows(Protocol):
    """Rows that are read on demand: a scan, or the changes of a table."""

    @property
    def schema(self) -> pa.Schema: ...

    def to_batches(self) -> Iterator[pa.RecordBatch]: ...


def print_rows(rows: ReadableRows, output: Output) -> int:
    """Print every row, and return how many there were."""
    return output.rows(rows.schema.names, _rows(rows), cut=True)


def _rows(rows: ReadableRows) -> Iterator[tuple[Any, ...]]:
    for batch in rows.to_batches():
        columns = [each.to_pylist() for each in plain_batch(batch).columns]
        yield from zip(*columns, strict=True)
