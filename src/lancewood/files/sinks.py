"""Writing rows to one file: Parquet, CSV, JSON lines or Arrow.

A file gets its name when it is complete, so it is there whole or not at all. Standard output and
pipes are written while rows come in.
"""

from __future__ import annotations

import os
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import PurePath
from typing import IO, Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lancewood.errors import AlreadyExistsError, InvalidInputError, StorageError, UnsupportedError
from lancewood.files.formats import COMPRESSED, FileFormat, is_tab_separated
from lancewood.files.json_text import finite_json_text, json_text
from lancewood.files.text_forms import (
    check_in_range,
    csv_batch,
    plain_batch,
    safe_for_spreadsheets,
    without_dictionaries,
)

_WAY_OUT = "; --force, or OVERWRITE of COPY, replaces it"
STDOUT = "-"
_GROUP_ROWS = 122_880
_GROUP_BYTES = 128 << 20


class RowSink(Protocol):
    """Takes batches of one schema."""

    def write(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None: ...


def check_target(path: str, *, force: bool) -> None:
    """Raise an error for a file that cannot be written, before anything is read."""
    if path == STDOUT:
        return
    if "://" in path:
        raise InvalidInputError(f"{path!r} is not a local file; export it here and copy it there")
    if PurePath(path.lower()).suffix in COMPRESSED:
        raise InvalidInputError(f"{path!r} would be compressed; export it plain and compress it")
    if os.path.isdir(path):
        raise InvalidInputError(f"{path!r} is a directory; give the name of a file")
    if os.path.lexists(path) and not force and not _is_stream(path):
        raise AlreadyExistsError(f"{path!r} is already there{_WAY_OUT}", file=path)
    if os.path.abspath(path).startswith(("/dev/", "/proc/")) and os.path.isfile(path):
        raise InvalidInputError(f"{path!r} is a file that is open already; use - for stdout")
    directory = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(directory):
        raise InvalidInputError(f"there is no directory {directory!r}")


def _is_stream(path: str) -> bool:
    """Whether a path is a pipe or a terminal, where writing replaces nothing."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


@contextmanager
def writing(
    path: str, format: FileFormat, schema: pa.Schema, *, force: bool, safe: bool = False
) -> Iterator[RowSink]:
    """A sink. If the block ends well the file has its name, otherwise nothing is left.

    The target of a link is replaced, not the link, and it keeps its mode. Anything but a regular
    file is written while rows come in. ``safe`` escapes what a spreadsheet would take for a
    formula.
    """
    if safe:
        no_rows = pa.RecordBatch.from_pylist([], schema=schema)
        with writing(path, format, safe_for_spreadsheets(no_rows).schema, force=force) as sink:
            yield _Safe(sink)
        return
    if path == STDOUT:
        with _sink(sys.stdout.buffer, format, schema, path) as sink:
            yield sink
        sys.stdout.buffer.flush()
        return
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            with open(path, "wb") as stream, _sink(stream, format, schema, path) as sink:
                yield sink
            return
        with _staged(os.path.realpath(path), path, force) as file:
            with _sink(file, format, schema, path) as sink:
                yield sink
            file.flush()
            os.fsync(file.fileno())
    except BrokenPipeError:
        raise
    except OSError as cause:
        raise StorageError(f"{path!r} cannot be written: {cause}", file=path) from cause


@contextmanager
def _sink(file: IO[bytes], format: FileFormat, schema: pa.Schema, path: str) -> Iterator[RowSink]:
    try:
        sink = _SINKS[format](file, schema, path)
    except (pa.ArrowException, OSError) as cause:
        if isinstance(cause, OSError) and cause.errno is not None:
            raise  # from the disk, not from Arrow
        raise UnsupportedError(
            f"{format} cannot hold these columns: {cause}; choose others with --columns, or "
            "another --format"
        ) from cause
    try:
        yield sink
    except BaseException:
        # Closing a broken file is bound to fail, which would hide the first error.
        with suppress(Exception):
            sink.close()
        raise
    sink.close()


@contextmanager
def _staged(target: str, path: str, force: bool) -> Iterator[IO[bytes]]:
    """A file beside the target, renamed to it when the block ends well."""
    staged = os.path.join(os.path.dirname(target), f".lw-{secrets.token_hex(8)}")
    try:
        with open(staged, "xb") as file:
            with suppress(FileNotFoundError):
                os.fchmod(file.fileno(), stat.S_IMODE(os.stat(target).st_mode))
            yield file
        if force:
            os.replace(staged, target)
            return
        try:
            os.link(staged, target)
        except FileExistsError:
            raise AlreadyExistsError(
                f"{path!r} has appeared meanwhile{_WAY_OUT}",
                file=path,
            ) from None
        except OSError:  # a file system without links
            os.rename(staged, target)
    finally:
        with suppress(OSError):
            os.unlink(staged)


class _Csv:
    def __init__(self, file: IO[bytes], schema: pa.Schema, path: str) -> None:
        import pyarrow.csv as csv

        empty = csv_batch(pa.RecordBatch.from_pylist([], schema=schema))
        delimiter = "\t" if is_tab_separated(path) else ","
        options = csv.WriteOptions(delimiter=delimiter)
        self._writer = csv.CSVWriter(file, empty.schema, write_options=options)
        self.close = self._writer.close

    def write(self, batch: pa.RecordBatch) -> None:
        check_in_range(batch)
        self._writer.write_batch(csv_batch(batch))


class _Safe:
    """A sink for CSV in which nothing begins like a formula."""

    def __init__(self, sink: RowSink) -> None:
        self._sink = sink

    def write(self, batch: pa.RecordBatch) -> None:
        self._sink.write(safe_for_spreadsheets(batch))

    def close(self) -> None:
        self._sink.close()


class JsonLines:
    """Counts the rows in which JSON has no word for a number."""

    def __init__(self, file: IO[bytes], schema: pa.Schema, path: str) -> None:
        self._file, self.rows_not_finite = file, 0

    def write(self, batch: pa.RecordBatch) -> None:
        check_in_range(batch)
        lines = []
        for each in plain_batch(batch).to_pylist():
            text = finite_json_text(each)
            self.rows_not_finite += text is None
            lines.append((json_text(each) if text is None else text) + "\n")
        self._file.write("".join(lines).encode())

    def close(self) -> None:
        """Do nothing: each line is complete by itself."""


class _ArrowStream:
    def __init__(self, file: IO[bytes], schema: pa.Schema, path: str) -> None:
        import pyarrow.ipc as ipc

        writer = ipc.new_stream(file, schema)
        self.write, self.close = writer.write_batch, writer.close


class _ArrowFile:
    """An Arrow file without dictionaries, since the one for the whole file would be known only at
    its end."""

    def __init__(self, file: IO[bytes], schema: pa.Schema, path: str) -> None:
        import pyarrow.ipc as ipc

        fields = [each.with_type(without_dictionaries(each.type)) for each in schema]
        self._schema = pa.schema(fields, schema.metadata)
        self._writer = ipc.new_file(file, self._schema)
        self.close = self._writer.close

    def write(self, batch: pa.RecordBatch) -> None:
        arrays = [
            array if array.type == each.type else pc.cast(array, each.type)
            for array, each in zip(batch.columns, self._schema, strict=True)
        ]
        self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema))


class _Parquet:
    """Collects batches into row groups: small ones would make the file slow to read."""

    def __init__(self, file: IO[bytes], schema: pa.Schema, path: str) -> None:
        import pyarrow.parquet as pq

        self._schema = schema
        self._writer = pq.ParquetWriter(file, schema, compression="zstd")
        self._waiting: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= _GROUP_ROWS or self._bytes >= _GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting, self._schema))
        self._waiting, self._rows, self._bytes = [], 0, 0


_SINKS: dict[FileFormat, Any] = {
    FileFormat.PARQUET: _Parquet,
    FileFormat.CSV: _Csv,
    FileFormat.JSON: JsonLines,
    FileFormat.JSONL: JsonLines,
    FileFormat.ARROW: _ArrowFile,
    FileFormat.ARROW_STREAM: _ArrowStream,
}
