"""Files to import: finding them, agreeing on one schema, and reading them as one stream.

Every file is opened to learn its schema, and closed again, before the first row is read. At most a
block of rows is in memory. A file that breaks its own format raises an InvalidInputError that names
it.

The readers of Parquet and Arrow are here, those of CSV and JSON in separate modules. Columns of
Parquet and Arrow files become columns of another type only where no value is lost.
"""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lancewood.errors import InvalidInputError, LancewoodError, NotFoundError
from lancewood.files.csv_source import CsvOptions, CsvSource
from lancewood.files.formats import (
    GUESSED,
    STDIN,
    FileFormat,
    RowSource,
    format_of,
    reading,
    require_format,
    stdin_bytes,
)
from lancewood.files.json_source import JsonSource
from lancewood.files.text_forms import encoded, from_read, is_bytes, is_text

_BATCH_ROWS = 65_536
_ARROW_FILE = b"ARROW1"
_FAMILIES: tuple[Callable[[pa.DataType], bool], ...] = (
    pa.types.is_integer,
    pa.types.is_date,
    pa.types.is_time,
    pa.types.is_duration,
    pa.types.is_decimal,
    is_text,
    is_bytes,
)
"""Groups of types: a cast within one keeps each value or fails."""


@dataclass(frozen=True)
class ImportOptions:
    """The options of an import, as the user gave them."""

    format: FileFormat | None = None
    casts: Mapping[str, pa.DataType] = field(default_factory=dict)
    table: pa.Schema | None = None
    """The schema of the table that the rows will be appended to."""
    csv: CsvOptions = field(default_factory=CsvOptions)
    encoding: str | None = None
    """What texts are written in; None is UTF-8."""
    merge_schema: bool = False
    """Whether a file may lack columns that another has."""


