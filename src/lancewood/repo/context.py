"""``RepoContext``: an opened repository with the small steps that its verbs share.

``Memory`` is what a process remembers of the tables, so that it only looks at what moved. Stores
stay open. A table that was seen to hold what a pin says still does as long as its version is the
same, and that is checked first. Nothing of this is written down; forgetting it only costs time.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from lancewood.catalog.names import ID, SECTION, branch_ref
from lancewood.catalog.pin import Pin
from lancewood.catalog.tables import TableTree
from lancewood.errors import FormatError, InvalidInputError, NotFoundError
from lancewood.git.names import HEADS, RepositoryRoot, below
from lancewood.git.objects import TreeEntry
from lancewood.git.repository import GitRepository
from lancewood.git.revisions import resolve
from lancewood.git.values import Hash, Signature
from lancewood.model.ids import Version
from lancewood.model.refs import called
from lancewood.store.base import Store
from lancewood.store.locate import open_store

if TYPE_CHECKING:
    from lancewood.catalog.opening import TableStores
    from lancewood.engine.location import Location
    from lancewood.engine.snapshot import Snapshot
    from lancewood.engine.versions import Watch

_FETCHES = ("fetch", "pull")
"""How the reasons begin that git writes into the log of a ref that it brought from elsewhere."""
EXCLUSIVE = "exclusive"
"""The setting that reserves the tables for the repository's own transactions."""
_YES, _NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0", "")


@dataclass(slots=True)
class Kept:
    """A table as a commit pins it, on the table's branch for that commit's branch."""

    entry: TreeEntry
    """The pin's entry in the tree of the commit."""
    pin: Pin
    watch: Watch
    """A watch on the newest version of that branch."""
    held: Version | None
    """The version at which the branch was seen to hold what is pinned: while it is there, nothing
    has to be read. None if it is not known."""

    @classmethod
    def new(cls, entry: TreeEntry, pin: Pin, watch: Watch) -> Kept:
        """What is known from the pin alone: an ordinary version has nothing to land."""
        return cls(entry, pin, watch, pin.version if pin.landing is None else None)

    def forget(self) -> None:
        """What was seen is no longer valid."""
        self.held = self.pin.version if self.pin.landing is None else None


class Memory:
    """What a process knows about one repository. Thread-safe."""

    def __init__(self) -> None:
        self.stores: dict[str, Store] = {}
        """Main roots, by the uri of a pin."""
        self.joined: set[tuple[str, str]] = set()
        """Tables elsewhere that know this repository, by uri and name."""
        self.members: set[str] = set()
        """Tables that say that they belong to this repository, wherever it was then, by uri."""
        self._kept: dict[str, dict[str, Kept]] = {}

    def kept(self, branch: str) -> dict[str, Kept]:
        """What was last seen of the tables of a branch of the repository, by their names."""
        return self._kept.setdefault(branch, {})


