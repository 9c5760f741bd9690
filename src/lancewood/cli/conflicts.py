"""Conflicts of merges: the options that decide them, how they are shown, and files of decisions.

One set of options for ``lw table merge-branch``, ``lw merge`` and their like. A file of decisions
is what ``lw conflicts -o`` writes: what conflicts are shown with, and values by column. The types
of all of it are known from the tables, so that no value has to be guessed at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import Annotated, Any, Protocol, TypeAlias

import pyarrow as pa
import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.failing import as_typed
from lancewood.cli.file_options import DifferingRows
from lancewood.cli.options import OptionSet
from lancewood.cli.output import Output, Shortened, cell, counted, note, paged
from lancewood.cli.showing import Shown, write_rows
from lancewood.errors import InvalidInputError, MergeConflictError
from lancewood.files.formats import FileFormat, require_format
from lancewood.files.sinks import STDOUT, check_target
from lancewood.files.sources import ImportOptions, SourceFiles
from lancewood.files.text_forms import from_read
from lancewood.table import Conflicts, stale_note

_SIDES = ("ours", "theirs")
_BECOMES = (*_SIDES, "drop", "keep")
FindConflicts: TypeAlias = Callable[[lw.Resolve | None], Mapping[str, Conflicts]]
"""Finds the conflicts of a merge by table, once it is decided what becomes of columns."""


class Deletes(StrEnum):
    """Whether a deletion wins or loses, where the other side changed the row."""

    WIN = "win"
    LOSE = "lose"


class Detect(StrEnum):
    """What is a conflict if both sides changed it: a cell, a row, or a table."""

    CELLS = "cells"
    ROWS = "rows"
    TABLES = "tables"


Ours: TypeAlias = Annotated[
    bool, typer.Option("--ours", help="Where both changed a cell or a row, what is here stays.")
]
Theirs: TypeAlias = Annotated[
    bool, typer.Option("--theirs", help="Where both changed a cell or a row, what comes is taken.")
]
Base: TypeAlias = Annotated[
    bool, typer.Option("--base", help="Where both changed a cell or a row, neither is taken.")
]


@dataclass(frozen=True, kw_only=True)
class Deciding(OptionSet):
    """How conflicts are decided; the first that decides one counts.

    Raises BadParameter for options that contradict each other, and for texts that cannot be read.
    """

    ours: Ours = False
    theirs: Theirs = False
    base: Base = False
    rule: Annotated[
        list[str] | None,
        typer.Option(
            "--rule",
            metavar="NAME=SQL",
            help="What a cell becomes that both changed: 'views=ours.views + theirs.views - "
            "base.views', 'label=theirs', '*=coalesce(theirs, ours)'. May be repeated.",
        ),
    ] = None
    winner: Annotated[
        str | None,
        typer.Option(
            "--winner",
            metavar="SQL",
            help="Take theirs where this is true, else ours: 'theirs.time > ours.time'.",
        ),
    ] = None
    whole_rows: Annotated[
        bool,
        typer.Option("--whole-rows", help="A side that is taken gives the whole row, not cells."),
    ] = False
    deletes: Annotated[
        Deletes | None,
        typer.Option(
            "--deletes", help="What becomes of a row that one side deleted and the other changed."
        ),
    ] = None
    decisions: Annotated[
        str | None,
        typer.Option(
            "--decisions",
            metavar="FILE",
            help="Decisions on single conflicts: a file with _conflict and take (ours, theirs, "
            "base, delete), or values by column. The command conflicts writes one with -o.",
        ),
    ] = None
    schema: Annotated[
        list[str] | None,
        typer.Option(
            "--schema",
            metavar="SIDE",
            help="Columns that both changed: ours or theirs; NAME=ours, theirs, drop or keep for "
            "one of them. May be repeated.",
        ),
    ] = None

    def __post_init__(self) -> None:
        given = [f"--{name}" for name in (*_SIDES, "base") if getattr(self, name)]
        if len(given) > 1:
            raise typer.BadParameter(f"{' and '.join(given)} do not go together")
        _ = self._rules
        _schema(self.schema)

    @property
    def _rules(self) -> dict[str, str]:
        return options.expressions(self.rule, "--rule", "views=ours.views + 1")

    @property
    def is_any(self) -> bool:
        """Whether anything is decided."""
        return self.decisions is not None or bool(self.rules)

    @property
    def rules(self) -> dict[str, Any]:
        """The arguments of ``lancewood.Resolve`` but for decisions on single conflicts."""
        side = next((each for each in (*_SIDES, "base") if getattr(self, each)), None)
        found = {
            "columns": self._rules or None,
            "winner": self.winner,
            "whole_rows": self.whole_rows or None,
            "deletes": None if self.deletes is None else self.deletes.value,
            "rows": side,
            "schema": _schema(self.schema),
        }
        return {name: value for name, value in found.items() if value is not None}

    def resolve(self, find: FindConflicts) -> lw.Resolve | None:
        """How conflicts are decided; None if nothing is. Reads the file of decisions, as the
        columns of the tables are that ``find`` finds in conflict."""
        rules = self.rules
        if self.decisions is not None:
            schema = rules.get("schema")
            known = find(None if schema is None else lw.Resolve(schema=schema))
            rules["decisions"] = read_decisions(self.decisions, known)
        return lw.Resolve(**rules) if rules else None


@dataclass(frozen=True, kw_only=True)
class MergeOptions(Deciding):
    """How a merge goes: what is a conflict, and how conflicts are decided."""

    detect: Annotated[
        Detect,
        typer.Option(
            "--detect", help="What is a conflict: that both changed a cell, a row, or the table."
        ),
    ] = Detect.CELLS

    def facts(self, find: FindConflicts) -> dict[str, Any]:
        """The arguments of every verb that merges."""
        return {"resolve": self.resolve(find), "detect": self.detect.value}


@dataclass(frozen=True, kw_only=True)
class ConflictOptions(MergeOptions, DifferingRows):
    """Which conflicts of a merge are shown, and how."""

    columns: options.Columns = None
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write them to a file, with an empty column take: fill it in for --decisions.",
        ),
    ] = None
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False

    @property
    def kind(self) -> FileFormat | None:
        """The format of the file that is written; None if conflicts are shown to people."""
        return self.format if self.output is None else require_format(self.output, self.format)

    def check(self, *, as_json: bool) -> None:
        """Raise BadParameter for options that do not go together, and the error of a file that
        cannot be written."""
        if self.output is None and self.force:
            raise typer.BadParameter("--force is for -o FILE")
        super().check(as_json=as_json)
        if self.output is not None:
            check_target(self.output, force=self.force)

    def show(self, found: Conflicts, output: Output, title: str | None = None) -> int:
        """Show the conflicts of a table, or write them; how many. ``title`` is the name of the
        table where several are shown."""
        output.short = not self.full
        chosen = options.names(self.columns)
        found = found if chosen is None else found.select(chosen)
        shown, kind = ShownConflicts(found, output, self.limit, title), self.kind
        if kind is None:
            return _show_rows(shown, output, title)
        count = shown.file(self.output or STDOUT, kind, force=self.force, safe=self.safe)
        if self.output not in (None, STDOUT):
            facts = {"file": self.output, "format": kind, "conflicts": count}
            output.document(facts, f"wrote {counted(count, 'conflict')} to {self.output}")
        return count

    def show_all(
        self,
        found: Mapping[str, Conflicts] | Mapping[None, Conflicts],
        output: Output,
        given: lw.Resolve | None,
        kept: Iterable[str] = (),
    ) -> None:
        """Show the conflicts of tables by their titles, and end as ``--exit-code`` asks for. A note
        says how many decisions, given or kept, are on none of the conflicts."""
        with paged(output, is_text=self.kind is None):
            count = sum(self.show(each, output, title) for title, each in found.items())
        if not found and not output.as_json:
            note(_NO_CONFLICT)
        names = {*kept}
        if given is not None and given.decisions is not None:
            names.update(given.decisions.column("_conflict").to_pylist())
        used = (each.decided() for each in found.values()) if names else ()
        note_stale(len(names.difference(*used)))
        self.end([count])


def _show_rows(shown: ShownConflicts, output: Output, title: str | None) -> int:
    """Show conflicts of rows, or of columns where these have to be decided first; how many."""
    try:
        return shown.rows()
    except lw.MergeConflictError as conflict:
        columns = conflict.facts.get("schema")
        if columns is None:
            raise
        show_columns(columns, output, title)
        note("rows are compared once --schema says what these columns become")
        return len(columns)


def _schema(texts: Sequence[str] | None) -> str | dict[str, str] | None:
    """What columns become: a side for all, or by column."""
    found: dict[str, str] = {}
    for each in texts or ():
        name, equals, choice = each.rpartition("=")
        if choice not in (_BECOMES if equals else _SIDES) or (equals and not name):
            raise typer.BadParameter(
                f"--schema takes ours or theirs, or NAME=ours, theirs, drop or keep, not {each!r}"
            )
        found[name or "*"] = choice
    return found["*"] if list(found) == ["*"] else found or None


_HEAD = ("row", "column", "base", "ours", "theirs", "conflict")
_OF_COLUMNS = ("column", "kind", "ours", "theirs")
_ROW = "(row)"
"""Stands for the column where one side deleted the row."""
_TABLE = "(table)"
"""Stands for the column where the metadata of the schema is in conflict."""
_DELETED = "deleted"
_NO_CONFLICT = "no row is in conflict"
_TAKE = pa.field("take", pa.string())
"""What people fill in to decide a conflict."""


class ReadableConflicts(Protocol):
    """Rows in conflict, with all three sides of each."""

    def to_reader(self) -> pa.RecordBatchReader: ...

    def decided(self) -> frozenset[str]: ...


class ShownConflicts(Shown):
    """Conflicts of one table, shown in one of the ways, which says how many were shown."""

    def __init__(
        self, found: ReadableConflicts, output: Output, limit: int | None, title: str | None = None
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
            lines = (line for each in rows for line in _conflict_lines(each, self._output.short))
            head = next(lines, None)
            if head is None:
                if self._limit != 0:
                    note(self._said(_NO_CONFLICT))
                return 0
            if self._title is not None:
                self._output.title(self._title)
            self._output.rows(_HEAD, chain([head], lines), cut=True)
            self._say_more()
        return self._seen

    def file(self, path: str, kind: FileFormat, *, force: bool = False, safe: bool = False) -> int:
        """Write the conflicts to a file, with a column to decide them in."""
        with self._found.to_reader() as reader:
            is_flat = kind is FileFormat.CSV
            shown = _flat(pa.RecordBatch.from_pylist([], reader.schema)).schema
            schema = shown if is_flat else reader.schema
            schema = schema.insert(min(1, len(schema)), _TAKE)

            def to_fill_in() -> Iterator[pa.RecordBatch]:
                for batch in self._cut(reader):
                    empty = pa.nulls(batch.num_rows, _TAKE.type)
                    first, *others = _flat(batch).columns if is_flat else batch.columns
                    yield pa.RecordBatch.from_arrays([first, empty, *others], schema=schema)

            write_rows(path, kind, schema, to_fill_in(), force=force, safe=safe)
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


def note_stale(count: int) -> None:
    """Say that ``count`` decisions are on conflicts that are not there."""
    note_all(stale_note(count))


def note_all(notes: Iterable[str]) -> None:
    """Print what a merge says is left to do, with commands in place of methods."""
    for each in notes:
        note(as_typed(each))


def _conflict_lines(row: Mapping[str, Any], short: bool) -> Iterator[tuple[Any, ...]]:
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


_TEXT = pa.string()
_NAMES = {"_conflict": _TEXT, "take": _TEXT}
"""Read as text, whatever the digits look like."""
_SHOWN_SIDE = "ours"
_VALUE = "merged"
_ADVICE = re.compile(r"(\. Types are guessed[^;]*)?;[^;]*--cast [^;]*")
"""What the errors of files of rows say about an option of imports."""


class FoundConflicts(Protocol):
    """The conflicts of a table that is merged."""

    @property
    def schema(self) -> pa.Schema: ...

    def names(self) -> list[str]: ...


def read_decisions(path: str, conflicts: Mapping[str, FoundConflicts]) -> pa.Table:
    """The decisions in a file; ``conflicts`` are those of the tables that are merged.

    Raises InvalidInputError for a value that its column cannot hold. Where tables have columns of
    one name and of different types, those count whose conflicts the file names.
    """
    try:
        return _read_for(path, conflicts)
    except InvalidInputError as cause:
        raise InvalidInputError(_ADVICE.sub("", cause.message), **cause.facts) from cause


def _read_for(path: str, conflicts: Mapping[str, FoundConflicts]) -> pa.Table:
    schemas = _known_schemas(conflicts)
    found, disputed = _read(path, schemas.values())
    if not any(found.column(name).null_count < len(found) for name in disputed):
        return found
    named = frozenset(found.column("_conflict").to_pylist())
    meant = [
        schema
        for table, schema in schemas.items()
        if not named.isdisjoint(conflicts[table].names())
    ]
    found, disputed = _read(path, meant)
    for name in disputed:
        if found.column(name).null_count < len(found):
            raise InvalidInputError(
                f"{path} has values for column {name!r}, which has different types in the tables "
                f"that are merged: {', '.join(schemas)}; decide them in a file for each, with lw "
                "resolve",
                column=name,
            )
    return found


def _known_schemas(conflicts: Mapping[str, FoundConflicts]) -> dict[str, pa.Schema]:
    """What conflicts of the tables are shown with, but for tables whose columns are in conflict:
    they are not merged."""
    found = {}
    for table, each in conflicts.items():
        with suppress(MergeConflictError):
            found[table] = each.schema
    return found


def _read(path: str, schemas: Iterable[pa.Schema]) -> tuple[pa.Table, list[str]]:
    """The decisions in a file, and its columns that have no one type in tables of these conflicts.

    A name of what is shown may be that of a column as well: what is there says which type is read.
    """
    is_csv = require_format(path, None) is FileFormat.CSV
    types = dict(_NAMES)
    twofold: dict[str, tuple[pa.DataType, pa.DataType]] = {}
    disputed = set[str]()
    for schema in schemas:
        shown = _shown_types(schema, is_csv)
        values = {each.name: each.type for each in schema.field(_SHOWN_SIDE).type}
        twofold |= {name: (shown[name], values[name]) for name in values.keys() & shown.keys()}
        own = {f"{_VALUE}.{name}": kind for name, kind in values.items()}
        for name, kind in {**values, **shown, **own, **_NAMES}.items():
            if types.setdefault(name, kind) != kind:
                disputed.add(name)
    twofold = {name: kinds for name, kinds in twofold.items() if name not in disputed}
    types = {name: kind for name, kind in types.items() if name not in {*disputed, *twofold}}
    source = SourceFiles([path], _typed_by(types))
    names = source.schema.names
    if is_csv:
        # What has no type here may look like numbers in one row and not in another.
        types = dict.fromkeys(names, _TEXT) | types
    for name in (each for each in names if each in twofold and not is_csv):
        of_shown, of_column = twofold[name]
        is_shown = _is_alike(source.schema.field(name).type, of_shown)
        types[name] = of_shown if is_shown else of_column
    source = SourceFiles([path], _typed_by(types))
    found = source.reader(lambda rows, size: None).read_all().combine_chunks()
    for name in twofold:
        if name in names:
            found = _as_column(found, name, twofold[name][1])
    return found, [each for each in names if each in disputed]


def _is_alike(found: pa.DataType, shown: pa.DataType) -> bool:
    """Whether what a column looks like is what conflicts are shown with."""
    if pa.types.is_struct(found) and pa.types.is_struct(shown):
        return {each.name for each in found} <= {each.name for each in shown}
    return bool(found == shown)


def _typed_by(types: Mapping[str, pa.DataType]) -> ImportOptions:
    return ImportOptions(table=pa.schema([*types.items()]))


def _shown_types(schema: pa.Schema, is_csv: bool) -> dict[str, pa.DataType]:
    """The types of what conflicts are shown with. In CSV all of it is text, and a struct is a
    column for each of its fields."""
    found: dict[str, pa.DataType] = {}
    for each in schema:
        if each.name in _NAMES:
            continue
        found[each.name] = _TEXT if is_csv else each.type
        if is_csv and pa.types.is_struct(each.type):
            found |= {f"{each.name}.{part.name}": _TEXT for part in each.type}
    return found


def _as_column(found: pa.Table, name: str, kind: pa.DataType) -> pa.Table:
    """Decisions in which texts in a column become its type, if all of them can be that."""
    values: Any = found.column(name).combine_chunks()
    if values.type != _TEXT:
        return found
    with suppress(InvalidInputError):
        values = from_read(values, kind)
    at = found.schema.get_field_index(name)
    return found.set_column(at, pa.field(name, values.type), values)
