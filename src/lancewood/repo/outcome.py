"""What a commit of the repository did, and what is said of tables that did not come along.

Tables that refuse a verb: all are found before any is told, so that nobody meets one after the
other. What holds for several is said once.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lancewood.errors import (
    CommitUnknownError,
    ConflictError,
    IncompatibleConflictError,
    LancewoodError,
    StorageError,
)
from lancewood.git.hashes import Hash


class NotLandedWarning(UserWarning):
    """A commit is done, but a table does not hold it yet, or cannot."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """A table whose branch holds what does not go together with a commit."""

    table: str
    conflict: ConflictError


@dataclass(frozen=True, slots=True)
class TakenIn:
    """What somebody wrote to a table beside the repository, and did not commit, before a commit
    that changes the table. It is part of that commit."""

    table: str
    versions: tuple[int, ...]
    """The versions of the table that were written so, the oldest first."""
    message: str | None
    """The message of the newest that has one."""


class Done(StrEnum):
    """What a verb did to a table."""

    PUBLISHED = "published"
    """The work on its branch was brought over."""
    TAKEN = "taken"
    """It is pinned as the other commit pins it."""
    RESTORED = "restored"
    """It went back to an older state, as a new version."""
    REPEATED = "repeated"
    """A commit's work was done once more."""
    REMOVED = "removed"
    """The commit does not pin it any more."""


@dataclass(frozen=True, slots=True)
class Committed:
    """What a commit did."""

    hash: Hash | None
    """The commit that the branch is at; None in a repository without any."""
    branch: str
    tables: tuple[str, ...]
    """The tables that it changed."""
    is_new: bool = True
    """False: there was nothing to commit."""
    diverged: tuple[Divergence, ...] = ()
    """Tables that could not land beside what a writer from outside did."""
    taken_in: tuple[TakenIn, ...] = ()
    """What others wrote directly to tables that this commit changed, and which it contains too."""
    done: tuple[tuple[str, Done], ...] = ()
    """For verbs that decide by table: each that they changed, and how."""
    is_dry_run: bool = False
    """True: this is what would have been done."""


class Refusals:
    """The tables that refuse, and why."""

    def __init__(self) -> None:
        self._found: dict[str, str] = {}

    def add(self, table: str, why: str | LancewoodError) -> None:
        """Note that a table refuses; raises what is no refusal, but a store that failed."""
        if isinstance(why, StorageError | CommitUnknownError):
            raise why
        text = why if isinstance(why, str) else why.message
        self._found[table] = text.removeprefix(f"table {table!r}: ")

    def check(self, what: str) -> None:
        """Raise IncompatibleConflictError with every table and its reason, if there is one."""
        if not self._found:
            return
        found = dict(sorted(self._found.items()))
        names: dict[str, list[str]] = {}
        for name, why in found.items():
            names.setdefault(why, []).append(repr(name))
        told = "; ".join(
            f"table{'s' if len(each) > 1 else ''} {', '.join(each)}: {why}"
            for why, each in names.items()
        )
        raise IncompatibleConflictError(f"{what}, and nothing has changed. {told}", tables=found)
