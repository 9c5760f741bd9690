"""One writer for everything that ``lw`` prints: aligned text for people, JSON for programs.

A terminal gets tables with figures that are easy to read. Elsewhere there is plain text: two spaces
between columns, bare figures. Long values of rows are cut in both, unless ``--full`` is said; JSON
has them whole. Long answers go through a pager on a terminal, as git's do: ``PAGER``, or less.

Texts from tables, commits and files are not trusted. ``shown_safely`` stands between every command
and its terminal, so that no name, value or message can move the cursor or reverse a line.
"""

from __future__ import annotations

import base64
import codecs
import contextlib
import io
import json
import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple, TextIO, TypeVar, cast

from lancewood.files.json_text import json_text, json_text_with_nan

T = TypeVar("T")
NULL = "null"
UNCHANGED = "nothing was changed"
"""The end of what a dry run says."""
_LEAST = 4
_BETWEEN = 3
"""Characters between two columns on a terminal."""
_BLOCK = 500
"""How many rows are aligned together; a longer list is aligned block by block."""
_CELL = 40
_SHOWN_ITEMS = 4
_unsafe = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""What acts on a terminal, breaks a line, or changes the order of text: control characters but
newline and tab, and the marks for writing from right to left."""
_beyond_ascii = re.compile("[^\x00-\x7f]")
_LINE = str.maketrans({"\n": "\\n", "\t": "\\t"})


def visible(text: str) -> str:
    """A text with nothing in it that acts on a terminal; JSON stays JSON with the same meaning."""
    return _unsafe.sub(lambda found: _code(found[0]), text)


def one_line(text: str) -> str:
    """A text as ``visible`` makes it, with newlines and tabs spelled out too."""
    return visible(text).translate(_LINE)


def _code(letter: str) -> str:
    # JSON has no raw letter below 32, and escapes the ones above in this form.
    number = ord(letter)
    return "\\r" if letter == "\r" else f"\\x{number:02x}" if number < 32 else f"\\u{number:04x}"


class _Shown:
    """A stream that escapes what acts on a terminal."""

    def __init__(self, stream: TextIO) -> None:
        self.raw = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)

    def write(self, text: str) -> int:
        self.raw.write(visible(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for each in lines:
            self.write(each)

    @property
    def buffer(self) -> Any:
        """Takes the bytes of files; they are escaped only on a terminal."""
        return _ShownBytes(self) if self.raw.isatty() else self.raw.buffer


class _ShownBytes(io.RawIOBase):
    """Bytes of a file on a terminal."""

    def __init__(self, shown: _Shown) -> None:
        self._shown = shown
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._shown.write(self._decoder.decode(bytes(data)))
        return len(data)

    def flush(self) -> None:
        self._shown.flush()


@contextmanager
def shown_safely() -> Iterator[None]:
    """Make everything that is printed in the block ``visible``."""
    with ExitStack() as stack:
        if sys.stdout is not None:
            stack.enter_context(redirect_stdout(cast(TextIO, _Shown(sys.stdout))))
        if sys.stderr is not None:
            stack.enter_context(redirect_stderr(cast(TextIO, _Shown(sys.stderr))))
        yield


def for_drawing(stream: TextIO) -> TextIO:
    """The terminal itself, for code that moves the cursor and escapes every text by itself."""
    while isinstance(stream, _Shown):
        stream = stream.raw
    return stream


class Figure(NamedTuple):
    """A number with its form for a terminal."""

    value: int | float
    text: str

    def __str__(self) -> str:
        return str(self.value)


def count(number: int | None) -> Figure | None:
    """A number of things: 1,234,567 on a terminal."""
    return None if number is None else Figure(number, f"{number:,}")


def size(number: int | None) -> Figure | None:
    """A number of bytes: 1.2 GiB on a terminal."""
    return None if number is None else Figure(number, human_size(number))


def human_size(number: int) -> str:
    """A number of bytes with the unit that keeps it short."""
    amount = float(number)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if amount < 1024:
            return f"{number} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} PiB"


def moment(when: datetime | None) -> str | None:
    """A moment as ISO 8601 text, to the second on both kinds of output."""
    return None if when is None else when.isoformat(timespec="seconds").replace("+00:00", "Z")


def json_line(document: object, stream: TextIO) -> str:
    """A document as JSON for a stream: what this cannot encode is escaped."""
    text = json_text(document)
    try:
        text.encode(getattr(stream, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return _beyond_ascii.sub(lambda found: json.dumps(found[0])[1:-1], text)
    return text


class Shortened(str):
    """The text of a cell whose parts were cut already, where they had to be."""


def cell(value: Any, *, short: bool) -> str:
    """A value as one line of text; ``short`` cuts what is long."""
    if value is None:
        return NULL
    if isinstance(value, Figure):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return short_bytes(value) if short else base64.b64encode(value).decode()
    if isinstance(value, float):
        return f"{value:.6g}" if short else repr(value)
    if isinstance(value, list | tuple) and short:
        return _short_list(value)
    text = value if isinstance(value, str) else json_text_with_nan(_with_short_leaves(value, short))
    text = one_line(text)
    if not short or isinstance(value, Shortened) or width(text) <= _CELL:
        return text
    return f"{_cut(text, _CELL - 1)}… ({len(text):,} characters)"


def width(text: str) -> int:
    """How many columns of a terminal a text takes: 東京 takes four."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def padded(text: str, locations: int, *, right: bool = False) -> str:
    """A text filled with spaces, after it or before it, to this width."""
    spaces = " " * (locations - width(text))
    return spaces + text if right else text + spaces


