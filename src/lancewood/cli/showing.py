"""Rows, diffs and blames for people and programs, and the options that say which and how."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow as pa
import typer

from lancewood.cli import options
from lancewood.cli.file_options import DifferingRows, ShownRows
from lancewood.cli.output import (
    MOST_COUNTED,
    Output,
    Shortened,
    cell,
    counted,
    note,
    padded,
    picked,
    width,
)
from lancewood.files.formats import FileFormat
from lancewood.files.sinks import STDOUT, JsonLines, writing
from lancewood.files.text_forms import plain_batch
from lancewood.table import Blame

if TYPE_CHECKING:
    from lancewood.table import Diff, DiffCells, DiffStat, SchemaDiff


class Limited:
    """Record batches up to a limit of rows, read once; without a limit all of them."""

    def __init__(self, batches: Iterable[pa.RecordBatch], limit: int | None) -> None:
        self._batches, self._limit = iter(batches), limit
        self._done = self._cut_off = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while self._limit is None or self._done < self._limit:
            batch = next(self._batches, None)
            if batch is None:
                return
            shown = batch if self._limit is None else batch.slice(0, self._limit - self._done)
            self._done += shown.num_rows
            self._cut_off = batch.num_rows - shown.num_rows
            yield shown

    def count_rest(self) -> int:
        """Number of rows that the limit cut off, by reading them; a number above ``MOST_COUNTED``
        only says that there are more than that. Zero for a limit of zero: nothing is read."""
        while self._limit and self._cut_off <= MOST_COUNTED:
            batch = next(self._batches, None)
            if batch is None:
                break
            self._cut_off += batch.num_rows
        return self._cut_off


_SIGNS = {"deleted": "-", "inserted": "+", "updated": "~"}
_STYLES = {"-": "red", "+": "green", "~": "yellow"}


class Shown:
    """Rows of one table, not more than asked for. Where several tables are shown, each has its name
    as the title."""

    def __init__(self, output: Output, limit: int | None, title: str | None) -> None:
        self._output, self._limit, self._title = output, limit, title
        self._seen = 0
        self._limited: Limited | None = None

    def _json_lines(self, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        about = {} if self._title is None else {"table": self._title}
        self._output.rows([*about, *names], ((*about.values(), *each) for each in rows))
        self._limited = None

    def _said(self, line: str) -> str:
        return line if self._title is None else f"{self._title}: {line}"

    def _cut(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Not more rows than asked for."""
        self._limited = Limited(batches, self._limit)
        for batch in self._limited:
            self._seen += batch.num_rows
            yield batch

    def _say_more(self) -> None:
        """Say how many rows the limit cut off."""
        limited, self._limited = self._limited, None
        if limited is not None:
            self._output.more(limited.count_rest(), title=self._title)

    def _plain(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
        return plain_rows(self._cut(batches))


class ShownDiff(Shown):
    """One diff, shown in one of the ways; afterwards it is known whether something differs."""

    def __init__(
        self, found: Diff, output: Output, limit: int | None, title: str | None = None
    ) -> None:
        super().__init__(output, limit, title)
        self._found = found

    @cached_property
    def is_different(self) -> bool:
        """Whether a row or a column differs."""
        seen = self._seen or self._found.schema
        return bool(seen) or next(self._found.to_batches(), None) is not None

    def stat(self, about: Mapping[str, Any]) -> None:
        """How many rows, and how many cells of each column."""
        stat = self._found.stat()
        self._seen += bool(stat)
        document = {
            **about,
            **picked(stat, "inserted", "updated", "deleted", "unchanged"),
            "cells": dict(stat.cells),
            "columns": _as_facts(self._found.schema),
        }
        lines = [_in_words(stat), *_lines(self._found)]
        self._output.document(document, "\n".join(map(self._said, lines)))

    def rows(self) -> None:
        """Row by row; JSON lines for programs."""
        if self._output.as_json:
            self._lines_of(self._found)
            return
        lines = _lines(self._found)
        for line in lines if self._title is None else ():
            note(line)
        before, after = (
            [each.name for each in self._found.arrow_schema.field(side).type]
            for side in ("before", "after")
        )
        renamed = dict(self._found.schema.renamed)
        gone = [each for each in before if renamed.get(each, each) not in after]
        earlier = {new: old for old, new in renamed.items()}
        plain = self._plain(self._found.to_batches())
        rows = (_in_columns(row, after, gone, earlier, short=self._output.short) for row in plain)
        if not self._print(["", *after, *gone], rows, lines) and self._limit != 0:
            note(self._said("no row differs"))
        self._say_more()

    def _print(
        self, columns: list[str], rows: Iterator[tuple[Any, ...]], about: Sequence[str] = ()
    ) -> int:
        """Print rows, if there are any, below a title that says what there is to know about the
        table; how many there were."""
        head = next(rows, None)
        if self._title is not None and (about or head is not None):
            self._output.title(self._said("; ".join(about)) if about else self._title)
        if head is None:
            return 0
        return self._output.rows(columns, chain([head], rows), cut=True, styles=_STYLES)

    def cells(self) -> None:
        """Cell by cell."""
        found = self._found.cells()
        if self._output.as_json:
            self._lines_of(found)
            return
        shown = self._print(found.arrow_schema.names, self._plain(found.to_batches()))
        if not shown and self._limit != 0:
            note(self._said("no cell differs"))
        self._say_more()

    def file(self, kind: FileFormat, *, cells: bool, safe: bool) -> None:
        """Write rows or cells in a file's format to stdout."""

        found = self._found.cells() if cells else self._found
        write_rows(STDOUT, kind, found.arrow_schema, self._cut(found.to_batches()), safe=safe)

    def _lines_of(self, found: Diff | DiffCells) -> None:
        self._json_lines(found.arrow_schema.names, self._plain(found.to_batches()))


def _in_columns(
    row: tuple[Any, ...],
    after: list[str],
    gone: list[str],
    earlier: Mapping[str, str],
    *,
    short: bool,
) -> tuple[Any, ...]:
    """A row with its sign; a cell that differs shows both values."""
    kind, _, differ, old, new = row
    side = old if new is None else new
    cells = []
    for name in after:
        before = earlier.get(name, name)
        if differ is not None and name in differ:
            cells.append(
                Shortened(f"{cell(old[before], short=short)} -> {cell(new[name], short=short)}")
            )
        else:
            cells.append(side.get(name if new is not None else before))
    return (_SIGNS[kind], *cells, *(None if old is None else old[each] for each in gone))


def _in_words(stat: DiffStat) -> str:
    cells = ", ".join(f"{name} {number:,}" for name, number in stat.cells.items())
    parts = [
        f"{counted(stat.inserted, 'row')} inserted",
        f"{stat.updated:,} updated{f' ({cells})' if cells else ''}",
        f"{stat.deleted:,} deleted",
    ]
    if stat.unchanged is not None:
        parts.append(f"{stat.unchanged:,} unchanged")
    return ", ".join(parts)


def _lines(found: Diff) -> list[str]:
    """How columns differ, one line for each; of a table that only one side has, that it is so."""
    if found.kind != "changed":
        return ["new table" if found.kind == "added" else "table is gone"]
    schema = found.schema
    return [
        *(f"new column {each.name}: {each.type}" for each in schema.added),
        *(f"dropped column {each.name}: {each.type}" for each in schema.dropped),
        *(f"renamed column {old} -> {new}" for old, new in schema.renamed),
        *(f"column {new.name}: {_kind(old)} -> {_kind(new)}" for old, new in schema.retyped),
    ]


def _kind(column: pa.Field) -> str:
    return f"{column.type}{'' if column.nullable else ' not null'}"


def _as_facts(schema: SchemaDiff) -> dict[str, Any]:
    return {
        "added": [{"name": each.name, "type": _kind(each)} for each in schema.added],
        "dropped": [{"name": each.name, "type": _kind(each)} for each in schema.dropped],
        "renamed": [{"from": old, "to": new} for old, new in schema.renamed],
        "retyped": [
            {"name": new.name, "from": _kind(old), "to": _kind(new)} for old, new in schema.retyped
        ],
    }


_BLOCK = 500
"""Number of lines that are aligned together."""
_DIGITS = 12
_FEW = 4
_UNKNOWN = "?"


@dataclass(frozen=True, kw_only=True)
class BlameOptions(ShownRows):
    """What is asked of a blame, and how it is shown."""

    where: options.Where = None
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--columns",
            "-c",
            metavar="A,B",
            help="Only changes of these columns count, with commas between them. May be repeated.",
        ),
    ] = None
    cells: Annotated[bool, typer.Option("--cells", help="One line for each cell.")] = False

    def show(self, ask: Callable[..., Blame], schema: pa.Schema, output: Output) -> None:
        """Ask for it, and print it. ``ask`` takes what ``Table.blame`` takes."""
        self.check(as_json=output.as_json)
        asked: dict[str, Any] = {
            "where": self.where,
            "columns": options.names(self.columns),
            "cells": self.cells,
            "limit": self.limit,
        }
        found = ask(**asked)
        if not _shown(found.arrow_schema):
            found = ask(**asked, show=_plain_columns(schema))
        if self.format is not None:
            rows = Limited(found.to_batches(), self.limit)
            write_rows(STDOUT, self.format, found.arrow_schema, rows, safe=self.safe)
        elif output.as_json:
            names = found.arrow_schema.names
            output.rows(names, (tuple(row.values()) for row in self._rows(found)))
        else:
            shown = self._print(found)
            if self.limit:
                output.more(ask(**{**asked, "limit": None}).count() - shown)

    def _print(self, found: Blame) -> int:
        """Print a line for each row or cell; how many there were."""
        names = _shown(found.arrow_schema)
        lines = (
            _line(row, names, is_cell=self.cells, short=not self.full) for row in self._rows(found)
        )
        done = 0
        while block := list(islice(lines, _BLOCK)):
            done += len(block)
            widths = [max(width(each[at]) for each in block) for at in (0, 1)]
            for who, by, when, what in block:
                print(f"{padded(who, widths[0])} ({padded(by, widths[1])} {when}) {what}".rstrip())
        if not done and self.limit != 0:
            note("no row matches" if self.where is not None else "there are no rows")
        return done

    def _rows(self, found: Blame) -> Iterator[dict[str, Any]]:
        # Not more lines than asked for: a row may have many cells.
        for batch in Limited(found.to_batches(), self.limit):
            yield from plain_batch(batch).to_pylist()


