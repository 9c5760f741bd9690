"""The records of a CSV file (RFC 4180): which lines a record has, and which column is where.

A quote inside of quotes is doubled, and a line may end inside of quotes. The header of a file is
held against the names that are wanted: columns go by name, and a file with others is bad as a
whole.

Most lines are whole records, which is checked for many of them at once; only where one is not,
Python looks at line after line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancewood.pipeline.frames.line_records import UTF_8, Decoder, Records, not_text

NEVER_CLOSED = "a quote is never closed"
_STRAY = "a quote stands inside of a value that is not quoted as a whole"
_RETURN = "a carriage return stands outside of quotes"


@dataclass(frozen=True)
class CsvForm:
    """How a file of a source is written, and the columns that it has to have."""

    names: tuple[str, ...]
    has_header: bool = False
    separator: str = ","
    quote: str = '"'
    """Empty: nothing is quoted."""
    escape: str = '"'
    comment: str = ""
    encoding: str = UTF_8
    line_end: str = "\n"
    is_stripped: bool = False
    """Whether blanks around names of the header are no part of them."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """The headers of files, by uri, for tasks that do not see their first lines."""

    @property
    def whole_record(self) -> str | None:
        """A pattern of RE2 for a line that is a record, or blank; None if there is none."""
        separator, quote = re.escape(self.separator), re.escape(self.quote)
        if len(self.separator) > 1:
            return None
        if not self.quote:
            return r"^[^\r]*\r?$"
        one = f"{self._quoted}[ \t]*|[^{quote}{separator}\r][^{separator}\r]*|"
        return f"^(?:{one})(?:{separator}(?:{one}))*\r?$"

    @property
    def _quoted(self) -> str:
        return f"{re.escape(self.quote)}{self._inside}{re.escape(self.quote)}"

    @property
    def _inside(self) -> str:
        quote, escape = re.escape(self.quote), re.escape(self.escape)
        if self.escape == self.quote or not self.escape:
            return f"(?:[^{quote}]|{quote}{quote})*"
        return f"(?:[^{quote}{escape}]|{escape}(?s:.))*"

    @property
    def rest_of_quoted(self) -> re.Pattern[str]:
        """From inside of quotes on: what is left of them, with the quote that closes them."""
        quote = re.escape(self.quote)
        # Not a step back: where two quotes end a line, none of them closes.
        return re.compile(f"{self._inside}+{quote}")

    def header_text(self, line: bytes) -> str:
        """The text of the first line of a file."""
        (text, _), *_ = Decoder(self.encoding, self.line_end).texts([line])
        return text.removesuffix("\r")

    def unquoted(self, text: str) -> str:
        found = text.strip(" \t") if text.strip(" \t")[:1] == self.quote else text
        if self.quote and found[:1] == self.quote and found[-1:] == self.quote:
            escape = self.escape or self.quote
            found = found[1:-1].replace(escape + self.quote, self.quote)
        return found.strip() if self.is_stripped else found


class CsvReader:
    """The records of one file, or of a block of it in which every line is a record."""

    def __init__(self, form: CsvForm, file: str, start: int, *, is_whole: bool) -> None:
        self._form, self._is_whole, self._knows_lines = form, is_whole, is_whole or not start
        self._decoder = Decoder(form.encoding, form.line_end, is_at_start=not start)
        self._pattern = form.whole_record
        self._closing = form.rest_of_quoted if form.quote else None
        self._needs_header = form.has_header and not start
        self._is_at_start = not start
        self._is_left_out = False
        self._problem: str | None = None
        self._order: tuple[int, ...] | None = None
        self._line = 0
        self._open: list[str] = []
        self._open_problem: str | None = None
        self._open_line = 0
        if form.has_header and start:
            self._take_header(form.headers[file])

    def read(self, lines: pa.Array) -> Iterator[Records]:
        if self._is_at_start:
            self._is_at_start = False
            why = not_text(lines[0].as_py())
            if why is not None:
                self._is_left_out = True
                yield _one_bad("", None, why)
        if self._is_left_out:
            return
        head = 0 if self._form.encoding == UTF_8 else len(lines)
        if head:
            yield self._by_lines(lines.to_pylist())
        while head < len(lines) and (self._needs_header or self._open or not self._line):
            yield self._by_lines([lines[head].as_py()])
            head += 1
        rest = lines.slice(head)
        if len(rest):
            fast = self._at_once(rest)
            yield self._by_lines(rest.to_pylist()) if fast is None else fast

    def end(self) -> Iterator[Records]:
        found = Records()
        for text, problem in self._decoder.rest():
            self._take(found, text, problem)
        if self._open:
            text = self._form.line_end.join(self._open)
            found.add(text, self._open_line, self._open_problem or NEVER_CLOSED)
            self._open = []
        yield found

    def _at_once(self, lines: pa.Array) -> Records | None:
        """Many lines of which each is a record; None if one is not, or needs a look for itself."""
        form = self._form
        is_plain = self._problem is None and self._order is None and not form.comment
        if self._pattern is None or not is_plain or form.encoding != UTF_8:
            return None
        try:
            texts: Any = lines.cast(pa.string())
        except pa.ArrowInvalid:
            return None
        if not pc.all(pc.match_substring_regex(texts, self._pattern)).as_py():
            return None
        numbers: Any = pa.array(np.arange(self._line + 1, self._line + 1 + len(texts)))
        self._line += len(texts)
        texts = pc.replace_substring_regex(texts, "\r$", "")
        if len(form.names) != 1:
            is_row = pc.not_equal(pc.utf8_trim_whitespace(texts), "")
            texts, numbers = texts.filter(is_row), numbers.filter(is_row)
        none = pa.nulls(len(texts), pa.string())
        if not self._knows_lines:
            numbers = pa.nulls(len(texts), pa.int64())
        return Records(texts, none, none, numbers)

    def _by_lines(self, lines: Sequence[bytes]) -> Records:
        found = Records()
        for text, problem in self._decoder.texts(lines):
            self._take(found, text, problem)
        return found

    def _take(self, found: Records, text: str, problem: str | None) -> None:
        """One more line: the end of a record, or the middle of one."""
        self._line += 1
        if not self._open:
            if self._form.comment and text.startswith(self._form.comment):
                return
            self._open_line, self._open_problem = self._line, None
        is_closed, stray = self._scan(text, is_open=bool(self._open))
        self._open.append(text)
        self._open_problem = self._open_problem or problem or stray
        if not is_closed and self._is_whole:
            return
        if not is_closed:
            self._open_problem = (
                f"{NEVER_CLOSED} in its line, and the source says multiLine = false"
            )
        record = self._form.line_end.join(self._open).removesuffix("\r")
        self._open = []
        self._found(found, record)

    def _scan(self, text: str, *, is_open: bool) -> tuple[bool, str | None]:
        """Whether no quote is open where the line ends, and what is wrong with it before."""
        form, at, stray = self._form, 0, None
        end = len(text) - 1 if text.endswith("\r") else len(text)
        while True:
            if not is_open and self._closing is not None and text.startswith(form.quote, at):
                is_open, at = True, at + 1
            was_quoted = is_open
            if is_open:
                assert self._closing is not None
                closed = self._closing.match(text, at)
                if closed is None:
                    return False, stray
                at, is_open = closed.end(), False
            cut = text.find(form.separator, at)
            between = text[at : end if cut < 0 else cut]
            if was_quoted and between.strip(" \t"):
                stray = stray or _STRAY
            elif "\r" in between:
                stray = stray or _RETURN
            if cut < 0:
                return True, stray
            at = cut + len(form.separator)

    def _found(self, found: Records, record: str) -> None:
        if not record.strip() and (len(self._form.names) != 1 or self._needs_header):
            return
        line = self._open_line if self._knows_lines else None
        if self._needs_header:
            self._needs_header = False
            self._take_header(record)
            if self._problem is not None or self._open_problem is not None:
                self._problem = self._problem or f"its header {self._open_problem}"
                found.add(record, line, self._problem)
            return
        problem, ordered = self._problem or self._open_problem, None
        if problem is None and self._order is not None:
            fields = self._fields(record)
            if len(fields) == len(self._order):
                ordered = self._form.separator.join(fields[each] for each in self._order)
        found.add(record, line, problem, ordered)

    def _take_header(self, record: str) -> None:
        """Where the columns are; what is wrong with the file if they are others."""
        wanted = self._form.names
        names = [self._form.unquoted(each) for each in self._fields(record)]
        order = order_of(names, wanted)
        if order is None:
            self._problem = (
                f"the header of the file has {', '.join(names)}, and the schema has "
                f"{', '.join(wanted)}"
            )
        elif order != tuple(range(len(order))):
            self._order = order

    def _fields(self, record: str) -> list[str]:
        """The values of a record as they are written."""
        form, begin, at = self._form, 0, 0
        found: list[str] = []
        while True:
            if self._closing is not None and record.startswith(form.quote, at):
                closed = self._closing.match(record, at + 1)
                at = len(record) if closed is None else closed.end()
            cut = record.find(form.separator, at)
            if cut < 0:
                return [*found, record[begin:]]
            found.append(record[begin:cut])
            begin = at = cut + len(form.separator)


def order_of(found: Sequence[str], wanted: Sequence[str]) -> tuple[int, ...] | None:
    """For each wanted name the place where it was found; None if the names are not the same.

    Names that differ in case only are the same, as they are for Spark, unless that is ambiguous.
    """
    for key in (str, str.casefold):
        places = {key(each): place for place, each in enumerate(found)}
        order = tuple(places.get(key(each), -1) for each in wanted)
        if len(found) == len(wanted) == len(places) == len({*order}) and -1 not in order:
            return order
    return None


def _one_bad(text: str, line: int | None, problem: str) -> Records:
    found = Records()
    found.add(text, line, problem)
    return found