def _cut(text: str, locations: int) -> str:
    if text.isascii():
        return text[:locations]
    from rich.cells import set_cell_size

    return set_cell_size(text, locations).rstrip()


def short_bytes(value: bytes) -> str:
    """What bytes are, and how many.

    >>> short_bytes(b"abc")
    '<3 B>'
    """
    what = _image(value)
    return f"<{what}{', ' if what else ''}{human_size(len(value))}>"


def _image(value: bytes) -> str:
    """The kind of an image, and its size where the first bytes say it; empty for other bytes."""
    if value[:8] == b"\x89PNG\r\n\x1a\n" and value[12:16] == b"IHDR" and len(value) >= 24:
        return "PNG {}\u00d7{}".format(*struct.unpack(">II", value[16:24]))
    if value[:6] in (b"GIF87a", b"GIF89a") and len(value) >= 10:
        return "GIF {}\u00d7{}".format(*struct.unpack("<HH", value[6:10]))
    return "JPEG" if value[:3] == b"\xff\xd8\xff" else ""


def _with_short_leaves(value: Any, short: bool) -> Any:
    """A nested value in which bytes and long lists only say how much they hold."""
    if not short:
        return value
    if isinstance(value, dict):
        return {name: _with_short_leaves(each, short) for name, each in value.items()}
    if isinstance(value, bytes):
        return short_bytes(value)
    is_long = isinstance(value, list | tuple) and len(value) > _SHOWN_ITEMS
    return _short_list(value) if is_long else value


def _short_list(values: Sequence[Any]) -> str:
    if len(values) > _SHOWN_ITEMS:
        for kind, name in ((float, "floats"), (int, "integers")):
            if all(type(each) is kind for each in values):
                return f"[{len(values):,} {name}]"
    shown = ", ".join(cell(each, short=True) for each in values[:_SHOWN_ITEMS])
    more = len(values) - _SHOWN_ITEMS
    return f"[{shown}, … {more} more]" if more > 0 else f"[{shown}]"


MOST_COUNTED = 1_000_000
"""Rows beyond a limit are counted up to here: they may have to be read for it."""


