"""The options of commands that read rows from files, and the files that they name.

One name and one meaning each, in ``import`` and wherever else files come in. Does not read rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeAlias

import pyarrow as pa
import typer

from lancewood.cli import options
from lancewood.files.csv_source import CsvOptions
from lancewood.files.formats import FileFormat
from lancewood.files.sources import ImportOptions, SourceFiles
from lancewood.table import parse_column

Files: TypeAlias = Annotated[
    list[str],
    typer.Argument(metavar="FILES...", help="Files, directories and patterns, or - for stdin."),
]
Format: TypeAlias = Annotated[
    FileFormat | None,
    typer.Option("--format", help="What the files are, where their names do not tell."),
]
Casts: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--cast",
        metavar="NAME:TYPE",
        help="Give a column another type, as in price:double or 'taken:timestamp[us, tz=UTC]'. "
        "May be repeated.",
    ),
]
Delimiter: TypeAlias = Annotated[
    str | None,
    typer.Option("--delimiter", metavar="C", help="CSV: between values; tab as \\t."),
]
Header: TypeAlias = Annotated[
    bool, typer.Option("--header/--no-header", help="CSV: whether the first line has names.")
]
Names: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--names", metavar="A,B", help="CSV: names for the columns."),
]
NullValues: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--null-value",
        metavar="TEXT",
        help="CSV: text that means null, besides nothing. May be repeated.",
    ),
]


def csv_options(
    delimiter: str | None,
    header: bool,
    names: Sequence[str] | None,
    null_values: Sequence[str] | None,
) -> CsvOptions:
    """How CSV files are written; raises BadParameter for a delimiter that cannot be one."""
    return CsvOptions(_delimiter(delimiter), header, options.names(names), list(null_values or ()))


def sources(
    paths: Sequence[str],
    format: FileFormat | None,
    casts: Sequence[str] | None,
    table: pa.Schema | None,
    csv: CsvOptions,
) -> SourceFiles:
    """The files, looked into; columns that the table has are read as its types."""
    types = {each.name: each.type for each in map(parse_column, casts or ())}
    return SourceFiles(paths, ImportOptions(format, types, table, csv))


def _delimiter(text: str | None) -> str | None:
    if text is None:
        return None
    found = "\t" if text in ("\\t", "tab") else text
    if len(found) != 1 or not found.isascii() or found in '"\r\n\0':
        raise typer.BadParameter(f"--delimiter is one character between values, not {text!r}")
    return found


def check_safe(safe: bool, format: FileFormat | None) -> None:
    """Raise BadParameter for ``--safe`` where no CSV is written."""
    if safe and format is not FileFormat.CSV:
        found = "what is printed here" if format is None else format.value
        raise typer.BadParameter(f"--safe is for CSV, and {found} has no formulas")
