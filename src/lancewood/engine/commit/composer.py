"""The interface for a version that no single operation describes.

A commit applies one operation to the newest version. A composer carries the work of several
versions: it judges what landed meanwhile by all of it, and says what the next version changes and
how it is recorded. The commit asks it again for every attempt. It touches no store.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from lancewood.model.ids import Version
from lancewood.model.manifest import Manifest
from lancewood.model.transaction import ManifestPatch, Operation, Transaction


@dataclass(frozen=True, slots=True)
class Composition:
    """What the next version is recorded as, and what it changes."""

    operation: Operation
    patch: ManifestPatch


class Composer(Protocol):
    """Builds the next version of a table, whatever the newest one is."""

    def judge(self, theirs: Transaction, version: Version) -> None:
        """Judge a version that landed since; called once for each, oldest first.

        Raises ConflictError if it conflicts.
        """

    def compose(self, newest: Manifest) -> Composition:
        """The version after ``newest``; every version up to ``newest`` was judged.

        Raises ConflictError where only the rows show that the two conflict.
        """
