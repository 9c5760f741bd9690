"""The store that hurts where the test says."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Literal

import pytest

from lancewood.errors import StorageError
from lancewood.store.base import PutOutcome, ReplaceOutcome, Store
from lancewood.store.disk import DiskStore
from lancewood.store.memory import MemoryStore
from lancewood.testing.faults import FaultyStore, Killed, WatchedStore
from lancewood.testing.store_contract import StoreContract


class TestUnhurt(StoreContract):
    """A faulty store that is not hurt is a store like any other."""

    def make(self, place: Path) -> Store:
        return FaultyStore(MemoryStore())


class TestWatched(StoreContract):
    def make(self, place: Path) -> Store:
        return WatchedStore(DiskStore(place, fsync=False))


def test_every_verb_is_counted_with_its_key_and_places_are_not() -> None:
    store = FaultyStore(MemoryStore())
    store.put("a", b"1")
    assert store.put_new("d/b", b"1") is PutOutcome.CREATED
    store.get("a")
    store.get_range("a", 0, 1)
    etag = store.head("a").etag
    assert store.replace("a", b"2", etag) is ReplaceOutcome.REPLACED
    store.list("d")
    store.names("d")
    store.copy("a", "c")
    store.sync(["a", "c"])
    store.delete(key for key in ("a", "c"))
    with store.turn("d"):
        assert store.location("a") is None
    store.at("d").get("b")
    store.at("d").at("e").names("f")
    assert store.calls == [
        ("put", "a"),
        ("put_new", "d/b"),
        ("get", "a"),
        ("get_range", "a"),
        ("head", "a"),
        ("replace", "a"),
        ("list", "d"),
        ("names", "d"),
        ("copy", "c"),
        ("sync", "a c"),
        ("delete", "a c"),
        ("get", "d/b"),
        ("names", "d/e/f"),
    ]


def test_before_does_nothing_and_after_loses_the_answer() -> None:
    for mode, landed in (("before", False), ("after", True)):
        inner = MemoryStore()
        store = FaultyStore(inner, at=2, mode=mode)  # type: ignore[arg-type]
        store.put("first", b"1")
        with pytest.raises(StorageError, match=r"call 2: .*put_new 'k'"):
            store.put_new("k", b"1")
        assert ("k" in inner.names("")) is landed
        assert store.put_new("k", b"2") is (PutOutcome.EXISTS if landed else PutOutcome.CREATED)
        assert len(store.calls) == 3


@pytest.mark.parametrize(("mode", "landed"), [("kill", False), ("kill-after", True)])
def test_the_dead_make_no_calls(mode: Literal["kill", "kill-after"], landed: bool) -> None:
    inner = MemoryStore()
    store = FaultyStore(inner, at=1, mode=mode)
    deeper = store.at("d")
    with pytest.raises(Killed), store.turn("d"):
        store.put("d/k", b"1")
    assert ("k" in inner.names("d")) is landed
    assert store.is_dead
    for verb in (
        lambda: store.put("d/l", b"1"),
        lambda: deeper.get("k"),
        lambda: store.names("d"),
        lambda: store.location("k"),
        lambda: store.turn("d").__enter__(),
    ):
        with pytest.raises(Killed):
            verb()
    assert store.calls == [("put", "d/k")]
    assert "l" not in inner.names("d")


def test_death_is_not_caught_as_an_ordinary_error() -> None:
    assert not issubclass(Killed, Exception)


def test_a_listing_hurts_when_it_is_asked_for() -> None:
    store = FaultyStore(MemoryStore(), at=1, mode="before")
    with pytest.raises(StorageError):
        store.names("d")


def test_a_listing_is_whole_when_it_is_given() -> None:
    store = FaultyStore(MemoryStore())
    store.put("d/1", b"")
    names = store.names("d")
    store.put("d/2", b"")
    assert [*names] == ["1"]


def test_the_script_is_pickled_along() -> None:
    store = FaultyStore(MemoryStore(), at=2, mode="before")
    store.put("k", b"1")
    again = pickle.loads(pickle.dumps(store))
    assert again.calls == [("put", "k")]
    with pytest.raises(StorageError):
        again.get("k")
