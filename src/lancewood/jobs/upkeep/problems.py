"""What can be wrong with a table, as values: whoever checks goes on, and tells all of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What a problem is about."""

    MANIFEST = "manifest"
    NAMES = "manifest names"
    REF = "ref"
    SCHEMA = "schema"
    TRANSACTION = "transaction"
    FRAGMENT_IDS = "fragment ids"
    INDEX = "index"
    INDEX_FILE = "index file"
    DATA_FILE = "data file"
    ROW_COUNT = "row count"
    DELETION_FILE = "deletion file"
    DELETED_COUNT = "deleted count"
    ROW_IDS = "row ids"
    ROW_VERSIONS = "row versions"
    PAGE = "page"


_ADVICE = {
    Kind.MANIFEST: "repair() proposes to set it aside; older versions open by number",
    Kind.NAMES: "run lw table migrate-names, or repair()",
    Kind.REF: "delete the ref, or make it anew on a version that exists",
    Kind.SCHEMA: "restore a version that verifies: repair() looks for one",
    Kind.TRANSACTION: "reading is not affected; commits that began before must be run again",
    Kind.FRAGMENT_IDS: "restore a version that verifies: repair() looks for one",
    Kind.INDEX: "drop the index and create it anew; repair() drops it",
    Kind.INDEX_FILE: "drop the index and create it anew; repair() drops it",
    Kind.DATA_FILE: "bring the file back from a copy, or restore a version that verifies: "
    "repair() looks for one",
    Kind.ROW_COUNT: "reading is not affected; pylance records it with its next commit, and until "
    "then no row of it can be deleted here",
    Kind.DELETION_FILE: "bring the file back from a copy, or restore a version that verifies: "
    "repair() looks for one",
    Kind.DELETED_COUNT: "repair() counts the rows and records them",
    Kind.ROW_IDS: "restore a version that verifies: repair() looks for one",
    Kind.ROW_VERSIONS: "reading rows is not affected; changes() may tell wrong versions",
    Kind.PAGE: "bring the file back from a copy, or restore a version that does not need it",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong."""

    kind: Kind
    where: str
    """The file, the ref, the index or the fragment."""
    text: str
    """What was expected, and what was found."""
    fragment: int | None = None
    """The fragment it concerns, if it is one."""

    @property
    def advice(self) -> str:
        """What to do about it."""
        return _ADVICE[self.kind]

    def __str__(self) -> str:
        return f"{self.kind} {self.where}: {self.text}"
