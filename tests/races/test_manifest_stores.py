"""Writers and a reader through a manifest store, stepped at every call of both stores.

The object store writes over anything that is there, so nothing but the manifest store keeps two
commits apart. A reader completes a version while its writer is at it.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import pytest
from tests.breadth import daily
from tests.careless import CarelessStore
from tests.manifests import MemoryManifests, WatchedManifests
from tests.metadata import FIELDS, begin, commit_to

from lancewood.engine.versions.finding import list_versions, load_manifest, load_version
from lancewood.external.base import final_name
from lancewood.external.store import ExternalStore
from lancewood.format.layout import NamingScheme
from lancewood.model.ids import Version
from lancewood.model.transaction import MapUpdate, Overwrite, UpdateConfig
from lancewood.store.base import Store
from lancewood.store.memory import MemoryStore
from lancewood.testing.faults import WatchedStore
from lancewood.testing.schedule import explore

STEPS = {
    *("names", "head", "copy", "delete"),
    *("latest", "entry", "put_if_not_exists", "put_if_exists"),
}
"""The others are puts under names of one's own, and reads of what is whole and stays."""


class Scene(CarelessStore):
    """A careless store, and the manifest store that goes with it."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.manifests = MemoryManifests()


def fresh() -> Scene:
    """A table at version 1, whose config is empty."""
    scene = Scene()
    begin(seen(scene, scene), Overwrite((), FIELDS, file_version="2.2"))
    return scene


def seen(store: WatchedStore, scene: Scene) -> ExternalStore:
    """The table as a writer has it, whose calls go through a store of his own."""
    return ExternalStore(store, WatchedManifests(scene.manifests, store), "t")


def scene_of(store: Store) -> Scene:
    assert isinstance(store, WatchedStore)
    return store if isinstance(store, Scene) else scene_of(store._inner)


def writer(key: str) -> Callable[[Store], object]:
    def write(store: Store) -> object:
        assert isinstance(store, WatchedStore)
        table = seen(store, scene_of(store))
        change = UpdateConfig(config=MapUpdate({key: str(uuid4())}))
        return int(commit_to(table, change, read=1))

    return write


def reader(store: Store) -> object:
    assert isinstance(store, WatchedStore)
    table = seen(store, scene_of(store))
    versions = []
    for _ in range(2):
        manifest, _ = load_version(table)
        assert len(manifest.config) == manifest.version - 1
        versions.append(int(manifest.version))
    return versions


@pytest.mark.parametrize("seed", [1, 2])
def test_two_writers_and_a_reader_lose_and_skip_nothing(seed: int) -> None:
    completed_by_another = 0
    for outcome in explore(
        fresh, [writer("a"), writer("b"), reader], daily(100, of=250), seed=seed, verbs=STEPS
    ):
        first, second, read = outcome.results
        assert {first, second} == {2, 3}, outcome
        assert isinstance(read, list), outcome
        assert read == sorted(read)
        scene = scene_of(outcome.store)
        table = seen(scene, scene)
        assert list_versions(table).versions == (3, 2, 1)
        assert load_manifest(table, Version(3), NamingScheme.V2).config.keys() == {"a", "b"}
        assert [*scene.names("_versions")] == [
            each.path.rpartition("/")[2]
            for each in sorted(scene.manifests.entries.values(), reverse=True)
        ]
        assert not [e for e in scene.manifests.entries.values() if final_name(e.path)]
        reads = [verb for number, verb, _ in outcome.calls if number == 2]
        completed_by_another += "copy" in reads
    assert completed_by_another > 10
