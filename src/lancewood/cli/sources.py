"""Files to be imported: finding them, agreeing on one schema, and reading them as one stream.

Every file is looked into before the first row is handed over. Does not write anything, and holds
no more than a block of rows in memory.
"""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from lancewood.cli.csv_source import CsvOptions
from lancewood.cli.file_formats import FileFormat, format_of, require_format
from lancewood.cli.readers import open_source
from lancewood.cli.row_source import GUESSED, STDIN, RowSource
from lancewood.cli.text_forms import from_read
from lancewood.cli.typed_columns import may_become, retyped
from lancewood.errors import InvalidInputError, LancewoodError, NotFoundError


@dataclass(frozen=True)
class Wish:
    """What the user asks of the rows."""

    format: FileFormat | None = None
    casts: Mapping[str, pa.DataType] = field(default_factory=dict)
    table: pa.Schema | None = None
    """The schema of the table that they will be appended to."""
    csv: CsvOptions = field(default_factory=CsvOptions)


class Sources:
    """Several files with one schema."""

    def __init__(self, paths: Sequence[str], wish: Wish) -> None:
        self._wish = wish
        self.files = [
            open_source(each, require_format(each, wish.format), wish.csv)
            for each in find_files(paths, wish.format)
        ]
        self.schema = self._agree()

    @property
    def total_rows(self) -> int | None:
        """How many rows there are, where all files tell without being read."""
        known = [each.total_rows for each in self.files if each.total_rows is not None]
        return sum(known) if len(known) == len(self.files) else None

    def reader(self, on_batch: Callable[[int, int], None]) -> pa.RecordBatchReader:
        """All rows, in the order of the files; ``on_batch`` hears of rows and bytes."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches(on_batch))

    def _batches(self, on_batch: Callable[[int, int], None]) -> Iterator[pa.RecordBatch]:
        told = {*self._wish.casts, *(self._wish.table.names if self._wish.table else ())}
        guessed = frozenset(self.schema.names) - told
        for each in self.files:
            for batch in each.batches(self.schema, guessed):
                fitted = _fit(each, batch, self.schema, guessed)
                on_batch(fitted.num_rows, fitted.nbytes)
                yield fitted

    def _agree(self) -> pa.Schema:
        """The schema of all files; raises InvalidInputError for the first that differs."""
        first, *others = self.files
        agreed = self._wanted(first)
        for other in others:
            wanted = self._wanted(other)
            agreed = _merge(agreed, wanted, first, other)
        unknown = [name for name in self._wish.casts if name not in agreed.names]
        if unknown:
            raise InvalidInputError(
                f"--cast names column {unknown[0]!r}, which {first.name} does not have: it has "
                f"{', '.join(agreed.names)}"
            )
        return agreed

    def _wanted(self, source: RowSource) -> pa.Schema:
        """The columns of one file with the types that they shall have."""
        names = Counter(source.schema.names)
        name, times = next(iter(names.most_common(1)), ("", 0))
        if times > 1:
            raise InvalidInputError(f"{source.name} has two columns {name!r}", column=name)
        fields = []
        for each in source.schema:
            if each.name in self._wish.casts:
                each = each.with_type(self._wish.casts[each.name])
            elif self._wish.table is not None:
                at = self._wish.table.get_field_index(each.name)
                kind = self._wish.table.field(at).type if at >= 0 else each.type
                if source.is_text or may_become(each.type, kind):
                    each = each.with_type(kind)
            fields.append(each)
        if source.may_lack_columns:
            fields += [
                pa.field(name, kind) for name, kind in self._wish.casts.items() if name not in names
            ]
        return pa.schema(fields, source.schema.metadata)


def find_files(paths: Sequence[str], asked: FileFormat | None) -> list[str]:
    """The files that are meant: names, directories with everything in them, patterns, ``-``."""
    if STDIN in paths and len(paths) > 1:
        raise InvalidInputError("'-' (stdin) stands alone; import the files one after another")
    found = _find(paths, asked)
    for each in found:
        if not _is_utf8(each):
            raise InvalidInputError(f"the name of file {each!r} is not UTF-8; rename it")
    return found


def _is_utf8(text: str) -> bool:
    return not any("\ud800" <= each <= "\udfff" for each in text)


def _find(paths: Sequence[str], asked: FileFormat | None) -> list[str]:
    found: list[str] = []
    for each in paths:
        if each == STDIN:
            found.append(each)
        elif "://" in each:
            raise InvalidInputError(f"{each!r} is not a local file; copy it here first")
        elif os.path.isdir(each):
            found += _files_below(each, asked)
        elif os.path.exists(each):
            found.append(each)
        else:
            matching = sorted(glob.glob(each, recursive=True))
            files = [name for name in matching if os.path.isfile(name)]
            if not files:
                raise NotFoundError(f"no file {each!r}", file=each)
            found += files
    return found


def _files_below(directory: str, asked: FileFormat | None) -> list[str]:
    files = sorted(
        str(each)
        for each in Path(directory).rglob("*")
        if each.is_file() and not _is_hidden(each.relative_to(directory))
    )
    wanted = [each for each in files if asked is not None or format_of(each) is not None]
    if not wanted:
        raise NotFoundError(f"directory {directory!r} holds no file that can be imported")
    return wanted


def _is_hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)


def _merge(agreed: pa.Schema, other: pa.Schema, first: RowSource, second: RowSource) -> pa.Schema:
    ours, theirs = set(agreed.names), set(other.names)
    extra = [name for name in other.names if name not in ours]
    missing = [name for name in agreed.names if name not in theirs]
    if second.may_lack_columns:
        missing = []
    if extra or missing:
        name = (extra or missing)[0]
        has, lacks = (second, first) if extra else (first, second)
        raise InvalidInputError(
            f"{has.name} has column {name!r}, {lacks.name} has not; import them one by one",
            column=name,
        )
    fields = []
    for each in agreed:
        if each.name not in theirs:
            fields.append(each.with_nullable(True))
            continue
        their = other.field(each.name)
        # A text file has no types of its own, only guesses; the first guess goes for all.
        if their.type != each.type and not (second.is_text and first.is_text):
            raise InvalidInputError(
                f"column {each.name!r} is {each.type} in {first.name}, {their.type} in "
                f"{second.name}; make them one type with --cast {each.name}:TYPE",
                column=each.name,
            )
        fields.append(each.with_nullable(each.nullable or their.nullable))
    return pa.schema(fields, agreed.metadata)


def _fit(
    source: RowSource, batch: pa.RecordBatch, schema: pa.Schema, guessed: frozenset[str]
) -> pa.RecordBatch:
    arrays = []
    become = from_read if source.is_text else retyped
    for each in schema:
        at = batch.schema.get_field_index(each.name)
        try:
            arrays.append(
                pa.nulls(batch.num_rows, each.type)
                if at < 0
                else become(batch.column(at), each.type)
            )
        except LancewoodError as cause:
            hint = GUESSED if source.is_text and each.name in guessed else ""
            raise InvalidInputError(
                f"{source.name}: column {each.name!r}: {cause}; nothing was changed{hint}"
            ) from cause
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