class SourceFiles:
    """Several files with one schema."""

    def __init__(self, paths: Sequence[str], options: ImportOptions) -> None:
        self._options = options
        self.files = [
            open_source(each, require_format(each, options.format), options.csv, options.encoding)
            for each in find_files(paths, options.format)
        ]
        self.schema = self._agree()

    @property
    def total_rows(self) -> int | None:
        """How many rows there are, if all files say so without being read."""
        known = [each.total_rows for each in self.files if each.total_rows is not None]
        return sum(known) if len(known) == len(self.files) else None

    def reader(self, on_batch: Callable[[int, int], None]) -> pa.RecordBatchReader:
        """All rows, in the order of the files; ``on_batch`` gets counts of rows and bytes."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches(on_batch))

    def _batches(self, on_batch: Callable[[int, int], None]) -> Iterator[pa.RecordBatch]:
        known = {*self._options.casts, *(self._options.table.names if self._options.table else ())}
        guessed = frozenset(self.schema.names) - known
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
            agreed = _merge(agreed, wanted, first, other, may_lack=self._options.merge_schema)
        unknown = [name for name in self._options.casts if name not in agreed.names]
        if unknown:
            raise InvalidInputError(
                f"--cast names column {unknown[0]!r}, which {first.name} does not have: it has "
                f"{', '.join(agreed.names)}"
            )
        return agreed

    def _wanted(self, source: RowSource) -> pa.Schema:
        """The columns of one file with the types that they will have."""
        names = Counter(source.schema.names)
        name, times = next(iter(names.most_common(1)), ("", 0))
        if times > 1:
            raise InvalidInputError(f"{source.name} has two columns {name!r}", column=name)
        fields = []
        for each in source.schema:
            if each.name in self._options.casts:
                each = each.with_type(self._options.casts[each.name])
            elif self._options.table is not None:
                at = self._options.table.get_field_index(each.name)
                kind = self._options.table.field(at).type if at >= 0 else each.type
                if source.is_text or may_become(each.type, kind):
                    each = each.with_type(kind)
            fields.append(each)
        if source.may_lack_columns:
            fields += [
                pa.field(name, kind)
                for name, kind in self._options.casts.items()
                if name not in names
            ]
        return pa.schema(fields, source.schema.metadata)


def _merge(
    agreed: pa.Schema, other: pa.Schema, first: RowSource, second: RowSource, *, may_lack: bool
) -> pa.Schema:
    ours, theirs = set(agreed.names), set(other.names)
    extra = [name for name in other.names if name not in ours]
    missing = [name for name in agreed.names if name not in theirs]
    if second.may_lack_columns:
        missing = []
    if not may_lack and (extra or missing):
        name = (extra or missing)[0]
        has, lacks = (second, first) if extra else (first, second)
        raise InvalidInputError(
            f"{has.name} has column {name!r}, {lacks.name} has not; with --merge-schema it is "
            "null in the rows of files without it",
            column=name,
        )
    fields = []
    for each in agreed:
        if each.name not in theirs:
            fields.append(each.with_nullable(True))
            continue
        their = other.field(each.name)
        # A text file has no types, only guesses; the first file's guess counts for all.
        if their.type != each.type and not (second.is_text and first.is_text):
            raise InvalidInputError(
                f"column {each.name!r} is {each.type} in {first.name}, {their.type} in "
                f"{second.name}; make them one type with --cast {each.name}:TYPE",
                column=each.name,
            )
        fields.append(each.with_nullable(each.nullable or their.nullable))
    fields += [other.field(name).with_nullable(True) for name in extra]
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


def find_files(paths: Sequence[str], asked: FileFormat | None) -> list[str]:
    """The files that names, directories, patterns or ``-`` mean."""
    if STDIN in paths and len(paths) > 1:
        raise InvalidInputError("'-' (stdin) stands alone; import the files one after another")
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
    for each in found:
        if any("\ud800" <= letter <= "\udfff" for letter in each):
            raise InvalidInputError(f"the name of file {each!r} is not UTF-8; rename it")
    return found


def _files_below(directory: str, asked: FileFormat | None) -> list[str]:
    """The files of a known format, or all if one is asked for; hidden ones are left out."""
    files = sorted(
        str(each)
        for each in Path(directory).rglob("*")
        if each.is_file()
        and not any(part.startswith((".", "_")) for part in each.relative_to(directory).parts)
    )
    wanted = [each for each in files if asked is not None or format_of(each) is not None]
    if not wanted:
        raise NotFoundError(f"directory {directory!r} holds no file that can be imported")
    return wanted


def open_source(
    path: str, format: FileFormat, csv: CsvOptions, encoding: str | None = None
) -> RowSource:
    """Open a file and read its schema; raises InvalidInputError if it is not of that format."""
    name = "stdin" if path == STDIN else path
    with reading(name, encoding=encoding):
        if format is FileFormat.PARQUET:
            return _Parquet(path, name)
        if format is FileFormat.CSV:
            return CsvSource(path, name, replace(csv, encoding=encoding))
        if format in (FileFormat.JSON, FileFormat.JSONL):
            return JsonSource(path, name, encoding)
        return _Arrow(path, name)


class _Parquet:
    is_text = may_lack_columns = False

    def __init__(self, path: str, name: str) -> None:
        if path == STDIN:
            raise InvalidInputError(
                "Parquet cannot be read from stdin, its footer comes last; give the file"
            )
        self.name, self._path = name, path
        with self._open() as file:
            self.schema = _without_parquet_ids(file.schema_arrow)
            self.total_rows: int | None = file.metadata.num_rows

    def batches(self, wanted: pa.Schema, guessed: frozenset[str]) -> Iterator[pa.RecordBatch]:
        with reading(self.name), self._open() as file:
            yield from file.iter_batches(_BATCH_ROWS)

    def _open(self) -> Any:
        import pyarrow.parquet as pq

        return pq.ParquetFile(self._path)


def _without_parquet_ids(schema: pa.Schema) -> pa.Schema:
    fields = []
    for each in schema:
        kept = {k: v for k, v in (each.metadata or {}).items() if not k.startswith(b"PARQUET:")}
        fields.append(each.with_metadata(kept or None))
    return pa.schema(fields, schema.metadata)


class _Arrow:
    """An IPC file or IPC stream, distinguished by the first bytes."""

    is_text = may_lack_columns = False
    total_rows: int | None = None

    def __init__(self, path: str, name: str) -> None:
        import pyarrow.ipc as ipc

        self.name, self._path = name, path
        self._stdin = ipc.open_stream(stdin_bytes()) if path == STDIN else None
        if self._stdin is not None:
            self.schema = self._stdin.schema
        else:
            with pa.memory_map(path) as source:
                self.schema = self._open(source).schema

    def batches(self, wanted: pa.Schema, guessed: frozenset[str]) -> Iterator[pa.RecordBatch]:
        with reading(self.name):
            if self._stdin is not None:
                yield from self._stdin
                return
            with pa.memory_map(self._path) as source:
                opened = self._open(source)
                if not hasattr(opened, "get_batch"):
                    yield from opened
                    return
                for at in range(opened.num_record_batches):
                    yield opened.get_batch(at)

    def _open(self, source: Any) -> Any:
        import pyarrow.ipc as ipc

        is_file = source.read(len(_ARROW_FILE)) == _ARROW_FILE
        source.seek(0)
        return ipc.open_file(source) if is_file else ipc.open_stream(source)


def may_become(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a column of one type may be appended as the other, if its values permit it."""
    if found == wanted:
        return True
    if pa.types.is_dictionary(found):
        return may_become(found.value_type, wanted)
    if pa.types.is_dictionary(wanted):
        return may_become(found, wanted.value_type)
    if pa.types.is_timestamp(found) and pa.types.is_timestamp(wanted):
        return bool(found.tz == wanted.tz)
    if pa.types.is_floating(found) and pa.types.is_floating(wanted):
        return bool(found.bit_width <= wanted.bit_width)
    if pa.types.is_struct(found) and pa.types.is_struct(wanted):
        return [each.name for each in found] == [each.name for each in wanted] and all(
            may_become(ours.type, theirs.type) for ours, theirs in zip(found, wanted, strict=True)
        )
    if pa.types.is_fixed_size_list(found) and pa.types.is_fixed_size_list(wanted):
        same = found.list_size == wanted.list_size
        return same and may_become(found.value_type, wanted.value_type)
    for is_list in (pa.types.is_list, pa.types.is_large_list):
        if is_list(wanted) and (pa.types.is_list(found) or pa.types.is_large_list(found)):
            return may_become(found.value_type, wanted.value_type)
    return any(test(found) and test(wanted) for test in _FAMILIES)


def retyped(array: Any, kind: pa.DataType) -> Any:
    """A typed column as another type; raises InvalidInputError for a value that would change."""
    if array.type == kind:
        return array
    if is_text(array.type) and not is_text(kind):
        return from_read(array, kind)
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, retyped(array, kind.storage_type))
    try:
        if pa.types.is_dictionary(kind):
            return encoded(retyped(array, kind.value_type), kind)
        return pc.cast(array, kind)
    except pa.ArrowException as cause:
        raise InvalidInputError(f"a value cannot be {kind}: {cause}") from cause
