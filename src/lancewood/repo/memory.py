"""What a process remembers of the tables of a repository, so that it looks only at what moved.

Stores stay open, with what they know of their directories. A table that was found to hold what a
pin says holds it as long as it is at the same version; whoever asks looks at that first. Nothing of
this is written down, and forgetting it costs time only.
"""

from __future__ import annotations

from lancewood.catalog.pin import Pin
from lancewood.engine.watching import Watch
from lancewood.git.hashes import Hash
from lancewood.model.ids import Version
from lancewood.model.refs import BranchName
from lancewood.store.base import Store

_Root = tuple[str, BranchName | None]


class Memory:
    """Of one repository. Threads may share it."""

    def __init__(self) -> None:
        self.stores: dict[str, Store] = {}
        """Main roots, by the uri of a pin."""
        self.joined: set[tuple[str, str]] = set()
        """Tables elsewhere that know this repository, by uri and name."""
        self._watches: dict[_Root, Watch] = {}
        self._held: dict[_Root, tuple[Hash, Version]] = {}

    def watch(self, pin: Pin) -> Watch | None:
        """The watch over the branch that a pin speaks of, if there is one."""
        return self._watches.get((pin.uri, pin.branch))

    def begin_watch(self, pin: Pin, store: Store) -> Watch:
        """Watch the root of that branch from now on."""
        return self._watches.setdefault((pin.uri, pin.branch), Watch(store))

    def held(self, pin: Pin, blob: Hash | None) -> Version | None:
        """The version at which the pin's branch was seen to hold what that very pin says."""
        found = self._held.get((pin.uri, pin.branch))
        return found[1] if found is not None and found[0] == blob else None

    def holds(self, pin: Pin, blob: Hash | None, version: Version) -> None:
        """It has landed, and at this version its branch holds what it says; ``blob`` is the hash of
        its text."""
        if blob is not None:
            self._held[pin.uri, pin.branch] = blob, version

    def forget(self, pin: Pin) -> None:
        """What was seen of the pin's branch is not so any more."""
        self._held.pop((pin.uri, pin.branch), None)