class Output:
    """Prints the answer of a command, as JSON or as text."""

    def __init__(self, *, as_json: bool, full: bool = False, stream: TextIO | None = None) -> None:
        self.as_json = as_json
        self.short = not full
        """Whether long values of rows are cut for people."""
        self._stream = stream or sys.stdout
        self._on_terminal = self._stream.isatty()
        self._titles = 0

    @property
    def is_read_by_a_person(self) -> bool:
        """Whether the output is text on a terminal."""
        return self._on_terminal and not self.as_json

    def title(self, text: str) -> None:
        """A line above the rows of one of several things, with an empty one before all but the
        first."""
        self._titles += 1
        print(f"{'' if self._titles == 1 else chr(10)}{one_line(text)}", file=self._stream)

    def document(self, document: Mapping[str, Any], text: str) -> None:
        """One answer: the document for programs, a sentence for people."""
        print(json_line(document, self._stream) if self.as_json else text, file=self._stream)

    def more(self, count: int | None, option: str = "--limit", title: str | None = None) -> None:
        """Say to people that ``count`` more follow what was shown, or some if it is None; nothing
        for none. In a pipe it goes to stderr, so that what is shown stays what was asked for."""
        if self.as_json or count == 0:
            return
        number = "" if count is None else f"{min(count, MOST_COUNTED):,} "
        number = f"more than {number}" if count is not None and count > MOST_COUNTED else number
        about = "" if title is None else f"{title}: "
        sys.stdout.flush()
        stream = self._stream if self._on_terminal else sys.stderr
        print(f"{about}… and {number}more; {option} shows more", file=stream)

    def facts(self, document: Mapping[str, Any], facts: Sequence[tuple[str, Any]]) -> None:
        """One answer with several facts, each on a line of its own for people."""
        if self.as_json:
            print(json_line(document, self._stream), file=self._stream)
            return
        named = [(one_line(name), value) for name, value in facts]
        locations = max((width(name) for name, _ in named), default=0)
        for name, value in named:
            shown = self._cell(value, cut=False)
            print(f"{padded(name, locations)}  {shown}".rstrip(), file=self._stream)

    def rows(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[Any]],
        *,
        cut: bool = False,
        styles: Mapping[str, str] | None = None,
    ) -> int:
        """Print rows as they come, as JSON lines or aligned columns; how many there were.

        In a pipe there is one line of names, and the first rows decide how wide columns are.
        ``cut`` shortens long values, unless they are asked for in full; without it they continue
        on the next line of a terminal.
        ``styles`` are those of rows on a terminal, by what stands in the first column.
        """
        if self.as_json:
            return self._json_lines(columns, rows)
        cut = cut and self.short
        columns = [one_line(each) for each in columns]
        done, waiting, widths = 0, iter(rows), [0] * len(columns)
        while True:
            block = list(islice(waiting, _BLOCK))
            if block or not done:
                self._print_block(columns, block, cut, widths, styles or {}, is_first=not done)
            done += len(block)
            if len(block) < _BLOCK:
                return done

    def listing(
        self,
        found: Iterable[T],
        facts: tuple[Sequence[str], Callable[[T], Sequence[Any]]],
        lines: tuple[Sequence[str], Callable[[T], Sequence[Any]]],
        *,
        cut: bool = False,
    ) -> None:
        """Print things of which programs get other rows than people: ``facts`` and ``lines`` are
        the names of the columns for each, and a function that makes a row."""
        columns, row_of = facts if self.as_json else lines
        self.rows(columns, map(row_of, found), cut=cut)

    def _json_lines(self, keys: Sequence[str], rows: Iterable[Sequence[Any]]) -> int:
        done = 0
        write = self._stream.write
        for row in rows:
            values = [each.value if isinstance(each, Figure) else each for each in row]
            write(json_line(dict(zip(keys, values, strict=True)), self._stream) + "\n")
            done += 1
        return done

    def _print_block(
        self,
        columns: Sequence[str],
        block: Sequence[Sequence[Any]],
        cut: bool,
        widths: list[int],
        styles: Mapping[str, str],
        *,
        is_first: bool,
    ) -> None:
        cells = [[self._cell(each, cut=cut) for each in row] for row in block]
        right = [_is_number_column(block, at) for at in range(len(columns))]
        if self._on_terminal:
            self._print_rich(columns, cells, right, cut, styles)
        else:
            lines = [list(columns), *cells] if is_first else cells
            for line in aligned(lines, right, widths):
                print(line, file=self._stream)

    def _print_rich(
        self,
        columns: Sequence[str],
        cells: Sequence[Sequence[str]],
        right: Sequence[bool],
        cut: bool,
        styles: Mapping[str, str],
    ) -> None:
        from rich.box import SIMPLE_HEAD
        from rich.cells import cell_len
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        # A pager may stand between, which is no terminal.
        console = Console(file=for_drawing(self._stream), highlight=False, force_terminal=True)
        table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
        widths = [max(map(cell_len, each)) for each in zip(columns, *cells, strict=True)]
        between = _BETWEEN * (len(columns) - 1)
        most = _most_wide(widths, console.width - between)
        if cut:
            widths = [min(each, most) for each in widths]
            console.width = max(console.width, sum(widths) + between)
        for name, is_right, width in zip(columns, right, widths, strict=True):
            table.add_column(
                Text(name),
                justify="right" if is_right else "left",
                width=width if cut else None,
                no_wrap=cut,
                overflow="ellipsis" if cut else "fold",
            )
        for row in cells:
            table.add_row(*map(Text, row), style=styles.get(row[0]))
        console.print(table)

    def _cell(self, value: Any, *, cut: bool) -> str:
        if isinstance(value, Figure) and self._on_terminal:
            return value.text
        is_exact = isinstance(value, float) and not self._on_terminal
        return cell(value, short=cut and not is_exact)


