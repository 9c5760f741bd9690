"""What only the memory store has: a registry by name."""

from __future__ import annotations

from uuid import uuid4

import pytest

from lancewood.errors import InvalidInputError
from lancewood.store.base import Store
from lancewood.store.memory import MemoryStore


def test_the_same_name_is_the_same_data() -> None:
    name = uuid4().hex
    MemoryStore(name).put("a/k", b"1")
    assert MemoryStore(name).get("a/k") == b"1"
    assert MemoryStore(name, "a").get("k") == b"1"
    assert MemoryStore(name, "a").uri == f"memory://{name}/a"


def test_stores_without_a_name_share_nothing() -> None:
    MemoryStore().put("k", b"1")
    assert [*MemoryStore().list()] == []


@pytest.mark.parametrize("name", ["", "a/b", "..", "a\\b"])
def test_a_name_is_one_segment(name: str) -> None:
    with pytest.raises(InvalidInputError):
        MemoryStore(name)


def test_a_buffer_that_changes_later_does_not_change_the_object() -> None:
    store, buffer = MemoryStore(), bytearray(b"abc")
    store.put("k", buffer)  # type: ignore[arg-type]
    buffer[0] = 0
    assert store.get("k") == b"abc"


def test_it_has_no_location() -> None:
    store: Store = MemoryStore()
    assert store.at("x").location("k") is None
