"""The door for a version that no single operation describes.

A commit applies one operation to the newest version. A composer has the work of several versions in
its hands: it judges what landed meanwhile by all of it, and says what the next version changes and
what it is to be recorded as. The commit asks it again for every attempt. Knows no store.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from lancewood.model.ids import Version
from lancewood.model.manifest import Manifest
from lancewood.model.operations import Operation
from lancewood.model.patch import ManifestPatch
from lancewood.model.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Composition:
    """What the next version is recorded as, and what it changes."""

    operation: Operation
    patch: ManifestPatch


class Composer(Protocol):
    """Builds the next version of a table, whatever the newest one is."""

    def judge(self, theirs: Transaction, version: Version) -> None:
        """Look at a version that landed since, each once and the oldest first.

        Raises ConflictError where the two do not go together.
        """

    def compose(self, newest: Manifest) -> Composition:
        """The version after ``newest``, all versions up to which were judged.

        Raises ConflictError where only a look at the rows told that the two do not go together.
        """
