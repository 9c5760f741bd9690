"""What commits of repositories need of their tables, and what may be there that no commit needs.

A commit counts as long as a ref, HEAD or a reflog leads to it. Of the steps of a transaction that
landed where they belong it needs the last one alone. A table may belong to several repositories,
and all of them are asked. What cannot be read is never guessed: the errors of ``catalog.reachable``
are passed on.

Candidates are the tables below the repository, and those elsewhere that commits pin. If it cannot
be determined what any repository needs of a table, the table is skipped and reported. If a table
elsewhere does not know where its repository is now, its tag is updated.

A staged state is a detached manifest whose transaction says so, and the file of that transaction.
Other detached versions are never touched, nor are data files: once no manifest names those, the
cleanup of the table removes them. The report of gc is here, too.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from lancewood.catalog.membership import Membership, is_repository, join, repositories_of
from lancewood.catalog.names import TABLES_DIR, own_table, own_table_uri
from lancewood.catalog.opening import TableStores, main_location_of
from lancewood.catalog.pin import Pin
from lancewood.catalog.reachable import Pinned, PinWalk, open_member
from lancewood.engine.location import Location
from lancewood.engine.snapshot import Snapshot, is_table, load_snapshot
from lancewood.engine.versions import load_transaction, load_transaction_of, versions_since
from lancewood.errors import (
    FormatError,
    InvalidInputError,
    LancewoodError,
    NotFoundError,
    UnsupportedError,
)
from lancewood.format.layout import (
    VERSIONS_DIR,
    parse_manifest_name,
    transaction_key,
    transaction_parts,
)
from lancewood.format.manifest import decode_manifest_file
from lancewood.git.names import real_repository_root
from lancewood.jobs.upkeep.cleanup import CleanupReport
from lancewood.model.ids import Version
from lancewood.model.lines import Landing
from lancewood.model.manifest import Manifest
from lancewood.model.refs import BranchName
from lancewood.model.transaction import STAGED_PROPERTY
from lancewood.repo.context import RepoContext
from lancewood.repo.landing import check_member
from lancewood.repo.outcome import Divergence
from lancewood.store.base import Store


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


@contextmanager
def noted(stays: list[Stays], what: str) -> Iterator[None]:
    """Note that something stays, whatever error keeps it from being judged or removed."""
    try:
        yield
    except LancewoodError as error:
        stays.append(Stays(what, error.message))


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


_MOST_READ = 1000
"""The most versions whose transactions are read to see whether an orphan's landed; beyond that its
transaction file is left to the cleanup of the table."""


@dataclass(frozen=True)
class Candidate:
    """One table, or the location of one that was never made."""

    name: str
    uri: str
    """The uri of the table as pins write it."""
    main: Location
    head: Snapshot | None
    """The newest version of main; None if there is no table."""


@dataclass
class Candidates:
    """Finds the candidates, one after the other."""

    context: RepoContext
    dry_run: bool
    joined: list[str] = field(default_factory=list)
    """Tables whose tags were updated to where the repository is."""
    stays: list[Stays] = field(default_factory=list)

    def find(self, needs: CommitNeeds) -> Iterator[Candidate]:
        """The candidates; ``needs`` then also knows what other repositories need of them."""
        for directory in self._below():
            name = own_table(f"{TABLES_DIR}/{directory}")
            if name is not None:
                store = self.context.store_at(own_table_uri(name))
                is_on_disk = isinstance(self.context.root, Path)
                location = Location(store, None if is_on_disk else self.context.storage_options)
                yield from self._candidate(needs, name, own_table_uri(name), location)
        for uri, known in sorted(needs.tables.items()):
            if known.pin is not None and not known.pin.is_own:
                stores = TableStores(self.context.storage_options, self.context.fsync)
                with noted(self.stays, f"everything of table {known.name}"):
                    location = main_location_of(known.pin, self.context.root, stores)
                    yield from self._candidate(needs, known.name, uri, location)

    def _below(self) -> list[str]:
        """The directories of tables; on a disk, links to directories too."""
        root = self.context.root
        if not isinstance(root, Path):
            return self.context.git.directories(TABLES_DIR)
        tables = root / TABLES_DIR
        return (
            sorted(each.name for each in tables.iterdir() if each.is_dir())
            if tables.is_dir()
            else []
        )

    def _candidate(
        self, needs: CommitNeeds, name: str, uri: str, location: Location
    ) -> Iterator[Candidate]:
        with noted(self.stays, f"everything of table {name}"):
            head = load_snapshot(location) if is_table(location.store) else None
            if head is not None:
                members = repositories_of(head)
                needs.watch(uri, members)
                if own_table(uri) is None and not self._join(needs, name, uri, head, members):
                    return
            yield Candidate(name, uri, location, head)

    def _join(
        self, needs: CommitNeeds, name: str, uri: str, head: Snapshot, members: Iterable[Membership]
    ) -> bool:
        """Update a table's tag to where its repository is now, unless this is a copy of that
        repository. False for a table that does not belong to the repository: nothing is done
        there."""
        pin = needs.tables[uri].pin
        assert pin is not None
        try:
            check_member(self.context, pin, name)
        except InvalidInputError as error:
            self.stays.append(Stays(f"everything of table {name}", error.message))
            return False
        mine = [each for each in members if each.id == self.context.id]
        here, options = real_repository_root(self.context.root), self.context.storage_options
        if any(real_repository_root(each.repository) == here for each in mine):
            return True
        if any(is_repository(each.repository, options) for each in mine):
            why = f"it belongs to this repository at {mine[0].repository}, of which this is a copy"
            self.stays.append(Stays(f"the tag of table {name}", why))
            return True
        self.joined.append(name)
        if not self.dry_run:
            join(head, self.context.root, self.context.id, name)
        return True


@dataclass(frozen=True, slots=True)
class Orphan:
    """A detached manifest that no commit pins."""

    version: Version
    key: str
    size: int
    transaction: str | None
    """The name of its transaction file."""


@dataclass(frozen=True, slots=True)
class Orphans:
    """Unneeded states in one root, and what stays."""

    orphans: tuple[Orphan, ...]
    young: int
    """Number of further states that are too young."""
    unreadable: tuple[str, ...] = ()
    """Manifests that cannot be read, and stay."""


def find_orphans(store: Store, is_needed: Callable[[Version], bool], stale: datetime) -> Orphans:
    """The states in a root that are not needed, and that were written before ``stale``."""
    found, young, unreadable = [], 0, []
    for each in [*store.list(VERSIONS_DIR)]:
        name = parse_manifest_name(each.key.removeprefix(f"{VERSIONS_DIR}/"))
        if name is None or not name.detached or is_needed(name.version):
            continue
        if each.modified > stale:
            young += 1
            continue
        try:
            manifest = decode_manifest_file(store.get(each.key), name=f"{store.uri}/{each.key}")
        except NotFoundError:
            continue
        except (FormatError, UnsupportedError) as damage:
            unreadable.append(damage.message)
            continue
        if _is_staged(store, manifest):
            found.append(Orphan(name.version, each.key, each.size, manifest.transaction_file))
    return Orphans(tuple(found), young, tuple(unreadable))


def remove_orphans(store: Store, orphans: Sequence[Orphan], needed: Container[str]) -> int:
    """Remove states, manifests first; returns the number of transaction files removed with them.

    ``needed`` are the uuids of steps that commits lead to.
    """
    store.delete([each.key for each in orphans])
    files = unneeded_transactions(store, orphans, needed)
    store.delete([transaction_key(each) for each in files])
    return len(files)


def unneeded_transactions(
    store: Store, orphans: Sequence[Orphan], needed: Container[str]
) -> list[str]:
    """The transaction files of states that no version of the history has too: a state may have
    landed long ago, under the same uuid, and lost its commit since."""
    names = {each.transaction for each in orphans if each.transaction is not None}
    known = {name: found for name in names if (found := transaction_parts(name)) is not None}
    parts = {name: found for name, found in known.items() if found[1] not in needed}
    if not parts:
        return []
    first = min(read for read, _ in parts.values())
    try:
        listed = versions_since(store, first)
    except NotFoundError:
        return []
    if len(listed.versions) > _MOST_READ:
        return []
    landed = {load_transaction_of(store, each, listed.scheme).uuid for each in listed.versions}
    if "" in landed:  # one that cannot be read: it may be any of them
        return []
    return sorted(name for name, (_, uuid) in parts.items() if uuid not in landed)


def is_staged_only(store: Store) -> bool:
    """Whether all manifests in a root were staged by transactions."""
    for each in [*store.list(VERSIONS_DIR)]:
        name = parse_manifest_name(each.key.removeprefix(f"{VERSIONS_DIR}/"))
        if name is None:
            continue
        if not name.detached:
            return False
        try:
            manifest = decode_manifest_file(store.get(each.key), name=f"{store.uri}/{each.key}")
        except (FormatError, UnsupportedError, NotFoundError):
            return False
        if not _is_staged(store, manifest):
            return False
    return True


def _is_staged(store: Store, manifest: Manifest) -> bool:
    return STAGED_PROPERTY in load_transaction(store, manifest).properties
