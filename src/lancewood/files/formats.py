"""File formats: a format by file name, and what the readers of all formats share.

They share the protocol of a source, access to its bytes, and the errors for what cannot be read.
"""

from __future__ import annotations

import codecs
import io
import math
import os
import re
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import PurePath
from typing import IO, TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from lancewood.errors import InvalidInputError, StorageError

if TYPE_CHECKING:
    from typing_extensions import Buffer


STDIN = "-"
BLOCK_BYTES = 8 << 20
GUESSED = ". Types are guessed from the first rows; say them with --cast NAME:TYPE"
COMPRESSED = frozenset({".gz", ".bz2", ".zst", ".lz4"})
FLOAT_ENDS = {16: 65520.0, 32: float(2**128 - 2**103), 64: math.inf}
"""The number from which on a type of floats has infinity, by its bits."""
_TURN = 0.2  # seconds
_NOT_UTF_8 = re.compile("invalid UTF-?8", re.IGNORECASE)
_BAD_VALUE = re.compile(r"(?:invalid value|parse string:) '([^']*)'")
_NULLS = frozenset(["na", "n/a", "null", "none", "nil", "-", "--", "?", "\\n", "#n/a", "nan", "."])


class FileFormat(StrEnum):
    """The values of ``--format``."""

    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"
    JSONL = "jsonl"
    """JSON lines, as ``json`` is too."""
    ARROW = "arrow"
    ARROW_STREAM = "arrow-stream"


SUFFIXES = {
    ".parquet": FileFormat.PARQUET,
    ".pq": FileFormat.PARQUET,
    ".csv": FileFormat.CSV,
    ".tsv": FileFormat.CSV,
    ".json": FileFormat.JSON,
    ".jsonl": FileFormat.JSON,
    ".ndjson": FileFormat.JSON,
    ".arrow": FileFormat.ARROW,
    ".ipc": FileFormat.ARROW,
    ".feather": FileFormat.ARROW,
    ".arrows": FileFormat.ARROW_STREAM,
}


def format_of(path: str) -> FileFormat | None:
    """The format by a file's suffix; None if that is unknown."""
    suffixes = PurePath(path.lower()).suffixes
    if suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    return SUFFIXES.get(suffixes[-1]) if suffixes else None


def require_format(path: str, asked: FileFormat | None) -> FileFormat:
    """The requested format, or the one of the suffix; raises InvalidInputError."""
    found = asked or format_of(path)
    if found is None:
        known = ", ".join(SUFFIXES)
        raise InvalidInputError(
            f"the format of {path!r} cannot be told from its name: use --format, or one of {known}"
        )
    return found


def is_tab_separated(path: str) -> bool:
    """Whether a file is CSV with tabs between its values, by its name."""
    return ".tsv" in PurePath(path.lower()).suffixes[-2:]


class RowSource(Protocol):
    """One file of rows."""

    name: str
    schema: pa.Schema
    is_text: bool
    """Whether the file is text, so that types are guesses."""
    may_lack_columns: bool
    """Whether rows may omit a column."""
    total_rows: int | None

    def batches(self, wanted: pa.Schema, guessed: frozenset[str]) -> Iterator[pa.RecordBatch]:
        """The rows; a text format reads its columns as the wanted types if it can.

        The types of the columns in ``guessed`` were not requested: a value that one of them cannot
        hold exactly is an error.
        """
        ...


def checked_encoding(name: str) -> str:
    """The name that Python has for an encoding of texts; raises InvalidInputError."""
    try:
        "".encode(name)
        return codecs.lookup(name).name
    except (LookupError, ValueError):
        raise InvalidInputError(
            f"encoding {name!r} is not known; it is a name such as utf-8, latin-1, windows-1252, "
            "utf-16"
        ) from None


