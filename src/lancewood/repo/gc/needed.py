"""What commits of repositories need of their tables: states and branches; and the report of gc.

A commit counts as long as a ref, HEAD or a reflog leads to it. Of the steps of a transaction that
landed where they belong it needs the last one alone. A table may belong to several repositories,
and all of them are asked. No table is opened. What cannot be read is never guessed: the errors of
``catalog.reachable`` are passed on.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from lancewood.catalog.membership import Membership, is_repository
from lancewood.catalog.pin import Pin
from lancewood.catalog.reachable import Pinned, PinWalk, open_member
from lancewood.errors import NotFoundError
from lancewood.git.names import real_repository_root
from lancewood.jobs.upkeep.cleanup import CleanupReport
from lancewood.model.ids import Version
from lancewood.model.lines import Landing
from lancewood.model.refs import BranchName
from lancewood.repo.context import RepoContext
from lancewood.repo.outcome import Divergence


@dataclass
class TableNeeds:
    """What commits need of one table."""

    name: str = ""
    """The name of the table in the commits."""
    pin: Pin | None = None
    """Any pin of the table, to find it."""
    states: dict[BranchName | None, set[Version]] = field(default_factory=lambda: defaultdict(set))
    """The detached versions that are pinned, by branch."""
    on_the_way: dict[tuple[BranchName | None, Version], set[Landing]] = field(
        default_factory=lambda: defaultdict(set)
    )
    """The landings in which a detached version is a step before the last, by branch and version."""
    uuids: set[str] = field(default_factory=set)
    """The uuids of all pinned steps."""

    def add(self, found: Pinned) -> None:
        pin = found.pin
        self.name, self.pin = found.name, pin
        states = self.states[pin.branch]
        if pin.landing is not None:
            states.add(pin.landing.version)
            for step in pin.landing.steps[:-1]:
                self.on_the_way[pin.branch, step].add(pin.landing)
            self.uuids.update(pin.landing.uuids)

    def add_all(self, walks: Iterable[PinWalk]) -> None:
        for walk in walks:
            for found in walk.more():
                self.add(found)

    def has(
        self,
        branch: BranchName | None,
        version: Version,
        is_in_place: Callable[[Landing], bool],
    ) -> bool:
        """Whether a commit needs a detached version: it is pinned, or it is on the way to one whose
        last step is not in place on the branch."""
        if branch in self.states and version in self.states[branch]:
            return True
        landings = self.on_the_way.get((branch, version), ())
        return not all(is_in_place(each) for each in landings)


class CommitNeeds:
    """What the commits of one repository need; ``look`` adds what new ones need.

    ``since`` is that of ``PinWalk``.
    """

    def __init__(self, context: RepoContext, *, since: int | None = None) -> None:
        self._context = context
        self._since = since
        self._walk = PinWalk(context.git, since=since)
        self.tables: dict[str, TableNeeds] = defaultdict(TableNeeds)
        """What commits need of each table, by the uri that pins have."""
        self._others: dict[str, tuple[list[PinWalk], TableNeeds]] = {}
        """What other repositories need of a table."""

    def look(self) -> None:
        """Look at every commit that was not seen before."""
        for each in self._walk.more():
            self.tables[each.pin.uri].add(each)
        for walks, needs in self._others.values():
            needs.add_all(walks)

    def watch(self, uri: str, members: Iterable[Membership]) -> None:
        """From now on look at what other repositories need, too, of a table that belongs to them.

        Raises NotFoundError if one of them cannot be opened.
        """
        options = self._context.storage_options
        here = real_repository_root(self._context.root)
        walks = []
        for each in members:
            if each.id == self._context.id and not is_repository(each.repository, options):
                continue  # this one, where it was before
            if real_repository_root(each.repository) != here:
                git = open_member(each, options, _lost)
                walks += [PinWalk(git, name, since=self._since) for name in each.names]
        needs = TableNeeds()
        if walks:
            needs.add_all(walks)
            self._others[uri] = walks, needs

    def needs_state(
        self,
        uri: str,
        branch: BranchName | None,
        version: Version,
        is_in_place: Callable[[Landing], bool],
    ) -> bool:
        """Whether any repository needs a detached version.

        ``is_in_place`` says of a landing on the branch whether its last step is where it belongs.
        """
        return any(each.has(branch, version, is_in_place) for each in self._of(uri))

    def uuids(self, uri: str) -> set[str]:
        """The uuids of the steps that any repository needs."""
        return set[str]().union(*(each.uuids for each in self._of(uri)))

    def needs_branch(self, uri: str, branch: BranchName) -> bool:
        """Whether any repository has a commit that pins the table on a branch."""
        return any(branch in each.states for each in self._of(uri))

    def has(self, uri: str) -> bool:
        """Whether a commit of this repository pins the table."""
        return uri in self.tables

    def _of(self, uri: str) -> list[TableNeeds]:
        found = [self.tables[uri]] if uri in self.tables else []
        return [*found, *(self._others[uri][1:] if uri in self._others else ())]


def _lost(member: Membership, why: str) -> NotFoundError:
    return NotFoundError(
        f"the table also belongs to the repository at {os.fspath(member.repository)}, and that "
        f"cannot be opened: {why}. Which states its commits need is not known. Open it at its new "
        "place and add the table again, or, if it is gone for good, "
        f"tags.delete({str(member.tag)!r}, force=True)",
        repository=os.fspath(member.repository),
    )


@dataclass(frozen=True, slots=True, order=True)
class TableBranch:
    """A table, and a branch of it."""

    table: str
    branch: str

    def __str__(self) -> str:
        return f"{self.table} on {self.branch}"


@dataclass(frozen=True, slots=True)
class Stays:
    """Something that stays although it looks unneeded, and why."""

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class GcReport:
    """What was removed, or with ``dry_run`` what would be."""

    dry_run: bool
    landed: tuple[TableBranch, ...] = ()
    """Tables that had states waiting, and hold them now."""
    diverged: tuple[Divergence, ...] = ()
    """Tables that cannot hold what a commit pins, because of a writer from outside."""
    states: int = 0
    """Detached manifests that no commit leads to."""
    transactions: int = 0
    """Number of transaction files of the removed manifests."""
    branches: tuple[TableBranch, ...] = ()
    """Branches of tables that this repository made, and no longer uses."""
    tables: tuple[str, ...] = ()
    """Places of tables that were never made."""
    joined: tuple[str, ...] = ()
    """Tables elsewhere whose tags were updated to where this repository is."""
    files: tuple[str, ...] = ()
    """Locks and other files of git that dead processes left."""
    bytes: int = 0
    """The size of the manifests, and of what was left of tables that were never made."""
    in_flight: int = 0
    """Unneeded states, branches and locations that are too young: a writer may be at work."""
    stays: tuple[Stays, ...] = ()
    cleaned: tuple[tuple[TableBranch, CleanupReport], ...] = ()
    """What the cleanup of the tables did, if it was requested."""
