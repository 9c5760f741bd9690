"""The object store against the contract, on a server that speaks S3, rooted deep in a bucket."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from lancewood.store.base import PutOutcome, Store
from lancewood.store.locate import open_store
from lancewood.testing.store_contract import StoreContract, race_put_new


class TestS3(StoreContract):
    etags_are_hashes = True
    random_steps = 100

    @pytest.fixture(autouse=True)
    def _server(self, s3_root: str, s3_options: dict[str, str]) -> None:
        self.root, self.options = s3_root, s3_options

    def make(self, place: Path) -> Store:
        store = open_store(self.root, storage_options=self.options)
        return store.at("some where/%41#?/x")

    def test_of_many_processes_one_creates(self) -> None:
        store = open_store(self.root, storage_options=self.options)
        races = [(store, f"v/{key}", b"%d" % me) for key in range(20) for me in range(3)]
        with multiprocessing.get_context("spawn").Pool(3) as pool:
            outcomes = pool.starmap(race_put_new, races, chunksize=1)
        created = [
            race for race, each in zip(races, outcomes, strict=True) if each is PutOutcome.CREATED
        ]
        assert sorted(key for _, key, _ in created) == sorted(f"v/{key}" for key in range(20))
        assert all(store.get(key) == data for _, key, data in created)
