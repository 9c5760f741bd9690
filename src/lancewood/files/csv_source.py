"""Reading one CSV file: first its columns with guessed types, then its rows.

Arrow parses the CSV. A pipe is first copied into an unnamed temporary file, because Arrow reads in
its own thread, which could not be stopped while it waits for a pipe.

A quote that is never closed is an error. To notice one, a record of nulls is put after the last row
and has to come out again.
"""

from __future__ import annotations

import io
import shutil
import tempfile
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc

from lancewood.errors import InvalidInputError
from lancewood.files.formats import (
    BLOCK_BYTES,
    FLOAT_ENDS,
    GUESSED,
    STDIN,
    bytes_of,
    in_utf_8,
    inexact,
    is_inexact,
    is_tab_separated,
    null_hint,
    overflowing,
    reading,
    stdin_bytes,
)
from lancewood.files.text_forms import csv_read_type

_LONG_NUMBER = "^[+-]?[0-9]{16,}$"
_CODE = r"^(?:\+|-?0[0-9xX])"
"""A string that begins with a sign, zeros or 0x, which a number would lose."""
_BIT = "^[01]$"
"""What Arrow takes for true or false where others are spelt out."""
_INFINITE = "(?i)^[+-]?inf(?:inity)?$"


@dataclass(frozen=True)
class CsvOptions:
    """The form of CSV files."""

    delimiter: str | None = None
    header: bool = True
    names: list[str] | None = None
    null_values: list[str] = field(default_factory=list)
    encoding: str | None = None
    """The encoding of the texts; None is UTF-8."""


class CsvSource:
    is_text, may_lack_columns = True, False
    total_rows: int | None = None

    def __init__(self, path: str, name: str, options: CsvOptions) -> None:
        self.name, self._path, self._options = name, path, options
        self._delimiter = options.delimiter or ("\t" if is_tab_separated(path) else ",")
        self._spool: _Spool | None = None
        if path == STDIN:
            self._spool = _Spool(stdin_bytes())
            weakref.finalize(self, self._spool.close)
        # If there is one column, an empty line is a row with a null.
        self._skip_empty = True
        self.schema = self._guess()
        if len(self.schema) == 1:
            self._check_delimiter()
            self._skip_empty = False
            self.schema = self._guess()

    def batches(self, wanted: pa.Schema, guessed: frozenset[str]) -> Iterator[pa.RecordBatch]:
        types = {each.name: csv_read_type(each.type) for each in wanted}
        checked = {
            name: kind
            for name, kind in types.items()
            if name in self.schema.names
            and (pa.types.is_floating(kind) or (name in guessed and _is_lossy(kind)))
        }
        types |= dict.fromkeys(checked, pa.string())
        # A record of nulls comes last. If it does not come out, an open quote has swallowed it.
        last = self._delimiter * (len(self.schema) - 1) + "\n"
        with (
            reading(self.name, GUESSED, self._options.encoding),
            self._bytes() as stream,
            self._open(_Ended(stream, last.encode()), types) as rows,
        ):
            for batch in self._without_last(rows):
                yield self._converted(batch, wanted, checked, guessed)

    def _guess(self) -> pa.Schema:
        """The types that Arrow guesses from the first rows; codes such as 00123 stay strings."""
        with self._bytes() as stream, self._open(stream, {}) as rows:
            schema = rows.schema
        numbers = [each.name for each in schema if _is_lossy(each.type)]
        if not numbers:
            return schema
        texts = dict.fromkeys(numbers, pa.string())
        with self._bytes() as stream, self._open(stream, texts) as rows:
            first = next(iter(rows), None)
        if first is None:
            return schema
        for name in numbers:
            at = schema.get_field_index(name)
            texts_read = pc.utf8_trim_whitespace(first.column(at))
            if _first_lost(texts_read, schema.field(at).type) is not None:
                schema = schema.set(at, schema.field(at).with_type(pa.string()))
        return schema

    def _check_delimiter(self) -> None:
        """Raise InvalidInputError if the one column is most likely several."""
        (name,) = self.schema.names
        likely = next((each for each in ";\t|" if each in name), None)
        if likely is not None and self._options.delimiter is None:
            raise InvalidInputError(
                f"{self.name} has one column, named {name!r}: say --delimiter {likely!r}, or "
                f"--delimiter {self._delimiter!r} if it is one",
                file=self.name,
            )

    @contextmanager
    def _bytes(self) -> Iterator[Any]:
        encoding = self._options.encoding
        if self._spool is None:
            with bytes_of(self._path) as stream:
                yield in_utf_8(stream, encoding)
        else:
            yield in_utf_8(_SpoolStream(self._spool), encoding)

    def _open(self, stream: Any, types: dict[str, pa.DataType]) -> Any:
        import pyarrow.csv as csv

        options = self._options
        return csv.open_csv(
            stream,
            read_options=csv.ReadOptions(
                block_size=BLOCK_BYTES,
                column_names=options.names,
                autogenerate_column_names=not options.header and options.names is None,
                skip_rows=1 if options.header and options.names else 0,
            ),
            parse_options=csv.ParseOptions(
                delimiter=self._delimiter,
                newlines_in_values=True,
                ignore_empty_lines=self._skip_empty,
            ),
            convert_options=csv.ConvertOptions(
                column_types=types,
                null_values=["", *options.null_values],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )

    def _without_last(self, rows: Any) -> Iterator[pa.RecordBatch]:
        """The rows without the record of nulls after them."""
        held: pa.RecordBatch | None = None
        for batch in rows:
            if not batch.num_rows:
                continue
            if held is not None:
                yield held
            held = batch
        if held is None or any(each[-1].is_valid for each in held.columns):
            raise InvalidInputError(
                f"{self.name} cannot be read: a quote is never closed; nothing was changed",
                file=self.name,
            )
        if held.num_rows > 1:
            yield held.slice(0, held.num_rows - 1)

    def _converted(
        self,
        batch: pa.RecordBatch,
        schema: pa.Schema,
        kinds: Mapping[str, pa.DataType],
        guessed: frozenset[str],
    ) -> pa.RecordBatch:
        """The batch with columns that were read as strings as what they are; raises
        InvalidInputError for a value that would not be the same."""
        for name, kind in kinds.items():
            wanted = schema.field(name).type
            at = batch.schema.get_field_index(name)
            texts = pc.utf8_trim_whitespace(batch.column(at))
            if name in guessed:
                self._check_guess(name, texts, kind)
            try:
                values: Any = pc.cast(texts, kind)
            except pa.ArrowInvalid as cause:
                hint = GUESSED if name in guessed else ""
                raise InvalidInputError(
                    f"{self.name}: column {name!r}: {cause}{null_hint(str(cause))}{hint}",
                    file=self.name,
                    column=name,
                ) from cause
            if pa.types.is_floating(kind):
                end = FLOAT_ENDS[wanted.bit_width if pa.types.is_floating(wanted) else 64]
                beyond = texts.filter(pc.greater_equal(pc.abs(values), end))
                beyond = beyond.filter(pc.invert(pc.match_substring_regex(beyond, _INFINITE)))
                for each in beyond[:1].to_pylist():
                    raise overflowing(self.name, name, each, wanted)
            batch = batch.set_column(at, name, values)
        return batch

    def _check_guess(self, name: str, texts: Any, kind: pa.DataType) -> None:
        """Raise InvalidInputError for a value that is not what the first rows looked like."""
        lost = _first_lost(texts, kind)
        if lost is not None:
            raise InvalidInputError(
                f"{self.name}: column {name!r} was guessed to be {kind} by the first rows, which "
                f"would not keep {lost!r} as it is written; give it a type: --cast "
                f"'{name}:string', or '{name}:{kind}' if it means the value; nothing was changed",
                file=self.name,
                column=name,
            )
        if pa.types.is_floating(kind):
            for each in texts.filter(pc.match_substring_regex(texts, _LONG_NUMBER)).to_pylist():
                if is_inexact(each):
                    raise inexact(self.name, name, each)


def _is_lossy(kind: pa.DataType) -> bool:
    """Whether texts of a type that was guessed may be lost: numbers and booleans."""
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    )


