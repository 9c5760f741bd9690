"""What a process remembers of the tables of a repository, so that it looks only at what moved.

Stores stay open, with what they know of their directories. A table that was found to hold what a
pin says holds it as long as it is at the same version; whoever asks looks at that first. Nothing of
this is written down, and forgetting it costs time only.

What every part of a repository stands on: its git, where it is, and how its tables are opened.

Small steps that several verbs share. Decides nothing, and writes nothing.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from lancewood.catalog.opening import open_pin, place_of
from lancewood.catalog.pin import Pin
from lancewood.catalog.tables import TableTree
from lancewood.engine.place import Place
from lancewood.engine.snapshot import Snapshot
from lancewood.engine.versions import Watch
from lancewood.errors import FormatError, InvalidInputError, NotFoundError
from lancewood.git.hashes import Hash
from lancewood.git.names import HEADS, Home, below
from lancewood.git.objects import Entry
from lancewood.git.repository import GitRepository
from lancewood.git.revisions import resolve
from lancewood.model.ids import Version
from lancewood.repo.ref_names import branch_ref
from lancewood.store.base import Store
from lancewood.store.locate import open_store


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


SECTION, ID = "lancewood", "id"
"""Where the repository's own identity stands in git's configuration."""
EXCLUSIVE = "exclusive"
"""The setting that keeps the tables for the repository's own transactions."""
_YES, _NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0", "")


@dataclass(frozen=True)
class Grounds:
    """One repository, opened."""

    git: GitRepository
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    """For the bucket that the repository is in, and for tables that are in one."""
    fsync: bool | None = None
    memory: Memory = field(default_factory=Memory, compare=False, repr=False)

    @property
    def home(self) -> Home:
        return self.git.home

    def store_at(self, key: str) -> Store:
        """A place below the repository; the repository itself for no key."""
        return open_store(
            below(self.home, key), fsync=self.fsync, storage_options=self.storage_options
        )

    @cached_property
    def id(self) -> str:
        """The identity that tables know the repository by; copies of it have the same."""
        found = self.git.get(SECTION, ID)
        if not found:
            raise InvalidInputError(
                f"{self.home} is a git repository, but not one of Lancewood's: it has no "
                f"{SECTION}.{ID} in its config; lw init makes one"
            )
        return found

    @property
    def is_exclusive(self) -> bool:
        """Whether nobody but transactions of this repository may write to its tables."""
        found = (self.git.config.own(SECTION, EXCLUSIVE) or "").lower()
        if found not in _YES and found not in _NO:
            raise FormatError(f"{self.home}/config: {SECTION}.{EXCLUSIVE} is {found!r}")
        return found in _YES

    def tip(self, branch: str) -> Hash | None:
        """The commit that a branch is at; None before its first, and where there is none."""
        return self.git.refs.read(branch_ref(branch))

    def current(self) -> str:
        """The branch that HEAD names; raises InvalidInputError where HEAD is detached."""
        found = self.git.refs.current()
        if found is not None:
            return found
        raise InvalidInputError(
            f"HEAD is detached at {str(self.git.refs.head().hash)[:12]}, and this needs a branch: "
            "name one, switch to one, or make one here with switch(create=True)"
        )

    def branch(self, name: str | None) -> str:
        """The branch that is written to: the one that is named, or HEAD's.

        Raises NotFoundError for one that is not there; HEAD's own may have no commit yet.
        """
        if name is None:
            return self.current()
        if self.tip(name) is None and self.git.refs.head().branch != name:
            known = [each.removeprefix(HEADS) for each in self.git.refs.names(HEADS)]
            raise NotFoundError(
                f"there is no branch {name!r}{near(name, known)}; switch(create=True) makes one"
            )
        return name

    def commit(self, revision: str) -> Hash:
        """The commit that a revision means."""
        return self.git.objects.peel(resolve(self.git, revision))

    def tree(self, commit: Hash | None) -> TableTree:
        """The tables of a commit; none before the first."""
        objects = self.git.objects
        return TableTree.of(objects, None if commit is None else objects.commit(commit).tree)

    def pin(self, tree: TableTree, name: str) -> Pin:
        """What a commit says about a table; raises NotFoundError."""
        names = tree.names()
        if name not in names:
            raise NotFoundError(
                f"there is no table {name!r} in this commit{near(name, names)}", table=name
            )
        return tree.pin(name)

    def holders(self, names: Collection[str]) -> dict[str, dict[str, Pin]]:
        """What branches pin of the tables at home that have these names, by table and branch.

        Every commit that a branch is at is looked into, each once.
        """
        found: dict[str, dict[str, Pin]] = {}
        if not names:
            return found
        pins: dict[Hash, dict[str, Pin]] = {}
        for ref, tip in self.git.refs.names(HEADS).items():
            if tip not in pins:
                tree = self.tree(tip)
                known = (each for each in names if tree.blob_hash(each) is not None)
                pins[tip] = {each: tree.pin(each) for each in known}
            for name, pin in pins[tip].items():
                if pin.is_at_home:
                    found.setdefault(name, {})[ref.removeprefix(HEADS)] = pin
        return found

    def open(self, pin: Pin) -> Snapshot:
        """A table as it is pinned, checked against the pin."""
        return open_pin(
            pin,
            self.home,
            storage_options=self.storage_options,
            fsync=self.fsync,
            stores=self.memory.stores,
        )

    def place(self, pin: Pin) -> Place:
        """The root of the branch that a pin speaks of, to be written by this repository."""
        found = place_of(
            pin,
            self.home,
            storage_options=self.storage_options,
            fsync=self.fsync,
            stores=self.memory.stores,
        )
        return found.written_by(self.id)


def near(name: str, known: Collection[str]) -> str:
    """What to say after a name that is not known: those that it is likely to be meant for."""
    close = difflib.get_close_matches(name, known, n=3)
    if close:
        return f"; did you mean {', '.join(close)}?"
    return f"; there is {', '.join(sorted(known)[:10])}" if known else ""
