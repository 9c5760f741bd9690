"""A repository with tables, as small as can be: commits that pin, staged or as they stand."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa

import lancewood as lw
from lancewood.catalog.opening import location_of, pin_of
from lancewood.catalog.pin import Pin
from lancewood.catalog.tables import TableTree
from lancewood.engine.location.location import Location
from lancewood.engine.snapshot.revisions import branch_location
from lancewood.engine.snapshot.snapshot import Snapshot, load_snapshot
from lancewood.engine.staging.landing import Landed, land
from lancewood.engine.staging.staging import Stage
from lancewood.git.objects import Signature
from lancewood.git.repository import GitRepository
from lancewood.git.values import Hash
from lancewood.model.refs import BranchName
from lancewood.store.disk import DiskStore
from lancewood.table.table import Table

ID = "1234abcd-0000-4000-8000-000000000000"
ROWS = pa.table({"a": [1, 2, 3]})
Change = Callable[[Table], object]


def append(table: Table) -> object:
    return table.append(ROWS)


class World:
    """One repository; every commit moves the clock by a second."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.git = GitRepository.init(path)
        self.git.set("lancewood", "id", ID)
        self._clock = itertools.count(1_700_000_000)

    def by(self) -> Signature:
        return Signature("Ada", "ada@example.org", next(self._clock), 0)

    def tip(self, branch: str = "main") -> Hash | None:
        return self.git.refs.read(f"refs/heads/{branch}")

    def tree(self, commit: Hash | None) -> TableTree:
        found = None if commit is None else self.git.objects.commit(commit).tree
        return TableTree.of(self.git.objects, found)

    def commit(
        self,
        changes: dict[str, Pin | None],
        branch: str = "main",
        *,
        parents: Sequence[Hash] | None = None,
    ) -> Hash:
        """The branch moves to a commit that has these pins."""
        tip = self.tip(branch)
        above = (() if tip is None else (tip,)) if parents is None else tuple(parents)
        tree = self.tree(above[0] if above else None).with_pins(changes).put()
        made = self.git.objects.put_commit(tree, above, self.by(), "a commit")
        assert self.git.refs.move(f"refs/heads/{branch}", tip, made, why="commit", by=self.by())
        return made

    def home(self, name: str) -> Path:
        return self.path / "tables" / f"{name}.lance"

    def create(self, name: str, rows: pa.Table = ROWS) -> Pin:
        """A table as it stands."""
        lw.create(self.home(name), rows)
        return self.standing(name)

    def location(self, name: str, branch: str | None = None) -> Location:
        main = Location(DiskStore(self.home(name)))
        return branch_location(main, None if branch is None else BranchName(branch))

    def head(self, name: str, branch: str | None = None) -> Snapshot:
        return load_snapshot(self.location(name, branch))

    def standing(self, name: str, branch: str | None = None, version: int | None = None) -> Pin:
        """The pin of the newest version, or of that one."""
        found = load_snapshot(self.location(name, branch), version=version)
        return pin_of(found, f"tables/{name}.lance")

    def staged(self, name: str, *changes: Change, branch: str | None = None) -> Pin:
        """The pin of states that nobody sees: one for each change."""
        stage = Stage(self.head(name, branch))
        for each in changes or (append,):
            each(Table(stage.snapshot))
        landing = stage.publish()
        return pin_of(stage.published, f"tables/{name}.lance", landing)

    def land(self, pin: Pin) -> Landed:
        assert pin.landing is not None
        return land(location_of(pin, self.path), pin.landing)
