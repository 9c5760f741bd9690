"""Reading one file of rows: Parquet, CSV, JSON, Arrow, from a path or from stdin.

Each reader tells the columns first and streams the rows after; in between no file is open. Does
not join files and does not change types. A file that breaks its own format is an
InvalidInputError that names it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any, Protocol

import pyarrow as pa

from lancewood.cli.csv_blocks import csv_blocks
from lancewood.cli.file_formats import FileFormat, is_tab_separated
from lancewood.cli.json_blocks import json_blocks
from lancewood.cli.text_forms import csv_read_type, json_read_type
from lancewood.errors import InvalidInputError, StorageError

STDIN = "-"
_BATCH_ROWS = 65_536
_BLOCK_BYTES = 8 << 20
_ARROW_FILE = b"ARROW1"


@dataclass(frozen=True)
class CsvOptions:
    """How CSV files are written."""

    delimiter: str | None = None
    header: bool = True
    names: list[str] | None = None
    null_values: list[str] = field(default_factory=list)


class RowSource(Protocol):
    """One file of rows."""

    name: str
    schema: pa.Schema
    is_text: bool
    """Whether the file holds texts, whose types are guesses."""
    may_lack_columns: bool
    """Whether rows may leave a column out."""
    total_rows: int | None

    def batches(self, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows; a text format reads its columns as the wanted types where it can."""
        ...


def open_source(path: str, format: FileFormat, csv: CsvOptions) -> RowSource:
    """Look into a file; raises InvalidInputError if it is not of that format."""
    name = "stdin" if path == STDIN else path
    with reading(name):
        if format is FileFormat.PARQUET:
            return _Parquet(path, name)
        if format is FileFormat.CSV:
            return _Csv(path, name, csv)
        if format is FileFormat.JSON:
            return _Json(path, name)
        return _Arrow(path, name)


@contextmanager
def reading(name: str, hint: str = "") -> Iterator[None]:
    """Say which file it is that cannot be read."""
    try:
        yield
    except pa.ArrowException as cause:
        raise InvalidInputError(f"{name} cannot be read: {cause}{hint}", file=name) from cause
    except UnicodeDecodeError as cause:
        raise InvalidInputError(f"{name} is not UTF-8: {cause}", file=name) from cause
    except OSError as cause:
        raise StorageError(f"{name} cannot be read: {cause}", file=name) from cause


_GUESSED = ". Types are guessed from the first rows; say them with --cast NAME:TYPE"


def _bytes_of(path: str) -> IO[bytes]:
    """The bytes of a file, decompressed by its suffix."""
    stream: IO[bytes] = pa.input_stream(path, compression="detect")
    return stream


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

    def batches(self, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
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
    """The IPC file and the IPC stream, told apart by their first bytes."""

    is_text = may_lack_columns = False
    total_rows: int | None = None

    def __init__(self, path: str, name: str) -> None:
        import pyarrow.ipc as ipc

        self.name, self._path = name, path
        self._stdin = ipc.open_stream(sys.stdin.buffer) if path == STDIN else None
        if self._stdin is not None:
            self.schema = self._stdin.schema
        else:
            with pa.memory_map(path) as source:
                self.schema = self._open(source).schema

    def batches(self, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
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


class _Csv:
    is_text, may_lack_columns = True, False
    total_rows: int | None = None

    def __init__(self, path: str, name: str, options: CsvOptions) -> None:
        self.name, self._path, self._options = name, path, options
        self._stdin: tuple[bytes, Iterator[bytes]] | None = None
        if path == STDIN:
            # Arrow would read a pipe in a thread of its own, which no Ctrl-C can end.
            blocks = csv_blocks(sys.stdin.buffer, name, _BLOCK_BYTES)
            first = next(blocks, b"")
            self._stdin = first, blocks
            self.schema = self._open(pa.BufferReader(first), {}).schema
        else:
            with _bytes_of(path) as stream, self._open(stream, {}) as rows:
                self.schema = rows.schema

    def batches(self, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
        types = {each.name: csv_read_type(each.type) for each in wanted}
        with reading(self.name, _GUESSED):
            if self._stdin is None:
                with _bytes_of(self._path) as stream, self._open(stream, types) as rows:
                    yield from rows
                return
            first, blocks = self._stdin
            yield from self._open(pa.BufferReader(first), types)
            for block in blocks:
                yield from self._open(pa.BufferReader(block), types, self.schema.names)

    def _open(
        self, stream: Any, types: dict[str, pa.DataType], names: list[str] | None = None
    ) -> Any:
        """A reader of the rows; ``names`` are told where a block has no header of its own."""
        import pyarrow.csv as csv

        options = self._options
        delimiter = options.delimiter or ("\t" if is_tab_separated(self._path) else ",")
        named = names or options.names
        return csv.open_csv(
            stream,
            read_options=csv.ReadOptions(
                block_size=_BLOCK_BYTES,
                column_names=named,
                autogenerate_column_names=not options.header and named is None,
                skip_rows=1 if options.header and options.names and not names else 0,
            ),
            parse_options=csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                column_types=types,
                null_values=["", *options.null_values],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )


class _Json:
    is_text = may_lack_columns = True
    total_rows: int | None = None

    def __init__(self, path: str, name: str) -> None:
        self.name, self._path = name, path
        blocks = self._blocks()
        first = next(blocks, b"")
        if not first:
            raise InvalidInputError(f"{name} holds no row", file=name)
        self.schema = _read_json(first, None).schema
        self._stdin = (first, blocks) if path == STDIN else None

    def batches(self, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
        types = pa.schema([pa.field(each.name, json_read_type(each.type)) for each in wanted])
        with reading(self.name, _GUESSED):
            blocks = self._blocks()
            if self._stdin is not None:
                first, blocks = self._stdin
                yield from _read_json(first, types).to_batches()
            for block in blocks:
                yield from _read_json(block, types).to_batches()

    def _blocks(self) -> Iterator[bytes]:
        if self._path == STDIN:
            yield from json_blocks(sys.stdin.buffer, self.name, _BLOCK_BYTES)
            return
        with _bytes_of(self._path) as stream:
            yield from json_blocks(stream, self.name, _BLOCK_BYTES)


def _read_json(block: bytes, types: pa.Schema | None) -> pa.Table:
    import pyarrow.json as json

    return json.read_json(
        pa.BufferReader(block),
        read_options=json.ReadOptions(use_threads=False, block_size=len(block)),
        parse_options=json.ParseOptions(
            explicit_schema=types, unexpected_field_behavior="infer" if types is None else "error"
        ),
    )
