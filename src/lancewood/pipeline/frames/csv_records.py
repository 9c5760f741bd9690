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
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lancewood.pipeline.frames.line_records import (
    UTF_8,
    Decoder,
    LineReader,
    Records,
    TextForm,
    lost,
)

NEVER_CLOSED = "a quote is never closed"
_STRAY = "a quote stands inside of a value that is not quoted as a whole"
_RETURN = "a carriage return stands outside of quotes"


@dataclass(frozen=True)
class CsvForm(TextForm):
    """How a CSV file is written, and the columns that it has to have."""

    has_header: bool = False
    separator: str = ","
    quote: str = '"'
    """Empty: nothing is quoted."""
    escape: str = '"'
    comment: str = ""
    is_stripped: bool = False
    """Whether blanks before a value, and before its quote, are no part of it."""
    no_values: frozenset[str] = frozenset()
    """Texts that stand for null, infinity or no number, whatever the column."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """The headers of files, by uri, for tasks that do not see their first lines."""

    @property
    def names(self) -> list[str]:
        return list(self.columns.names)

    @property
    def whole_record(self) -> str | None:
        """Pattern of RE2 that matches a line which is a record, or blank; None if there is none."""
        separator, quote = re.escape(self.separator), re.escape(self.quote)
        if len(self.separator) > 1:
            return None
        if not self.quote:
            return r"^[^\r\n]*\r?$"
        blanks = "".join(f"\\x{ord(each):02x}" for each in self.blanks)
        skipped = f"[{blanks}]*" if blanks else ""
        bare = f"[^{quote}{separator}\\r\\n{blanks}][^{separator}\\r\\n]*"
        one = f"{skipped}(?:{self._quoted}[ \t]*|{bare}|)"
        return f"^{one}(?:{separator}{one})*\r?$"

    @cached_property
    def blanks(self) -> str:
        """The characters that Spark skips before a value, and before its quote."""
        kept = f"\r\n{self.separator}{self.quote}"
        found = "".join(chr(each) for each in range(33) if chr(each) not in kept)
        return found if self.is_stripped else ""

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
        """Pattern that, from inside a quoted value, matches through its closing quote."""
        quote = re.escape(self.quote)
        # Not a step back: where two quotes end a line, none of them closes.
        return re.compile(f"{self._inside}+{quote}")

    def header_text(self, line: bytes) -> str:
        """The text of the first line of a file."""
        (text, _), *_ = Decoder(self.encoding, self.line_end).texts([line])
        return text.removesuffix("\r")

    def unquoted(self, text: str) -> str:
        """A value without its quotes."""
        found = text.strip(" \t" + self.blanks)
        if not self.quote or found[:1] != self.quote:
            found = text
        elif found[-1:] == self.quote:
            escape = self.escape or self.quote
            found = found[1:-1].replace(escape + self.quote, self.quote)
        return found.strip() if self.is_stripped else found


class _Fields:
    """The fields of one record, cut from its lines: what decides where a record ends, and where
    its columns are."""

    def __init__(self, form: CsvForm) -> None:
        self._form, self._blanks = form, form.blanks
        self._closing = form.rest_of_quoted if form.quote else None
        self.restart()

    def restart(self) -> None:
        self.values: list[str] = []
        """The fields as they are written, without separators."""
        self.problem: str | None = None
        self._open: list[str] = []

    def add(self, line: str) -> bool:
        """Cut one more line; False if a quote is open where it ends."""
        form, begin, at = self._form, 0, 0
        end = len(line) - line.endswith("\r")
        while True:
            is_quoted = bool(self._open)
            if not is_quoted and self._closing is not None:
                while line[at : at + 1] and line[at] in self._blanks:
                    at += 1
                if line.startswith(form.quote, at):
                    is_quoted, at = True, at + 1
            if is_quoted:
                assert self._closing is not None
                closed = self._closing.match(line, at)
                if closed is None:
                    self._open.append(line[begin:])
                    return False
                at = closed.end()
            cut = line.find(form.separator, at)
            stop = end if cut < 0 else cut
            between = line[at:stop]
            if is_quoted and between.strip(" \t"):
                self.problem = self.problem or _STRAY
            elif "\r" in between or "\n" in between:
                self.problem = self.problem or _RETURN
            self.values.append(form.line_end.join([*self._open, line[begin:stop]]))
            self._open = []
            if cut < 0:
                return True
            begin = at = cut + len(form.separator)


class CsvReader(LineReader):
    """The records of one file, or of a block of it in which every line is a record."""

    def __init__(self, form: CsvForm, file: str, start: int, *, is_whole: bool) -> None:
        super().__init__(form, start)
        self._form, self._is_whole, self._pattern = form, is_whole, form.whole_record
        columns = enumerate(form.columns)
        self._one_line = [(at, each) for at, each in columns if _is_of_one_line(each.type)]
        self._needs_header = form.has_header and not start
        self._problem: str | None = None
        self._order: tuple[int, ...] | None = None
        self._open: list[str] = []
        self._open_problem: str | None = None
        self._fields = _Fields(form)
        if form.has_header and start:
            self._fields.add(form.headers[file])
            self._take_header()

    def read(self, lines: pa.Array) -> Iterator[Records]:
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

    def _finish(self, found: Records) -> None:
        if self._open:
            self._found(found, NEVER_CLOSED)

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
        numbers = self._numbered(len(texts))
        texts = pc.replace_substring_regex(texts, "\r$", "")
        if len(form.names) != 1:
            is_row = pc.not_equal(pc.utf8_trim_whitespace(texts), "")
            texts, numbers = texts.filter(is_row), numbers.filter(is_row)
        return self._of_whole_lines(texts, numbers)

    def _fault(self, record: str) -> str | None:
        self._fields.restart()
        self._fields.add(record)
        loss = self._loss(record)
        self._fields.restart()
        return loss

    def _take(self, found: Records, text: str, problem: str | None) -> None:
        """One more line: the end of a record, or the middle of one."""
        self._line += 1
        if not self._open:
            if self._form.comment and text.startswith(self._form.comment):
                return
            self._open_problem = None
            self._fields.restart()
        self._open.append(text)
        self._open_problem = self._open_problem or problem
        if self._fields.add(text):
            self._found(found)
        elif not self._is_whole:
            self._found(found, f"{NEVER_CLOSED} in its line, and the source says multiLine = false")

    def _found(self, found: Records, open_quote: str | None = None) -> None:
        """The lines that have come are a record. If they cannot be one, each line is a bad row: a
        quote too many takes in lines that were records."""
        lines, self._open = self._open, []
        record = self._form.line_end.join(lines).removesuffix("\r")
        first = self._line - len(lines) + 1
        if not record.strip() and (len(self._form.names) != 1 or self._needs_header):
            return
        problem = self._open_problem or self._fields.problem or open_quote
        if self._needs_header:
            self._needs_header = False
            self._take_header()
            if problem is not None:
                self._problem = self._problem or f"its header {problem}"
            if self._problem is None:
                return
        problem = self._problem or problem or self._misfit(is_one_line=len(lines) == 1)
        if problem is not None:
            if len(lines) > 1 and self._problem is None:
                problem += f"; its record begins in line {first}"
            for at, text in enumerate(lines, first):
                found.add(text.removesuffix("\r"), at if self._knows_lines else None, problem)
            return
        ordered = None
        if self._order is not None:
            ordered = self._form.separator.join(self._fields.values[at] for at in self._order)
        number = first if self._knows_lines else None
        found.add(record, number, self._loss(record), ordered)

    def _take_header(self) -> None:
        """Where the columns are; what is wrong with the file if they are others."""
        wanted = self._form.names
        names = [self._form.unquoted(each) for each in self._fields.values]
        order = order_of(names, wanted)
        if order is None:
            self._problem = (
                f"the header of the file has {', '.join(names)}, and the schema has "
                f"{', '.join(wanted)}"
            )
        elif order != tuple(range(len(order))):
            self._order = order

    def _misfit(self, *, is_one_line: bool) -> str | None:
        """Why the fields cannot be those of one record, as far as Spark does not see that."""
        form, values = self._form, self._fields.values
        if len(values) != len(form.names):
            if is_one_line and self._order is None:
                return None
            return f"has {len(values)} values, and the schema has {len(form.names)} columns"
        for at, column in () if is_one_line else self._one_line:
            if form.line_end in self._value(at):
                return f"column {column.name!r} has a line end"
        return None

    def _loss(self, record: str) -> str | None:
        """What the columns would lose of the fields of a record."""
        form = self._form
        if self._suspicious is None or len(self._fields.values) != len(form.names):
            return None
        for at, column in self._one_line if re.search(self._suspicious, record) else ():
            text = form.unquoted(self._value(at))
            loss = lost(text, column.type, form.notation)
            if loss is not None and text not in form.no_values:
                return f"column {column.name!r} {loss}"
        return None

    def _value(self, column: int) -> str:
        return self._fields.values[column if self._order is None else self._order[column]]


def _is_of_one_line(kind: pa.DataType) -> bool:
    """Whether no text of such a value has a line end."""
    return bool(pa.types.is_primitive(kind) or pa.types.is_decimal(kind))


def order_of(found: Sequence[str], wanted: Sequence[str]) -> tuple[int, ...] | None:
    """The place where each wanted name was found; None if the names are not the same.

    Names that differ in case only are the same, as they are for Spark, unless that is ambiguous.
    """
    for key in (str, str.casefold):
        places = {key(each): place for place, each in enumerate(found)}
        order = tuple(places.get(key(each), -1) for each in wanted)
        if len(found) == len(wanted) == len(places) == len({*order}) and -1 not in order:
            return order
    return None
