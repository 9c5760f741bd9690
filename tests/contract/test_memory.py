"""The reference store against the contract."""

from __future__ import annotations

from pathlib import Path

from lancewood.store.base import Store
from lancewood.store.memory import MemoryStore
from lancewood.testing.store_contract import StoreContract


class TestMemory(StoreContract):
    def make(self, place: Path) -> Store:
        return MemoryStore()


class TestMemoryRootedDeeper(StoreContract):
    def make(self, place: Path) -> Store:
        return MemoryStore().at("some/where")
