"""What a process remembers of the tables of a repository, so that it looks only at what moved.

Stores stay open, with what they know of their directories. A table that was found to hold what a
pin says holds it as long as it is at the same version; whoever asks looks at that first. Nothing of
this is written down, and forgetting it costs time only.
"""

from __future__ import annotations

from dataclasses import dataclass

from lancewood.catalog.pin import Pin
from lancewood.engine.watching import Watch
from lancewood.git.objects import Entry
from lancewood.model.ids import Version
from lancewood.store.base import Store


@dataclass(slots=True)
class Kept:
    """A table as a commit pins it, on the branch of the table where that commit's branch writes."""

    entry: Entry
    """Of the pin, in the tree of the commit."""
    pin: Pin
    watch: Watch
    """Over the newest version of that branch."""
    held: Version | None
    """The version at which it was seen to hold what the pin says: it has landed, and nothing of it
    is read while it is there. None: nobody has looked."""

    @classmethod
    def new(cls, entry: Entry, pin: Pin, watch: Watch) -> Kept:
        """What the pin alone says: one that speaks of an ordinary version has nothing to land."""
        return cls(entry, pin, watch, pin.version if pin.landing is None else None)

    def forget(self) -> None:
        """What was seen of it is not so any more."""
        self.held = self.pin.version if self.pin.landing is None else None


class Memory:
    """Of one repository. Threads may share it."""

    def __init__(self) -> None:
        self.stores: dict[str, Store] = {}
        """Main roots, by the uri of a pin."""
        self.joined: set[tuple[str, str]] = set()
        """Tables elsewhere that know this repository, by uri and name."""
        self.members: set[str] = set()
        """Those that say that they belong to it, wherever it was then, by uri."""
        self._kept: dict[str, dict[str, Kept]] = {}

    def kept(self, branch: str) -> dict[str, Kept]:
        """What was last seen of the tables of a branch of the repository, by their names."""
        return self._kept.setdefault(branch, {})
