"""Who did something, and when: the line that a commit and a log of moves carry.

Knows how git writes it. Does not know how a name and an address are found.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Self

from lancewood.errors import FormatError, InvalidInputError

_MOST_SECONDS = 2**63 - 1
LAST_OF_CALENDAR = 253_402_300_799
"""The last second of the year 9999, where calendars end; git counts further."""
_is_line = re.compile(rb"([^<>\n]*?) ?<([^<>\n]*)> (\d{1,19}) ([+-])(\d{2})(\d{2})").fullmatch
_is_unfit = re.compile(r"[<>\x00-\x1f\x7f]").search


@dataclass(frozen=True, slots=True)
class Signature:
    """A name, an address and a moment: seconds since 1970, and the zone's offset from UTC."""

    name: str
    email: str
    seconds: int
    offset_minutes: int

    @classmethod
    def now(cls, name: str, email: str) -> Self:
        """The moment of this machine's clock, in its zone."""
        seconds = int(time.time())
        return cls(name, email, seconds, time.localtime(seconds).tm_gmtoff // 60)

    def encode(self) -> bytes:
        """The line as git writes it; raises InvalidInputError for what git would not read back."""
        _check("name", self.name)
        _check("address", self.email)
        if not self.name:
            raise InvalidInputError("the name of an author is not allowed to be empty")
        if not 0 <= self.seconds <= _MOST_SECONDS:
            raise InvalidInputError(
                f"{self.seconds} is not a time that git can hold: it counts seconds since 1970"
            )
        if not -24 * 60 < self.offset_minutes < 24 * 60:
            raise InvalidInputError(
                f"{self.offset_minutes} minutes are not the offset of a time zone: "
                "it is less than a day"
            )
        sign = "-" if self.offset_minutes < 0 else "+"
        hours, minutes = divmod(abs(self.offset_minutes), 60)
        return f"{self.name} <{self.email}> {self.seconds} {sign}{hours:02}{minutes:02}".encode()

    @classmethod
    def decode(cls, line: bytes) -> Self:
        """Raises FormatError. A name that is not UTF-8 is read as well as it can be."""
        found = _is_line(line)
        if found is None:
            raise FormatError(f"{line[:200]!r} is not a name, an address and a time")
        name, email, seconds, sign, hours, minutes = found.groups()
        offset = int(hours) * 60 + int(minutes)
        return cls(
            name.decode("utf-8", "replace"),
            email.decode("utf-8", "replace"),
            int(seconds),
            -offset if sign == b"-" else offset,
        )


def _check(what: str, text: str) -> None:
    if not isinstance(text, str):
        raise InvalidInputError(f"the {what} of an author is a text, not {type(text).__name__}")
    if _is_unfit(text) or text != text.strip():
        raise InvalidInputError(
            f"the {what} {text!r} of an author is not allowed: it has a '<', a '>', a control "
            "character, or a space at one end"
        )
    try:
        text.encode()
    except UnicodeEncodeError as cause:
        raise InvalidInputError(f"the {what} {text!r} of an author is not UTF-8") from cause
