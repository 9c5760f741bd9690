"""The only access to pylance's data file codec: open, read, take, write.

Turns pylance's failures, panics included, into our errors, which name the file. Types are not
checked: the codec trusts its arguments, so callers check first.
"""

from __future__ import annotations

import os
import re
import threading
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from types import TracebackType
from typing import Any, TypeAlias

import pyarrow as pa

from lancewood.errors import (
    FormatError,
    InvalidInputError,
    LancewoodError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from lancewood.format.schema import decode_file_schema
from lancewood.model.fragment import WRITABLE_FILE_VERSIONS
from lancewood.model.schema import Schema
from lancewood.store.options import CREDENTIALS_COME_FROM

READAHEAD = 4
"""Batches that the codec decodes ahead; more would cost memory and was not faster."""

StorageOptions = Mapping[str, str] | None
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def pylance_path(names: Iterable[str]) -> str:
    """A column, or a field inside of structs, as pylance spells it: what is no plain word is in
    backticks, and a backtick in it is doubled."""
    return ".".join(
        each if _PLAIN_NAME.fullmatch(each) else f"`{each.replace('`', '``')}`" for each in names
    )


@dataclass(frozen=True, eq=False)
class FileFacts:
    """What a data file says about itself. Compared by identity, so that results can be cached by
    it."""

    schema: Schema
    num_rows: int
    num_columns: int
    column_bytes: tuple[int, ...] = ()
    """The stored size of each physical column, where the codec reports it."""


_decode_schema = lru_cache(maxsize=64)(decode_file_schema)
"""Files of one write have identical descriptors, and then share one schema."""


def file_facts(
    location: str,
    descriptor: bytes,
    num_rows: int,
    num_columns: int,
    column_bytes: tuple[int, ...] = (),
) -> FileFacts:
    """The facts in a file's own schema; raises FormatError that names the file."""
    try:
        return FileFacts(_decode_schema(descriptor), num_rows, num_columns, column_bytes)
    except (FormatError, UnsupportedError) as cause:
        raise type(cause)(f"data file {location}: {cause}", **cause.facts, file=location) from cause


class _Sessions:
    """The codec's clients of directories, cached: a new one for each file costs more than a small
    file does. They do not survive a fork."""

    def __init__(self, most: int = 64) -> None:
        self._most = most
        self._kept: OrderedDict[object, Any] = OrderedDict()
        self._lock = threading.Lock()
        self._orphans: list[Any] = []

    def at(self, directory: str, storage_options: StorageOptions) -> Any:
        key = (directory, tuple(sorted(storage_options.items())) if storage_options else ())
        found = self._kept.get(key)
        if found is not None:
            return found
        from lance.file import LanceFileSession

        made = LanceFileSession(
            directory, storage_options=dict(storage_options) if storage_options else None
        )
        dropped = None
        with self._lock:
            self._kept[key] = made
            if len(self._kept) > self._most:
                dropped = self._kept.popitem(last=False)
        del dropped
        return made

    def after_fork(self) -> None:
        """Start empty in a forked child; what the parent had is kept alive unused."""
        self._orphans += self._kept.values()
        self._kept, self._lock = OrderedDict(), threading.Lock()


_SESSIONS = _Sessions()
_ORDINARY_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_SESSIONS.after_fork)


