"""Diffs for people and programs: rows with both values of what differs, cells, or figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lancewood.cli.limited import Limited
from lancewood.cli.output import Output, Shortened, cell, counted, note
from lancewood.files.formats import FileFormat

if TYPE_CHECKING:
    import pyarrow as pa

    from lancewood.table import Diff, DiffCells, DiffStat, SchemaDiff

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
        from lancewood.files.text_forms import plain_batch

        for batch in self._cut(batches):
            columns = [each.to_pylist() for each in plain_batch(batch).columns]
            yield from zip(*columns, strict=True)


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
        return bool(self._seen or self._found.schema or self._any_row())

    def _any_row(self) -> bool:
        return next(self._found.to_batches(), None) is not None

    def stat(self, about: Mapping[str, Any]) -> None:
        """How many rows, and how many cells of each column."""
        stat = self._found.stat()
        self._seen += bool(stat)
        document = {
            **about,
            "inserted": stat.inserted,
            "updated": stat.updated,
            "deleted": stat.deleted,
            "unchanged": stat.unchanged,
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

        def all_rows() -> Iterator[tuple[Any, ...]]:
            yield head
            yield from rows

        return self._output.rows(columns, all_rows(), cut=True, styles=_STYLES)

    def cells(self) -> None:
        """Cell by cell."""
        found = self._found.cells()
        if self._output.as_json:
            self._lines_of(found)
        elif (
            not self._print(found.arrow_schema.names, self._plain(found.to_batches()))
            and self._limit != 0
        ):
            note(self._said("no cell differs"))
        if not self._output.as_json:
            self._say_more()

    def file(self, kind: FileFormat, *, cells: bool, safe: bool) -> None:
        """Write rows or cells in a file's format to stdout."""
        from lancewood.files.sinks import STDOUT, writing

        found = self._found.cells() if cells else self._found
        with writing(STDOUT, kind, found.arrow_schema, force=False, safe=safe) as sink:
            for batch in self._cut(found.to_batches()):
                sink.write(batch)

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
