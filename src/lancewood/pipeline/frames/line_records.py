"""Lines of text files, as Spark hands them to a task, become records: one for each row of a table.

A reader takes the lines of one file in order and gives its records; ``csv_records`` and
``json_records`` have one each. Knows nothing of Spark, and converts no value: Spark does that with
the text of a record.
"""

from __future__ import annotations

import codecs
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancewood.errors import FormatError
from lancewood.files.formats import is_beyond
from lancewood.files.json_source import Numeral

_NANOSECONDS = "[.,][0-9]{6}[0-9]*[1-9]"
_TIME_OF_DAY = "-[0-9]{1,2}[T ].*[1-9]"
_LARGE_NUMBER = r"[0-9.][eE]\+?[0-9]|[0-9]{39}"
"""In every number that no float holds, and in some others."""


@dataclass(frozen=True)
class Notation:
    """How a source writes values."""

    point: str = "."
    """What stands before the places of a decimal in a text."""
    has_date_format: bool = False
    """Whether the source says how dates are written, which then may have blanks and more."""
    has_time_format: bool = False
    """Whether the source says how timestamps are written, with six digits of a second at most."""


def suspicious(kinds: Iterable[pa.DataType], notation: Notation) -> str | None:
    """Pattern that matches every record in which a column of these types would lose something,
    and some others; None if no column can. Both RE2 and ``re`` read it."""
    found = {pattern for kind in kinds for pattern in _suspicious(kind, notation)}
    return "|".join(sorted(found)) or None


def _suspicious(kind: pa.DataType, notation: Notation) -> set[str]:
    if pa.types.is_decimal(kind):
        return {f"[.{re.escape(notation.point)}][0-9]{{{kind.scale + 1}}}", "[0-9.][eE][+-]?[0-9]"}
    if pa.types.is_floating(kind):
        return {_LARGE_NUMBER}
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        return set() if notation.has_time_format else {_NANOSECONDS}
    if pa.types.is_date(kind):
        return set() if notation.has_date_format else {_TIME_OF_DAY}
    below = (kind.field(at).type for at in range(kind.num_fields))
    return {pattern for each in below for pattern in _suspicious(each, notation)}


def lost(value: Any, kind: pa.DataType, notation: Notation) -> str | None:
    """What a column of this type would lose of a value; None if nothing.

    ``value`` is the text of a value, or a list or dict of such, as JSON nests them.
    """
    if isinstance(value, str):
        return _lost_of_text(value, kind, notation)
    return next((found for each in parts(value, kind) if (found := lost(*each, notation))), None)


def parts(value: Any, kind: pa.DataType) -> Iterable[tuple[Any, pa.DataType]]:
    """The values inside of a dict or list that JSON has for a nested type, each with its type."""
    if isinstance(value, dict) and pa.types.is_struct(kind):
        return [(value.get(each.name), each.type) for each in kind]
    if isinstance(value, dict) and pa.types.is_map(kind):
        return [(each, kind.item_type) for each in value.values()]
    if isinstance(value, list) and pa.types.is_list(kind):
        return [(each, kind.value_type) for each in value]
    return []


def _lost_of_text(text: str, kind: pa.DataType, notation: Notation) -> str | None:
    if pa.types.is_decimal(kind):
        point = "." if isinstance(text, Numeral) else notation.point
        if _places(text, point) > kind.scale:
            return f"has more decimal places than the {kind.scale} of its type"
    elif pa.types.is_floating(kind):
        if _is_beyond(text, kind):
            return "has a number too large for its type"
    elif pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        if not notation.has_time_format and re.search(_NANOSECONDS, text):
            return "has nanoseconds, and its type ends with microseconds"
    elif pa.types.is_date(kind) and not notation.has_date_format:
        has_time = re.search(_TIME_OF_DAY, text)
        return "has a time of day, and its type is a date" if has_time else None
    return None


def _places(text: str, point: str) -> int:
    """Number of decimal places of a number, without zeros at the end; 0 if it is no number."""
    plain = text if point == "." else re.sub(rf"[^0-9eE+\-{point}]", "", text).replace(point, ".")
    try:
        number = Decimal(plain.replace(",", ""))
    except InvalidOperation:
        return 0
    _, digits, exponent = number.as_tuple()
    if not number.is_finite() or not number:
        return 0
    zeros = next(at for at, digit in enumerate(reversed(digits)) if digit)
    return -int(exponent) - zeros


def _is_beyond(text: str, kind: pa.DataType) -> bool:
    # Java also reads 1e39f and 1e39d.
    number = text.strip().rstrip("dDfF")
    try:
        return number[-1:].isdigit() and is_beyond(float(number), kind)
    except ValueError:
        return False


