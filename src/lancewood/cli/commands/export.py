"""``lw table export``: rows to a file, whole or not at all, or to stdout."""

from __future__ import annotations

from typing import Annotated

import typer

from lancewood.cli import options
from lancewood.cli.file_formats import FileFormat, require_format
from lancewood.cli.output import Output, human_size
from lancewood.cli.progress import progress
from lancewood.cli.sinks import STDOUT, check_target, writing


def command(
    uri: options.Uri,
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
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    version: options.AtVersion = None,
    as_of: options.AsOf = None,
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """Write rows to a file or to stdout.

    Parquet, CSV, JSON lines, Arrow. In CSV and JSON bytes are base64, times and decimals are text;
    in CSV what is nested is JSON. The file gets its name when it is complete.

    JSON keys: uri, version, file, format, rows, bytes.
    """
    chosen = require_format(file, format)
    check_target(file, force=force)
    table = options.opened(uri, storage_option, version, as_of)
    scan = table.scan(options.names(columns), where, limit=limit)
    total = scan.count() if where is None else None
    rows = size = 0
    with (
        progress("export", total_rows=total, wanted=not json) as advance,
        writing(file, chosen, scan.schema, force=force) as sink,
    ):
        for batch in scan.to_batches():
            sink.write(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            advance(batch.num_rows, batch.nbytes)
    told = f"exported {rows:,} rows ({human_size(size)}) of version {table.version} to {file}"
    if file == STDOUT:
        return
    document = {
        "uri": table.uri,
        "version": table.version,
        "file": file,
        "format": chosen.value,
        "rows": rows,
        "bytes": size,
    }
    Output(as_json=json).document(document, told)
