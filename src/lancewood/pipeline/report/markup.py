"""Values as people read them, and HTML in which everything from outside is escaped.

Whatever is not ``Html`` is data. Data is not only escaped but also made visible and short, so that
no code that builds a page can forget it: invisible characters, and those that change the direction
of a line, are written out, and very long text is cut. Numbers, sizes and times look the same on a
page and in a terminal; an unknown value is a dash.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from html import escape
from typing import TypeAlias

UNKNOWN = "\N{EN DASH}"
_SHOWN_DIGITS = 12
MOST_CHARACTERS = 300
"""Number of characters shown of one piece of data; the rest is cut, and the length shown."""
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e007f]"
)
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_VOID = {"meta", "link"}
Child: TypeAlias = "str | None"


def count(number: int | None) -> str:
    """1,234,567."""
    return UNKNOWN if number is None else f"{number:,}"


def counted(number: int, thing: str) -> str:
    """A number of things in words: ``1 row``, ``2,500 rows``."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def total(numbers: Iterable[int | None]) -> int | None:
    """The sum of the known numbers; None if none is known."""
    known = [each for each in numbers if each is not None]
    return sum(known) if known else None


def size(number: int | None) -> str:
    """A number of bytes in the unit that keeps it short."""
    if number is None:
        return UNKNOWN
    amount = float(number)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if amount < 1024:
            return f"{number:,} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:,.1f} PiB"


def duration(seconds: float) -> str:
    """A span of time with its two largest units.

    >>> [duration(each) for each in (0.042, 7.25, 185, 7380, 200000)]
    ['42 ms', '7.2 s', '3 min 5 s', '2 h 3 min', '2 d 7 h']
    """
    if not math.isfinite(seconds) or seconds < 0:
        return UNKNOWN
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for unit, below, one, less in ((60, 3600, "min", "s"), (3600, 86400, "h", "min")):
        if whole < below:
            return f"{whole // unit} {one} {whole % unit // (unit // 60)} {less}"
    return f"{whole // 86400:,} d {whole % 86400 // 3600} h"


def moment(iso: str) -> str:
    """An ISO 8601 time to the second, in UTC; any other text unchanged."""
    try:
        when = datetime.fromisoformat(iso)
        utc = when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)
    except (ValueError, OverflowError):
        return iso
    return f"{utc:%Y-%m-%d %H:%M:%S} UTC"


def day(seconds_since_epoch: int) -> str:
    """The day of a moment, in UTC."""
    try:
        return f"{datetime.fromtimestamp(seconds_since_epoch, UTC):%Y-%m-%d}"
    except (ValueError, OverflowError, OSError):
        return f"@{seconds_since_epoch}"


def short_hash(commit: str | None) -> str:
    """What is shown of a commit, as in all our messages."""
    return UNKNOWN if commit is None else commit[:_SHOWN_DIGITS]


class Html(str):
    """Markup, put into a page as it is."""

    __slots__ = ()


def element(tag: str, *children: Child, **attributes: str | int | float | None) -> Html:
    """``<tag attribute="…">children</tag>``; children and attributes that are None are left out.

    ``class_`` is the attribute ``class``, and ``aria_label`` is ``aria-label``. An attribute that
    is ``Html`` is taken as it is, and must not contain quotation marks.
    """
    text = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{joined(_attribute(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    if tag in _VOID:
        return Html(f"<{tag}{text}>")
    return Html(f"<{tag}{text}>{joined(*children)}</{tag}>")


def joined(*children: Child) -> Html:
    """The children one after the other."""
    return Html(
        "".join(
            each if isinstance(each, Html) else data(each) for each in children if each is not None
        )
    )


def data(text: str, most: int = MOST_CHARACTERS) -> Html:
    """A text from outside, safe anywhere in a page."""
    return Html(escape(shown(text, most)))


def path(text: str, most: int = MOST_CHARACTERS) -> Html:
    """A path, hash, command or list of columns as safe text, which may break after a slash or
    plus."""
    return Html(data(text, most).replace("/", "/<wbr>").replace("+", "+<wbr>"))


def several_lines(text: str, most: int) -> Html:
    """A long text as safe text that keeps its lines."""
    lines = shortened(text, most).replace("\r\n", "\n").split("\n")
    return Html("\n".join(path(each, len(each)) for each in lines))


def shown(text: str, most: int = MOST_CHARACTERS) -> str:
    """What a person sees of a text: short, with nothing hidden."""
    return visible(shortened(text, most))


def visible(text: str) -> str:
    """The text on one line, with what cannot be seen written out.

    >>> visible("a" + chr(0x202E) + "b" + chr(10))
    'a\\\\u202eb\\\\n'
    """
    return _UNSEEN.sub(lambda found: _written_out(found[0]), text)


def shortened(text: str, most: int) -> str:
    """At most ``most`` characters of a text, followed by the length if something was cut."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"


def _attribute(value: str | int | float) -> str:
    return value if isinstance(value, str) else Html(value)


def _written_out(character: str) -> str:
    number = ord(character)
    if character in _SHORT:
        return _SHORT[character]
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
