"""``lw table import``: files into a new or an existing table, with one commit."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.arrow_types import parse_column
from lancewood.cli.csv_source import CsvOptions
from lancewood.cli.file_formats import FileFormat
from lancewood.cli.output import Output, counted, human_size
from lancewood.cli.progress import progress
from lancewood.cli.sources import Sources, Wish
from lancewood.errors import AlreadyExistsError


class Mode(StrEnum):
    """What becomes of the table."""

    CREATE = "create"
    APPEND = "append"
    OVERWRITE = "overwrite"


def command(
    uri: options.Uri,
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILES...", help="Files, directories and patterns, or - for stdin."),
    ],
    mode: Annotated[
        Mode, typer.Option("--mode", help="Make a table, add to one, or replace its rows.")
    ] = Mode.CREATE,
    format: Annotated[
        FileFormat | None,
        typer.Option("--format", help="What the files are, where their names do not tell."),
    ] = None,
    cast: Annotated[
        list[str] | None,
        typer.Option(
            "--cast",
            metavar="NAME:TYPE",
            help="Give a column another type. May be repeated.",
        ),
    ] = None,
    delimiter: Annotated[
        str | None,
        typer.Option("--delimiter", metavar="C", help="CSV: between values; tab as \\t."),
    ] = None,
    header: Annotated[
        bool, typer.Option("--header/--no-header", help="CSV: whether the first line has names.")
    ] = True,
    names: Annotated[
        list[str] | None,
        typer.Option("--names", metavar="A,B", help="CSV: names for the columns."),
    ] = None,
    null_value: Annotated[
        list[str] | None,
        typer.Option(
            "--null-value",
            metavar="TEXT",
            help="CSV: text that means null, besides nothing. May be repeated.",
        ),
    ] = None,
    file_version: options.FileVersion = None,
    max_rows_per_file: options.MaxRowsPerFile = None,
    no_stable_row_ids: options.NoStableRowIds = False,
    message: options.Message = None,
    properties: options.Properties = None,
    storage_option: options.StorageOptions = None,
    unsafe: options.Unsafe = False,
    json: options.Json = False,
) -> None:
    """Load files into a new or an existing table.

    Parquet, CSV, JSON (lines, or one array of objects) and Arrow (file or stream). All files are
    looked into before anything is written; they make one version, or none.

    JSON keys: uri, version, mode, files, rows, bytes.
    """
    _check_mode(mode, file_version, no_stable_row_ids)
    facts = options.commit_facts(message, properties)
    stored = options.storage(storage_option)
    if mode is Mode.CREATE and lw.exists(uri, storage_options=stored):
        raise AlreadyExistsError(
            f"there is a table at {uri} already: use --mode append or --mode overwrite"
        )
    table = None if mode is Mode.CREATE else lw.open(uri, storage_options=stored, unsafe=unsafe)
    csv = CsvOptions(_delimiter(delimiter), header, options.names(names), null_value or [])
    casts = {each.name: each.type for each in map(parse_column, cast or [])}
    appended = table.schema if table is not None and mode is Mode.APPEND else None
    sources = Sources(files, Wish(format, casts, appended, csv))
    limits = {} if max_rows_per_file is None else {"max_rows_per_file": max_rows_per_file}
    done = {"rows": 0, "bytes": 0}
    with progress("import", total=sources.total_rows, wanted=not json) as advance:

        def on_batch(rows: int, size: int) -> None:
            done["rows"] += rows
            done["bytes"] += size
            advance(rows, size)

        reader = sources.reader(on_batch)
        more: dict[str, Any] = {**limits, **facts}
        if table is None:
            table = lw.create(
                uri,
                reader,
                stable_row_ids=not no_stable_row_ids,
                file_version=file_version,
                storage_options=stored,
                unsafe=unsafe,
                **more,
            )
        elif mode is Mode.APPEND:
            table = table.append(reader, **more)
        else:
            table = table.overwrite(reader, file_version=file_version, **more)
    document = {
        "uri": table.uri,
        "version": table.version,
        "mode": mode.value,
        "files": len(sources.files),
        **done,
    }
    Output(as_json=json).document(
        document,
        f"imported {counted(done['rows'], 'row')} ({human_size(done['bytes'])}) from "
        f"{counted(len(sources.files), 'file')} into {table.uri}, version {table.version}",
    )


def _check_mode(mode: Mode, file_version: str | None, no_stable_row_ids: bool) -> None:
    if mode is not Mode.CREATE and no_stable_row_ids:
        raise typer.BadParameter("--no-stable-row-ids is decided when a table is made")
    if mode is Mode.APPEND and file_version is not None:
        raise typer.BadParameter("--file-version is the table's own when rows are appended")


def _delimiter(text: str | None) -> str | None:
    if text is None:
        return None
    found = "\t" if text in ("\\t", "tab") else text
    if len(found) != 1 or not found.isascii() or found in '"\r\n\0':
        raise typer.BadParameter(f"--delimiter is one character between values, not {text!r}")
    return found
