"""What verbs of a repository answer: what a commit did, and which tables refuse.

All refusals are collected before the error is raised, so that the caller sees all of them at once.
A reason that several tables share is given once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from lancewood.errors import (
    CommitUnknownError,
    ConflictError,
    IncompatibleConflictError,
    InvalidInputError,
    LancewoodError,
    MergeConflictError,
    StorageError,
)
from lancewood.git.values import Hash

if TYPE_CHECKING:
    from lancewood.jobs.counts import Merged


class NotLandedWarning(UserWarning):
    """A commit is done, but a table does not hold it yet, or cannot."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """A table whose branch conflicts with a commit."""

    table: str
    conflict: ConflictError


@dataclass(frozen=True, slots=True)
class TakenIn:
    """Uncommitted writes to a table beside the repository that became part of a commit."""

    table: str
    versions: tuple[int, ...]
    """The versions that were written that way, oldest first."""
    message: str | None
    """The newest message of these versions, if any."""


class TableDone(StrEnum):
    """What a verb did to a table."""

    PUBLISHED = "published"
    """The work on its branch was published."""
    TAKEN = "taken"
    """The table is pinned as the other commit pins it."""
    RESTORED = "restored"
    """The table was restored to an older state, as a new version."""
    MERGED = "merged"
    """Both sides changed the table, and their rows were put together."""
    REPEATED = "repeated"
    """The work of a commit was repeated."""
    REMOVED = "removed"
    """The commit no longer pins the table."""


@dataclass(frozen=True, slots=True)
class Committed:
    """What a commit to a repository did."""

    hash: Hash | None
    """The commit that the branch is at; None in a repository without commits."""
    branch: str
    tables: tuple[str, ...]
    """The tables that it changed."""
    is_new: bool = True
    """False if there was nothing to commit."""
    diverged: tuple[Divergence, ...] = ()
    """Tables that could not land because of a writer from outside."""
    taken_in: tuple[TakenIn, ...] = ()
    """Uncommitted writes of others that became part of this commit."""
    done: tuple[tuple[str, TableDone], ...] = ()
    """Each table that a verb changed, and how, for verbs that decide by table."""
    merged: tuple[tuple[str, Merged], ...] = ()
    """What became of the rows of each table that was merged by rows."""
    left_out_indices: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Indices of the other side, by table, whose new segments mean other rows here, or whose rows
    were merged one by one: build or extend them."""
    stale: int = 0
    """Decisions, kept or given, on conflicts that are not there."""
    is_dry_run: bool = False
    """True if this is only what would have been done."""

    @property
    def uncovered_indices(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Indices that do not cover what came, by table that was merged by rows; extend them."""
        found = ((table, each.uncovered_indices) for table, each in self.merged)
        return tuple((table, names) for table, names in found if names)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is left to do or to know, as sentences: decisions that did not apply, and indices
        that cover less than before, with the way out. ``lw merge`` prints them."""
        from lancewood.jobs.counts import left_out_note, stale_note, uncovered_note

        return (
            *stale_note(self.stale),
            *(e for table, names in self.uncovered_indices for e in uncovered_note(names, table)),
            *(e for table, names in self.left_out_indices for e in left_out_note(names, table)),
        )


class Refusals:
    """The tables that refuse, and why."""

    def __init__(self) -> None:
        self._found: dict[str, str] = {}
        self._conflicts: dict[str, Mapping[str, Any]] = {}
        """What is known about the conflicts of tables with rows in conflict."""
        self._is_invalid = False
        """Whether a table refuses what it was asked for: a rule or a value does not fit it."""

    def add(self, table: str, why: str | LancewoodError) -> None:
        """Note that a table refuses; raises errors of the store, which are no refusals."""
        from lancewood.jobs.merge.conflicts import TO_DECIDE, stale_words

        if isinstance(why, StorageError | CommitUnknownError):
            raise why
        if isinstance(why, MergeConflictError):
            self._conflicts[table] = why.facts
        self._is_invalid |= isinstance(why, InvalidInputError)
        text = why if isinstance(why, str) else why.message
        text = text.removesuffix(", and nothing has changed").removesuffix(TO_DECIDE)
        text = text.removesuffix(stale_words(self._conflicts.get(table, {}).get("stale", 0)))
        self._found[table] = text.removeprefix(f"table {table!r}: ")

    def check(self, what: str, way_out: str = "resolve= decides them", stale: int = 0) -> None:
        """Raise IncompatibleConflictError with all tables and reasons, if there are any;
        MergeConflictError with the ``way_out`` if all that is left is to decide rows,
        InvalidInputError if a rule or a value does not fit a table. ``stale`` are decisions that
        did not apply."""
        from lancewood.jobs.merge.conflicts import stale_words

        if not self._found:
            return
        found = dict(sorted(self._found.items()))
        names: dict[str, list[str]] = {}
        for name, why in found.items():
            names.setdefault(why, []).append(repr(name))
        reasons = "; ".join(
            f"table{'s' if len(each) > 1 else ''} {', '.join(each)}: {why}"
            for why, each in names.items()
        )
        said = f"{what}, and nothing has changed. {reasons}"
        if self._is_invalid:
            raise InvalidInputError(said, tables=found)
        if self._conflicts.keys() < found.keys():
            raise IncompatibleConflictError(said, tables=found)
        count = sum(each.get("conflicts", 1) for each in self._conflicts.values())
        if any("kinds" in each for each in self._conflicts.values()):
            said = f"{said}{stale_words(stale)}; {way_out}"
        raise MergeConflictError(
            said,
            tables=found,
            conflicts=count,
            stale=stale,
            by_table=dict(sorted(self._conflicts.items())),
        )
