"""Which work a version of a target holds: ranges of versions of branches, told by its transaction.

Work that comes twice would double rows, and no rule about operations can see that. So a version
that took work over says which, and whoever brings work looks for it there. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from lancewood.model.ids import Version
from lancewood.model.transaction import Transaction

BRANCH_PROPERTY = "lancewood.branch"
BRANCH_VERSION_PROPERTY = "lancewood.branch_version"
"""Which work a version of the target is, for people."""
HELD_PROPERTY = "lancewood.holds"
"""All of it, for whoever brings more: ``exp:5-7@0b1c… dev:9-12``."""

_is_range = re.compile(r"([^\s:]+):(\d{1,20})-(\d{1,20})(?:@(\S+))?").fullmatch


@dataclass(frozen=True, slots=True)
class Held:
    """The versions of a branch after ``since``, up to ``until``."""

    branch: str
    since: Version
    until: Version
    line: str = ""
    """The identity of the transaction that the branch began with, which tells it from others that
    had its name, and is the same under another name; empty where it is not known."""

    def meets(self, other: Held) -> bool:
        """Whether both have a version in common."""
        are_known = self.line and other.line
        is_same = self.line == other.line if are_known else self.branch == other.branch
        return is_same and self.since < other.until and other.since < self.until

    def __str__(self) -> str:
        line = f"@{self.line}" if self.line else ""
        return f"{self.branch}:{self.since}-{self.until}{line}"


def encode_held(work: Iterable[Held]) -> str:
    """The value of the property."""
    return " ".join(dict.fromkeys(map(str, work)))


def held_in(transaction: Transaction) -> tuple[Held, ...]:
    """The work that a transaction says it holds; what cannot be understood is left out."""
    properties = transaction.properties
    text = properties.get(HELD_PROPERTY)
    if text is not None:
        found = [match.groups("") for each in text.split() if (match := _is_range(each))]
        return tuple(
            Held(branch, Version(int(since)), Version(int(until)), line)
            for branch, since, until, line in found
        )
    branch, version = properties.get(BRANCH_PROPERTY), properties.get(BRANCH_VERSION_PROPERTY, "")
    if branch is None or not version.isdecimal():
        return ()
    return (Held(branch, Version(0), Version(int(version))),)


def in_common(mine: Iterable[Held], theirs: Iterable[Held]) -> Held | None:
    """Work of the one that the other has, too."""
    known = [*theirs]
    return next((each for each in mine if any(map(each.meets, known))), None)
