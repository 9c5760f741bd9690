"""What ``Repository.fsck`` found: every problem as a value, with the way out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lancewood.repo.gc.report import Spot


class Kind(StrEnum):
    """What a problem is about."""

    REF = "ref"
    """A ref, HEAD or a log of moves that cannot be read, or leads to no commit."""
    HISTORY = "history"
    """A commit, a tree or a file of one that cannot be read."""
    PIN = "pin"
    """A pin that cannot be understood."""
    TABLE = "table"
    """A table that is not there any more as a commit pins it."""
    DIVERGED = "diverged"
    """A table whose branch holds what does not go together with a commit."""
    UNSETTLED = "unsettled"
    """Something that the next writer is to do, and that cannot be done."""
    UNPROTECTED = "unprotected"
    """A tagged or protected commit pins a version that no tag in the table keeps."""
    STRANGER = "stranger"
    """A table elsewhere that does not know that this repository's commits pin it."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong."""

    kind: Kind
    where: str
    why: str
    way_out: str

    def __str__(self) -> str:
        return f"{self.where}: {self.why}. {self.way_out}"


@dataclass(frozen=True, slots=True)
class FsckReport:
    """What was looked at, and what is wrong with it."""

    deep: bool
    refs: int
    commits: int
    pins: int
    """Distinct pins that were decoded."""
    opened: int
    """Of those, how many were opened in their tables: those of the tips, or with ``deep`` all."""
    waiting: tuple[Spot, ...]
    """Tables that do not hold yet what a commit pins; the next writer lands it, and so does gc."""
    problems: tuple[Problem, ...]

    @property
    def is_ok(self) -> bool:
        return not self.problems