@dataclass(frozen=True)
class RepoContext:
    """One repository, opened."""

    git: GitRepository
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    """Storage options for the bucket of the repository, and for tables in buckets."""
    fsync: bool | None = None
    memory: Memory = field(default_factory=Memory, compare=False, repr=False)

    @property
    def root(self) -> RepositoryRoot:
        return self.git.root

    def store_at(self, key: str) -> Store:
        """The store of a location below the repository; its own for an empty key."""
        return open_store(
            below(self.root, key), fsync=self.fsync, storage_options=self.storage_options
        )

    @property
    def table_stores(self) -> TableStores:
        """How the stores of pinned tables are opened; they stay open."""
        from lancewood.catalog.opening import TableStores

        return TableStores(self.storage_options, self.fsync, self.memory.stores)

    @cached_property
    def id(self) -> str:
        """The identity by which tables know the repository; copies have the same."""
        found = self.git.get(SECTION, ID)
        if not found:
            raise InvalidInputError(
                f"{self.root} is a git repository, but not one of Lancewood's: it has no "
                f"{SECTION}.{ID} in its config; lw init makes one"
            )
        return found

    @property
    def is_exclusive(self) -> bool:
        """Whether only transactions of this repository may write to its tables."""
        found = (self.git.config.own(SECTION, EXCLUSIVE) or "").lower()
        if found not in _YES and found not in _NO:
            raise FormatError(f"{self.root}/config: {SECTION}.{EXCLUSIVE} is {found!r}")
        return found in _YES

    def author(self, author: str | None = None) -> Signature:
        """The signature for a commit now; ``author`` is written as ``"Ada <ada@example.org>"``.
        Raises InvalidInputError for a malformed one."""
        from lancewood.repo.identity import author_of

        return author_of(self.git, author)

    def tip(self, branch: str) -> Hash | None:
        """The commit of a branch; None if it has none or does not exist."""
        return self.git.refs.read(branch_ref(branch))

    def is_branch(self, name: str) -> bool:
        """Whether a revision is the name of a branch with a commit."""
        try:
            return self.tip(name) is not None
        except InvalidInputError:
            return False

    def current(self) -> str:
        """The branch that HEAD names; raises InvalidInputError if HEAD is detached."""
        found = self.git.refs.current()
        if found is not None:
            return found
        raise InvalidInputError(
            f"HEAD is detached at {str(self.git.refs.head().hash)[:12]}, and this needs a branch: "
            "name one, switch to one, or make one here with switch(create=True)"
        )

    def branch(self, name: str | None) -> str:
        """The branch to write to: the given one, or HEAD's.

        Raises NotFoundError if it does not exist; HEAD's branch may have no commit yet.
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
        """The commit that a revision names."""
        return self.git.objects.peel(resolve(self.git, revision))

    def tree(self, commit: Hash | None) -> TableTree:
        """The tables of a commit; none for None."""
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

    def check_table(self, name: str, *commits: Hash | None) -> None:
        """Raise NotFoundError for a table that none of the commits has."""
        names = sorted({table for each in commits for table in self.tree(each).names()})
        if name not in names:
            raise NotFoundError(
                f"there is no table {name!r} in these commits{near(name, names)}", table=name
            )

    def holders(self, names: Collection[str]) -> dict[str, dict[str, Pin]]:
        """The pins of tables below the repository with these names, by table and branch."""
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
                if pin.is_own:
                    found.setdefault(name, {})[ref.removeprefix(HEADS)] = pin
        return found

    def open(self, pin: Pin) -> Snapshot:
        """A table as it is pinned, checked against the pin."""
        from lancewood.catalog.opening import open_pin

        try:
            return open_pin(pin, self.root, self.table_stores)
        except NotFoundError as gone:
            why = self.why_elsewhere(pin)
            if why is None:
                raise
            what = f"what the commit pins of {pin.uri}, on {called(pin.branch)} of it,"
            raise NotFoundError(f"{what} is not here: {why}", **gone.facts) from gone

    def why_elsewhere(self, pin: Pin) -> str | None:
        """Why a pinned state that is not here never was, and the way out: git fetched the branch
        that pins it, from a copy of the repository. None if no log of a ref says so."""
        for ref in self.git.refs.logged_names():
            for entry in self.git.refs.log(ref):
                source = _fetched_from(entry.why)
                if source is not None and self._pins(entry.new, pin):
                    return (
                        f"git fetch brought this commit from {source}, and no tables: those are "
                        "below the repository where it was made; merge the branch there, or copy "
                        "that repository as a whole"
                    )
        return None

    def _pins(self, commit: Hash, pin: Pin) -> bool:
        """Whether a commit pins a state; False for one that is gone."""
        with suppress(NotFoundError):
            tree = self.tree(commit)
            return any(tree.pin(name) == pin for name in tree.names())
        return False

    def location(self, pin: Pin) -> Location:
        """The root of the branch that a pin is on, to be written by this repository."""
        from lancewood.catalog.opening import location_of

        return location_of(pin, self.root, self.table_stores).written_by(self.id)


def _fetched_from(why: str) -> str | None:
    """Where a line in the log of a ref says that git brought a commit from: ``fetch origin: storing
    head``, ``clone: from ../shop``. None if the line tells of something else."""
    if why.startswith("clone: from "):
        return why.removeprefix("clone: from ")
    verb, *arguments = why.rpartition(": ")[0].split() or [""]
    if verb not in _FETCHES:
        return None
    return next((each for each in arguments if each[0] != "-"), "another repository")


def near(name: str, known: Collection[str]) -> str:
    """The end of a message about an unknown name: similar names, or those that exist."""
    close = difflib.get_close_matches(name, known, n=3)
    if close:
        return f"; did you mean {', '.join(close)}?"
    return f"; there is {', '.join(sorted(known)[:10])}" if known else ""
