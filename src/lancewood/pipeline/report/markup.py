"""HTML as text that cannot go wrong: whatever is not ``Html`` already is data, and is escaped.

Data is also made visible and short here, so that nobody who builds a page can forget it: characters
that are not seen, or that turn the order of a line around, stand as ``\\x1b`` or ``\\u202e``, and
what is very long is cut. Knows nothing of runs.
"""

from __future__ import annotations

import re
from html import escape
from typing import TypeAlias

MOST_CHARACTERS = 300
"""Of one piece of data; the rest is cut, and the length told."""

_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e007f]"
)
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_VOID = {"meta", "link"}


class Html(str):
    """Markup: put into a page as it is."""

    __slots__ = ()


Child: TypeAlias = "str | None"


def element(tag: str, *children: Child, **attributes: str | int | float | None) -> Html:
    """``<tag attribute="…">children</tag>``; children and attributes that are None are left out.

    ``class_`` is the attribute ``class``, and ``aria_label`` is ``aria-label``. An attribute
    that is ``Html`` is taken as it is, and must have no quotation marks.
    """
    told = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{joined(_attribute(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    if tag in _VOID:
        return Html(f"<{tag}{told}>")
    return Html(f"<{tag}{told}>{joined(*children)}</{tag}>")


def joined(*children: Child) -> Html:
    """One after the other, without anything around them."""
    return Html(
        "".join(
            each if isinstance(each, Html) else data(each) for each in children if each is not None
        )
    )


def data(text: str, most: int = MOST_CHARACTERS) -> Html:
    """A text from outside, as one that can stand anywhere in a page."""
    return Html(escape(shown(text, most)))


def path(text: str, most: int = MOST_CHARACTERS) -> Html:
    """The same for a path, a hash, a command or a name of several columns: where it is too long for
    a line, it goes on in the next one after a slash or a plus."""
    return Html(data(text, most).replace("/", "/<wbr>").replace("+", "+<wbr>"))


def several_lines(text: str, most: int) -> Html:
    """The same for a long text whose lines are kept."""
    lines = shortened(text, most).replace("\r\n", "\n").split("\n")
    return Html("\n".join(path(each, len(each)) for each in lines))


def shown(text: str, most: int = MOST_CHARACTERS) -> str:
    """What a person sees of a text: short, and without anything hidden in it."""
    return visible(shortened(text, most))


def visible(text: str) -> str:
    """The text on one line, with what cannot be seen written out.

    >>> visible("a" + chr(0x202E) + "b" + chr(10))
    'a\\\\u202eb\\\\n'
    """
    return _UNSEEN.sub(lambda found: _written_out(found[0]), text)


def shortened(text: str, most: int) -> str:
    """At most so many characters, and how many there are if that is not all."""
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
