"""Blames for people and programs: a line for each row or cell, with who wrote it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Annotated, Any

import pyarrow as pa
import typer

from lancewood.cli import options
from lancewood.cli.file_options import ShownRows
from lancewood.cli.output import Output, cell, note, padded, width
from lancewood.files.sinks import STDOUT, writing
from lancewood.files.text_forms import plain_batch
from lancewood.table import Blame

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
            with writing(
                STDOUT, self.format, found.arrow_schema, force=False, safe=self.safe
            ) as sink:
                for batch in self._cut(found.to_batches()):
                    sink.write(batch)
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
        for batch in self._cut(found.to_batches()):
            yield from plain_batch(batch).to_pylist()

    def _cut(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Not more lines than asked for: a row may have many cells."""
        left = self.limit
        for batch in batches:
            if left is None:
                yield batch
            elif left > 0:
                yield batch.slice(0, left)
                left -= batch.num_rows


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