def _shown(schema: pa.Schema) -> list[str]:
    """The columns by which rows are recognised: those between the id and who wrote them."""
    names: list[str] = schema.names
    return names[1 : names.index("_column" if "_written" in names else "_inserted")]


def _plain_columns(schema: pa.Schema) -> list[str]:
    """The first columns whose values are short."""
    kinds = pa.types
    tests = (
        *(kinds.is_integer, kinds.is_floating, kinds.is_boolean, kinds.is_decimal),
        *(kinds.is_string, kinds.is_large_string, kinds.is_temporal),
    )
    plain = (each.name for each in schema if any(test(each.type) for test in tests))
    return list(islice(plain, _FEW))


def _line(
    row: Mapping[str, Any], names: Sequence[str], *, is_cell: bool, short: bool
) -> tuple[str, str, str, str]:
    """Who wrote it, by whom, when, and what it is."""
    found = row["_written" if is_cell else "_changed"]
    commit = found.get("commit")
    who = f"{found['branch']}:{found['version']}" if commit is None else commit[:_DIGITS]
    by = found["operation"] if commit is None else found["author"]
    when = found["time"] if commit is None else found["commit_time"]
    values = [f"{cell(name, short=False)}={cell(row[name], short=short)}" for name in names]
    if is_cell:
        name, value = cell(row["_column"], short=False), cell(row["_value"], short=short)
        values.append(f"{name}: {value}")
    mark = "" if found["exact"] else "^"
    return f"{mark}{who}", cell(by or _UNKNOWN, short=False), _moment(when), " ".join(values)


