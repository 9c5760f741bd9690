"""Reading one file of rows: Parquet and Arrow here, CSV and JSON next door.

Each reader tells the columns first and streams the rows after; in between no file is open. Does
not join files and does not change types. A file that breaks its own format is an
InvalidInputError that names it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from lancewood.cli.csv_source import CsvOptions, CsvSource
from lancewood.cli.file_formats import FileFormat
from lancewood.cli.json_source import JsonSource
from lancewood.cli.row_source import STDIN, RowSource, reading, stdin_bytes
from lancewood.errors import InvalidInputError

_BATCH_ROWS = 65_536
_ARROW_FILE = b"ARROW1"


def open_source(path: str, format: FileFormat, csv: CsvOptions) -> RowSource:
    """Look into a file; raises InvalidInputError if it is not of that format."""
    name = "stdin" if path == STDIN else path
    with reading(name):
        if format is FileFormat.PARQUET:
            return _Parquet(path, name)
        if format is FileFormat.CSV:
            return CsvSource(path, name, csv)
        if format is FileFormat.JSON:
            return JsonSource(path, name)
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
    """The IPC file and the IPC stream, told apart by their first bytes."""

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
