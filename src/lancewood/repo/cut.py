"""Recording where the tables stand: a consistent cut.

The newest version of every table is looked at twice, before and after the tree is written. If one
moved in between, the states may never have been there together, and it is done again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from lancewood.catalog.opening import pin_of
from lancewood.catalog.pin import Pin
from lancewood.catalog.tables import TableTree
from lancewood.engine.place import Place
from lancewood.engine.refs import load_branch
from lancewood.engine.revisions import branch_place
from lancewood.engine.snapshot import Snapshot, load_snapshot
from lancewood.engine.watching import Watch
from lancewood.errors import NotFoundError, RetryableConflictError
from lancewood.format.manifest_digest import content_digest
from lancewood.git.hashes import Hash
from lancewood.model.ids import Version
from lancewood.repo.grounds import Grounds
from lancewood.repo.homes import goes_on, is_ours
from lancewood.repo.joining import leave_word
from lancewood.repo.landed import is_beginning
from lancewood.repo.landing import land_rest
from lancewood.repo.names import lance_branch
from lancewood.repo.settling import settle

_ROUNDS = 20


def working_place(grounds: Grounds, branch: str, pin: Pin, *, adopt: bool = False) -> Place | None:
    """The root where the table is written on a branch of the repository.

    None: it was never written there since it was pinned, and the pin is of another branch.
    """
    wanted = lance_branch(branch)
    place = grounds.place(pin)
    if pin.branch == wanted:
        return place
    main = grounds.place(pin.on(None))
    if wanted is None:
        return main
    record = load_branch(main.store, wanted)
    if record is None:
        return None
    found = branch_place(main, wanted)
    is_home = is_ours(grounds, record) and goes_on(found, pin.branch, _landed_version(pin))
    return found if adopt or is_home else None


def _landed_version(pin: Pin) -> Version:
    """The number of the pinned state on its branch, if nobody came between: branches are made from
    no other."""
    landing = pin.landing
    return pin.version if landing is None else landing.exact_version(len(landing.steps) - 1)


@dataclass
class Cut:
    """A proposal to commit the tables of a branch as they stand."""

    grounds: Grounds
    branch: str
    adopt: bool = False
    changed: tuple[str, ...] = ()
    """The tables that differ from the commit before."""
    _landed: set[Hash] = field(default_factory=set)
    _diverged: set[str] = field(default_factory=set)

    def tree(self, tip: Hash | None) -> TableTree | None:
        """The tables as they stood at one moment; None if they are as they were committed.

        Raises RetryableConflictError if they never stand still.
        """
        tables = self.grounds.tree(tip)
        pins = {name: tables.pin(name) for name in tables.names()}
        held = self._held(tables, pins)
        if tip is not None and tip not in self._landed:
            settle(self.grounds, self.branch, tip)
            self._land(tip, pins.keys() - held.keys())
            self._landed.add(tip)
        roots = self._roots(pins)
        for _ in range(_ROUNDS):
            seen = {name: root.newest(name) for name, root in roots.items()}
            lost = {name for name, version in held.items() if seen[name] < version}
            if lost:
                for name in lost:
                    self.grounds.memory.forget(pins[name])
                    del held[name]
                self._land(tip, lost)
                continue
            moved = {name: each for name, each in seen.items() if held.get(name) != each}
            changes = self._changes(tables, roots, moved)
            self.changed = tuple(sorted(changes))
            if not changes:
                return None
            leave_word(self.grounds, changes)
            found = tables.with_pins(changes)
            found.put()
            if all(root.newest(name) == seen[name] for name, root in roots.items()):
                return found
        raise RetryableConflictError(
            f"the tables of branch {self.branch!r} moved {_ROUNDS} times while they were to be "
            "recorded together; commit when fewer writers are active",
            branch=self.branch,
        )

    def _held(self, tables: TableTree, pins: Mapping[str, Pin]) -> dict[str, Version]:
        """The versions at which tables hold what is pinned, as far as that is known: such a table
        has landed, and nothing of it is read while it is there."""
        wanted = lance_branch(self.branch)
        found = {}
        for name, pin in pins.items():
            if pin.branch == wanted:
                version = self.grounds.memory.held(pin, tables.blob_hash(name))
                if version is None and pin.landing is None:
                    version = pin.version
                if version is not None:
                    found[name] = version
        return found

    def _land(self, tip: Hash | None, names: Collection[str]) -> None:
        if names:
            found = land_rest(self.grounds, tip, names)
            self._diverged.update(each.table for each in found)

    def _roots(self, pins: Mapping[str, Pin]) -> dict[str, _Root]:
        wanted = lance_branch(self.branch)
        found = {}
        for name, pin in pins.items():
            if pin.branch == wanted:
                found[name] = _Root(self.grounds.watch(pin))
                continue
            place = working_place(self.grounds, self.branch, pin, adopt=self.adopt)
            if place is not None:
                found[name] = _Root(Watch(place.store), place)
        return found

    def _changes(
        self, tables: TableTree, roots: Mapping[str, _Root], moved: Mapping[str, Version]
    ) -> dict[str, Pin | None]:
        changes: dict[str, Pin | None] = {}
        for name, newest in moved.items():
            pin, away = tables.pin(name), roots[name].away
            place = self.grounds.place(pin) if away is None else away
            head = changed_head(pin, place, newest, is_home=away is None)
            if head is not None:
                changes[name] = pin_of(head, pin.uri)
            elif away is None and name not in self._diverged:
                self.grounds.memory.holds(pin, tables.blob_hash(name), newest)
        return changes


@dataclass(frozen=True, slots=True)
class _Root:
    """Where a table is written on the branch, and what its newest version is."""

    watch: Watch
    away: Place | None = None
    """Where that is another branch of the table than the pin speaks of."""

    def newest(self, name: str) -> Version:
        """Raises NotFoundError where the table is gone."""
        try:
            return self.watch.newest().version
        except NotFoundError as gone:
            raise NotFoundError(
                f"table {name!r} is gone: {gone.message}. Bring its files back from a copy, or "
                f"remove({name!r}) leaves it out from now on",
                **{**gone.facts, "table": name},
            ) from gone


def changed_head(pin: Pin, place: Place, newest: Version, *, is_home: bool) -> Snapshot | None:
    """The newest version of a table, if its content is not the pin's.

    ``is_home``: the place is the branch of the table that the pin speaks of.
    """
    if is_home and pin.landing is None and pin.version == newest:
        return None
    head = load_snapshot(place, version=newest)
    if is_home and content_digest(head.manifest.message) == pin.content:
        return None
    if not is_home and is_beginning(head, pin.branch, _landed_version(pin)):
        return None
    return head
