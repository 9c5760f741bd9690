"""What the commits of repositories need of one table, for whoever removes versions of it.

Only loaded for tables that belong to a repository: it brings git with it. What a repository says
is never guessed: if one cannot be read, nothing may go.

A version that a commit pins is needed, and so is one that a transaction's state landed as, for
that is how everybody knows that it has. Of several steps that landed where they belong the last one
tells it alone; the states on the way to it, such as the one that only reserves fragments for a
compaction, are not needed. Detached versions stay anyway. A commit at the tip of a
branch that has not landed needs every version from the one that it was built on: they decide
whether it still can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from lancewood.catalog.membership import Membership
from lancewood.catalog.opening import TableStores, location_of
from lancewood.catalog.pin import Pin
from lancewood.catalog.reachable import Pinned, PinWalk, Waiting, open_member, waiting
from lancewood.catalog.tables import TableTree
from lancewood.engine.location import real_path
from lancewood.engine.snapshot import Snapshot
from lancewood.engine.staging import find_landing, is_in_place, land
from lancewood.errors import ConflictError, NotFoundError
from lancewood.git.names import HEADS
from lancewood.git.repository import GitRepository
from lancewood.git.values import Hash
from lancewood.model.ids import Version
from lancewood.model.lines import Landing
from lancewood.model.refs import MAIN


@dataclass
class NeededVersions:
    """Versions of one branch that commits need, and why."""

    versions: dict[Version, str] = field(default_factory=dict)
    floor: Version | None = None
    """The version from which on all versions are needed."""
    floor_why: str = ""
    on_the_way: dict[Version, list[tuple[Landing, str]]] = field(default_factory=dict)
    """Versions that a step became or becomes which is not the last of its landing: needed unless
    that one is in place."""
    is_in_place: Callable[[Landing], bool] = lambda landing: False

    def hold_from(self, base: Version, commit: Hash) -> None:
        """Note that a commit has not landed, which was built on that version."""
        if self.floor is None or base < self.floor:
            self.floor, self.floor_why = base, f"commit {commit[:7]} has not landed"

    def among(self, versions: Iterable[Version]) -> dict[Version, str]:
        """Which of these are needed."""
        found = {}
        for each in versions:
            on_the_way = self.on_the_way.get(each, ())
            still = (why for landing, why in on_the_way if not self.is_in_place(landing))
            why = self.versions.get(each) or next(still, None)
            if why is not None:
                found[each] = why
            elif self.floor is not None and each >= self.floor:
                found[each] = self.floor_why
        return found


class Commitments:
    """The repositories that a table belongs to, and what they need of one branch of it."""

    def __init__(self, snapshot: Snapshot, members: Sequence[Membership]) -> None:
        """Raises NotFoundError for a repository that cannot be opened any more."""
        self._snapshot = snapshot
        self._branch = snapshot.manifest.branch
        self._stores = TableStores(snapshot.location.storage_options)
        self._in_place: set[Landing] = set()
        """The landings whose last step was seen where it belongs."""
        options, lost = snapshot.location.storage_options, partial(_lost, snapshot)
        self._watched = [_Watched(open_member(each, options, lost), each.names) for each in members]

    def land(self) -> tuple[Version, ...]:
        """Bring onto the branch what commits on it pin and nobody has landed yet; the versions.

        What cannot land beside a write from outside stays as it is.
        """
        done: list[Version] = []
        for each in self._watched:
            tip = each.git.refs.read(HEADS + (self._branch or MAIN))
            try:
                for found in [] if tip is None else self._waiting(each, tip):
                    if found.pin.landing is not None:
                        done += land(self._snapshot.location, found.pin.landing).versions
            except (ConflictError, NotFoundError):
                continue  # it diverged or is lost, and what comes after it rests on it
        return tuple(done)

    def held(self) -> NeededVersions:
        """What is needed, by all commits that there are now."""
        held = self._more()
        for each in self._watched:
            for tip, pin in each.pins_at_tips():
                if pin.landing is not None and self._is_here(each, pin):
                    self._hold_tip(held, each, tip, pin.landing)
        return held

    def since(self) -> NeededVersions:
        """What commits need that are new since this, or ``held``, was asked for the last time."""
        found: list[Pinned] = []
        held = self._more(found)
        for each in found:
            if each.pin.landing is not None and not self._is_exact(each.pin.landing):
                held.hold_from(each.pin.landing.base, each.commit)
        return held

    def _more(self, seen: list[Pinned] | None = None) -> NeededVersions:
        """The versions that commits pin which were not looked at before; ``seen`` gets the pins."""
        found = NeededVersions(is_in_place=self._is_exact)
        for watched in self._watched:
            for each in watched.more():
                if each.pin.branch != self._branch:
                    continue
                if seen is not None:
                    seen.append(each)
                why = f"commit {each.commit[:7]} pins it"
                found.versions.setdefault(each.pin.exact_version, why)
                for version, landing in _steps_before(each.pin):
                    found.on_the_way.setdefault(version, []).append((landing, why))
        return found

    def _hold_tip(
        self, held: NeededVersions, watched: _Watched, tip: Hash, landing: Landing
    ) -> None:
        """Note what the commit at the tip of a branch needs to land, or to be known to have."""
        if self._is_exact(landing):
            return
        try:
            landed = find_landing(self._snapshot.location, landing).versions
            missing = [] if landed else self._waiting(watched, tip)
        except NotFoundError:  # of the state itself; nothing that is left goes
            landed, missing = (), []
            held.hold_from(landing.base, tip)
        for version in landed:
            held.versions.setdefault(version, f"commit {tip[:7]} landed there")
        for each in missing:
            if each.pin.landing is not None:
                held.hold_from(each.pin.landing.base, each.commit)

    def _is_exact(self, landing: Landing) -> bool:
        """Whether a state is where it belongs if nobody else wrote; one small read tells."""
        if landing not in self._in_place:
            store, scheme = self._snapshot.location.store, self._snapshot.scheme
            if not is_in_place(store, landing, scheme):
                return False
            self._in_place.add(landing)
        return True

    def _is_here(self, watched: _Watched, pin: Pin) -> bool:
        """Whether a pin is of this branch of this table, and not of another one of its name."""
        if pin.branch != self._branch:
            return False
        location = location_of(pin, watched.git.root, self._stores)
        return real_path(location.uri) == real_path(self._snapshot.location.uri)

    def _waiting(self, watched: _Watched, tip: Hash) -> list[Waiting]:
        """States on this branch that have not landed, the oldest first."""
        git = watched.git
        found = waiting(git, tip, git.root, names=watched.names, stores=self._stores)
        return [each for each in found if self._is_here(watched, each.pin)]


class _Watched:
    """One repository, and how far its commits were looked at."""

    def __init__(self, git: GitRepository, names: tuple[str, ...]) -> None:
        self.git = git
        self.names = names
        self._walks = [PinWalk(git, each) for each in names]

    def more(self) -> Iterator[Pinned]:
        for each in self._walks:
            yield from each.more()

    def pins_at_tips(self) -> Iterator[tuple[Hash, Pin]]:
        """What the tips of the repository's branches pin, each pin with one such tip."""
        objects, seen = self.git.objects, set[Hash]()
        tips = {*self.git.refs.names(HEADS).values()}
        trees = {objects.commit(each).tree: each for each in tips}
        for root, tip in trees.items():
            tree = TableTree.of(objects, root)
            for name in self.names:
                blob = tree.blob_hash(name)
                if blob is not None and blob not in seen:
                    seen.add(blob)
                    yield tip, tree.pin(name)


def _steps_before(pin: Pin) -> Iterator[tuple[Version, Landing]]:
    """The ordinary versions that the steps before the last one of a pin become."""
    if pin.landing is not None:
        for number in range(len(pin.landing.steps) - 1):
            yield pin.landing.exact_version(number), pin.landing


def _lost(snapshot: Snapshot, member: Membership, why: str) -> NotFoundError:
    way_out = "Repair it, or move the table out of it"
    if member.tag is not None:
        way_out = (
            f"Run gc on it at its new place, which tells the table, or, if it is gone for good, "
            f"tags.delete({str(member.tag)!r}, force=True)"
        )
    return NotFoundError(
        f"{snapshot.location.uri} belongs to the repository at {member.repository}, and that "
        f"cannot be opened: {why}. Which versions its commits need is not known, and nothing was "
        f"removed. {way_out}",
        repository=str(member.repository),
        tag=None if member.tag is None else str(member.tag),
    )