def _moment(when: datetime | str | None) -> str:
    if when is None:
        return _UNKNOWN
    return when[:16].replace("T", " ") if isinstance(when, str) else f"{when:%Y-%m-%d %H:%M}"


@dataclass(frozen=True, kw_only=True)
class DiffOptions(DifferingRows):
    """Which rows of a diff are shown, and how."""

    columns: options.Columns = None
    where: Annotated[
        str | None,
        typer.Option(
            "--where", "-w", metavar="SQL", help="Only such rows: 'before.price < after.price'."
        ),
    ] = None
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            metavar="CHANGE",
            help="Only rows that were deleted, inserted or updated. May be repeated.",
        ),
    ] = None
    on: Annotated[
        list[str] | None,
        typer.Option(
            "--on",
            metavar="A,B",
            help="The key: rows that only one revision has are the same if these columns are.",
        ),
    ] = None
    stat: Annotated[
        bool, typer.Option("--stat", help="Only how many rows, and cells by column.")
    ] = False
    cells: Annotated[bool, typer.Option("--cells", help="One line for each cell that differs.")] = (
        False
    )

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of ``lancewood.diff`` and its like."""
        return {
            "columns": options.names(self.columns),
            "where": self.where,
            "change": options.names(self.only),
            "on": options.names(self.on),
        }

    @property
    def about_rows(self) -> list[str]:
        """The given options that mean something for rows alone."""
        given = {
            **{f"--{name}": getattr(self, name) for name in ("columns", "where", "only", "on")},
            "--cells": self.cells or None,
            "--limit": self.limit,
            "--format": self.format,
            "--safe": self.safe or None,
        }
        return [name for name, value in given.items() if value is not None]

    def check(self, *, as_json: bool) -> None:
        """Raise BadParameter for options that do not go together."""
        if self.format is not None and self.stat:
            raise typer.BadParameter("--format stands alone, without --stat")
        super().check(as_json=as_json)

    def show(
        self, found: Diff, output: Output, about: Mapping[str, Any], title: str | None = None
    ) -> ShownDiff:
        """Show a diff. ``about`` begins the document of ``--stat``, ``title`` is the name of the
        table where several are shown."""

        output.short = not self.full
        shown = ShownDiff(found, output, self.limit, title)
        if self.stat:
            shown.stat(about)
        elif self.format is not None:
            shown.file(self.format, cells=self.cells, safe=self.safe)
        elif self.cells:
            shown.cells()
        else:
            shown.rows()
        return shown


def write_rows(
    file: str,
    kind: FileFormat,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    *,
    force: bool = False,
    safe: bool = False,
) -> None:
    """Write rows to a file or to stdout; a note counts those with numbers that JSON cannot hold."""
    with writing(file, kind, schema, force=force, safe=safe) as sink:
        for batch in batches:
            sink.write(batch)
    lost = sink.rows_not_finite if isinstance(sink, JsonLines) else 0
    if lost:
        note(
            f"{counted(lost, 'row')} with a number that is not finite (NaN, Infinity): it is null "
            "in JSON, which has no word for it; CSV, Parquet and Arrow keep it"
        )


def print_rows(names: Sequence[str], batches: Iterable[pa.RecordBatch], output: Output) -> int:
    """Print every row, and return how many there were."""
    return output.rows(names, plain_rows(batches), cut=True)


def plain_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
    """Rows as values of JSON and bytes."""
    for batch in batches:
        columns = [each.to_pylist() for each in plain_batch(batch).columns]
        yield from zip(*columns, strict=True)
