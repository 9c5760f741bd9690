"""What can be wrong with a table, and what a repair can do about it, as values.

A check collects problems and goes on, so that it reports all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from lancewood.errors import InvalidInputError, LancewoodError, UnsupportedError


class ProblemKind(StrEnum):
    """The kind of a problem."""

    MANIFEST = "manifest"
    NAMES = "manifest names"
    REF = "ref"
    SCHEMA = "schema"
    TRANSACTION = "transaction"
    FRAGMENT_IDS = "fragment ids"
    FRAGMENT_ORDER = "fragment order"
    INDEX = "index"
    INDEX_FILE = "index file"
    DATA_FILE = "data file"
    ROW_COUNT = "row count"
    DELETION_FILE = "deletion file"
    DELETED_COUNT = "deleted count"
    EMPTY_DELETION_FILE = "empty deletion file"
    ROW_IDS = "row ids"
    ROW_VERSIONS = "row versions"
    PAGE = "page"
    OUT_OF_REACH = "out of reach"
    """Not checked: unknown to this reader, or not accessible."""


_ADVICE = {
    ProblemKind.MANIFEST: "repair() proposes to set it aside; older versions open by number",
    ProblemKind.NAMES: "run lw table migrate-names, or repair()",
    ProblemKind.REF: "delete the ref, or make it anew on a version that exists",
    ProblemKind.SCHEMA: "restore a version that verifies: repair() looks for one",
    ProblemKind.TRANSACTION: "reading is not affected; commits that began before must be run again",
    ProblemKind.FRAGMENT_IDS: "restore a version that verifies: repair() looks for one",
    ProblemKind.FRAGMENT_ORDER: "reading is not affected; pylance sorts them with its next commit",
    ProblemKind.INDEX: "drop the index and create it anew; repair() drops it",
    ProblemKind.INDEX_FILE: "drop the index and create it anew; repair() drops it",
    ProblemKind.DATA_FILE: "bring the file back from a copy, or restore a version that verifies: "
    "repair() looks for one",
    ProblemKind.ROW_COUNT: "reading is not affected; pylance records it with its next commit, and "
    "until then no row of it can be deleted here",
    ProblemKind.DELETION_FILE: "bring the file back from a copy, or restore a version that "
    "verifies: repair() looks for one",
    ProblemKind.DELETED_COUNT: "repair() counts the rows and records them",
    ProblemKind.EMPTY_DELETION_FILE: "reading is not affected; a delete in this fragment by "
    "Lancewood replaces it, one by pylance fails until then",
    ProblemKind.ROW_IDS: "restore a version that verifies: repair() looks for one",
    ProblemKind.ROW_VERSIONS: "reading rows is not affected; changes() may tell wrong versions",
    ProblemKind.PAGE: "bring the file back from a copy, or restore a version that does not need it",
    ProblemKind.OUT_OF_REACH: "use the writer that made it, or allow the place; nothing is known "
    "to be damaged",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a table."""

    kind: ProblemKind
    where: str
    """The file, the ref, the index or the fragment."""
    text: str
    """What was expected, and what was found."""
    fragment: int | None = None
    """The fragment with the problem, if any."""

    @property
    def advice(self) -> str:
        """What to do about the problem."""
        return _ADVICE[self.kind]

    def __str__(self) -> str:
        return f"{self.kind} {self.where}: {self.text}"


def kind_of(error: LancewoodError, damage: ProblemKind) -> ProblemKind:
    """``damage``, or OUT_OF_REACH for an error that is about this reader, not the table."""
    unknown = isinstance(error, UnsupportedError | InvalidInputError)
    return ProblemKind.OUT_OF_REACH if unknown else damage


@dataclass(frozen=True, slots=True)
class Proposal:
    """One step of a repair, for people."""

    action: str
    """The step in a few words, such as ``set the manifest aside``."""
    where: str
    finding: str
    """What is wrong."""
    effect: str
    """What changes when the step is done."""


@dataclass(frozen=True, slots=True)
class RepairStep:
    """A proposal and how to carry it out, which is idempotent."""

    proposal: Proposal
    do: Callable[[], object]


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What a repair did, or with ``dry_run`` would do."""

    dry_run: bool
    proposals: tuple[Proposal, ...]
    remaining: tuple[Problem, ...]
    """Problems that the proposals do not solve."""

    @property
    def ok(self) -> bool:
        """Whether there is nothing to do, and nothing wrong."""
        return not self.proposals and not self.remaining