@contextmanager
def reading(name: str, hint: str = "", encoding: str | None = None) -> Iterator[None]:
    """Turn errors of Arrow and the disk into ones that name the file."""
    try:
        yield
    except pa.ArrowException as cause:
        if encoding is None and _NOT_UTF_8.search(str(cause)):
            raise _not_utf_8(name, cause) from cause
        raise InvalidInputError(
            f"{name} cannot be read: {cause}{null_hint(str(cause))}{hint}", file=name
        ) from cause
    except UnicodeError as cause:
        if encoding is None:
            raise _not_utf_8(name, cause) from cause
        known = codecs.lookup(encoding).name
        hint = f"; try {known}-le or {known}-be" if "BOM" in str(cause) else ""
        raise InvalidInputError(f"{name} is not {encoding}: {cause}{hint}", file=name) from cause
    except OSError as cause:
        if cause.errno is None:  # from Arrow, for truncated bytes, not from the disk
            raise InvalidInputError(f"{name} cannot be read: {cause}", file=name) from cause
        raise StorageError(f"{name} cannot be read: {cause}", file=name) from cause


def _not_utf_8(name: str, cause: Exception) -> InvalidInputError:
    return InvalidInputError(
        f"{name} is not UTF-8: {cause}; say what it is with --encoding, such as latin-1, "
        "windows-1252 or utf-16",
        file=name,
    )


def null_hint(message: str) -> str:
    """What to say of a value that does not fit, if it is a usual word for null."""
    found = _BAD_VALUE.search(message)
    if found is None or found[1].casefold() not in _NULLS:
        return ""
    return f". If {found[1]!r} means null, say --null-value {found[1]!r}"


def bytes_of(path: str) -> IO[bytes]:
    """The bytes of a file, decompressed by its suffix."""
    stream: IO[bytes] = pa.input_stream(path, compression="detect")
    return stream


def in_utf_8(stream: Any, encoding: str | None) -> IO[bytes]:
    """The bytes of a text in UTF-8, whatever its encoding is; None is UTF-8."""
    found: IO[bytes] = stream
    if encoding is not None:
        source = stream if isinstance(stream, pa.NativeFile) else pa.PythonFile(stream, "r")
        found = pa.transcoding_input_stream(source, encoding, "utf-8")
    return found


def stdin_bytes() -> IO[bytes]:
    """The bytes of stdin; raises InvalidInputError if it is closed."""
    if sys.stdin is None:
        raise InvalidInputError("stdin is closed, no rows can come from it; give a file")
    try:
        return io.BufferedReader(_Waiting(sys.stdin.fileno()), 1 << 20)
    except io.UnsupportedOperation:
        return sys.stdin.buffer


class _Waiting(io.RawIOBase):
    """A file descriptor whose reader can be interrupted while it waits.

    Python handles a signal only when it runs again, so it waits for bytes in short turns. Does not
    close the descriptor.
    """

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        while not select.select([self._number], [], [], _TURN)[0]:
            pass
        return os.readv(self._number, [buffer])


def inexact(name: str, column: str, number: str) -> InvalidInputError:
    """The error for a whole number in a column that was guessed to be floats."""
    return InvalidInputError(
        f"{name}: column {column!r} was guessed to be double, which cannot hold "
        f"{shortened(number)} exactly; give it a type: --cast '{column}:uint64', "
        f"'{column}:decimal128(38, 0)', '{column}:string', or '{column}:double' to round; nothing "
        "was changed",
        file=name,
        column=column,
    )


def overflowing(name: str, column: str, number: str, kind: pa.DataType) -> InvalidInputError:
    """The error for a number that is too large for a column of floats."""
    return InvalidInputError(
        f"{name}: column {column!r}: {too_large(number, kind)}; keep it as text: "
        f"--cast '{column}:string'; nothing was changed",
        file=name,
        column=column,
    )


def too_large(number: str, kind: pa.DataType) -> str:
    """What an error says of a number of which a type makes infinity."""
    return f"{shortened(number)} is larger than any {kind} but infinity"


def shortened(text: str) -> str:
    """The beginning of a text, as an error shows it."""
    return text if len(text) <= 40 else f"{text[:37]}..."


def is_beyond(number: float, kind: pa.DataType) -> bool:
    """Whether a type of floats makes infinity of a number, or has it as such."""
    return abs(number) >= FLOAT_ENDS[kind.bit_width]


def is_inexact(number: str) -> bool:
    """Whether a float cannot hold this whole number."""
    digits = number.lstrip("+-0") or "0"
    if len(digits) > 309:
        return True
    found = float(digits)
    return not math.isfinite(found) or int(found) != int(digits)