VALUE, START, LENGTH, SIZE = (f"_lancewood_{each}" for each in ("value", "start", "length", "size"))
"""Columns of the lines: the bytes of a line, where the block that it is in begins, how long that
block is, and how large the file is."""
FILE = "_lancewood_file"
"""The column with the uri of the file of a row."""
TEXT, ORDERED, PROBLEM, LINE = (
    f"_lancewood_{each}" for each in ("text", "ordered", "problem", "line")
)
"""Columns of the records: the text of a record; that text with its columns in the order of the
schema, null if they are in that order already; why the record is bad, null where nothing is known;
its first line, from 1 on, null where that is unknown."""
UTF_8 = "utf-8"
_COMPRESSED = {
    rb"\x1f\x8b": "gzip, and its name does not end in .gz",
    rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)": "bzip2, and its name does not end in .bz2",
    rb"\x28\xb5\x2f\xfd": "zstd, and its name does not end in .zst",
    rb"\xfd7zXZ": "xz, which Spark does not read",
    rb"PK\x03\x04": "zip, which Spark does not read",
}
"""Patterns of how compressed files begin, and what they are compressed with."""
_WIDE = ("utf-16", "utf-32")


@dataclass
class Records:
    """Some records in their order."""

    texts: Any = field(default_factory=list)
    ordered: Any = field(default_factory=list)
    problems: Any = field(default_factory=list)
    lines: Any = field(default_factory=list)

    def add(
        self, text: str, line: int | None, problem: str | None = None, ordered: str | None = None
    ) -> None:
        self.texts.append(text)
        self.ordered.append(ordered)
        self.problems.append(problem)
        self.lines.append(line)

    def columns(self) -> list[pa.Array]:
        kinds = (pa.string(), pa.string(), pa.string(), pa.int64())
        parts = (self.texts, self.ordered, self.problems, self.lines)
        return [
            each if isinstance(each, pa.Array) else pa.array(each, kind)
            for each, kind in zip(parts, kinds, strict=True)
        ]


@dataclass(frozen=True)
class TextForm:
    """How a file of a source is written, and the columns that are read from it."""

    columns: pa.Schema
    """The columns with their types; ``null`` is a type that no table can hold."""
    encoding: str = UTF_8
    line_end: str = "\n"
    notation: Notation = field(default_factory=Notation)


class LineReader(ABC):
    """Makes records of the lines of one file, or of one block of it, which begins at a byte."""

    def __init__(self, form: TextForm, start: int) -> None:
        self._knows_lines, self._line = not start, 0
        self._decoder = Decoder(form.encoding, form.line_end, is_at_start=not start)
        self._suspicious = suspicious(form.columns.types, form.notation)

    @abstractmethod
    def read(self, lines: pa.Array) -> Iterator[Records]:
        """The records that end in these lines."""

    def end(self) -> Iterator[Records]:
        """What is left when the file ends."""
        found = Records()
        for text, problem in self._decoder.rest():
            self._take(found, text, problem)
        self._finish(found)
        yield found

    @abstractmethod
    def _take(self, found: Records, text: str, problem: str | None) -> None:
        """One more line, which may be wrong as a text."""

    @abstractmethod
    def _finish(self, found: Records) -> None:
        """The file ends with the lines that were taken."""

    @abstractmethod
    def _fault(self, record: str) -> str | None:
        """What is wrong with a record, or its columns would lose, if its text is suspicious."""

    def _by_lines(self, lines: Sequence[bytes]) -> Records:
        found = Records()
        for text, problem in self._decoder.texts(lines):
            self._take(found, text, problem)
        return found

    def _numbered(self, count: int) -> Any:
        """The numbers of as many lines more; nulls where they are not known."""
        self._line += count
        if not self._knows_lines:
            return pa.nulls(count, pa.int64())
        return pa.array(np.arange(self._line - count + 1, self._line + 1))

    def _of_whole_lines(self, texts: Any, numbers: Any) -> Records:
        """Records that are a line each."""
        problems: list[str | None] = [None] * len(texts)
        if self._suspicious is not None:
            suspects = pc.match_substring_regex(texts, self._suspicious)
            for at in np.flatnonzero(suspects.to_numpy(zero_copy_only=False)):
                problems[at] = self._fault(texts[at].as_py())
        none = pa.nulls(len(texts), pa.string())
        return Records(texts, none, pa.array(problems, pa.string()), numbers)


