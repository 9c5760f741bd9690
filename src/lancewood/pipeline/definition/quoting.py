"""Whether a text that is put into SQL stays where it is put.

Knows the quotes and comments of Spark SQL, and nothing of its grammar. A value between quotes may
not end them; one outside may be any expression, but not begin a comment or another statement.
"""

from __future__ import annotations

import re

_opening = re.compile(r"(?:(?<![A-Za-z0-9_])[rR])?(['\"])|(`)|(--)|(/\*)").search
_closings = {
    "'": re.compile(r"(?:[^'\\]|\\.)*?'", re.DOTALL).match,
    '"': re.compile(r'(?:[^"\\]|\\.)*?"', re.DOTALL).match,
    "r'": re.compile(r"[^']*'").match,
    'r"': re.compile(r'[^"]*"').match,
    "`": re.compile(r"[^`]*`").match,
    "--": re.compile(r"[^\n]*\n").match,
    "/*": re.compile(r".*?\*/", re.DOTALL).match,
}
_ENDS = {"--": ("\n", "\r"), "/*": ("*/", "/*")}
_OUTSIDE = (";", "--", "/*")
_COMMENTS = ("--", "/*")


class Quoting:
    """Reads a SQL text in parts, and knows what the place behind the last one is inside of."""

    def __init__(self) -> None:
        self._inside = ""

    def read(self, text: str) -> None:
        """Go on over a part that the file has."""
        at = 0
        while at < len(text):
            if not self._inside:
                found = _opening(text, at)
                if found is None:
                    return
                self._inside, at = found[0].lower(), found.end()
                continue
            closing = _closings[self._inside](text, at)
            if closing is None:
                return
            self._inside, at = "", closing.end()

    def breaks(self, value: str) -> str | None:
        """Why a value may not stand here; None if it may."""
        if not self._inside:
            found = [each for each in _OUTSIDE if each in value]
            return f"has a {found[0]!r}, which would end the statement here" if found else None
        ends = _ENDS.get(self._inside) or (self._inside[-1], "\\")
        found = [each for each in ends if each in value]
        where = "a comment" if self._inside in _COMMENTS else f"{self._inside[-1]} quotes"
        return f"has a {found[0]!r}, and stands inside {where}" if found else None
