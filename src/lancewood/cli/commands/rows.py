"""``lw table import``, ``export``, ``cat``, ``head``, ``count`` and ``search``: rows from files and
into them, all rows, those of a condition, or the nearest ones.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.file_options import FileOptions, Files, check_safe
from lancewood.cli.output import counted, human_size
from lancewood.cli.progress import progress
from lancewood.cli.showing import print_rows, write_rows
from lancewood.cli.tables import Reading, Writing, stands
from lancewood.errors import AlreadyExistsError, InvalidInputError, NotFoundError, UnsupportedError
from lancewood.files.formats import FileFormat, require_format
from lancewood.files.sinks import STDOUT, check_target
from lancewood.table import version_words


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
    shown = print_rows(scan.schema.names, scan.to_batches(), output)
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
    scan = table.scan(options.names(columns), limit=rows)
    shown = print_rows(scan.schema.names, scan.to_batches(), output)
    if rows:
        output.more(table.count_rows() - shown, "--rows")


def count_command(uri: options.UriOrName, where: options.Where = None, *, read: Reading) -> None:
    """Count rows.

    JSON keys: uri, version, rows.
    """
    table = read.table(uri)
    rows = table.count_rows(where)
    read.answer(table, str(rows), rows=rows)


def search_command(
    uri: options.UriOrName,
    text: Annotated[
        str | None,
        typer.Option(
            "--text", "-t", metavar="WORDS", help="Rows with these words, or a phrase in quotes."
        ),
    ] = None,
    like: Annotated[
        int | None,
        typer.Option("--like", metavar="ROWID", min=0, help="Rows near to the row with this id."),
    ] = None,
    vector: Annotated[
        str | None,
        typer.Option(
            "--vector",
            metavar="FILE",
            help="Rows near to the vector in a file of JSON, a list of numbers; - for stdin.",
        ),
    ] = None,
    k: Annotated[int, typer.Option("-k", metavar="N", min=1, help="How many rows.")] = 10,
    where: options.Where = None,
    columns: options.Columns = None,
    column: Annotated[
        str | None,
        typer.Option(
            "--column",
            metavar="NAME",
            help="The column that is searched; by vector and text, the vector's.",
        ),
    ] = None,
    text_column: Annotated[
        str | None,
        typer.Option(
            "--text-column", metavar="NAME", help="By vector and text: the column of the text."
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            metavar="NAME",
            help="l2, cosine, dot or hamming; without it that of the index, or l2.",
        ),
    ] = None,
    is_exact: Annotated[
        bool, typer.Option("--exact", help="Compare all vectors, and use no index of them.")
    ] = False,
    refine: Annotated[
        int | None,
        typer.Option(
            "--refine",
            metavar="N",
            min=1,
            help="Compare N times as many vectors as rows are asked for, where an index has codes.",
        ),
    ] = None,
    nprobes: Annotated[
        int | None,
        typer.Option(
            "--nprobes", metavar="N", min=1, help="Look into so many partitions of an index."
        ),
    ] = None,
    full: options.Full = False,
    *,
    read: Reading,
) -> None:
    """Find rows that are like a vector, a row or a text.

    By --text and one of the others, ranks are fused. --where says which rows are searched.

    JSON lines, with a key for each column, and _distance or _score.
    """
    given = None if vector is None else _read_vector(vector)
    found = read.table(uri).search(
        vector=given,
        like=like,
        text=text,
        column=column,
        text_column=text_column,
        k=k,
        where=where,
        columns=options.names(columns),
        metric=metric,
        refine=refine,
        nprobes=nprobes,
        use_index=not is_exact,
    )
    print_rows(found.schema.names, found.to_batches(), read.output_of_rows(full=full))


def _read_vector(name: str) -> Any:
    try:
        return json.loads(sys.stdin.read() if name == "-" else Path(name).read_text())
    except FileNotFoundError as cause:
        raise NotFoundError(
            f"--vector takes a file with a JSON list of numbers, or - for stdin, and there is no "
            f"file {name!r}"
        ) from cause
    except OSError as cause:
        raise InvalidInputError(f"--vector {name!r} cannot be read: {cause}") from cause
    except (ValueError, RecursionError) as cause:
        raise InvalidInputError(
            f"--vector takes a file with a JSON list of numbers, and {name!r} holds something "
            f"else: {cause}"
        ) from cause


class Mode(StrEnum):
    """Whether an import makes a table, adds rows to one, or replaces its rows."""

    CREATE = "create"
    APPEND = "append"
    OVERWRITE = "overwrite"


def import_command(
    uri: options.Uri,
    paths: Files,
    mode: Annotated[
        Mode, typer.Option("--mode", help="Make a table, add to one, or replace its rows.")
    ] = Mode.CREATE,
    file_version: options.FileVersion = None,
    max_rows_per_file: options.MaxRowsPerFile = None,
    no_stable_row_ids: options.NoStableRowIds = False,
    merge_schema: Annotated[
        bool,
        typer.Option(
            "--merge-schema",
            help="Take columns that only some files have, or the table has not: they are null "
            "elsewhere.",
        ),
    ] = False,
    *,
    files: FileOptions,
    write: Writing,
) -> None:
    """Load files into a new or an existing table.

    Parquet, CSV, JSON (lines, or one array of objects) and Arrow (file or stream). All files are
    looked into before anything is written; they make one version, or none.

    JSON keys: uri, version, branch, mode, files, rows, bytes.
    """
    if mode is not Mode.CREATE and no_stable_row_ids:
        raise typer.BadParameter("--no-stable-row-ids is decided when a table is made")
    if mode is Mode.CREATE and write.branch is not None:
        raise typer.BadParameter("--branch is for --mode append and --mode overwrite")
    if mode is Mode.APPEND and file_version is not None:
        raise typer.BadParameter("--file-version is the table's own when rows are appended")
    if mode is Mode.CREATE and lw.exists(uri, access=write.access):
        if write.manifest_store is not None:
            write.table(uri)  # or it was removed past it
        raise AlreadyExistsError(
            f"there is a table at {uri} already: use --mode append or --mode overwrite"
        )
    table = None if mode is Mode.CREATE else write.table(uri)
    appended = table.schema if table is not None and mode is Mode.APPEND else None
    sources = files.sources(paths, appended, merge_schema=merge_schema)
    layout = lw.Layout(max_rows_per_file=max_rows_per_file)
    done = {"rows": 0, "bytes": 0}
    with progress("import", total=sources.total_rows, wanted=not write.json) as advance:

        def on_batch(rows: int, size: int) -> None:
            done["rows"] += rows
            done["bytes"] += size
            advance(rows, size)

        reader = sources.reader(on_batch)
        if table is None:
            table = lw.create(
                uri,
                reader,
                layout=replace(
                    layout, stable_row_ids=not no_stable_row_ids, file_version=file_version
                ),
                access=write.access,
                **write.facts,
            )
        elif mode is Mode.APPEND:
            table = table.append(reader, merge_schema=merge_schema, layout=layout, **write.facts)
        else:
            layout = replace(layout, file_version=file_version)
            table = table.overwrite(reader, layout=layout, **write.facts)
    count = len(sources.files)
    text = (
        f"imported {counted(done['rows'], 'row')} ({human_size(done['bytes'])}) from "
        f"{counted(count, 'file')} into {stands(table)}"
    )
    write.answer(table, text, mode=mode.value, files=count, **done)


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
    in CSV what is nested is JSON, with NaN, Infinity and -Infinity. JSON files have no word for
    these: they are null there, and a note on stderr says so. The file gets its name when it is
    complete. Columns of blobs are refused: leave them out with --columns.

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
    with progress("export", total=total, wanted=not read.json) as advance:

        def seen() -> Iterator[pa.RecordBatch]:
            nonlocal rows, size
            for batch in scan.to_batches():
                yield batch
                rows, size = rows + batch.num_rows, size + batch.nbytes
                advance(batch.num_rows, batch.nbytes)

        write_rows(file, chosen, scan.schema, seen(), force=force, safe=safe)
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
