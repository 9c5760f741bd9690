"""``lw table export``: rows to a file, whole or not at all, or to stdout."""

from __future__ import annotations

from typing import Annotated

import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.file_options import check_safe
from lancewood.cli.output import counted, human_size, note
from lancewood.cli.progress import progress
from lancewood.cli.tables import Reading
from lancewood.errors import UnsupportedError
from lancewood.files.formats import FileFormat, require_format
from lancewood.files.sinks import STDOUT, JsonLines, check_target, writing
from lancewood.table import version_words


def export_command(
    uri: options.UriOrName,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Where to write to, or - for stdout.")
    ],
    format: Annotated[
        FileFormat | None,
        typer.Option("--format", help="What to write, where the name of the file does not tell."),
    ] = None,
    where: options.Where = None,
    columns: options.Columns = None,
    limit: options.Limit = None,
    safe: options.Safe = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    *,
    read: Reading,
) -> None:
    """Write rows to a file or to stdout.

    Parquet, CSV, JSON lines, Arrow. In CSV and JSON bytes are base64, times and decimals are text;
    in CSV what is nested is JSON. JSON has no word for NaN and infinities: they are null there, and
    a note on stderr says so. The file gets its name when it is complete. Columns of blobs are
    refused: leave them out with --columns.

    A spreadsheet runs a text such as =cmd|… in a CSV file as a formula. With --safe texts and names
    that begin with = + - @, a tab or a carriage return get an apostrophe before them, and are no
    longer what the table holds; without it they are written as they are, for programs.

    JSON keys: uri, version, file, format, rows, bytes.
    """
    chosen = require_format(file, format)
    check_safe(safe, chosen)
    check_target(file, force=force)
    table = read.table(uri)
    scan = table.scan(options.names(columns), where, limit=limit)
    _check_no_blobs(scan.schema.names, table)
    total = scan.count() if where is None else None
    rows = size = 0
    with (
        progress("export", total=total, wanted=not read.json) as advance,
        writing(file, chosen, scan.schema, force=force, safe=safe) as sink,
    ):
        for batch in scan.to_batches():
            sink.write(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            advance(batch.num_rows, batch.nbytes)
    lost = sink.rows_not_finite if isinstance(sink, JsonLines) else 0
    if lost:
        note(
            f"{counted(lost, 'row')} with a number that is not finite (NaN, Infinity): it is null "
            "in JSON, which has no word for it; CSV, Parquet and Arrow keep it"
        )
    if file != STDOUT:
        exported = f"{counted(rows, 'row')} ({human_size(size)})"
        done = f"exported {exported} of {version_words(table.version)}"
        facts = {"file": file, "format": chosen.value, "rows": rows, "bytes": size}
        read.answer(table, f"{done} to {file}", **facts)


def _check_no_blobs(names: list[str], table: lw.Table) -> None:
    for each in table.fields:
        if each.is_blob and each.name in names:
            others = ",".join(name for name in names if name != each.name)
            raise UnsupportedError(
                f"column {each.name!r} holds blobs, whose bytes are not exported; leave it out "
                f"with --columns {others or 'NAMES'}, and read the blobs with Table.take_blobs",
                column=each.name,
            )