def _first_lost(texts: Any, kind: pa.DataType) -> str | None:
    """The first text that a value of the type would not keep as it is written."""
    pattern = _BIT if pa.types.is_boolean(kind) else _CODE
    found: list[str] = texts.filter(pc.match_substring_regex(texts, pattern))[:1].to_pylist()
    return found[0] if found else None


class _Spool:
    """Bytes in an unnamed temporary file, read by streams that each have a position.

    Arrow's thread reads ahead and goes on for a while after its reader is closed, so streams must
    not share a position.
    """

    def __init__(self, source: IO[bytes]) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  it lives as long as its owner
        self._lock = threading.Lock()
        shutil.copyfileobj(source, self._file, 1 << 20)
        self.close = self._file.close

    def read(self, start: int, size: int) -> bytes:
        with self._lock:
            self._file.seek(start)
            return self._file.read(size)


class _SpoolStream(io.RawIOBase):
    """The bytes of a spool from the beginning."""

    def __init__(self, spool: _Spool) -> None:
        super().__init__()
        self._spool, self._at = spool, 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        data = self._spool.read(self._at, size)
        self._at += len(data)
        return data


class _Ended(io.RawIOBase):
    """A stream with ``end`` after its last line. Closing it leaves the stream open."""

    def __init__(self, stream: IO[bytes], end: bytes) -> None:
        super().__init__()
        self._stream, self._end, self._last = stream, end, b"\n"

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        data = self._stream.read(size)
        if data:
            self._last = data[-1:]
            return data
        end, self._end = self._end, b""
        return b"\n" + end if end and self._last != b"\n" else end
