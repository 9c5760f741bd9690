"""The disk store against the contract, synced and not, and with processes instead of threads."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lancewood.store.base import PutOutcome, Store, is_in_the_making
from lancewood.store.disk import DiskStore
from lancewood.testing.store_contract import StoreContract, race_put_new


class TestDiskSynced(StoreContract):
    def make(self, place: Path) -> Store:
        return DiskStore(place / "root", fsync=True)

    @pytest.fixture(autouse=True)
    def _nothing_is_left_in_the_making(self, tmp_path: Path) -> Iterator[None]:
        yield
        found = [name for _, _, names in os.walk(tmp_path) for name in names]
        assert [name for name in found if is_in_the_making(name) or name.endswith(".lock")] == []


class TestDiskUnsynced(TestDiskSynced):
    def make(self, place: Path) -> Store:
        return DiskStore(place, fsync=False)

    def test_of_many_processes_one_creates(self, tmp_path: Path) -> None:
        store = DiskStore(tmp_path / "race", fsync=False)
        races = [(store, f"v/{key}", b"%d" % me) for key in range(20) for me in range(3)]
        with multiprocessing.get_context("spawn").Pool(3) as pool:
            outcomes = pool.starmap(race_put_new, races, chunksize=1)
        created = [
            race for race, each in zip(races, outcomes, strict=True) if each is PutOutcome.CREATED
        ]
        assert sorted(key for _, key, _ in created) == sorted(f"v/{key}" for key in range(20))
        assert all(store.get(key) == data for _, key, data in created)


class TestDiskRootedDeeper(TestDiskSynced):
    def make(self, place: Path) -> Store:
        return DiskStore(place, fsync=False).at("some/where")
