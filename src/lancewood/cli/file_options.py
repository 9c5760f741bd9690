"""The options of commands that read rows from files or write them, and the files that they name.

One name and one meaning each, in ``import`` and wherever else files come in. Does not read rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from lancewood.cli import options
from lancewood.cli.options import OptionSet
from lancewood.errors import InvalidInputError
from lancewood.files.formats import FileFormat, checked_encoding

if TYPE_CHECKING:
    import pyarrow as pa

    from lancewood.files.sources import SourceFiles

Files: TypeAlias = Annotated[
    list[str],
    typer.Argument(metavar="FILES...", help="Files, directories and patterns, or - for stdin."),
]
DIFFERENT = 1
"""The exit code of ``--exit-code``, as that of ``git diff``."""
ToStdout: TypeAlias = Annotated[
    FileFormat | None, typer.Option("--format", help="Write a file of this format to stdout.")
]


@dataclass(frozen=True, kw_only=True)
class FileOptions(OptionSet):
    """How files are read.

    Raises BadParameter for a delimiter that cannot be one.
    """

    format: Annotated[
        FileFormat | None,
        typer.Option("--format", help="What the files are, where their names do not tell."),
    ] = None
    cast: Annotated[
        list[str] | None,
        typer.Option(
            "--cast",
            metavar="NAME:TYPE",
            help="Give a column another type, as in price:double or 'taken:timestamp[us, tz=UTC]'. "
            "May be repeated.",
        ),
    ] = None
    delimiter: Annotated[
        str | None,
        typer.Option("--delimiter", metavar="C", help="CSV: between values; tab as \\t."),
    ] = None
    header: Annotated[
        bool, typer.Option("--header/--no-header", help="CSV: whether the first line has names.")
    ] = True
    names: Annotated[
        list[str] | None,
        typer.Option("--names", metavar="A,B", help="CSV: names for the columns."),
    ] = None
    null_value: Annotated[
        list[str] | None,
        typer.Option(
            "--null-value",
            metavar="TEXT",
            help="CSV: text that means null, besides nothing. May be repeated.",
        ),
    ] = None

    encoding: Annotated[
        str | None,
        typer.Option(
            "--encoding",
            metavar="NAME",
            help="CSV and JSON: what the files are written in, such as latin-1 or utf-16; without "
            "it UTF-8.",
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.encoding is not None:
            try:
                checked_encoding(self.encoding)
            except InvalidInputError as cause:
                raise typer.BadParameter(f"--{cause}") from None
        found = self._delimiter
        if found is not None and (len(found) != 1 or not found.isascii() or found in '"\r\n\0'):
            raise typer.BadParameter(
                f"--delimiter is one character between values, not {self.delimiter!r}"
            )

    @property
    def _delimiter(self) -> str | None:
        return "\t" if self.delimiter in ("\\t", "tab") else self.delimiter

    def sources(
        self, paths: Sequence[str], table: pa.Schema | None, *, merge_schema: bool = False
    ) -> SourceFiles:
        """The files, looked into; columns that the table has are read as its types."""
        from lancewood.files.csv_source import CsvOptions
        from lancewood.files.sources import ImportOptions, SourceFiles
        from lancewood.table import parse_column

        types = {each.name: each.type for each in map(parse_column, self.cast or ())}
        nulls, names = list(self.null_value or ()), options.names(self.names)
        csv = CsvOptions(self._delimiter, self.header, names, nulls)
        return SourceFiles(
            paths, ImportOptions(self.format, types, table, csv, self.encoding, merge_schema)
        )


@dataclass(frozen=True, kw_only=True)
class ShownRows(OptionSet):
    """How many rows are shown, and as what."""

    limit: options.Limit = None
    format: ToStdout = None
    safe: options.Safe = False
    full: options.Full = False

    @property
    def kind(self) -> FileFormat | None:
        """The format of the file that is written; None if rows are shown to people."""
        return self.format

    def check(self, *, as_json: bool) -> None:
        """Raise BadParameter for options that do not go together."""
        if self.format is not None and as_json:
            raise typer.BadParameter("--format stands alone, without --json")
        check_safe(self.safe, self.kind)


@dataclass(frozen=True, kw_only=True)
class DifferingRows(ShownRows):
    """Options for showing rows that differ, or are in conflict."""

    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 1 if there are any, as git diff does.")
    ] = False

    def end(self, found: Iterable[object]) -> None:
        """End as ``--exit-code`` asks for: only then it is looked whether there are any."""
        if self.exit_code and any(found):
            raise typer.Exit(DIFFERENT)


def check_safe(safe: bool, format: FileFormat | None) -> None:
    """Raise BadParameter for ``--safe`` where no CSV is written."""
    if safe and format is not FileFormat.CSV:
        found = "what is printed here" if format is None else format.value
        raise typer.BadParameter(f"--safe is for CSV, and {found} has no formulas")
