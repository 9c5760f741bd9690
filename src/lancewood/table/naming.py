"""Verbs of a table's names: its branches and its tags."""

from __future__ import annotations

from typing import Self

from lancewood.table.branches import Branches
from lancewood.table.handle import Handle
from lancewood.table.tags import Tags


class NamingVerbs(Handle):
    """Verbs of a table's names: its branches and its tags."""

    @property
    def branches(self) -> Branches[Self]:
        """The table's branches; main is not among them."""
        return Branches(self._snapshot, self._after)

    @property
    def tags(self) -> Tags:
        """The table's tags, whatever branch their versions are on."""
        return Tags(self._snapshot)
