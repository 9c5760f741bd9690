"""A table that a held writer is at work on, and what others do to it meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import lance
import pyarrow as pa
from tests.manifests import WatchedManifests

import lancewood as lw
from lancewood.engine.location.location import Location
from lancewood.engine.snapshot.snapshot import Snapshot
from lancewood.engine.versions.finding import list_versions
from lancewood.external.store import ExternalStore
from lancewood.format.layout import VERSIONS_DIR
from lancewood.jobs.runner import LocalRunner
from lancewood.jobs.upkeep.cleanup import clean_up
from lancewood.jobs.upkeep.retention import IN_FLIGHT, Retention
from lancewood.store.base import Store
from lancewood.store.locate import open_store
from lancewood.testing.faults import HeldStore

MOST_CALLS = 120
ROWS = pa.table({"a": range(6), "s": ["x"] * 6})
MINE = pa.table({"a": [100, 101], "s": ["mine"] * 2})
THEIRS = pa.table({"a": [50], "s": ["theirs"]})
ANEW = pa.table({"a": [1], "s": ["anew"]})


@dataclass
class Scene:
    """A table of two versions, and how to reach it."""

    uri: str
    options: dict[str, str] | None = None
    branch: str | None = None
    manifests: str | None = None
    """A manifest store."""
    names: Iterator[int] = field(default_factory=lambda: iter(range(MOST_CALLS)))

    def fresh(self) -> Scene:
        """The same anew, at another place."""
        made = replace(self, uri=f"{self.uri}-{next(self.names)}.lance")
        made.create(ROWS, layout=lw.Layout(max_rows_per_file=3)).append(ROWS)
        if made.branch is not None:
            made.main().branches.create(made.branch).append(ROWS)
        return made

    @property
    def reached(self) -> dict[str, Any]:
        access = lw.Access(storage_options=self.options, manifest_store=self.manifests)
        return {"access": access}

    def create(self, rows: pa.Table, **how: Any) -> lw.Table:
        return lw.create(self.uri, rows, **self.reached, **how)

    def main(self) -> lw.Table:
        return lw.open(self.uri, **self.reached)

    def open(self) -> lw.Table:
        table = self.main()
        return table if self.branch is None else table.checkout(branch=self.branch)

    def held(self, at: int, meanwhile: Callable[[], object]) -> tuple[lw.Table, HeldStore]:
        """A handle of a writer that is held up."""
        store = HeldStore(open_store(self.uri, storage_options=self.options), at, meanwhile)
        known, main = self.open()._snapshot, self.main()._snapshot.location.store
        root: Store = store
        if isinstance(main, ExternalStore):
            root = ExternalStore(store, WatchedManifests(main.manifests, store), main.base)
        location = Location(root, self.options)
        if self.branch is not None:
            location = location.at(root.at(f"tree/{self.branch}"))
        return lw.Table(Snapshot(location, known.manifest, known.scheme)), store

    def root(self) -> Store:
        found = open_store(self.uri, storage_options=self.options)
        return found if self.branch is None else found.at(f"tree/{self.branch}")

    def versions(self) -> tuple[int, ...]:
        return list_versions(self.root()).versions

    def rows(self) -> list[dict[str, Any]]:
        """The newest version, as both read it."""
        table = self.open()
        dataset = lance.dataset(self.uri, storage_options=self.options)
        if self.branch is not None:
            dataset = dataset.checkout_version((self.branch, None))
        dataset.validate()
        rows: list[dict[str, Any]] = table.to_arrow().to_pylist()
        assert dataset.to_table().to_pylist() == rows
        assert table.verify().ok, table.verify().problems
        return rows


def texts(table: lw.Table) -> set[str]:
    return set(table.to_arrow()["s"].to_pylist())


def numbers(table: lw.Table) -> set[int]:
    return set(table.to_arrow()["a"].to_pylist())


def go_on(scene: Scene) -> None:
    for _ in range(3):
        scene.open().append(THEIRS)


def clean(scene: Scene) -> None:
    """An hour later."""
    retention = Retention.checked(None, 1, (), IN_FLIGHT)
    now = datetime.now(UTC) + timedelta(hours=1)
    clean_up(scene.open()._snapshot, retention, LocalRunner(1), now=now)


def go_on_and_clean(scene: Scene) -> None:
    go_on(scene)
    clean(scene)


def tag_go_on_and_clean(scene: Scene) -> None:
    """The version that the writer builds on stays, and those after it go."""
    scene.main().tags.create("kept", scene.open().version)
    go_on_and_clean(scene)


def clean_a_month_later(scene: Scene) -> None:
    """What was written for a commit that is under way counts as left behind."""
    retention = Retention.checked(None, None, (), IN_FLIGHT)
    now = datetime.now(UTC) + timedelta(days=30)
    clean_up(scene.open()._snapshot, retention, LocalRunner(1), now=now)


def drop(scene: Scene) -> None:
    lw.drop(scene.uri, **scene.reached)


def drop_and_create(scene: Scene) -> None:
    drop(scene)
    scene.create(ANEW)


def drop_and_create_as_many(scene: Scene) -> None:
    drop_and_create(scene)
    scene.main().append(ANEW)


def drop_create_go_on_and_clean(scene: Scene) -> None:
    drop_and_create(scene)
    go_on_and_clean(scene)


def delete_branch(scene: Scene) -> None:
    assert scene.branch is not None
    scene.main().branches.delete(scene.branch)


def delete_and_branch_again(scene: Scene) -> None:
    assert scene.branch is not None
    delete_branch(scene)
    scene.main().branches.create(scene.branch).append(ANEW)


def delete_and_branch_again_from_before(scene: Scene) -> None:
    assert scene.branch is not None
    delete_branch(scene)
    scene.main().branches.create(scene.branch, at=1)


def rename_branch(scene: Scene) -> None:
    assert scene.branch is not None
    scene.main().branches.rename(scene.branch, "elsewhere")


def make_and_drop(scene: Scene) -> None:
    scene.create(ANEW)
    drop(scene)


def make_go_on_and_clean(scene: Scene) -> None:
    scene.create(ANEW)
    go_on_and_clean(scene)


def is_commit(verb: str, key: str) -> bool:
    return verb == "put_if_not_exists" or (verb == "put_new" and f"{VERSIONS_DIR}/" in key)
