"""Recording what is there: the tables of a branch as they stand at one moment, or a set of files.

The newest version of every table is looked at twice, before and after the tree is written. If one
moved in between, the states may never have been there together, and it is done again.

A set of files is the whole set: what it leaves out is gone from the branch. Tables stay as they are
pinned, for a history that has both would otherwise lose its tables by recording a file.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from lancewood.catalog.files import put_files
from lancewood.catalog.names import lance_branch
from lancewood.catalog.opening import pin_of
from lancewood.catalog.pin import Pin
from lancewood.catalog.tables import TableTree
from lancewood.engine.location import Location
from lancewood.engine.versions import Watch
from lancewood.errors import NotFoundError, RetryableConflictError
from lancewood.git.objects import TreeEntry
from lancewood.git.values import Hash
from lancewood.model.ids import Version
from lancewood.repo.context import Kept, RepoContext
from lancewood.repo.landing import finish_moves, join_tables, land_rest
from lancewood.repo.writing.writable import changed_head, working_location

_ROUNDS = 20


@dataclass
class StandingTables:
    """A proposal to commit the tables of a branch as they stand."""

    context: RepoContext
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
        tables = self.context.tree(tip)
        kept, strays = self._pinned(tables)
        held = {name: each.held for name, each in kept.items() if each.held is not None}
        if tip is not None and tip not in self._landed:
            finish_moves(self.context, self.branch, tip)
            self._land(tip, [*(kept.keys() - held.keys()), *strays])
            self._landed.add(tip)
        away = self._away(strays)
        watches = {name: each.watch for name, each in kept.items()}
        watches |= {name: Watch(each.store) for name, (_, each) in away.items()}
        for _ in range(_ROUNDS):
            seen = {name: _newest(name, each) for name, each in watches.items()}
            lost = [name for name, version in held.items() if seen[name] < version]
            if lost:
                for name in lost:
                    kept[name].forget()
                    del held[name]
                self._land(tip, lost)
                continue
            moved = {name: each for name, each in seen.items() if held.get(name) != each}
            changes = self._changes(kept, away, moved)
            self.changed = tuple(sorted(changes))
            if not changes:
                return None
            join_tables(self.context, changes, new=away)
            found = tables.with_pins(changes)
            found.put()
            if all(_newest(name, each) == seen[name] for name, each in watches.items()):
                return found
        raise RetryableConflictError(
            f"the tables of branch {self.branch!r} moved {_ROUNDS} times while they were to be "
            "recorded together; commit when fewer writers are active",
            branch=self.branch,
        )

    def _pinned(self, tables: TableTree) -> tuple[dict[str, Kept], dict[str, Pin]]:
        """The tables that are pinned on their branch of this name, with what is known of each; and
        the pins of the others."""
        known, wanted = self.context.memory.kept(self.branch), lance_branch(self.branch)
        kept, strays = dict[str, Kept](), dict[str, Pin]()
        for name, entry in tables.entries().items():
            found = known.get(name)
            if found is not None and (found.entry is entry or found.entry == entry):
                kept[name] = found
                continue
            pin = tables.pin(name)
            if pin.branch != wanted:
                strays[name] = pin
                continue
            is_there = found is not None and found.pin.uri == pin.uri
            watch = found.watch if found and is_there else Watch(self.context.location(pin).store)
            kept[name] = known[name] = Kept.new(entry, pin, watch)
        return kept, strays

    def _land(self, tip: Hash | None, names: Collection[str]) -> None:
        if names:
            found = land_rest(self.context, tip, names)
            self._diverged.update(each.table for each in found)

    def _away(self, strays: Mapping[str, Pin]) -> dict[str, tuple[Pin, Location]]:
        """The tables that are written on another branch of theirs than is pinned, and where."""
        found = {}
        for name, pin in strays.items():
            location = working_location(self.context, self.branch, pin, adopt=self.adopt)
            if location is not None:
                found[name] = pin, location
        return found

    def _changes(
        self,
        kept: Mapping[str, Kept],
        away: Mapping[str, tuple[Pin, Location]],
        moved: Mapping[str, Version],
    ) -> dict[str, Pin | None]:
        changes: dict[str, Pin | None] = {}
        for name, newest in moved.items():
            known = kept.get(name)
            pin, location = (
                away[name] if known is None else (known.pin, self.context.location(known.pin))
            )
            head = changed_head(
                self.context, pin, location, newest, is_pinned_branch=known is not None
            )
            if head is not None:
                changes[name] = pin_of(head, pin.uri)
            elif known is not None and name not in self._diverged:
                known.held = newest
        return changes


def _newest(name: str, watch: Watch) -> Version:
    """The newest version of a table; raises NotFoundError where it is gone."""
    try:
        return watch.newest().version
    except NotFoundError as gone:
        raise NotFoundError(
            f"table {name!r} is gone: {gone.message}. Bring its files back from a copy, or "
            f"remove({name!r}) leaves it out from now on",
            **{**gone.facts, "table": name},
        ) from gone


@dataclass
class FileSet:
    """A proposal to commit files; their paths are checked."""

    context: RepoContext
    branch: str
    files: Mapping[str, bytes]
    _seen: list[Mapping[str, TreeEntry]] = field(default_factory=list)
    """Files that the branch had when the change was begun."""

    def tree(self, tip: Hash | None) -> TableTree | None:
        """The files, with the tables of ``tip``; None if the branch has exactly these already.

        Raises RetryableConflictError if another commit changed the files meanwhile.
        """
        before = self.context.tree(tip)
        now = before.files
        if self._seen and self._seen[0] != now:
            raise RetryableConflictError(
                f"another commit changed the files of branch {self.branch!r} meanwhile; look at "
                "them, and make the snapshot again",
                branch=self.branch,
            )
        self._seen.append(now)
        found = before.with_files(put_files(self.context.git.objects, self.files))
        return None if tip is not None and found.files == now else found
