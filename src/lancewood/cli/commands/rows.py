"""``lw table cat``, ``head``, ``count`` and ``search``: reading rows, all of them, those of a
condition, or the nearest ones.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Protocol

import pyarrow as pa
import typer

from lancewood.cli import options
from lancewood.cli.output import Output
from lancewood.cli.tables import Reading
from lancewood.errors import InvalidInputError, NotFoundError
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
    print_rows(found, read.output_of_rows(full=full))


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