@dataclass(frozen=True)
class ToRecords:
    """Makes records of lines, in a task of Spark. Every column that is not about lines stays."""

    reader: Callable[[str, int], LineReader]
    """A reader for the file with this uri, or the block of it that begins at this byte."""
    is_whole: bool
    """Whether records may span lines, so that a file has to come whole and in order."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader: LineReader | None = None
        before: tuple[str, int] | None = None
        carried: pa.RecordBatch | None = None
        for batch in batches:
            for file, start, part in _parts(batch):
                now = (file, 0 if self.is_whole else start)
                if now != before:
                    if reader is not None and carried is not None:
                        yield from _with(carried, reader.end())
                    if self.is_whole and start:
                        raise FormatError(
                            f"{file} came to a task from byte {start} on, without what is before: "
                            "raise spark.sql.files.openCostInBytes above the size of the file, or "
                            "say multiLine = false if no value has a line end"
                        )
                    before = now
                    carried = part.drop_columns([VALUE, START, LENGTH, SIZE]).slice(0, 1)
                    why = None if start else not_text(part.column(VALUE)[0].as_py())
                    reader = self.reader(*now) if why is None else None
                    if why is not None:
                        yield from _with(carried, iter([Records([""], [None], [why], [None])]))
                if reader is not None and carried is not None:
                    yield from _with(carried, reader.read(part.column(VALUE)))
        if reader is not None and carried is not None:
            yield from _with(carried, reader.end())


def _parts(batch: pa.RecordBatch) -> Iterator[tuple[str, int, pa.RecordBatch]]:
    """The lines of a batch by their blocks: file, first byte, lines."""
    if not batch.num_rows:
        return
    files = batch.column(FILE).dictionary_encode().indices.to_numpy(zero_copy_only=False)
    starts = batch.column(START).to_numpy(zero_copy_only=False)
    is_next = (np.diff(files) != 0) | (np.diff(starts) != 0)
    borders = [0, *(np.flatnonzero(is_next) + 1).tolist(), batch.num_rows]
    for begin, end in pairwise(borders):
        yield batch.column(FILE)[begin].as_py(), int(starts[begin]), batch.slice(begin, end - begin)


def _with(carried: pa.RecordBatch, found: Iterator[Records]) -> Iterator[pa.RecordBatch]:
    for each in found:
        columns = each.columns()
        if not len(columns[0]):
            continue
        same = pa.array(np.zeros(len(columns[0]), np.int64))
        yield pa.RecordBatch.from_arrays(
            [*columns, *(column.take(same) for column in carried.columns)],
            names=[TEXT, ORDERED, PROBLEM, LINE, *carried.schema.names],
        )


def not_text(first: bytes) -> str | None:
    """Why a file that begins with these bytes cannot be read as text; None if it can."""
    for begin, what in _COMPRESSED.items():
        if re.match(begin, first):
            return f"the file is compressed with {what}"
    return None


def is_wide(encoding: str) -> bool:
    """Whether a line end of this encoding is more than one byte, so that cutting a file at the
    byte ``\\n`` cuts characters, too."""
    return encoding.startswith(_WIDE)


@dataclass
class Decoder:
    """Turns lines into texts, each with what is wrong with it."""

    encoding: str
    """The name that Python has for the encoding: ``utf-8``."""
    line_end: str = "\n"
    is_at_start: bool = True

    def __post_init__(self) -> None:
        self._wide = codecs.getincrementaldecoder(self.encoding)("replace")
        self._left = ""
        self._problem: str | None = None

    def texts(self, lines: Sequence[bytes]) -> Iterator[tuple[str, str | None]]:
        if is_wide(self.encoding):
            # Cutting at the byte of a line end has cut characters, too: put it back.
            self._left += "".join(self._characters(each + self.line_end.encode()) for each in lines)
            *whole, self._left = self._left.split(self.line_end)
            for text in whole:
                wrong = "is not " + self.encoding if "\ufffd" in text else None
                yield self._begun(text), self._problem or wrong
            return
        for each in lines:
            try:
                yield self._begun(each.decode(self.encoding)), None
            except UnicodeDecodeError as cause:
                text = each.decode(self.encoding, "replace")
                wrong = each[cause.start : cause.start + 1].hex()
                hint = "" if self.encoding != UTF_8 else ' (encoding = "…" says what it is)'
                yield self._begun(text), f"has byte 0x{wrong}, which is not {self.encoding}{hint}"

    def rest(self) -> Iterator[tuple[str, str | None]]:
        """The last line, where it could not be known for one before."""
        left, self._left = self._left, ""
        if left:
            yield self._begun(left), self._problem

    def _characters(self, data: bytes) -> str:
        try:
            return self._wide.decode(data)
        except UnicodeError:
            little, big = f"{self.encoding}-le", f"{self.encoding}-be"
            self._problem = (
                f"is in a file of {self.encoding} without a byte order mark: try "
                f'encoding = "{little}" or "{big}"'
            )
            self._wide = codecs.getincrementaldecoder(little)("replace")
            return self._wide.decode(data)

    def _begun(self, text: str) -> str:
        if self.is_at_start:
            self.is_at_start = False
            return text.removeprefix("\ufeff")
        return text