class FileReader:
    """One open data file, projected. Not thread-safe."""

    def __init__(self, inner: Any, location: str) -> None:
        self._inner = inner
        self._location = location

    @cached_property
    def facts(self) -> FileFacts:
        """The file's own schema and counts, whatever the projection; raises FormatError."""
        with _translated("read", self._location, FormatError):
            descriptor = self._inner.read_global_buffer(0)
            sizes = tuple(each.size_bytes for each in self._inner.file_statistics().columns)
            rows = self._inner.num_rows()
        return file_facts(self._location, descriptor, rows, len(sizes), sizes)

    def buffer(self, number: int) -> bytes:
        """One of the global buffers of the file; its schema is the first."""
        with _translated("read", self._location, FormatError):
            return bytes(self._inner.read_global_buffer(number))

    def read(self, start: int, stop: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The rows of a range in batches of at most ``batch_rows``: started at the call,
        streamed."""
        with _translated("read", self._location, FormatError):
            result = self._inner.read_range(
                start, stop - start, batch_size=batch_rows, batch_readahead=READAHEAD
            )
        return self._batches(result)

    def read_whole(self) -> pa.RecordBatch | None:
        """All rows in one batch, for small files; None where the codec returns several.

        Does not read to the end of the stream, which costs as much as the batch.
        """
        with _translated("read", self._location, FormatError):
            rows = self._inner.num_rows()
            result = self._inner.read_range(0, rows, batch_size=rows, batch_readahead=1)
            batch = next(iter(result.to_batches()), None)
        return batch if batch is not None and batch.num_rows == rows else None

    def take(self, offsets: Sequence[int], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The rows at strictly increasing offsets: started at the call, streamed."""
        # pylance's own class would look through the offsets once more, in Python.
        inner = getattr(self._inner, "_reader", self._inner)
        with _translated("read", self._location, FormatError):
            result = inner.take_rows(offsets, batch_size=batch_rows, batch_readahead=READAHEAD)
        return self._batches(result)

    def _batches(self, result: Any) -> Iterator[pa.RecordBatch]:
        with _translated("read", self._location, FormatError):
            yield from result if isinstance(result, pa.RecordBatchReader) else result.to_batches()


class FileWriter:
    """One data file being written. Until ``close`` there is no file under its name."""

    def __init__(self, inner: Any, location: str) -> None:
        self._inner = inner
        self._location = location

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows; raises InvalidInputError for rows that the codec refuses."""
        with _translated("write", self._location, InvalidInputError):
            self._inner.write_batch(batch)

    def close(self) -> int:
        """Finish the file under its name and return its size in bytes. Does not sync it."""
        with _translated("write", self._location, InvalidInputError):
            self._inner.close()
            return int(self._inner.size_bytes)

    def abandon(self) -> None:
        """Discard the file; the codec removes what it wrote so far."""
        self._inner = None


def open_reader(
    location: str, paths: Sequence[str] | None, storage_options: StorageOptions
) -> FileReader:
    """Open a data file, projected to ``paths`` (names in the file), or to everything.

    Raises NotFoundError, FormatError, StorageError; UnsupportedError for legacy files.
    """
    columns = list(paths) if paths is not None else None
    directory, _, name = location.rpartition("/")
    with _translated("open", location, FormatError):
        if directory and _ORDINARY_NAME.fullmatch(name):
            inner = _SESSIONS.at(directory, storage_options).open_reader(name, columns)
        else:
            from lance.file import LanceFileReader

            options = dict(storage_options) if storage_options else None
            inner = LanceFileReader(location, storage_options=options, columns=columns)
    return FileReader(inner, location)


def read_range(location: str, storage_options: StorageOptions, start: int, length: int) -> bytes:
    """Bytes of a data file that is not on this disk; fewer where it ends earlier."""
    directory, _, name = location.rpartition("/")
    with _translated("read", location, FormatError):
        session = _SESSIONS.at(directory, storage_options)
        return bytes(session.read_range(name, start, length))


def open_writer(
    location: str, schema: pa.Schema, file_version: str, storage_options: StorageOptions
) -> FileWriter:
    """Begin a data file. An existing file is silently replaced."""
    check_writable(file_version)
    directory, _, name = location.rpartition("/")
    with _translated("write", location, InvalidInputError):
        if directory and _ORDINARY_NAME.fullmatch(name):
            session = _SESSIONS.at(directory, storage_options)
            inner = session.open_writer(name, schema=schema, version=file_version)
        else:
            from lance.file import LanceFileWriter

            options = dict(storage_options) if storage_options else None
            inner = LanceFileWriter(location, schema, version=file_version, storage_options=options)
    return FileWriter(inner, location)


def check_writable(file_version: str) -> None:
    """Raise UnsupportedError for a file version that we do not write."""
    if file_version not in WRITABLE_FILE_VERSIONS:
        raise UnsupportedError(
            f"data file version {file_version!r} cannot be written; "
            f"choose one of {', '.join(WRITABLE_FILE_VERSIONS)}",
            file_version=file_version,
        )


_NOT_FOUND = ("not found:", "no such file", "nosuchkey", "status: 404", "status 404")
_STORAGE = (
    "generic s3",
    "generic gcs",
    "generic microsoftazure",
    "generic http",
    "error performing",
    "error sending request",
    "timed out",
    "connection refused",
    "connection reset",
    "connection closed",
    "error trying to connect",
    "permission denied",
    "access denied",
    "accessdenied",
    "unauthenticated",
    "credentials",
    "os error",
)
_REFUSED = ("access denied", "accessdenied", "credential", "status code: 403", "403 forbidden")


def _translated(verb: str, location: str, broken: type[LancewoodError]) -> Translated:
    return Translated(partial(_judge, verb, location, broken))


def _judge(
    verb: str, location: str, broken: type[LancewoodError], text: str, cause: BaseException
) -> LancewoodError:
    if isinstance(cause, ImportError):
        return not_imported(f"cannot {verb} data file {location}", text, file=location)
    lower = text.lower()
    if (
        any(each in lower for each in (*_NOT_FOUND, "not a directory"))
        and broken is not FormatError
    ):
        return StorageError(
            f"cannot write data file {location}: its directory cannot be made; {text}",
            file=location,
        )
    if any(each in lower for each in _NOT_FOUND):
        return NotFoundError(f"data file {location} not found", file=location)
    if "no object store provider" in lower:
        return InvalidInputError(f"cannot {verb} data file {location}: {text}", file=location)
    if "projection specified the column index" in lower:
        return UnsupportedError(
            f"data file {location} has fewer columns than its schema, as files with a blob (v2) "
            "column do",
            file=location,
        )
    kind = broken
    if any(each in lower for each in _STORAGE):
        kind = StorageError
        if any(each in lower for each in _REFUSED):
            text += f" (credentials come from {CREDENTIALS_COME_FROM})"
    elif isinstance(cause, NotImplementedError) or "to read v1 metadata" in lower:
        kind = UnsupportedError
    return kind(f"cannot {verb} data file {location}: {text}", file=location)


Judge: TypeAlias = Callable[[str, BaseException], LancewoodError]
"""The error for what pylance says, and what it raised."""
_SOURCE_PLACE = re.compile(r",? ?/\S+\.rs:\d+(:\d+)?")


class Translated:
    """Around calls of pylance: what they raise is judged. Errors of ours, interruptions and a want
    of memory pass."""

    __slots__ = ("_judge",)

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        cause: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if cause is None or isinstance(cause, LancewoodError | MemoryError):
            return
        # A panic of pylance is a BaseException; every other BaseException passes.
        if isinstance(cause, Exception) or type(cause).__name__ == "PanicException":
            # Keeping the error must not keep a half-written file alive.
            traceback.clear_frames(cause.__traceback__)
            raise self._judge(_SOURCE_PLACE.sub("", str(cause)).strip(), cause) from cause


def not_imported(asked: str, text: str, **facts: Any) -> UnsupportedError:
    """The error where pylance is missing."""
    return UnsupportedError(
        f"{asked}: pylance, which does it, does not import here ({text}); install lancewood with "
        "its dependencies wherever tables are read, written and searched",
        **facts,
    )