def _most_wide(widths: Sequence[int], room: int) -> int:
    """How wide columns may be so that all have room: the widest are cut, narrow ones are not, and
    none to less than a few characters, however little room there is."""
    left, waiting = room, sorted(widths)
    for at, width in enumerate(waiting):
        share = left // (len(waiting) - at)
        if width > share:
            return max(_LEAST, share)
        left -= width
    return max(waiting, default=_LEAST)


def _is_number_column(block: Sequence[Sequence[Any]], at: int) -> bool:
    found = [row[at] for row in block if row[at] is not None]
    return bool(found) and all(
        isinstance(each, int | float | Figure) and not isinstance(each, bool) for each in found
    )


def aligned(
    rows: Sequence[Sequence[str]], right: Sequence[bool], widths: list[int]
) -> Iterator[str]:
    """Lines of aligned columns with two spaces between them.

    ``widths`` are those of earlier lines, and are updated with these.
    """
    widths[:] = [max(known, *(width(row[at]) for row in rows)) for at, known in enumerate(widths)]
    for row in rows:
        cells = (
            padded(text, locations, right=is_right)
            for text, locations, is_right in zip(row, widths, right, strict=True)
        )
        yield "  ".join(cells).rstrip()


def picked(report: object, *names: str) -> dict[str, Any]:
    """Facts of a report for programs, by the names that they have there."""
    return {name: getattr(report, name) for name in names}


def counted(number: int, thing: str) -> str:
    """A number of things in words.

    >>> counted(1, "row"), counted(2500, "row")
    ('1 row', '2,500 rows')
    """
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def outcome(verb: str, past: str, what: str, *, dry_run: bool) -> str:
    """What a command did, or what it would do.

    >>> outcome("remove", "removed", "2 rows", dry_run=True)
    'would remove 2 rows; nothing was changed'
    """
    return f"would {verb} {what}; {UNCHANGED}" if dry_run else f"{past} {what}"


def note(text: str) -> None:
    """Print something that people may like to know to stderr."""
    print(text, file=sys.stderr)


_STDOUT = 1
_LESS = {"LESS": "FRX", "LV": "-c"}
"""What git says to a pager: leave if all fits on the screen, and let colours through."""


@contextlib.contextmanager
def paged(output: Output, *, is_text: bool = True) -> Iterator[None]:
    """Send what is printed in the block through a pager, if it is text that a person reads."""
    command = _pager() if is_text and output.is_read_by_a_person else None
    if command is None:
        yield
        return
    sys.stdout.flush()
    terminal = os.dup(_STDOUT)
    with subprocess.Popen(
        command, shell=True, stdin=subprocess.PIPE, env={**_LESS, **os.environ}
    ) as pager:
        assert pager.stdin is not None
        os.dup2(pager.stdin.fileno(), _STDOUT)
        pager.stdin.close()
        try:
            yield
            sys.stdout.flush()
        finally:
            os.dup2(terminal, _STDOUT)
            os.close(terminal)


def _pager() -> str | None:
    """The command that pages; None if there is none, or it is told to do nothing."""
    chosen = os.environ.get("PAGER", "less" if shutil.which("less") else "").strip()
    return None if chosen in ("", "cat") else chosen
