"""Conflicts for people and programs: rows that both sides changed, cell by cell, or as a file in
which they can be decided."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from lancewood.cli.failing import as_typed
from lancewood.cli.output import Output, Shortened, cell, counted, note
from lancewood.cli.showing_diffs import Shown
from lancewood.files.formats import FileFormat
from lancewood.files.sinks import writing
from lancewood.table import Merged, stale_note

_HEAD = ("row", "column", "base", "ours", "theirs", "conflict")
_OF_COLUMNS = ("column", "kind", "ours", "theirs")
_ROW = "(row)"
"""Stands for the column where one side deleted the row."""
_TABLE = "(table)"
"""Stands for the column where the metadata of the schema is in conflict."""
_DELETED = "deleted"
_TAKE = pa.field("take", pa.string())
"""What people fill in to decide a conflict."""


class Conflicts(Protocol):
    """Rows in conflict, with all three sides of each."""

    def to_reader(self) -> pa.RecordBatchReader: ...

    def decided(self) -> frozenset[str]: ...


class ShownConflicts(Shown):
    """Conflicts of one table, shown in one of the ways, which says how many were shown."""

    def __init__(
        self, found: Conflicts, output: Output, limit: int | None, title: str | None = None
    ) -> None:
        super().__init__(output, limit, title)
        self._found = found

    def rows(self) -> int:
        """A line for each cell; JSON lines of whole conflicts for programs."""
        with self._found.to_reader() as reader:
            names, found = reader.schema.names, self._plain(reader)
            if self._output.as_json:
                self._json_lines(names, found)
                return self._seen
            rows = (dict(zip(names, each, strict=True)) for each in found)
            lines = (line for each in rows for line in _lines(each, self._output.short))
            head = next(lines, None)
            if head is None:
                if self._limit != 0:
                    note(self._said("no row is in conflict"))
                return 0
            if self._title is not None:
                self._output.title(self._title)
            self._output.rows(_HEAD, _after(head, lines), cut=True)
            self._say_more()
        return self._seen

    def file(self, path: str, kind: FileFormat, *, force: bool = False, safe: bool = False) -> int:
        """Write the conflicts to a file, with a column to decide them in."""
        with self._found.to_reader() as reader:
            is_flat = kind is FileFormat.CSV
            shown = _flat(pa.RecordBatch.from_pylist([], reader.schema)).schema
            schema = shown if is_flat else reader.schema
            schema = schema.insert(min(1, len(schema)), _TAKE)
            with writing(path, kind, schema, force=force, safe=safe) as sink:
                for batch in self._cut(reader):
                    empty = pa.nulls(batch.num_rows, _TAKE.type)
                    first, *others = _flat(batch).columns if is_flat else batch.columns
                    sink.write(pa.RecordBatch.from_arrays([first, empty, *others], schema=schema))
        return self._seen


def _flat(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Conflicts with a column for each column of a side, as ``ours.label``, and no list."""
    found: dict[str, pa.Array] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_struct(column.type):
            parts = zip(column.type, column.flatten(), strict=True)
            found.update({f"{name}.{part.name}": values for part, values in parts})
        elif pa.types.is_list(column.type):
            texts = [None if each is None else ", ".join(each) for each in column.to_pylist()]
            found[name] = pa.array(texts, pa.string())
        else:
            found[name] = column
    return pa.RecordBatch.from_arrays([*found.values()], names=[*found])


def show_columns(
    found: Sequence[tuple[str, str, str, str]], output: Output, title: str | None = None
) -> None:
    """Columns in conflict, a line for each: the column, the kind, what ours did and what theirs."""
    about = () if title is None else (title,)
    if output.as_json:
        names = ("table", *_OF_COLUMNS) if about else _OF_COLUMNS
        output.rows(names, ((*about, *each) for each in found))
        return
    for each in about:
        output.title(each)
    output.rows(_OF_COLUMNS, ((column or _TABLE, *rest) for column, *rest in found))


def in_words(counts: Merged) -> str:
    """What a merge did to the rows of a table."""
    parts = [
        f"{counted(counts.inserted, 'row')} inserted",
        f"{counts.updated:,} updated",
        f"{counts.deleted:,} deleted",
    ]
    return ", ".join([*parts, *decided_words(counts)])


def decided_words(counts: Merged) -> list[str]:
    """What was put together, and what was decided; nothing for none."""
    found = []
    if counts.rewritten:
        found.append(f"{counted(counts.rewritten, 'row')} with columns written in place")
    if counts.joined:
        found.append(f"{counts.joined:,} with cells of both")
    if counts.resolved:
        found.append(f"{counted(counts.resolved, 'conflict')} decided")
    return found


def note_stale(count: int) -> None:
    """Say that ``count`` decisions are on conflicts that are not there."""
    note_all(stale_note(count))


def note_all(notes: Iterable[str]) -> None:
    """Print what a merge says is left to do, with commands in place of methods."""
    for each in notes:
        note(as_typed(each))


def _lines(row: Mapping[str, Any], short: bool) -> Iterator[tuple[Any, ...]]:
    """A conflict as lines: one for each cell, or one for a row that a side has not."""
    base, ours, theirs = sides = row["base"], row["ours"], row["theirs"]
    where, name, cells = _where(row, short), row["_conflict"], row["_columns"] or ()
    if ours is None or theirs is None or not cells:
        there = theirs if ours is None else ours
        changed = [each for each in there or () if base is None or there[each] != base[each]]
        shown = [_cells(each, changed, short) for each in sides]
        yield (where, _ROW, "" if base is None else shown[0], *shown[1:], name)
        return
    for column in cells:
        yield (where, column, *("" if each is None else each[column] for each in sides), name)


def _where(row: Mapping[str, Any], short: bool) -> str:
    """The row by its key, else by its id."""
    key = row.get("key")
    if not key:
        return f"_rowid={row['_rowid']}"
    return Shortened(", ".join(f"{name}={cell(value, short=short)}" for name, value in key.items()))


def _cells(side: Mapping[str, Any] | None, names: Sequence[str], short: bool) -> str:
    if side is None:
        return _DELETED
    shown = ", ".join(f"{each}={cell(side[each], short=short)}" for each in names)
    return Shortened(shown or "unchanged")


def _after(head: tuple[Any, ...], rest: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    yield head
    yield from rest
